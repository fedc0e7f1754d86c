//! Text to nodes: the parser's values, each with its place and as it was written.

use super::{
    Diagnostic, Place,
    diagnostic::{Report, shortened, shown},
    node::{Entry, Mapping, Node, Value},
    raw::{self, Raw},
};
use serde_saphyr::{
    DefaultMessageFormatter, DuplicateKeyPolicy, Error, Location, MessageFormatter as _, Spanned,
    budget::BudgetBreach,
};
use std::collections::HashMap;

/// The largest file, in bytes.
pub(super) const LARGEST: usize = 16 << 20;

/// What is wrong with one that is larger.
pub(super) const TOO_LARGE: &str = "is larger than 16 MiB";

/// The longest reason of the parser that is repeated, in characters: some have text of the file in them.
const LONGEST_REASON: usize = 120;

/// Reads the one document of a file. `None` where it is no YAML.
pub(super) fn read<'a>(text: &'a str, source: usize, report: &mut Report<'_>) -> Option<Node<'a>> {
    let mut reader = Reader { text, source, duplicates: false, odd_keys: false };
    let top = Place { source, line: 1, column: 1, start: 0, end: 0 };
    if text.len() > LARGEST {
        let message = format!("the file {TOO_LARGE}");
        report.push(Diagnostic::error(top, message).help("split it by domains"));
        return None;
    }
    let documents: Vec<Spanned<Raw>> = match raw::parse(text, DuplicateKeyPolicy::LastWins) {
        Ok(documents) => documents,
        Err(error) => {
            report.push(reader.syntax(&error));
            return None;
        }
    };
    let mut documents = documents.into_iter();
    let first = documents.next();
    let root = first.map(|document| reader.node(document, report));
    if let Some(second) = documents.next() {
        let place = reader.node(second, report).place();
        report.push(
            Diagnostic::error(place, "a second document begins here")
                .help("put it into a file of its own: a file holds one document and one domain"),
        );
    }
    reader.check_odd_keys(report);
    Some(root.unwrap_or(Node { value: Value::Null, span: top, literal: "" }))
}

/// Turns the parser's values into ours.
struct Reader<'a> {
    text: &'a str,
    source: usize,
    /// Whether a key was found twice.
    duplicates: bool,
    /// Whether there is a key that is no text.
    odd_keys: bool,
}

impl<'a> Reader<'a> {
    fn node(&mut self, raw: Spanned<Raw<'_>>, report: &mut Report<'_>) -> Node<'a> {
        let span = self.place(raw.referenced);
        let literal = self.slice(self.place(raw.defined));
        let value = match raw.value {
            Raw::Null => Value::Null,
            Raw::Bool(value) => Value::Bool(value),
            Raw::Integer(value) => Value::Integer(value),
            Raw::Float(value) => Value::Float(value),
            Raw::Text(text) => Value::Text(text.into_owned()),
            Raw::List(items) => {
                Value::List(items.into_iter().map(|item| self.node(item, report)).collect())
            }
            Raw::Mapping(entries) => Value::Mapping(self.mapping(entries, report)),
        };
        Node { value, span, literal }
    }

    fn mapping(
        &mut self,
        raw: Vec<(Spanned<Raw<'_>>, Spanned<Raw<'_>>)>,
        report: &mut Report<'_>,
    ) -> Mapping<'a> {
        let mut mapping = Mapping::default();
        let mut seen: HashMap<String, Place> = HashMap::new();
        for (key, value) in raw {
            let key = self.node(key, report);
            let value = self.node(value, report);
            let Some(text) = self.key(&key, report) else { continue };
            match seen.get(&text) {
                None => {
                    seen.insert(text.clone(), key.span);
                    mapping.entries.push(Entry { key: text, key_place: key.span, node: value });
                }
                Some(first) => self.duplicate(&text, key.span, *first, report),
            }
        }
        mapping
    }

    fn key(&mut self, key: &Node<'a>, report: &mut Report<'_>) -> Option<String> {
        match &key.value {
            Value::Text(text) => return Some(text.clone()),
            Value::List(_) | Value::Mapping(_) => report.push(
                Diagnostic::error(key.place(), format!("a key is {}", key.kind()))
                    .help("write a plain word as the key"),
            ),
            _ => {
                self.odd_keys = true;
                return Some(key.literal.into());
            }
        }
        None
    }

    fn duplicate(&mut self, key: &str, second: Place, first: Place, report: &mut Report<'_>) {
        self.duplicates = true;
        let where_first = report.describe(first, second);
        report.push(
            Diagnostic::error(second, format!("{} stands twice, first {where_first}", shown(key)))
                .help("remove one of the two")
                .key(key)
                .related(first, "first here"),
        );
    }

    /// Where a mapping has keys that are numbers, the parser itself drops duplicates before we see
    /// them. Such a file is parsed once more, to hear of them.
    fn check_odd_keys(&self, report: &mut Report<'_>) {
        if self.odd_keys
            && !self.duplicates
            && let Err(error) = raw::parse(self.text, DuplicateKeyPolicy::Error)
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
                "the file holds too many values".into()
            }
            error => {
                let text = DefaultMessageFormatter.format_message(error);
                format!("this is not YAML: {}", shortened(&text, LONGEST_REASON))
            }
        };
        let help = remedy(&message, self.text.get(place.start..).unwrap_or_default());
        Diagnostic::error(place, message).help(help)
    }

    fn place(&self, location: Location) -> Place {
        let span = location.span();
        let (start, length) = match (span.byte_offset(), span.byte_len()) {
            (Some(offset), Some(length)) => (to_usize(offset), to_usize(length)),
            // Errors of syntax count in characters, and sometimes point behind the end.
            _ => (self.byte_offset(to_usize(span.offset())), 0),
        };
        let rest = self.text.get(start..).unwrap_or_default();
        let length = match length {
            0 => 0,
            _ => rest.get(..length).map_or(0, |it| it.find(['\n', '\r']).unwrap_or(length)),
        };
        Place {
            source: self.source,
            line: to_usize(location.line()).max(1),
            column: to_usize(location.column()).max(1),
            start,
            end: start + length,
        }
    }

    fn byte_offset(&self, characters: usize) -> usize {
        let end = self.text.len();
        self.text.char_indices().nth(characters).map_or(end, |(offset, _)| offset)
    }

    fn slice(&self, place: Place) -> &'a str {
        self.text.get(place.start..place.end).unwrap_or_default()
    }
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
    ("too many values", "split it by domains, and use fewer aliases"),
    ("stands twice", "remove one of the two"),
    ("recursive", "remove the alias: it cannot stand inside what it repeats"),
    ("unsupported tag", "remove the tag; in quotes, text may begin with `!`"),
    ("mapping values", "check the indentation; put text that contains `: ` in quotes"),
    ("tab", "indent with spaces"),
];

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

fn to_usize(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(usize::MAX)
}
