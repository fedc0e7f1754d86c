//! The report: diagnostics as they are found on the way through the files.

use super::{
    diagnostic::{Diagnostic, Place, Severity, Source, shown},
    node::Mapping,
    table::Table,
};
use std::collections::HashSet;

/// The most errors that are kept, and the most warnings.
const MOST_OF_A_SEVERITY: usize = 1_000;

/// What is found on the way through the files.
#[derive(Debug)]
pub struct Report<'a> {
    sources: &'a [Source],
    /// All tables, in the order in which a key that is out of place is looked for.
    tables: &'a [&'a Table],
    diagnostics: Vec<Diagnostic>,
    /// How many of those are errors.
    errors: usize,
    /// How many were left out.
    left_out: usize,
    /// Bytes compared so far by checks that compare values with each other. All files share one allowance.
    pub compared: usize,
}

impl<'a> Report<'a> {
    /// The report on these files, whose mappings have these tables.
    pub const fn new(sources: &'a [Source], tables: &'a [&'a Table]) -> Self {
        Self { sources, tables, diagnostics: Vec::new(), errors: 0, left_out: 0, compared: 0 }
    }

    /// Reports keys that a mapping does not take. Whether there were none.
    pub fn check_keys(&mut self, mapping: &Mapping<'_>, table: &Table) -> bool {
        let tables = self.tables;
        let mut unknown = mapping.among(|key| !table.takes(key)).peekable();
        let all_known = unknown.peek().is_none();
        unknown.for_each(|entry| self.error_with(|| table.unknown(entry, tables)));
        all_known
    }

    /// Adds a diagnostic, or only counts it where there are many: a hostile file has one in each line. Warnings take no
    /// place of an error.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let is_error = diagnostic.severity == Severity::Error;
        let alike = if is_error { self.errors } else { self.diagnostics.len() - self.errors };
        if alike >= MOST_OF_A_SEVERITY {
            self.left_out += 1;
            return;
        }
        self.errors += usize::from(is_error);
        self.diagnostics.push(diagnostic);
    }

    /// The same of a value that cannot be used: there is none then.
    pub fn reject<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.push(diagnostic);
        None
    }

    /// The same of an error that takes a while to be put into words.
    pub fn error_with(&mut self, error: impl FnOnce() -> Diagnostic) {
        if self.errors >= MOST_OF_A_SEVERITY {
            self.left_out += 1;
        } else {
            self.push(error());
        }
    }

    /// Whether there is any error.
    pub const fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// A place in words, as seen from another.
    pub fn describe(&self, place: Place, from: Place) -> String {
        let line = place.line;
        match place.of(self.sources) {
            Some(source) if place.source != from.source => {
                format!("on line {line} of {}", shown(&source.name))
            }
            _ => format!("on line {line}"),
        }
    }

    /// What was found, in reading order, and how much was left out. What an alias repeats is told once.
    pub fn finish(self) -> (Vec<Diagnostic>, usize) {
        let mut diagnostics = self.diagnostics;
        diagnostics.sort_by_key(|it| it.place.map(|place| (place.source, place.start)));
        let mut told = HashSet::new();
        diagnostics.retain(|it| {
            told.insert((it.place.map(|place| (place.source, place.start)), it.message.clone()))
        });
        (diagnostics, self.left_out)
    }
}
