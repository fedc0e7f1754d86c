//! `limits`: several limits on one descriptor.

use super::{
    Diagnostic, Place,
    diagnostic::{Report, shown},
    limit::{self, Placed},
    node::{Entry, Mapping, Node, Value},
    scope::Scope,
    utilization_report, value,
    vocabulary::{self, FLAGS, Home, REPORT},
};
use crate::{
    limiter::Limit,
    rules::{Kind, Label, Rule},
};
use std::collections::HashMap;

/// Reads the items of `limits` in a descriptor.
pub(super) fn read(
    mapping: &Mapping<'_>,
    entry: &Entry<'_>,
    scope: &Scope<'_>,
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
        let Some(Placed { mut rule, limiter, name: place }) = item(node, scope, report) else {
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
        if let (Kind::Limit(Limit::Fleet(_)), Some(pool)) = (rule.kind, &rule.pool) {
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
fn item(node: &Node<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Placed> {
    let Value::Mapping(mapping) = &node.value else {
        report.push(
            Diagnostic::error(node.place(), format!("an item of `limits` is {}", node.kind()))
                .help("write a limit, such as `- token_bucket: {rate: 100/s}`"),
        );
        return None;
    };
    if let Some(entry) = mapping.get(REPORT) {
        report.push(utilization_report::among_limits(entry));
        return None;
    }
    vocabulary::check(mapping, Home::Item, report);
    let keys = vocabulary::limits();
    let mut limiters = mapping.among(&keys);
    let Some(limiter) = limiters.next() else {
        report.push(
            Diagnostic::error(node.place(), "an item of `limits` without a limit")
                .help(format!("write one of {} in it", vocabulary::list(&keys))),
        );
        return None;
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
