//! `docs/performance.md`: sections between markers, so that one can be written anew and the others stay.

use std::{fs, io, path::PathBuf};

/// What it begins as.
const TEMPLATE: &str = include_str!("template.md");

/// The document.
pub(crate) struct Document(PathBuf);

impl Document {
    pub(crate) fn open() -> Self {
        Self(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/performance.md")))
    }

    /// Puts a text in the place of what a section has. What stands around the sections is the template's; what was
    /// measured before in others is kept.
    pub(crate) fn replace(&self, section: &str, text: &str) -> io::Result<()> {
        let before = fs::read_to_string(&self.0).unwrap_or_default();
        let mut document = TEMPLATE.to_owned();
        for name in names() {
            let kept = between(&before, name);
            let text = if name == section { Some(text) } else { kept };
            if let (Some(text), Some(empty)) = (text, between(TEMPLATE, name)) {
                let marked = |text: &str| format!("{}\n{text}{}", begin(name), end(name));
                document = document.replace(&marked(empty), &marked(text));
            }
        }
        fs::write(&self.0, document)
    }
}

fn begin(section: &str) -> String {
    format!("<!-- {section} -->")
}

fn end(section: &str) -> String {
    format!("<!-- /{section} -->")
}

/// The sections that the template has a place for.
fn names() -> impl Iterator<Item = &'static str> {
    TEMPLATE
        .lines()
        .filter_map(|line| line.strip_prefix("<!-- ")?.strip_suffix(" -->"))
        .filter(|it| !it.starts_with('/'))
}

fn between<'a>(document: &'a str, section: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(&format!("{}\n", begin(section)))?;
    rest.split_once(&end(section)).map(|(text, _)| text)
}
