//! Rules for people: as a tree, each limit with the path by which it is addressed, and as JSON.

use super::{
    model::{
        Capacity, Descriptor, Domain, Kind, OnStoreFailure, Pool, Rule, Shedding, Utilization,
    },
    resolve::pool_path,
    tree::LEASE_KEY,
};
use crate::{
    key::Path,
    limiter::{Limit, fleet::WHOLE_PARTS},
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The rules as a tree: a line for each descriptor or limit, what it does, and its address.
pub fn tree(domains: &[Domain]) -> String {
    let mut lines = Vec::new();
    for domain in domains {
        let start = printable(&domain.name);
        let what = match domain.lease_key.as_str() {
            LEASE_KEY => String::new(),
            key => format!("leases called {}", printable(key)),
        };
        lines.push(Line { start, what, ..Line::default() });
        let indent = if domain.descriptors.is_empty() { "   " } else { "│  " };
        lines.extend(domain.pools.iter().map(|pool| pool_line(domain, pool, indent)));
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

/// A pool, which stands before the descriptors and is none of them. Its address is that of the state
/// that all of its limits share.
fn pool_line(domain: &Domain, pool: &Pool, indent: &str) -> Line {
    let Pool { name, capacity, term, .. } = pool;
    let (reserved, term) = (percentage(pool.reserved_parts), term.in_words());
    let slots = match capacity {
        Capacity::Slots(slots) => format!("{slots} slots"),
        Capacity::Reported => "as many slots as workers report".to_owned(),
    };
    let shed = pool.utilization.as_ref().map(|it| &it.shed).filter(|shed| !shed.is_empty());
    let sheds = shed.map(|shed| format!(", sheds {}", printable(&shed.join(", "))));
    let sheds = sheds.unwrap_or_default();
    Line {
        start: format!("{indent}pool {}", printable(name)),
        what: format!("{slots}, {reserved} reserved, leases of {term}{sheds}"),
        address: pool_path(domain.name.as_bytes(), name).as_str().to_owned(),
    }
}

/// A share as a rule file writes it: `12.5%`.
fn percentage(parts: u32) -> String {
    format!("{}%", f64::from(parts) / f64::from(WHOLE_PARTS / 100))
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
    let mut what = match (&rule.kind, &rule.pool) {
        (Kind::Unlimited, _) => "unlimited".to_owned(),
        // How much that is stands where the pool does.
        (Kind::Report(_), pool) => {
            let pool = pool.as_deref().unwrap_or_default();
            format!("utilization_report for the pool {}", printable(pool))
        }
        (Kind::Limit(limit), Some(pool)) => {
            let critical = if is_limit(rule, is_critical) { ", critical" } else { "" };
            format!("{} on the pool {}{critical}", limit.limiter(), printable(pool))
        }
        (Kind::Limit(limit), None) => {
            let leases = limit.term().map(|term| format!(", leases of {}", term.in_words()));
            format!("{} {}{}", limit.limiter(), limit.in_words(), leases.unwrap_or_default())
        }
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
        (is_limit(rule, Limit::overdraw), "overdraw"),
        (is_limit(rule, Limit::weighs_hits), "weight: hits"),
    ];
    for (_, mark) in marks.into_iter().filter(|(is_set, _)| *is_set) {
        let _ = write!(what, " [{mark}]");
    }
    if let Some(header) = &rule.lease_header {
        let _ = write!(what, " [lease in {header}]");
    }
    what
}

const fn is_critical(limit: &Limit) -> bool {
    matches!(limit, Limit::Fleet(limit) if limit.critical)
}

fn is_limit(rule: &Rule, special: fn(&Limit) -> bool) -> bool {
    matches!(&rule.kind, Kind::Limit(limit) if special(limit))
}

/// What is said of whole domains as JSON: of each, what leases are called, and its pools.
pub fn domains_json(domains: &[Domain]) -> Value {
    let pool = |pool: &Pool| {
        json!({
            "name": pool.name,
            "capacity": match pool.capacity {
                Capacity::Slots(slots) => slots.into(),
                Capacity::Reported => Value::from("reported"),
            },
            "reserved": f64::from(pool.reserved_parts) / f64::from(WHOLE_PARTS),
            "lease_ttl": pool.term.in_words(),
            "utilization": pool.utilization.as_ref().map(utilization_json),
        })
    };
    let domain = |domain: &Domain| {
        let pools: Vec<_> = domain.pools.iter().map(pool).collect();
        json!({ "domain": domain.name, "lease_key": domain.lease_key, "pools": pools })
    };
    domains.iter().map(domain).collect()
}

fn utilization_json(utilization: &Utilization) -> Value {
    let mut json = utilization.settings.to_json();
    json["shed"] = utilization.shed.as_slice().into();
    json
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
        Kind::Report(_) => json!({ "utilization_report": {} }),
    };
    json!({
        "rule": rule.path(path).as_str(),
        "domain": domain,
        "name": rule.name,
        "limit": limit,
        "pool": rule.pool,
        "shed": rule.shedding.as_ref().map(|Shedding { classes, .. }| classes),
        "lease_header": rule.lease_header,
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

/// A name from a rule file for a terminal or a log: one line, whatever it holds.
pub fn printable(name: &str) -> String {
    name.replace(char::is_control, "\u{FFFD}")
}
