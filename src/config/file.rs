//! One file: a domain, and its top-level descriptors.

use super::{
    Diagnostic, Place, descriptor,
    diagnostic::Report,
    node::{Mapping, Node, Value},
    sibling::Sibling,
    value,
    vocabulary::{self, Home},
};

/// What one file says.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The domain's name and place; `None` where it is missing or wrong.
    pub(super) domain: Option<(String, Place)>,
    /// Its top-level descriptors.
    pub(super) descriptors: Vec<Sibling>,
    /// The names that its limits replace.
    pub(super) replaced: Vec<(String, Place)>,
}

pub(super) fn read(root: &Node<'_>, report: &mut Report<'_>) -> File {
    let nothing = Mapping::default();
    let mapping = match &root.value {
        Value::Mapping(mapping) => mapping,
        Value::Null => &nothing,
        _ => {
            report.push(
                Diagnostic::error(root.place(), format!("a rule file is {}", root.kind()))
                    .help("begin it with `domain: example`, and `descriptors:` below"),
            );
            return File::default();
        }
    };
    vocabulary::check(mapping, Home::File, report);
    let domain = match mapping.get("domain") {
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
    let descriptors = descriptor::read_all(mapping, report);
    File { domain, descriptors, replaced: std::mem::take(&mut report.replaced) }
}
