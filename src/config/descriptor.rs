//! A descriptor: which entry it is about, its limits, and the descriptors below it.

use super::{
    flag,
    head::Head,
    lease, limits, rate_limit,
    sibling::{self, Sibling},
    utilization_report,
};
use crate::{
    limiter::{
        self,
        scope::{Scope, Step},
    },
    rules::Descriptor,
    yaml::{Diagnostic, Mapping, Node, Report, Table, Value, shown, value},
};

pub(super) const TABLE: Table = Table {
    name: "a descriptor",
    place: "in a descriptor, beside `key` and the limit",
    near: None,
    keys: &[
        &[("key", "The key of the entry that it matches."), ("value", "The value of that entry.")],
        &[rate_limit::KEY],
        limiter::KEYS,
        &[utilization_report::KEY],
        &[
            ("limits", "Several limits, which must all pass."),
            ("descriptors", "Descriptors for the next entry."),
            ("share_threshold", "Whether all values that match share one state."),
            ("value_to_metric", "Whether the value becomes a label of the metrics."),
        ],
        flag::KEYS,
    ],
};

/// Reads the descriptors under `descriptors`, which stand in that of an entry, or at the top. What they are
/// among themselves is not looked at.
pub(super) fn read_all(
    mapping: &Mapping<'_>,
    head: &Head,
    above: Option<&Step<'_>>,
    report: &mut Report<'_>,
) -> Vec<Sibling> {
    let Some(entry) = mapping.get("descriptors") else { return Vec::new() };
    if matches!(entry.node.value, Value::Null) {
        return Vec::new();
    }
    let items = value::list(entry, "`- key: user`", report).unwrap_or_default();
    items.iter().filter_map(|item| read(item, head, above, report)).collect()
}

fn read(
    node: &Node<'_>,
    head: &Head,
    above: Option<&Step<'_>>,
    report: &mut Report<'_>,
) -> Option<Sibling> {
    let Value::Mapping(mapping) = &node.value else {
        return report.reject(
            Diagnostic::error(node.place(), format!("a descriptor is {}", node.kind()))
                .help("write `- key: user`, and what belongs to it below, without a further `-`"),
        );
    };
    report.check_keys(mapping, &TABLE);
    let key = key(node, mapping, head, report);
    let value = mapping.read_or("value", None, |entry| value::name_or_nothing(entry, report));
    let share_threshold = share_threshold(mapping, value.as_ref(), report);
    let value_to_metric = value::flag_or(mapping, "value_to_metric", false, report);
    let step = Step::new(above, key.as_deref(), value.as_ref().and_then(Option::as_deref));
    let scope = Scope { pools: &head.pools, step: &step };
    let mut replaced = Vec::new();
    let limits = limits::read_all(mapping, &scope, &mut replaced, report);
    let below = read_all(mapping, head, Some(&step), report);
    sibling::check(&below, report);
    let (key, value) = (key?, value?);
    let entry = mapping.get(if value.is_some() { "value" } else { "key" })?;
    let descriptors = sibling::split(below, &mut replaced);
    Some(Sibling {
        descriptor: Descriptor {
            key,
            value,
            share_threshold,
            value_to_metric,
            limits,
            descriptors,
        },
        place: entry.place(),
        replaced,
    })
}

fn key(
    node: &Node<'_>,
    mapping: &Mapping<'_>,
    head: &Head,
    report: &mut Report<'_>,
) -> Option<String> {
    let Some(entry) = mapping.get("key") else {
        return report.reject(
            Diagnostic::error(node.place(), "a descriptor without `key`")
                .help("say which entry it is about: `key: user`")
                .key("key"),
        );
    };
    let key = value::name(entry, report)?;
    lease::check_matched(entry, &key, head.lease_key(), report);
    Some(key)
}

fn share_threshold(
    mapping: &Mapping<'_>,
    value: Option<&Option<String>>,
    report: &mut Report<'_>,
) -> bool {
    let Some(entry) = mapping.get("share_threshold") else { return false };
    let share = value::flag(entry, report).unwrap_or(false);
    let but = match value {
        Some(None) => "there is no value".into(),
        Some(Some(value)) if !value.contains('*') => format!("the value {} has none", shown(value)),
        _ => return share,
    };
    if share {
        report.push(
            value::wrong(entry, format!("`share_threshold` needs a value with a `*`, but {but}"))
                .help("remove it, or write a wildcard such as `value: \"/api/*\"`"),
        );
    }
    share
}
