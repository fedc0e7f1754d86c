//! Rule files: what they mean, and what is said of those that mean nothing.

mod conformance;
mod description;
mod directory;
mod fuzz;
mod hostile;
mod meaning;
mod mistake;
mod rendering;
mod utilization;

use tollgate::{
    config::{Loaded, Options, Source, parse},
    limiter::NAMES,
};

/// Parses files called `1.yaml`, `2.yaml` and so on.
fn parse_all(texts: &[&str]) -> Loaded {
    parse(sources(texts), &Options::default())
}

/// A text with the list of all limiters left out, so that it is the same when there is another one.
fn without_limiters(text: &str) -> String {
    text.replace(
        &NAMES.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        "[the limiters]",
    )
}

/// As [`parse_all`], with their domains joined.
fn merge_all(texts: &[&str]) -> Loaded {
    parse(sources(texts), &Options { merge_domains: true })
}

fn sources(texts: &[&str]) -> Vec<Source> {
    let named = |(index, text): (usize, &&str)| Source {
        name: format!("{}.yaml", index + 1),
        text: (*text).into(),
    };
    texts.iter().enumerate().map(named).collect()
}

/// A file with one descriptor, whose lines are these.
fn descriptor(lines: &str) -> String {
    let mut text = String::from("domain: edge\ndescriptors:\n");
    for (index, line) in lines.lines().enumerate() {
        text.push_str(if index == 0 { "  - " } else { "    " });
        text.push_str(line);
        text.push('\n');
    }
    text
}
