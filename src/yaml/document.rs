//! Text to nodes: the parser's values, each with its place and as it was written.

use super::{
    diagnostic::{Diagnostic, Place, shortened, shown},
    node::{Entry, KeyForm, Mapping, Node, Value},
    raw,
    report::Report,
};
use serde_saphyr::{
    DefaultMessageFormatter, Error, Location, MessageFormatter as _, budget::BudgetBreach,
};
use std::{
    borrow::Cow,
    collections::{HashMap, hash_map},
};

pub use raw::MOST_VALUES;

/// The largest file, in bytes.
pub const LARGEST: usize = 4 << 20;

/// What is wrong with one that is larger.
pub const TOO_LARGE: &str = "is larger than 4 MiB";

/// The longest line of a file, in bytes. The parser takes 24 times as much memory for a value that is one line.
const LONGEST_LINE: usize = 3 << 19;

/// What to do about it.
pub const SPLIT: &str = "split it by domains";

/// The longest reason of the parser that is repeated, in characters: some have text of the file in them.
const LONGEST_REASON: usize = 120;

/// Reads the one document of a file. `None` where it is no YAML. Its values are taken off those that all files together
/// may have.
pub fn read<'a>(
    text: &'a str,
    source: u32,
    most_values: &mut usize,
    report: &mut Report<'_>,
) -> Option<Node<'a>> {
    let mut reader = Reader { text, source, values: 0, duplicates: false, odd_keys: false };
    let top = Place { source, line: 1, column: 1, start: 0, end: 0 };
    if text.len() > LARGEST {
        let message = format!("the file {TOO_LARGE}");
        return report.reject(Diagnostic::error(top, message).help(SPLIT));
    }
    let mut lines = (1..).zip(text.split('\n'));
    if let Some((line, _)) = lines.find(|(_, text)| text.len() > LONGEST_LINE) {
        let message = format!("line {line} is longer than 1.5 MiB");
        report
            .push(Diagnostic::error(Place { line, ..top }, message).help("break it into several"));
        return None;
    }
    let mut documents = match raw::parse(text, *most_values) {
        Ok(documents) => documents.into_iter(),
        Err(error) => {
            return report.reject(reader.syntax(&error));
        }
    };
    let first = documents.next().map(|mut root| {
        reader.node(&mut root, report);
        root
    });
    if let Some(mut second) = documents.next() {
        reader.node(&mut second, report);
        report.push(
            Diagnostic::error(second.place(), "a second document begins here")
                .help("put it into a file of its own: a file holds one document and one domain"),
        );
    }
    drop(documents);
    reader.check_odd_keys(*most_values, report);
    *most_values = most_values.saturating_sub(reader.values);
    Some(first.unwrap_or(Node { value: Value::Null, span: top, literal: "", defined: (0, 0) }))
}

/// Makes the parser's nodes ours: what only the text tells, and what is wrong with keys.
struct Reader<'a> {
    text: &'a str,
    source: u32,
    /// How many there are, keys included.
    values: usize,
    /// Whether a key was found twice.
    duplicates: bool,
    /// Whether there is a key that is no text.
    odd_keys: bool,
}

impl<'a> Reader<'a> {
    fn node(&mut self, node: &mut Node<'a>, report: &mut Report<'_>) {
        self.values += 1;
        node.span = self.on_its_line(node.span);
        node.literal = self.slice(node.defined);
        match &mut node.value {
            Value::List(items) => items.iter_mut().for_each(|item| self.node(item, report)),
            Value::Mapping(mapping) => self.mapping(mapping, report),
            _ => {}
        }
    }

    fn mapping(&mut self, mapping: &mut Mapping<'a>, report: &mut Report<'_>) {
        let entries = &mut mapping.entries;
        for entry in entries.iter_mut() {
            self.values += 1;
            entry.key_place = self.on_its_line(entry.key_place);
            if let KeyForm::Other(defined) = entry.form {
                self.odd_keys = true;
                entry.key = Cow::Borrowed(self.slice(defined));
            }
            self.node(&mut entry.node, report);
        }
        entries.retain(|entry| {
            let KeyForm::Collection(kind) = entry.form else { return true };
            report.push(
                Diagnostic::error(entry.key_place, format!("a key is {kind}"))
                    .help("write a plain word as the key"),
            );
            false
        });
        let mut duplicates = duplicates(entries).into_iter().peekable();
        if duplicates.peek().is_none() {
            return;
        }
        self.duplicates = true;
        let mut at = 0;
        entries.retain(|Entry { key, key_place: second, .. }| {
            let duplicate = duplicates.next_if(|(duplicate, _)| *duplicate == at);
            at += 1;
            let Some((_, first)) = duplicate else { return true };
            let where_first = report.describe(first, *second);
            report.push(
                Diagnostic::error(
                    *second,
                    format!("{} stands twice, first {where_first}", shown(key)),
                )
                .help("remove one of the two")
                .key(key)
                .related(first, "first here"),
            );
            false
        });
    }

    /// Where a mapping has keys that are numbers, the parser itself drops duplicates before we see
    /// them. Such a file is parsed once more, to hear of them.
    fn check_odd_keys(&self, most_values: usize, report: &mut Report<'_>) {
        if self.odd_keys
            && !self.duplicates
            && let Err(error) = raw::check_keys(self.text, most_values)
        {
            report.push(self.syntax(&error));
        }
    }

    /// What the parser says of a text that is no YAML, with what is known to help.
    fn syntax(&self, error: &Error) -> Diagnostic {
        let place = error.location().unwrap_or(Location::UNKNOWN);
        let place = self.place(place);
        let message = match innermost(error) {
            Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
                "values are nested too deeply: more than 64 levels".into()
            }
            Error::DuplicateMappingKey { key, .. } => {
                format!("{} stands twice", shown(key.as_deref().unwrap_or("a key")))
            }
            Error::Budget { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. } => {
                format!(
                    "the rule files hold too many values: more than {}",
                    in_thousands(MOST_VALUES)
                )
            }
            error => {
                let text = DefaultMessageFormatter.format_message(error);
                format!("this is not YAML: {}", shortened(&text, LONGEST_REASON))
            }
        };
        let help = remedy(&message, self.text.get(place.start as usize..).unwrap_or_default());
        Diagnostic::error(place, message).help(help)
    }

    /// Where the parser found a mistake.
    fn place(&self, location: Location) -> Place {
        let place = raw::place(location);
        let span = location.span();
        if span.byte_offset().is_some() && span.byte_len().is_some() {
            return self.on_its_line(place);
        }
        // Errors of syntax count in characters, and sometimes point behind the end.
        let characters = usize::try_from(span.offset()).unwrap_or(usize::MAX);
        let start = u32::try_from(self.byte_offset(characters)).unwrap_or(u32::MAX);
        Place { source: self.source, start, end: start, ..place }
    }

    /// A place in this file, as far as it is on the line on which it begins.
    fn on_its_line(&self, place: Place) -> Place {
        let on_line = self.slice(place.bytes_u32());
        let length = match on_line.find(['\n', '\r']) {
            Some(length) => u32::try_from(length).unwrap_or(u32::MAX),
            None if on_line.is_empty() => 0,
            None => place.end - place.start,
        };
        Place { source: self.source, end: place.start.saturating_add(length), ..place }
    }

    fn byte_offset(&self, characters: usize) -> usize {
        let end = self.text.len();
        self.text.char_indices().nth(characters).map_or(end, |(offset, _)| offset)
    }

    /// What stands there.
    fn slice(&self, (start, end): (u32, u32)) -> &'a str {
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// The entries whose key stood before: each with where it stood first.
fn duplicates(entries: &[Entry<'_>]) -> Vec<(usize, Place)> {
    let mut first = HashMap::with_capacity(entries.len());
    let duplicates =
        entries.iter().enumerate().filter_map(|(at, entry)| match first.entry(&*entry.key) {
            hash_map::Entry::Vacant(place) => {
                place.insert(at);
                None
            }
            hash_map::Entry::Occupied(before) => {
                entries.get(*before.get()).map(|before| (at, before.key_place))
            }
        });
    duplicates.collect()
}

fn innermost(error: &Error) -> &Error {
    match error {
        Error::AliasError { error, .. } => innermost(error),
        error => error.without_snippet(),
    }
}

/// Words of the parser's reasons, and what to do about each.
const REMEDIES: &[(&str, &str)] = &[
    ("too deeply", "write fewer levels"),
    ("recursion limit", "write fewer levels"),
    (
        "too many values",
        "use fewer rules, aliases and keys that are numbers: each key and each value counts",
    ),
    ("stands twice", "remove one of the two"),
    ("recursive", "remove the alias: it cannot stand inside what it repeats"),
    ("unsupported tag", "remove the tag; in quotes, text may begin with `!`"),
    ("mapping values", "check the indentation; put text that contains `: ` in quotes"),
    ("tab", "indent with spaces"),
];

/// A number as people write it.
fn in_thousands(number: usize) -> String {
    format!("{},{:03}", number / 1000, number % 1000)
}

/// What to do about a text that is no YAML.
fn remedy(message: &str, rest: &str) -> &'static str {
    if let Some((_, remedy)) = REMEDIES.iter().find(|(words, _)| message.contains(words)) {
        remedy
    } else if rest.starts_with(['*', '@', '%', '`']) {
        "put text that begins with `*`, `@`, `%` or a backtick in quotes: `value: \"*.example.com\"`"
    } else {
        "check the quotes, brackets and indentation here and just before"
    }
}
