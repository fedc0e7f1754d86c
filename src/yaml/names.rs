//! Lists of names.

use super::{
    diagnostic::{Diagnostic, Place, shown},
    node::{Entry, Node, Value},
    report::Report,
    value::{self, NoText},
};
use std::collections::HashMap;

/// Reads a list in which there is at least one name, and none stands twice.
pub fn read(entry: &Entry<'_>, example: &str, report: &mut Report<'_>) -> Option<Vec<String>> {
    let key = &entry.key;
    let Value::List(items) = &entry.node.value else {
        return report.reject(
            value::wrong(entry, format!("`{key}` is {}, not a list", entry.node.kind()))
                .help(format!("write `{key}: {example}`")),
        );
    };
    if items.is_empty() {
        return report.reject(
            value::wrong(entry, format!("`{key}` is empty"))
                .help(format!("write `{key}: {example}`, or remove it")),
        );
    }
    let mut places: HashMap<String, Place> = HashMap::new();
    let mut names = Vec::new();
    for item in items {
        let Some(name) = name(key, item, example, report) else { continue };
        match places.get(&name) {
            None => {
                places.insert(name.clone(), item.place());
                names.push(name);
            }
            Some(first) => {
                let twice = format!("{} stands twice in `{key}`", shown(&name));
                report.push(
                    Diagnostic::error(item.place(), twice)
                        .help("remove one of the two")
                        .key(key)
                        .related(*first, "first here"),
                );
            }
        }
    }
    (names.len() == items.len()).then_some(names)
}

/// Reads one of them.
fn name(key: &str, item: &Node<'_>, example: &str, report: &mut Report<'_>) -> Option<String> {
    let write = format!("write `{key}: {example}`");
    let (is, help) = match value::text(item) {
        Ok(text) if text.is_empty() => ("is empty".to_owned(), write),
        Ok(text) => return Some(text),
        Err(NoText::Fraction) => {
            (format!("is {}, which is no whole number", shown(item.literal)), {
                let quoted = shown(&format!("\"{}\"", item.literal));
                format!("put it in quotes if it is meant as text: {quoted}")
            })
        }
        Err(NoText::Parts) => (format!("is {}", item.kind()), write),
        Err(NoText::TooLong) => (value::too_long(), value::SHORTER.to_owned()),
    };
    report.reject(
        Diagnostic::error(item.place(), format!("an item of `{key}` {is}")).help(help).key(key),
    )
}
