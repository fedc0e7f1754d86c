//! The limits of a descriptor: one, or several under `limits`.

use super::{
    flag::{self, Flags},
    lease::Beside,
    limit::{self, Placed},
    rate_limit,
    utilization_report::{self, REPORT},
};
use crate::{
    limiter::{self, scope::Scope},
    rules::{Kind, Label, Rule},
    yaml::{
        Diagnostic, Entry, Key, Mapping, Node, Place, Report, Table, Value, shown, table, value,
        words,
    },
};
use std::collections::HashMap;

/// The keys of limits: the limiters, and the token bucket as envoyproxy/ratelimit writes it.
const KEYS: &[&[Key]] = &[&[rate_limit::KEY], limiter::KEYS];

/// What a descriptor does with what it matches: one of the limits, or it is a report.
const DESCRIPTOR_KEYS: &[&[Key]] = &[&[rate_limit::KEY], limiter::KEYS, &[utilization_report::KEY]];

/// An item of `limits`.
pub(super) const TABLE: Table = Table {
    name: "an item of `limits`",
    place: "in a descriptor, beside `key` and the limit",
    near: None,
    keys: &[&[rate_limit::KEY], limiter::KEYS, flag::KEYS],
};

/// Reads all limits of a descriptor.
pub(super) fn read_all(
    mapping: &Mapping<'_>,
    scope: &Scope<'_>,
    replaced: &mut Vec<(String, Place)>,
    report: &mut Report<'_>,
) -> Vec<Rule> {
    let mut limiters = mapping.among(|key| table::has(DESCRIPTOR_KEYS, key));
    let limits = mapping.get("limits");
    let limiter = limiters.next();
    if let Some(second) = limiters.next().or(limits.filter(|_| limiter.is_some())) {
        report.push(match mapping.get(REPORT) {
            Some(entry) => utilization_report::among_limits(entry),
            None => too_many(second),
        });
    }
    if let Some(entry) = limits {
        return read(mapping, entry, scope, replaced, report);
    }
    let Some(limiter) = limiter else {
        useless_flags(mapping, report);
        return Vec::new();
    };
    let Some(placed) = limit::read(mapping, limiter, scope, report) else { return Vec::new() };
    replaced.extend(placed.replaced);
    vec![placed.rule]
}

/// Reads the items of `limits` in a descriptor.
fn read(
    mapping: &Mapping<'_>,
    entry: &Entry<'_>,
    scope: &Scope<'_>,
    replaced: &mut Vec<(String, Place)>,
    report: &mut Report<'_>,
) -> Vec<Rule> {
    stray_flags(mapping, report);
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
        let Some(placed) = item(node, scope, report) else { continue };
        replaced.extend(placed.replaced);
        let (mut rule, limiter, place) = (placed.rule, placed.limiter, placed.name);
        if rule.kind == Kind::Unlimited && items.len() > 1 {
            report.push(unlimited_among_others(limiter));
        }
        if let Some(name) = &rule.name {
            let first = *names.entry(name.clone()).or_insert(place);
            if first != place {
                report.push(same_name(name, place, first, report));
            }
        }
        if let (Kind::Limit(limit), Some(pool)) = (rule.kind, &rule.pool)
            && limit.term().is_some()
        {
            let first = *pools_met.entry(pool.clone()).or_insert(limiter);
            if first != limiter {
                report.push(same_pool((pool, limit.limiter()), limiter, first, report));
            }
        }
        rule.label = Some(rule.name.clone().map_or(Label::Place(index + 1), Label::Name));
        rules.push(rule);
    }
    rules
}

/// Reads an item of `limits`.
fn item(node: &Node<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Placed> {
    let Value::Mapping(mapping) = &node.value else {
        return report.reject(
            Diagnostic::error(node.place(), format!("an item of `limits` is {}", node.kind()))
                .help("write a limit, such as `- token_bucket: {rate: 100/s}`"),
        );
    };
    if let Some(entry) = mapping.get(REPORT) {
        return report.reject(utilization_report::among_limits(entry));
    }
    report.check_keys(mapping, &TABLE);
    let mut limiters = mapping.among(|key| table::has(KEYS, key));
    let Some(limiter) = limiters.next() else {
        return report.reject(
            Diagnostic::error(node.place(), "an item of `limits` without a limit")
                .help(format!("write one of {} in it", words::list(&table::names(KEYS)))),
        );
    };
    if let Some(second) = limiters.next() {
        report.push(
            Diagnostic::error(second.key_place, "two limits in one item of `limits`")
                .help(format!("make `{}` an item of its own: begin its line with `- `", second.key))
                .key(&second.key),
        );
    }
    limit::read(mapping, limiter, scope, report)
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

fn same_pool(
    (pool, limiter): (&str, &str),
    second: Place,
    first: Place,
    report: &Report<'_>,
) -> Diagnostic {
    let where_first = report.describe(first, second);
    let pool = shown(pool);
    Diagnostic::warning(
        second,
        format!("a request takes slots of the pool {pool} twice here, first {where_first}"),
    )
    .help("remove one of the two; for requests of different size there is `weight: hits`")
    .key(limiter)
    .related(first, "first here")
}

/// Reports what stands beside `limits` and belongs to one of its items.
fn stray_flags(mapping: &Mapping<'_>, report: &mut Report<'_>) {
    for entry in mapping.among(|key| table::has(&[flag::KEYS], key)) {
        let key = &entry.key;
        report.push(
            Diagnostic::error(entry.key_place, format!("`{key}` beside `limits` is for no limit"))
                .help("move it into the item of `limits` that it is for, beside the limit there")
                .key(key),
        );
    }
}

fn too_many(second: &Entry<'_>) -> Diagnostic {
    Diagnostic::error(second.key_place, "a descriptor takes one limit, or several under `limits`")
        .help("put all of them under `limits:`, each as an item: `- token_bucket: {rate: 100/s}`")
        .key(&second.key)
}

/// Warns of what is said of a limit where there is none.
fn useless_flags(mapping: &Mapping<'_>, report: &mut Report<'_>) {
    // Wrong values are wrong here too.
    Flags::read(mapping, report);
    Beside::read(mapping, report);
    for entry in mapping.among(|key| table::has(&[flag::KEYS], key)) {
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
