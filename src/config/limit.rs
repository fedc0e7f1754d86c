//! The limits of a descriptor: one that stands alone, or several under `limits`.

use super::{
    Diagnostic, Place, concurrency,
    diagnostic::{Report, shown},
    flag::Flags,
    fleet,
    lease::{self, Beside},
    node::{Entry, Mapping, Node, Value},
    pool::Pools,
    rate_limit, token_bucket, value,
    vocabulary::{self, FLAGS, Home, LIMITERS},
};
use crate::{
    limiter,
    rules::{Kind, Label, Rule},
};
use std::collections::HashMap;

/// What a limiter's own key says.
#[derive(Debug)]
pub(super) struct Limiter {
    pub(super) kind: Kind,
    /// Its name, where it is written inside.
    pub(super) name: Option<(String, Place)>,
    /// The names it replaces.
    pub(super) replaces: Vec<(String, Place)>,
    /// What makes it refuse everything, if something does.
    pub(super) refuses: Option<Diagnostic>,
    /// The pool that it is about.
    pub(super) pool: Option<String>,
}

impl Limiter {
    /// A limiter of which nothing else is said.
    pub(super) const fn of(kind: Kind) -> Self {
        Self { kind, name: None, replaces: Vec::new(), refuses: None, pool: None }
    }
}

/// A limit, and where to point at it.
struct Placed {
    rule: Rule,
    /// Its limiter's key.
    limiter: Place,
    /// Its name; its limiter's key where it has none.
    name: Place,
}

/// Reads all limits of a descriptor.
pub(super) fn read_all(mapping: &Mapping<'_>, pools: &Pools, report: &mut Report<'_>) -> Vec<Rule> {
    let mut limiters = mapping.among(LIMITERS);
    let limits = mapping.get("limits");
    let limiter = limiters.next();
    if let Some(second) = limiters.next().or(limits.filter(|_| limiter.is_some())) {
        report.push(too_many(second));
    }
    if let Some(entry) = limits {
        stray_flags(mapping, report);
        return list(entry, pools, report);
    }
    let Some(limiter) = limiter else {
        useless_flags(mapping, report);
        return Vec::new();
    };
    let rule = read(mapping, limiter, pools, report);
    rule.map(|placed| placed.rule).into_iter().collect()
}

/// Reads the items of `limits`.
fn list(entry: &Entry<'_>, pools: &Pools, report: &mut Report<'_>) -> Vec<Rule> {
    let example = "`- token_bucket: {rate: 100/s}`";
    let Some(items) = value::list(entry, example, report) else { return Vec::new() };
    if items.is_empty() {
        report.push(
            value::wrong(entry, "`limits` is empty").help(format!(
                "write at least one limit below it, such as {example}, or remove it"
            )),
        );
    }
    let mut names = HashMap::new();
    let mut pools_met = HashMap::new();
    let mut rules = Vec::new();
    for (index, node) in items.iter().enumerate() {
        let Some(Placed { mut rule, limiter, name: place }) = item(node, pools, report) else {
            continue;
        };
        if rule.kind == Kind::Unlimited && items.len() > 1 {
            report.push(unlimited_among_others(limiter));
        }
        if let Some(name) = &rule.name {
            let first = *names.entry(name.clone()).or_insert(place);
            if first != place {
                report.push(same_name(name, place, first, report));
            }
        }
        if let Some(pool) = &rule.pool {
            let first = *pools_met.entry(pool.clone()).or_insert(limiter);
            if first != limiter {
                report.push(same_pool(pool, limiter, first, report));
            }
        }
        rule.label = Some(rule.name.clone().map_or(Label::Place(index + 1), Label::Name));
        rules.push(rule);
    }
    rules
}

/// Reads an item of `limits`.
fn item(node: &Node<'_>, pools: &Pools, report: &mut Report<'_>) -> Option<Placed> {
    let Value::Mapping(mapping) = &node.value else {
        report.push(
            Diagnostic::error(node.place(), format!("an item of `limits` is {}", node.kind()))
                .help("write a limit, such as `- token_bucket: {rate: 100/s}`"),
        );
        return None;
    };
    vocabulary::check(mapping, Home::Item, report);
    let mut limiters = mapping.among(LIMITERS);
    let Some(limiter) = limiters.next() else {
        if !vocabulary::has_planned_limit(mapping) {
            report.push(
                Diagnostic::error(node.place(), "an item of `limits` without a limit")
                    .help(format!("write one of {} in it", vocabulary::list(LIMITERS))),
            );
        }
        return None;
    };
    if let Some(second) = limiters.next() {
        report.push(
            Diagnostic::error(second.key_place, "two limits in one item of `limits`")
                .help(format!("make `{}` an item of its own: begin its line with `- `", second.key))
                .key(&second.key),
        );
    }
    read(mapping, limiter, pools, report)
}

/// Reads a limit with everything beside it.
fn read(
    mapping: &Mapping<'_>,
    entry: &Entry<'_>,
    pools: &Pools,
    report: &mut Report<'_>,
) -> Option<Placed> {
    let flags = Flags::read(mapping, report);
    let lease = beside(mapping, &entry.key, &flags, report);
    let limiter = match entry.key.as_str() {
        "rate_limit" => rate_limit::read(entry, report)?,
        "concurrency" => concurrency::read(entry, lease.weighs_hits, report)?,
        "fleet" => fleet::read(entry, lease.weighs_hits, pools, report)?,
        _ => token_bucket::read(entry, report)?,
    };
    let (name, place) = name(&flags, limiter.name, report).unzip();
    let replaces = replaces(limiter.replaces, name.as_deref(), report);
    if let Some(refuses) = limiter.refuses.filter(|_| flags.enabled) {
        report.push(refuses);
    }
    let kind = match limiter.kind {
        Kind::Unlimited => {
            flags.check_unlimited(mapping, report);
            Kind::Unlimited
        }
        Kind::Limit(limiter::Limit::TokenBucket(limit)) if flags.overdraw => {
            Kind::Limit(limiter::Limit::TokenBucket(limit.with_overdraw()))
        }
        kind => kind,
    };
    let rule = flags.into_rule(kind, name, replaces);
    let rule = Rule { pool: limiter.pool, lease_header: lease.header, ..rule };
    let limiter = entry.key_place;
    Some(Placed { rule, limiter, name: place.unwrap_or(limiter) })
}

/// Reads what is said of leases beside a limit, and reports what cannot stand beside one of its kind.
fn beside(mapping: &Mapping<'_>, limiter: &str, flags: &Flags, report: &mut Report<'_>) -> Beside {
    if lease::is_under(limiter) {
        flags.check_slots(mapping, limiter, report);
        Beside::read(mapping, report)
    } else {
        Beside::refuse(mapping, limiter, report);
        Beside::default()
    }
}

/// The one name of a limit, which may stand inside `rate_limit` or beside it.
fn name(
    flags: &Flags,
    inside: Option<(String, Place)>,
    report: &mut Report<'_>,
) -> Option<(String, Place)> {
    let (beside, inside) = match (flags.name.clone(), inside) {
        (Some(beside), Some(inside)) => (beside, inside),
        (beside, inside) => return beside.or(inside),
    };
    report.push(
        Diagnostic::error(beside.1, "`name` stands beside `rate_limit` and inside it")
            .help("remove one of the two")
            .key("name")
            .related(inside.1, "and here"),
    );
    Some(beside)
}

fn replaces(
    replaces: Vec<(String, Place)>,
    own: Option<&str>,
    report: &mut Report<'_>,
) -> Vec<String> {
    let mut names = Vec::new();
    for (name, place) in replaces {
        if own == Some(name.as_str()) {
            report.push(
                Diagnostic::error(place, format!("the limit {} replaces itself", shown(&name)))
                    .help("name another limit, or remove the line")
                    .key("replaces"),
            );
        }
        report.replaced.push((name.clone(), place));
        names.push(name);
    }
    names
}

fn too_many(second: &Entry<'_>) -> Diagnostic {
    Diagnostic::error(second.key_place, "a descriptor takes one limit, or several under `limits`")
        .help("put all of them under `limits:`, each as an item: `- token_bucket: {rate: 100/s}`")
        .key(&second.key)
}

fn unlimited_among_others(place: Place) -> Diagnostic {
    Diagnostic::error(place, "`unlimited` among several limits means nothing: all must pass")
        .help("remove this item, or the others")
        .key("unlimited")
}

fn same_name(name: &str, second: Place, first: Place, report: &Report<'_>) -> Diagnostic {
    let where_first = report.describe(first, second);
    Diagnostic::error(
        second,
        format!("two limits of one descriptor are called {}, the first {where_first}", shown(name)),
    )
    .help("give each its own `name`: it tells their states apart")
    .key("name")
    .related(first, "first here")
}

fn same_pool(pool: &str, second: Place, first: Place, report: &Report<'_>) -> Diagnostic {
    let where_first = report.describe(first, second);
    let pool = shown(pool);
    Diagnostic::warning(
        second,
        format!("a request takes slots of the pool {pool} twice here, first {where_first}"),
    )
    .help("remove one of the two; for requests of different size there is `weight: hits`")
    .key("fleet")
    .related(first, "first here")
}

/// Reports what stands beside `limits` and belongs to one of its items.
fn stray_flags(mapping: &Mapping<'_>, report: &mut Report<'_>) {
    for entry in mapping.among(FLAGS) {
        let key = &entry.key;
        report.push(
            Diagnostic::error(entry.key_place, format!("`{key}` beside `limits` is for no limit"))
                .help("move it into the item of `limits` that it is for, beside the limit there")
                .key(key),
        );
    }
}

/// Warns of what is said of a limit where there is none.
fn useless_flags(mapping: &Mapping<'_>, report: &mut Report<'_>) {
    if vocabulary::has_planned_limit(mapping) {
        return;
    }
    // Wrong values are wrong here too.
    Flags::read(mapping, report);
    Beside::read(mapping, report);
    for entry in mapping.among(FLAGS) {
        let key = &entry.key;
        report.push(
            Diagnostic::warning(
                entry.key_place,
                format!("`{key}` does nothing here: the descriptor has no limit"),
            )
            .help("remove it, or put a limit beside it")
            .key(key),
        );
    }
}
