//! Rules as a tree.

use super::Above;
use crate::{
    lease::Term,
    limiter::Limit,
    rules::{
        LEASE_KEY,
        model::{Capacity, Descriptor, Domain, Kind, Pool, Rule, Shedding, Utilization},
        resolve::pool_path,
    },
    unit::WHOLE_PARTS,
};
use std::{fmt::Write as _, iter};

/// The rules as a tree: a line for each descriptor or limit, what it does, and its address.
pub fn tree(domains: &[Domain]) -> String {
    let mut lines = Vec::new();
    for domain in domains {
        let start = printable(&domain.name);
        let leases = (domain.lease_key != LEASE_KEY)
            .then(|| format!("leases called {}", printable(&domain.lease_key)));
        let policy = domain.on_store_failure.map(|it| format!("on_store_failure: {}", it.name()));
        let what: Vec<String> = leases.into_iter().chain(policy).collect();
        lines.push(Line { start, what: what.join(", "), ..Line::default() });
        let indent = if domain.descriptors.is_empty() { "   " } else { "│  " };
        lines.extend(domain.pools.iter().flat_map(|pool| pool_lines(domain, pool, indent)));
        draw(&mut lines, &domain.descriptors, &Above::of_domain(domain), "");
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

/// A pool, which stands before the descriptors and is none of them. Its address is that of the states
/// that all of its limits share.
fn pool_lines(domain: &Domain, pool: &Pool, indent: &str) -> Vec<Line> {
    let Pool { name, capacity, term, .. } = pool;
    let (reserved, term) = (percentage(pool.reserved_parts), term.in_words());
    let slots = match capacity {
        Capacity::Slots(slots) => format!("{slots} slots"),
        Capacity::Reported => "as many slots as workers report".to_owned(),
    };
    let first = Line {
        start: format!("{indent}pool {}", printable(name)),
        what: format!("{slots}, {reserved} reserved, leases of {term}"),
        address: pool_path(domain.name.as_bytes(), name).as_str().to_owned(),
    };
    let further = pool.utilization.iter().flat_map(utilization_lines);
    let further = further.map(|what| Line { start: indent.to_owned(), what, ..Line::default() });
    iter::once(first).chain(further).collect()
}

/// When a pool is too busy, and what happens then.
fn utilization_lines(utilization: &Utilization) -> Vec<String> {
    let Utilization { settings, shed } = utilization;
    let (good, bad) = (percentage(settings.good_below_parts), percentage(settings.bad_above_parts));
    let report_ttl = settings.report_ttl.in_words();
    let mut lines =
        vec![format!("good below {good}, bad above {bad}, reports fresh for {report_ttl}")];
    if !shed.is_empty() {
        let begins = match settings.hold_off_us {
            0 => "at once".to_owned(),
            micros => format!("after {}", Term::of_micros(micros).in_words()),
        };
        let all_after = Term::of_micros(settings.shed_all_after_us).in_words();
        let shed = printable(&shed.join(", "));
        lines.push(format!("sheds {shed} {begins}, all of it {all_after} later"));
    }
    lines
}

/// A share as a rule file writes it: `12.5%`.
fn percentage(parts: u32) -> String {
    format!("{}%", f64::from(parts) / f64::from(WHOLE_PARTS / 100))
}

fn draw(lines: &mut Vec<Line>, descriptors: &[Descriptor], above: &Above<'_>, indent: &str) {
    for (place, descriptor) in descriptors.iter().enumerate() {
        let is_last = place + 1 == descriptors.len();
        let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let here = above.below(descriptor);
        let mut start = format!("{indent}{branch}{}", name_of(descriptor));
        let indent = format!("{indent}{below}");
        let is_leaf = descriptor.descriptors.is_empty();
        for rule in &descriptor.limits {
            let what = what(rule, descriptor.share_threshold, &here);
            lines.push(Line { start, what, address: rule.path(&here.path).as_str().to_owned() });
            start = format!("{indent}{}", if is_leaf { "" } else { "│" });
        }
        if descriptor.limits.is_empty() {
            let what = if is_leaf { "no limit" } else { "" };
            lines.push(Line { start, what: what.to_owned(), address: String::new() });
        }
        draw(lines, &descriptor.descriptors, &here, &indent);
    }
}

fn name_of(descriptor: &Descriptor) -> String {
    printable(&match &descriptor.value {
        None => descriptor.key.clone(),
        Some(value) => format!("{}={value}", descriptor.key),
    })
}

/// What a rule does, and what is special about it.
fn what(rule: &Rule, shared: bool, here: &Above<'_>) -> String {
    let mut what = match (&rule.kind, &rule.pool) {
        (Kind::Unlimited, _) => "unlimited".to_owned(),
        // How much that is stands where the pool does.
        (Kind::Report(_), pool) => {
            let pool = pool.as_deref().unwrap_or_default();
            format!("utilization_report for the pool {}", printable(pool))
        }
        (Kind::Limit(limit), Some(pool)) => {
            let critical = if is_limit(rule, Limit::is_critical) { ", critical" } else { "" };
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
    let switched = rule.switched;
    let marks = [
        (!rule.enabled && switched.enabled.is_none(), "off"),
        (switched.enabled == Some(false), "off at run time"),
        (switched.enabled == Some(true), "on at run time"),
        (rule.shadow_mode && switched.shadow_mode.is_none(), "shadow"),
        (switched.shadow_mode == Some(true), "shadow at run time"),
        (switched.shadow_mode == Some(false), "enforced at run time"),
        (rule.quota_mode, "quota"),
        (shared, "shared"),
        (is_limit(rule, Limit::overdraw), "overdraw"),
        (is_limit(rule, Limit::weighs_hits), "weight: hits"),
        (is_limit(rule, |limit| limit.properties().may_delay), "delays Acquire, not Envoy"),
    ];
    for (_, mark) in marks.into_iter().filter(|(is_set, _)| *is_set) {
        let _ = write!(what, " [{mark}]");
    }
    if let Kind::Limit(limit) = &rule.kind
        && let Some(grants) = limit.grants()
    {
        let _ = write!(what, " [grants: {}]", grants.in_words());
    }
    if let Some(policy) = rule.on_store_failure {
        let _ = write!(what, " [on_store_failure: {}]", policy.name());
    }
    if let Some(header) = &rule.lease_header {
        let _ = write!(what, " [lease in {header}]");
    }
    if let Some(key) = rule.worker.and_then(|place| here.key_above(place)) {
        let _ = write!(what, " [worker: {}]", printable(key));
    }
    if let Some(Shedding { class, callers, .. }) = &rule.shedding {
        if let Some(key) = here.key_above(*class) {
            let _ = write!(what, " [class: {}]", printable(key));
        }
        if !callers.is_empty() {
            let keys: Vec<&str> = callers.iter().map(|place| here.key(*place)).collect();
            let _ = write!(what, " [shed_by: {}]", printable(&keys.join(", ")));
        }
    }
    what
}

fn is_limit(rule: &Rule, special: fn(&Limit) -> bool) -> bool {
    matches!(&rule.kind, Kind::Limit(limit) if special(limit))
}

/// A name from a rule file for a terminal or a log: one line, whatever it holds.
pub fn printable(name: &str) -> String {
    name.replace(char::is_control, "\u{FFFD}")
}
