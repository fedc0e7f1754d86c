//! Rule files: from what a person typed to rules that are known to make sense.
//!
//! ```text
//! paths ── read ──▶ files ── yaml ──▶ nodes ── file, domain, descriptor, limit … ──▶ rules
//!                                        └──▶ diagnostics: file, line, key and the fix
//! ```
//!
//! Nothing stops at the first mistake: every file is read to its end, and whatever is wrong with any of
//! them is told at once. Rules are complete only where [`Loaded::has_errors`] is false; whether to run
//! with them is the caller's decision, and it is all or nothing.
//!
//! Only [`read()`] touches the disk, and [`reread`]. [`parse`] is a pure function, total on whatever text it is given.

mod descriptor;
mod domain;
mod file;
mod flag;
mod head;
mod lease;
mod limit;
mod limits;
mod metadata;
mod pool;
mod rate_limit;
mod read;
mod sibling;
mod usage;
mod utilization_report;
mod worker;

pub use crate::yaml::{
    Diagnostic, Place, Related, Severity, Source, duration::parse as duration, rate::parse as rate,
};
pub use domain::Options;
pub use read::{Digest, Files};

use crate::{
    limiter::SCHEMAS,
    rules::Domain,
    yaml::{
        Report, Table,
        document::{self, MOST_VALUES},
        rate, render,
    },
};
use std::{panic::resume_unwind, path::PathBuf, thread};

/// The stack on which files are read, in bytes. The parser goes as deep as values are nested, which it
/// bounds, but without optimization that takes more than the two mebibytes that most threads have.
const STACK: usize = 8 << 20;

/// What rule files say, and what is wrong with them.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The rules, in the order of the files. Incomplete where there are errors.
    pub domains: Vec<Domain>,
    /// The files.
    pub sources: Vec<Source>,
    /// Errors and warnings, in the order of the files and of their lines. Of very many the first that were found.
    pub diagnostics: Vec<Diagnostic>,
    /// How many more there are.
    pub left_out: usize,
}

impl Loaded {
    /// Whether anything is wrong enough that the rules must not be used.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// The same without the warnings.
    #[must_use]
    pub fn errors_only(mut self) -> Self {
        self.diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Error);
        self
    }

    /// The diagnostics as text for people, each with the line it is about. Empty where there are none.
    pub fn render(&self, color: bool) -> String {
        render::render(&self.diagnostics, self.left_out, &self.sources, color)
    }

    /// The diagnostics for programs: a list of objects.
    pub fn to_json(&self) -> serde_json::Value {
        self.diagnostics.iter().map(|diagnostic| diagnostic.to_json(&self.sources)).collect()
    }
}

/// Reads rule files, and directories of them, and understands what they say.
pub fn load(paths: &[PathBuf], options: &Options) -> Loaded {
    read(paths).understand(options)
}

/// Reads rule files, and directories of them. A pipe is read, too, until its end.
pub fn read(paths: &[PathBuf]) -> Files {
    read::files(paths, false)
}

/// The same once more. What cannot be read twice, such as a pipe, is an error.
pub fn reread(paths: &[PathBuf]) -> Files {
    read::files(paths, true)
}

impl Files {
    /// Understands what they say.
    pub fn understand(self, options: &Options) -> Loaded {
        let Self { sources, mut diagnostics } = self;
        let mut loaded = parse(sources, options);
        diagnostics.append(&mut loaded.diagnostics);
        Loaded { diagnostics, ..loaded }
    }
}

/// Understands the texts of rule files.
pub fn parse(sources: Vec<Source>, options: &Options) -> Loaded {
    let (domains, diagnostics, left_out) = thread::scope(|scope| {
        let thread = thread::Builder::new().name("rules".to_owned()).stack_size(STACK);
        match thread.spawn_scoped(scope, || understand(&sources, options)) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // Without a thread of its own, this one's stack is enough for what people write.
            Err(_) => understand(&sources, options),
        }
    });
    Loaded { domains, sources, diagnostics, left_out }
}

/// All tables, in the order in which a key that is out of place is looked for.
fn tables() -> Vec<&'static Table> {
    let limiters = SCHEMAS.iter().flat_map(|schema| schema.tables).copied();
    [&file::TABLE, &descriptor::TABLE, &rate_limit::TABLE]
        .into_iter()
        .chain(limiters)
        .chain([&utilization_report::TABLE, &pool::TABLE, &worker::TABLE])
        .chain([&limits::TABLE, &rate::TABLE, &rate_limit::REPLACES])
        .collect()
}

fn understand(sources: &[Source], options: &Options) -> (Vec<Domain>, Vec<Diagnostic>, usize) {
    let tables = tables();
    let mut report = Report::new(sources, &tables);
    let mut most_values = MOST_VALUES;
    let mut roots = Vec::with_capacity(sources.len());
    for (index, source) in (0..).zip(sources) {
        roots.push(document::read(&source.text, index, &mut most_values, &mut report));
    }
    let is_all_read = roots.iter().all(Option::is_some);
    let roots = roots.iter().flatten();
    let mut files: Vec<_> = roots.filter_map(|root| file::read(root, &mut report)).collect();
    for file in &mut files {
        // What a limit names may stand in a file that could not be read.
        file.head.pools.may_be_more |= options.merge_domains && !is_all_read;
    }
    let domains = domain::join(files, options, &mut report);
    let (diagnostics, left_out) = report.finish();
    (domains, diagnostics, left_out)
}

/// The domains of a file without mistakes.
#[cfg(test)]
pub(crate) fn domains_of(text: &str) -> Vec<Domain> {
    let source = Source { name: "test.yaml".to_owned(), text: text.to_owned() };
    let loaded = parse(vec![source], &Options::default());
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    loaded.domains
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn tables_are_told_apart_by_their_names() {
        let tables = tables();
        let names: HashSet<&str> = tables.iter().map(|table| table.name).collect();
        assert_eq!(names.len(), tables.len());
        for table in tables {
            assert!(table.near.is_none_or(|near| names.contains(near)), "{}", table.name);
        }
    }

    #[test]
    fn every_key_is_described() {
        const DOCUMENTATION: &str = include_str!("../../docs/rules.md");
        for table in tables() {
            for (key, description) in table.keys.iter().copied().flatten() {
                assert!(description.ends_with('.'), "`{key}` in {}", table.name);
                assert!(DOCUMENTATION.contains(key), "`{key}` in {}", table.name);
            }
        }
    }
}
