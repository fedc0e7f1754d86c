//! One file: a domain, what is said of the whole of it, and descriptors.

use super::{
    Diagnostic, Place,
    diagnostic::Report,
    head::Head,
    node::{Mapping, Node, Value},
    value,
    vocabulary::{self, Home},
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
            report.push(
                Diagnostic::error(root.place(), format!("a rule file is {}", root.kind()))
                    .help("begin it with `domain: example`, and `descriptors:` below"),
            );
            return None;
        }
    };
    if let Some(mapping) = mapping {
        vocabulary::check(mapping, Home::File, report);
    }
    let domain = match mapping.and_then(|mapping| mapping.get("domain")) {
        Some(entry) => value::name(entry, report).map(|name| (name, entry.place())),
        None => {
            report.push(
                Diagnostic::error(root.place(), "`domain` is missing")
                    .help("begin the file with the domain that Envoy asks for: `domain: example`")
                    .key("domain"),
            );
            None
        }
    };
    let head = mapping.map(|mapping| Head::read(mapping, report)).unwrap_or_default();
    Some(File { domain, head, mapping })
}
