//! `rate_limit`: a limit in envoyproxy/ratelimit's form.

use crate::{
    limiter::{
        Limit,
        config::{Configuration, Context},
        token_bucket,
    },
    rules::Kind,
    unit::Unit,
    yaml::{Diagnostic, Entry, Key, Mapping, Place, Report, Table, Value, shown, value, words},
};

/// Its key.
pub(super) const KEY: Key = ("rate_limit", "So many requests per unit of time.");

pub(super) const TABLE: Table = Table {
    name: "`rate_limit`",
    place: "inside `rate_limit`",
    near: None,
    keys: &[&[
        ("unit", "The unit of time."),
        ("requests_per_unit", "How many requests may pass in it."),
        ("unlimited", "That everything passes."),
        ("name", "What it is called."),
        ("replaces", "The limits that do not apply to a request that meets this one."),
    ]],
};

/// An item of `replaces`.
pub(super) const REPLACES: Table = Table {
    name: "an item of `replaces`",
    place: "inside `replaces`",
    near: None,
    keys: &[&[("name", "What the limit is called that is replaced.")]],
};

/// What it says of names, each with its place.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Its own.
    pub(super) own: Option<(String, Place)>,
    /// Those of the limits that it replaces.
    pub(super) replaced: Vec<(String, Place)>,
}

const EXAMPLE: &str = "{unit: minute, requests_per_unit: 100}";

/// Reads a limit in this form.
pub(super) fn read(
    context: &Context<'_>,
    report: &mut Report<'_>,
) -> Option<(Configuration<Kind>, Names)> {
    let Context { entry, overdraw, .. } = context;
    let mapping = value::table(entry, &TABLE, EXAMPLE, report)?;
    let own =
        mapping.get("name").and_then(|entry| Some((value::name(entry, report)?, entry.place())));
    let names = Names { own, replaced: replaces(mapping, report) };
    // Where this cannot be read, what is missing beside it shows what was meant.
    let unlimited = mapping.get("unlimited").is_some_and(|entry| {
        value::flag(entry, report).unwrap_or_else(|| mapping.get("unit").is_none())
    });
    let requests = requests_per_unit(entry, mapping, unlimited, report);
    if unlimited {
        check_unlimited(mapping, report);
        return Some((Configuration::of(Kind::Unlimited), names));
    }
    let unit = unit(entry, mapping, report);
    let (requests, unit) = (requests?, unit?);
    let limit = token_bucket::Limit::per_unit(requests, unit);
    let refuses = mapping.get("requests_per_unit").filter(|_| requests == 0).map(|entry| {
        Diagnostic::warning(entry.place(), "`requests_per_unit: 0` refuses everything")
            .help("leave it if nobody is to pass; otherwise write how many may")
            .key(&entry.key)
    });
    let limit = if overdraw.is_some() { limit.with_overdraw() } else { limit };
    let kind = Configuration::of(Kind::Limit(Limit::TokenBucket(limit)));
    Some((Configuration { refuses, ..kind }, names))
}

fn requests_per_unit(
    entry: &Entry<'_>,
    mapping: &Mapping<'_>,
    unlimited: bool,
    report: &mut Report<'_>,
) -> Option<u32> {
    let key = "requests_per_unit";
    let help = format!(
        "say how many requests may pass in a unit: `rate_limit: {EXAMPLE}`; \
         for no limit, `rate_limit: {{unlimited: true}}`"
    );
    let requests = match unlimited {
        true => mapping.get(key),
        false => value::required(mapping, key, entry, help, report),
    };
    value::whole(requests?, report)
}

fn unit(entry: &Entry<'_>, mapping: &Mapping<'_>, report: &mut Report<'_>) -> Option<Unit> {
    let names = Unit::ALL.map(Unit::name);
    let one_of = format!("write one of {}", words::list(&names).replace(" and ", " or "));
    let unit = value::required(mapping, "unit", entry, one_of.as_str(), report)?;
    let (message, meant) = match &unit.node.value {
        Value::Text(text) => match Unit::from_name(text) {
            Some(unit) => return Some(unit),
            None => (format!("{} is no unit", shown(text)), words::closest(text, &names)),
        },
        _ => (format!("`unit` is {}, not text", unit.node.kind()), None),
    };
    let meant = meant.map(|name| format!("did you mean `{name}`?\n")).unwrap_or_default();
    report.reject(value::wrong(unit, message).help(format!("{meant}{one_of}")))
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
        report.check_keys(mapping, &REPLACES);
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
