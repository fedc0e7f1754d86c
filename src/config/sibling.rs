//! Descriptors side by side: those that stand twice, and those that others leave nothing to.

use crate::{
    rules::{Descriptor, pattern::Pattern},
    yaml::{Diagnostic, Place, Report, shown},
};
use std::collections::{HashMap, hash_map::Entry};

/// How many bytes of patterns and values are compared in search of hidden ones, in all files
/// together. Real files need a thousandth of this; others must not keep the loader busy for long.
const MOST_COMPARED: usize = 64 << 20;

/// A descriptor, and where it is.
#[derive(Debug)]
pub(super) struct Sibling {
    pub(super) descriptor: Descriptor,
    /// Where its value is, or its key where it has none.
    pub(super) place: Place,
    /// The names that its limits replace, and those of the descriptors below it.
    pub(super) replaced: Vec<(String, Place)>,
}

/// The descriptors by themselves. The names that they replace are added to the others.
pub(super) fn split(
    siblings: Vec<Sibling>,
    replaced: &mut Vec<(String, Place)>,
) -> Vec<Descriptor> {
    let descriptor = |sibling: Sibling| {
        replaced.extend(sibling.replaced);
        sibling.descriptor
    };
    siblings.into_iter().map(descriptor).collect()
}

/// Descriptors with the same key, in their order.
type Group<'a> = Vec<(&'a Sibling, Option<&'a str>)>;

/// Compares all descriptors of one level.
pub(super) fn check(siblings: &[Sibling], report: &mut Report<'_>) {
    let mut groups: HashMap<&str, usize> = HashMap::new();
    let mut ordered: Vec<Group<'_>> = Vec::new();
    for sibling in siblings {
        let Descriptor { key, value, .. } = &sibling.descriptor;
        let index = *groups.entry(key).or_insert(ordered.len());
        let member = (sibling, value.as_deref());
        match ordered.get_mut(index) {
            Some(group) => group.push(member),
            None => ordered.push(vec![member]),
        }
    }
    for group in &ordered {
        let unique = check_duplicates(group, report);
        check_hidden(&unique, report);
    }
}

/// Reports what stands twice, and returns the rest.
fn check_duplicates<'a>(group: &Group<'a>, report: &mut Report<'_>) -> Group<'a> {
    let mut seen: HashMap<Option<&str>, Place> = HashMap::new();
    let mut unique = Vec::new();
    for (sibling, value) in group {
        match seen.entry(*value) {
            Entry::Vacant(vacant) => {
                vacant.insert(sibling.place);
                unique.push((*sibling, *value));
            }
            Entry::Occupied(first) => report.push(twice(sibling, *first.get(), report)),
        }
    }
    unique
}

fn twice(second: &Sibling, first: Place, report: &Report<'_>) -> Diagnostic {
    let Descriptor { key, value, .. } = &second.descriptor;
    let where_first = report.describe(first, second.place);
    let what = match value {
        Some(value) => format!("the key {} with the value {}", shown(key), shown(value)),
        None => format!("the key {} without a value", shown(key)),
    };
    Diagnostic::error(second.place, format!("{what} stands twice, first {where_first}"))
        .help("put what both say into one descriptor, or give them different values")
        .key(if value.is_some() { "value" } else { "key" })
        .related(first, "first here")
}

/// Warns of wildcards that an earlier one leaves nothing to, and of a descriptor for all other values
/// where there are none. An exact value is always found first.
fn check_hidden(group: &Group<'_>, report: &mut Report<'_>) {
    let mut earlier: Vec<(Pattern, &Sibling)> = Vec::new();
    for (sibling, value) in group {
        let Some(value) = value.filter(|value| value.contains('*')) else { continue };
        let hiding = earlier.iter().find(|(pattern, by)| {
            report.compared += value.len() + by.descriptor.value.as_ref().map_or(0, String::len);
            pattern.matches(value.as_bytes())
        });
        match hiding {
            Some((_, by)) => report.push(hidden(sibling, by, "move it before that one", report)),
            None => earlier.push((Pattern::new(value), sibling)),
        }
        if report.compared > MOST_COMPARED {
            return;
        }
    }
    let without_value = group.iter().find(|(_, value)| value.is_none());
    let all = group.iter().find(|(_, value)| {
        value.is_some_and(|value| !value.is_empty() && value.bytes().all(|byte| byte == b'*'))
    });
    if let (Some((sibling, _)), Some((by, _))) = (without_value, all) {
        report.push(hidden(sibling, by, "remove one of the two", report));
    }
}

fn hidden(sibling: &Sibling, by: &Sibling, or: &str, report: &Report<'_>) -> Diagnostic {
    let wildcard = shown(by.descriptor.value.as_deref().unwrap_or_default());
    let (what, key) = match &sibling.descriptor.value {
        Some(value) => (format!("the value {}", shown(value)), "value"),
        None => (format!("the key {} without a value", shown(&sibling.descriptor.key)), "key"),
    };
    let there = report.describe(by.place, sibling.place);
    Diagnostic::warning(
        sibling.place,
        format!("{what} is never reached: {wildcard} {there} matches all that it would"),
    )
    .help(format!("{or}, or make {wildcard} narrower"))
    .key(key)
    .related(by.place, "this comes first")
}
