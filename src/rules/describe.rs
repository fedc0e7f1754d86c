//! Rules for people: as a tree, each limit with the path by which it is addressed, and as JSON.

use super::model::{Descriptor, Domain, Kind, OnStoreFailure, Rule};
use crate::key::Path;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The rules as a tree: a line for each descriptor or limit, what it does, and its address.
pub fn tree(domains: &[Domain]) -> String {
    let mut lines = Vec::new();
    for domain in domains {
        lines.push(Line { start: printable(&domain.name), ..Line::default() });
        let path = Path::of_domain(domain.name.as_bytes());
        draw(&mut lines, &domain.descriptors, &path, "");
    }
    in_columns(&lines)
}

/// A line of the tree, in three columns.
#[derive(Default)]
struct Line {
    start: String,
    what: String,
    address: String,
}

fn in_columns(lines: &[Line]) -> String {
    let width = |text: fn(&Line) -> &str| {
        lines.iter().map(|line| text(line).chars().count()).max().unwrap_or(0)
    };
    let (start_width, what_width) = (width(|line| &line.start), width(|line| &line.what));
    let mut text = String::new();
    for Line { start, what, address } in lines {
        let line = format!("{start:<start_width$}   {what:<what_width$}   {address}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn draw(lines: &mut Vec<Line>, descriptors: &[Descriptor], above: &Path, indent: &str) {
    for (place, descriptor) in descriptors.iter().enumerate() {
        let is_last = place + 1 == descriptors.len();
        let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let path = descriptor.path(above);
        let mut start = format!("{indent}{branch}{}", name_of(descriptor));
        let indent = format!("{indent}{below}");
        let is_leaf = descriptor.descriptors.is_empty();
        for rule in &descriptor.limits {
            let what = what(rule, descriptor.share_threshold);
            lines.push(Line { start, what, address: rule.path(&path).as_str().to_owned() });
            start = format!("{indent}{}", if is_leaf { "" } else { "│" });
        }
        if descriptor.limits.is_empty() {
            let what = if is_leaf { "no limit" } else { "" };
            lines.push(Line { start, what: what.to_owned(), address: String::new() });
        }
        draw(lines, &descriptor.descriptors, &path, &indent);
    }
}

fn name_of(descriptor: &Descriptor) -> String {
    printable(&match &descriptor.value {
        None => descriptor.key.clone(),
        Some(value) => format!("{}={value}", descriptor.key),
    })
}

/// What a rule does, and what is special about it.
fn what(rule: &Rule, shared: bool) -> String {
    let mut what = match rule.kind {
        Kind::Unlimited => "unlimited".to_owned(),
        Kind::Limit(limit) => format!("{} {}", limit.limiter(), limit.in_words()),
    };
    // Among several limits the name is in the address.
    if let (Some(name), None) = (&rule.name, &rule.label) {
        let _ = write!(what, " as {}", printable(name));
    }
    let marks = [
        (!rule.enabled, "off"),
        (rule.shadow_mode, "shadow"),
        (rule.quota_mode, "quota"),
        (shared, "shared"),
        (is_overdrawn(rule), "overdraw"),
    ];
    for (_, mark) in marks.into_iter().filter(|(is_set, _)| *is_set) {
        let _ = write!(what, " [{mark}]");
    }
    what
}

const fn is_overdrawn(rule: &Rule) -> bool {
    match rule.kind {
        Kind::Unlimited => false,
        Kind::Limit(limit) => limit.overdraw(),
    }
}

/// The rules as JSON: a list of limits, each with all that is known of it.
pub fn json(domains: &[Domain]) -> Value {
    let mut rules = Vec::new();
    for domain in domains {
        let path = Path::of_domain(domain.name.as_bytes());
        collect(&mut rules, &domain.name, &domain.descriptors, &path);
    }
    rules.into()
}

fn collect(rules: &mut Vec<Value>, domain: &str, descriptors: &[Descriptor], above: &Path) {
    for descriptor in descriptors {
        let path = descriptor.path(above);
        for rule in &descriptor.limits {
            rules.push(describe(domain, descriptor, rule, &path));
        }
        collect(rules, domain, &descriptor.descriptors, &path);
    }
}

fn describe(domain: &str, descriptor: &Descriptor, rule: &Rule, path: &Path) -> Value {
    let limit = match rule.kind {
        Kind::Unlimited => json!({ "unlimited": true }),
        Kind::Limit(limit) => limit.to_json(),
    };
    json!({
        "rule": rule.path(path).as_str(),
        "domain": domain,
        "name": rule.name,
        "limit": limit,
        "replaces": rule.replaces,
        "enabled": rule.enabled,
        "shadow_mode": rule.shadow_mode,
        "quota_mode": rule.quota_mode,
        "share_threshold": descriptor.share_threshold,
        "value_to_metric": descriptor.value_to_metric,
        "detailed_metric": rule.detailed_metric,
        "metadata": rule.metadata,
        "on_store_failure": match rule.on_store_failure {
            OnStoreFailure::Allow => "allow",
            OnStoreFailure::Deny => "deny",
            OnStoreFailure::Local => "local",
        },
        "message": rule.message,
    })
}

/// One line, whatever a name holds.
fn printable(name: &str) -> String {
    name.replace(char::is_control, "\u{FFFD}")
}
