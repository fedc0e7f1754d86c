//! What is wrong, where, and what to write instead.

use serde_json::json;
use std::ops::Range;

/// A rule file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What to call it: its path.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The rules must not be used.
    Error,
    /// The rules can be used, but can hardly be meant like this.
    Warning,
}

/// Some characters of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Index of the file among the sources.
    pub source: u32,
    /// The line, the first being 1.
    pub line: u32,
    /// The column in characters, the first being 1.
    pub column: u32,
    /// Where the characters begin in the file's text, in bytes.
    pub start: u32,
    /// Where they end, in bytes; on the same line.
    pub end: u32,
}

impl Place {
    /// Whether it is a point between two characters.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The bytes of the file's text. A file is smaller than 4 GiB, and each has one of these for each value.
    pub const fn bytes(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The same as it is kept where there are many.
    pub const fn bytes_u32(&self) -> (u32, u32) {
        (self.start, self.end)
    }

    /// The file.
    pub fn of<'s>(&self, sources: &'s [Source]) -> Option<&'s Source> {
        sources.get(self.source as usize)
    }
}

/// A second place that a diagnostic is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Related {
    /// Where.
    pub place: Place,
    /// What is there.
    pub label: &'static str,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
    /// The YAML key concerned, if there is one.
    pub key: Option<String>,
    /// Where it is; `None` where there is no text, as of a file that cannot be read.
    pub place: Option<Place>,
    /// The other place, where it takes two to be wrong.
    pub related: Option<Related>,
}

impl Diagnostic {
    /// Something wrong for which there is no text to point at.
    pub fn nowhere(severity: Severity, message: String, help: &str) -> Self {
        Self { severity, message, help: help.into(), key: None, place: None, related: None }
    }

    /// An error at a place.
    pub fn error(place: Place, message: impl Into<String>) -> Self {
        let place = Some(place);
        Self { place, ..Self::nowhere(Severity::Error, message.into(), "") }
    }

    /// A warning at a place.
    pub fn warning(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, message) }
    }

    /// The same with what to write instead.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: help.into(), ..self }
    }

    /// The same with the key concerned.
    #[must_use]
    pub fn key(self, key: impl AsRef<str>) -> Self {
        Self { key: Some(shortened(key.as_ref(), LONGEST_KEY)), ..self }
    }

    /// The same with a second place.
    #[must_use]
    pub fn related(self, place: Place, label: &'static str) -> Self {
        Self { related: Some(Related { place, label }), ..self }
    }

    /// The same for programs.
    pub fn to_json(&self, sources: &[Source]) -> serde_json::Value {
        let place = |place: Place| {
            json!({
                "file": place.of(sources).map(|source| source.name.as_str()),
                "line": place.line,
                "column": place.column,
                "start": place.start,
                "end": place.end,
            })
        };
        json!({
            "severity": match self.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            "message": self.message,
            "help": self.help,
            "key": self.key,
            "place": self.place.map(place),
            "related": self.related.map(|related| {
                json!({ "label": related.label, "place": place(related.place) })
            }),
        })
    }
}

/// The longest text of a file that a message repeats, in characters.
const LONGEST_SHOWN: usize = 60;

/// The longest key that is told to programs, in characters.
const LONGEST_KEY: usize = 1_000;

/// Text of a file in backticks.
pub fn shown(text: &str) -> String {
    format!("`{}`", shortened(text, LONGEST_SHOWN))
}

/// The beginning of a text, without anything that a terminal would obey.
pub(super) fn shortened(text: &str, longest: usize) -> String {
    let plain = |character: char| if character.is_control() { '·' } else { character };
    let mut short: String = text.chars().take(longest).map(plain).collect();
    if text.chars().nth(longest).is_some() {
        short.push('…');
    }
    short
}
