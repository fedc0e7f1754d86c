//! `rate_limit`: a limit in envoyproxy/ratelimit's form.

use super::{
    Diagnostic, Place,
    diagnostic::{Report, shown},
    limit::Limiter,
    node::{Entry, Mapping, Value},
    value,
    vocabulary::{self, Home},
};
use crate::{
    limiter::{Limit, token_bucket},
    rules::Kind,
    unit::Unit,
};

const EXAMPLE: &str = "{unit: minute, requests_per_unit: 100}";

pub(super) fn read(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Limiter> {
    let mapping = value::mapping(entry, EXAMPLE, report)?;
    vocabulary::check(mapping, Home::RateLimit, report);
    let name =
        mapping.get("name").and_then(|entry| Some((value::name(entry, report)?, entry.place())));
    let replaces = replaces(mapping, report);
    // Where this cannot be read, what is missing beside it shows what was meant.
    let unlimited = mapping.get("unlimited").is_some_and(|entry| {
        value::flag(entry, report).unwrap_or_else(|| mapping.get("unit").is_none())
    });
    let requests = requests_per_unit(entry, mapping, unlimited, report);
    if unlimited {
        check_unlimited(mapping, report);
        return Some(Limiter { name, replaces, ..Limiter::of(Kind::Unlimited) });
    }
    let unit = unit(entry, mapping, report);
    let (requests, unit) = (requests?, unit?);
    let limit = token_bucket::Limit::per_unit(requests, unit);
    let refuses = mapping.get("requests_per_unit").filter(|_| requests == 0).map(|entry| {
        Diagnostic::warning(entry.place(), "`requests_per_unit: 0` refuses everything")
            .help("leave it if nobody is to pass; otherwise write how many may")
            .key(&entry.key)
    });
    let kind = Kind::Limit(Limit::TokenBucket(limit));
    Some(Limiter { name, replaces, refuses, ..Limiter::of(kind) })
}

fn requests_per_unit(
    entry: &Entry<'_>,
    mapping: &Mapping<'_>,
    unlimited: bool,
    report: &mut Report<'_>,
) -> Option<u32> {
    let requests = mapping.get("requests_per_unit");
    if requests.is_none() && !unlimited {
        report.push(
            Diagnostic::error(entry.key_place, "`requests_per_unit` is missing")
                .help(format!(
                    "say how many requests may pass in a unit: `rate_limit: {EXAMPLE}`; \
                     for no limit, `rate_limit: {{unlimited: true}}`"
                ))
                .key("requests_per_unit"),
        );
    }
    value::whole(requests?, report)
}

fn unit(entry: &Entry<'_>, mapping: &Mapping<'_>, report: &mut Report<'_>) -> Option<Unit> {
    let names = Unit::ALL.map(Unit::name);
    let one_of = format!("write one of {}", vocabulary::list(&names).replace(" and ", " or "));
    let Some(unit) = mapping.get("unit") else {
        report
            .push(Diagnostic::error(entry.key_place, "`unit` is missing").help(one_of).key("unit"));
        return None;
    };
    let (message, meant) = match &unit.node.value {
        Value::Text(text) => match Unit::from_name(text) {
            Some(unit) => return Some(unit),
            None => (format!("{} is no unit", shown(text)), vocabulary::closest(text, &names)),
        },
        _ => (format!("`unit` is {}, not text", unit.node.kind()), None),
    };
    let meant = meant.map(|name| format!("did you mean `{name}`?\n")).unwrap_or_default();
    report.push(value::wrong(unit, message).help(format!("{meant}{one_of}")));
    None
}

fn check_unlimited(mapping: &Mapping<'_>, report: &mut Report<'_>) {
    if let Some(unit) = mapping.get("unit") {
        report.push(
            value::wrong(unit, "`unlimited: true` with a `unit`: it is one or the other")
                .help("remove `unit` to let everything pass, or `unlimited` to limit"),
        );
    }
}

fn replaces(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Vec<(String, Place)> {
    let example = "`- name: other_limit`";
    let Some(entry) = mapping.get("replaces") else { return Vec::new() };
    let items = value::list(entry, example, report).unwrap_or_default();
    let mut names = Vec::new();
    for item in items {
        let Value::Mapping(mapping) = &item.value else {
            report.push(
                Diagnostic::error(
                    item.place(),
                    format!("an item of `replaces` is {}", item.kind()),
                )
                .help(format!("write {example}"))
                .key("replaces"),
            );
            continue;
        };
        vocabulary::check(mapping, Home::Replaces, report);
        match mapping.get("name") {
            Some(name) => names.extend(value::name(name, report).map(|text| (text, name.place()))),
            None => report.push(
                Diagnostic::error(item.place(), "an item of `replaces` without `name`")
                    .help(format!("write {example}"))
                    .key("name"),
            ),
        }
    }
    names
}
