//! Rules for people: as a tree, each limit with the path by which it is addressed, and as JSON.

use super::model::{Descriptor, Domain, Kind, OnStoreFailure, Rule};
use crate::key::Path;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Columns between the start of a line and what its limits say.
const LIMITS_FROM: usize = 36;

/// The rules as a tree, one line a descriptor or limit.
pub fn tree(domains: &[Domain]) -> String {
    let mut text = String::new();
    for domain in domains {
        let _ = writeln!(text, "{}", domain.name);
        let path = Path::of_domain(domain.name.as_bytes());
        draw(&mut text, &domain.descriptors, &path, "");
    }
    text
}

fn draw(text: &mut String, descriptors: &[Descriptor], above: &Path, indent: &str) {
    for (place, descriptor) in descriptors.iter().enumerate() {
        let is_last = place + 1 == descriptors.len();
        let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let path = descriptor.path(above);
        let name = match &descriptor.value {
            None => descriptor.key.clone(),
            Some(value) => format!("{}={value}", descriptor.key),
        };
        let mut start = format!("{indent}{branch}{}", printable(&name));
        let indent = format!("{indent}{below}");
        let beside = if descriptor.descriptors.is_empty() { "   " } else { "│  " };
        for rule in &descriptor.limits {
            let address = rule.path(&path);
            let what = what(rule, descriptor.share_threshold);
            let _ = writeln!(text, "{start:<LIMITS_FROM$} {what:<44} {}", address.as_str());
            start = format!("{indent}{beside}");
        }
        if descriptor.limits.is_empty() {
            let whitelisted = descriptor.descriptors.is_empty();
            let _ = match whitelisted {
                true => writeln!(text, "{start:<LIMITS_FROM$} no limit"),
                false => writeln!(text, "{start}"),
            };
        }
        draw(text, &descriptor.descriptors, &path, &indent);
    }
}

/// What a rule does, and what is special about it.
fn what(rule: &Rule, shared: bool) -> String {
    let mut what = match rule.kind {
        Kind::Unlimited => "unlimited".to_owned(),
        Kind::Limit(limit) => format!("{} {}", limit.limiter(), limit.in_words()),
    };
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
    name.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}
