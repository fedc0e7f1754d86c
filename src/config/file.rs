//! One file: a domain, what is said of the whole of it, and descriptors.

use super::head::Head;
use crate::yaml::{Diagnostic, Mapping, Node, Place, Report, Table, Value, value};

pub(super) const TABLE: Table = Table {
    name: "a rule file",
    place: "at the top of the file",
    near: None,
    keys: &[&[
        ("domain", "The domain of its rules, which requests give."),
        ("lease_key", "What leases are called in requests and answers."),
        ("on_store_failure", "What limits do when the store cannot decide."),
        ("pools", "Capacity that limits share."),
        ("descriptors", "Which requests are limited, and how."),
    ]],
};

/// What one file says, but for its descriptors: they are read when all files of the domain are known.
#[derive(Debug)]
pub(super) struct File<'n> {
    /// The domain's name and place; `None` where it is missing or wrong.
    pub(super) domain: Option<(String, Place)>,
    /// What it says of the domain.
    pub(super) head: Head,
    /// All of it; `None` where it is empty.
    pub(super) mapping: Option<&'n Mapping<'n>>,
}

/// Reads the top of a file. `None` where it is no rule file.
pub(super) fn read<'n>(root: &'n Node<'n>, report: &mut Report<'_>) -> Option<File<'n>> {
    let mapping = match &root.value {
        Value::Mapping(mapping) => Some(mapping),
        Value::Null => None,
        _ => {
            return report.reject(
                Diagnostic::error(root.place(), format!("a rule file is {}", root.kind()))
                    .help("begin it with `domain: example`, and `descriptors:` below"),
            );
        }
    };
    if let Some(mapping) = mapping {
        report.check_keys(mapping, &TABLE);
    }
    let domain = match mapping.and_then(|mapping| mapping.get("domain")) {
        Some(entry) => value::name(entry, report).map(|name| (name, entry.place())),
        None => report.reject(
            Diagnostic::error(root.place(), "`domain` is missing")
                .help("begin the file with the domain that Envoy asks for: `domain: example`")
                .key("domain"),
        ),
    };
    let head = mapping.map(|mapping| Head::read(mapping, report)).unwrap_or_default();
    Some(File { domain, head, mapping })
}
