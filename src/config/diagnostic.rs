//! What is wrong, where, and what to write instead.

use super::Source;
use serde_json::json;
use std::collections::HashSet;

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
    pub source: usize,
    /// The line, the first being 1.
    pub line: usize,
    /// The column in characters, the first being 1.
    pub column: usize,
    /// Where the characters begin in the file's text, in bytes.
    pub start: usize,
    /// Where they end, in bytes; on the same line.
    pub end: usize,
}

impl Place {
    /// Whether it is a point between two characters.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
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
    pub(super) fn nowhere(severity: Severity, message: String, help: &str) -> Self {
        Self { severity, message, help: help.into(), key: None, place: None, related: None }
    }

    pub(super) fn error(place: Place, message: impl Into<String>) -> Self {
        let place = Some(place);
        Self { place, ..Self::nowhere(Severity::Error, message.into(), "") }
    }

    pub(super) fn warning(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, message) }
    }

    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self { help: help.into(), ..self }
    }

    pub(super) fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    pub(super) fn related(self, place: Place, label: &'static str) -> Self {
        Self { related: Some(Related { place, label }), ..self }
    }

    /// The same for programs.
    pub(super) fn to_json(&self, sources: &[Source]) -> serde_json::Value {
        let place = |place: Place| {
            json!({
                "file": sources.get(place.source).map(|source| source.name.as_str()),
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

/// What is found on the way through the files.
#[derive(Debug)]
pub(super) struct Report<'a> {
    sources: &'a [Source],
    diagnostics: Vec<Diagnostic>,
    /// Names under `replaces`, to be compared with those of the domain's limits once all are known.
    pub(super) replaced: Vec<(String, Place)>,
    /// Bytes compared so far in search of values that are hidden by others.
    pub(super) compared: usize,
}

impl<'a> Report<'a> {
    pub(super) const fn new(sources: &'a [Source]) -> Self {
        Self { sources, diagnostics: Vec::new(), replaced: Vec::new(), compared: 0 }
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub(super) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// A place in words, as seen from another.
    pub(super) fn describe(&self, place: Place, from: Place) -> String {
        let line = place.line;
        match self.sources.get(place.source) {
            Some(source) if place.source != from.source => {
                format!("on line {line} of {}", shown(&source.name))
            }
            _ => format!("on line {line}"),
        }
    }

    /// Everything that was found, in reading order. What an alias repeats is told once.
    pub(super) fn finish(self) -> Vec<Diagnostic> {
        let mut diagnostics = self.diagnostics;
        diagnostics.sort_by_key(|it| it.place.map(|place| (place.source, place.start)));
        let mut told = HashSet::new();
        diagnostics.retain(|it| {
            told.insert((it.place.map(|place| (place.source, place.start)), it.message.clone()))
        });
        diagnostics
    }
}

/// The longest text of a file that a message repeats, in characters.
const LONGEST_SHOWN: usize = 60;

/// Text of a file in backticks.
pub(super) fn shown(text: &str) -> String {
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
