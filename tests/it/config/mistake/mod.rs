//! Every mistake, with its words and its place.

mod descriptor;
mod file;
mod lease;
mod limit;
mod pool;
mod report;
mod utilization;

use super::{descriptor, parse_all};
use tollgate::config::{Loaded, Severity};

/// A mistake: what a descriptor says, and where that is wrong, counted from its first line and from
/// the column of its keys, and how.
type Case = (&'static str, usize, usize, &'static str);

#[track_caller]
fn check(loaded: &Loaded, expected: &[(Severity, usize, usize, &str)], text: &str) {
    let found: Vec<_> = loaded
        .diagnostics
        .iter()
        .map(|it| {
            let [line, column] =
                [it.place.unwrap().line, it.place.unwrap().column].map(|number| number as usize);
            (it.severity, line, column, &*it.message)
        })
        .collect();
    assert_eq!(found, expected, "{text}\n{}", loaded.render(false));
    assert!(loaded.diagnostics.iter().all(|it| !it.help.is_empty()));
}

#[track_caller]
fn check_descriptors(severity: Severity, cases: &[Case]) {
    for &(lines, line, column, message) in cases {
        let text = descriptor(lines);
        check(&parse_all(&[&text]), &[(severity, line + 2, column + 4, message)], &text);
    }
}
