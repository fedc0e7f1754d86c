//! Values of the types that keys ask for: names, prose, flags, whole numbers, words, mappings, lists.

use super::{
    diagnostic::{Diagnostic, shown},
    node::{Entry, Mapping, Node, Value},
    report::Report,
    table::Table,
    words::{closest, list as listed},
};

/// The longest text, in bytes.
pub const LONGEST_TEXT: usize = 4096;

/// What to do about text that is longer.
pub const SHORTER: &str = "write a shorter text";

/// Text that names something: a string, or a whole number or boolean as it was written. Empty text
/// and no value at all are nothing, without an error.
pub fn name_or_nothing(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Option<String>> {
    let Entry { key, node, .. } = entry;
    let (is, help) = match text(node) {
        Ok(text) => return Some(Some(text).filter(|text| !text.is_empty())),
        Err(NoText::Fraction) => (
            format!("is {}, which is no whole number", shown(node.literal)),
            format!("put it in quotes if it is meant as text: {}", quoted(entry)),
        ),
        Err(NoText::Parts) => {
            (format!("is {}", node.kind()), format!("write one text: `{key}: example`"))
        }
        Err(NoText::TooLong) => (too_long(), SHORTER.to_owned()),
    };
    report.reject(wrong(entry, format!("`{key}` {is}")).help(help))
}

/// Why a value is no text that names something.
pub enum NoText {
    /// It is a number, but not a whole one.
    Fraction,
    /// It is a list or a mapping.
    Parts,
    /// It is longer than [`LONGEST_TEXT`].
    TooLong,
}

/// Text that names something, as it was written. Nothing is empty text.
pub fn text(node: &Node<'_>) -> Result<String, NoText> {
    let text = match &node.value {
        Value::Null => String::new(),
        Value::Text(text) => text.clone().into_owned(),
        Value::Bool(_) | Value::Integer(_) => unquoted(node),
        Value::Float(_) if is_whole(node.literal) => unquoted(node),
        Value::Float(_) => return Err(NoText::Fraction),
        Value::List(_) | Value::Mapping(_) => return Err(NoText::Parts),
    };
    if text.len() > LONGEST_TEXT { Err(NoText::TooLong) } else { Ok(text) }
}

/// The same, where there must be some text.
pub fn name(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<String> {
    let key = &entry.key;
    let name = name_or_nothing(entry, report)?;
    if name.is_none() {
        report.push(
            wrong(entry, format!("`{key}` is empty")).help(format!("write `{key}: example`")),
        );
    }
    name
}

/// Text that people read.
pub fn prose(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<String> {
    let key = &entry.key;
    let Value::Text(text) = &entry.node.value else {
        return report.reject(
            wrong(entry, format!("`{key}` is {}, not text", entry.node.kind()))
                .help(format!("write the text in quotes: {}", quoted(entry))),
        );
    };
    if text.trim().is_empty() {
        return report.reject(
            wrong(entry, format!("`{key}` is empty"))
                .help("write what a refused caller should read, or remove it"),
        );
    }
    if text.chars().any(|it| it.is_control() && it != '\n' && it != '\t') {
        return report.reject(
            wrong(entry, format!("`{key}` has control characters in it"))
                .help("remove them; line breaks and tabs are fine"),
        );
    }
    short_enough(entry, text, report).then(|| text.clone().into_owned())
}

/// `true` or `false`.
pub fn flag(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<bool> {
    let Entry { key, node, .. } = entry;
    if let Value::Bool(value) = node.value {
        return Some(value);
    }
    let in_quotes = match &node.value {
        Value::Text(text) => ["true", "false"].contains(&text.to_ascii_lowercase().as_str()),
        _ => false,
    };
    let help = match &node.value {
        Value::Text(text) if in_quotes => {
            format!("write it without quotes: `{key}: {}`", text.to_ascii_lowercase())
        }
        _ => format!("write `{key}: true` or `{key}: false`"),
    };
    report.reject(wrong(entry, format!("`{key}` is {}, not true or false", node.kind())).help(help))
}

/// A flag that may be left out.
pub fn flag_or(mapping: &Mapping<'_>, key: &str, default: bool, report: &mut Report<'_>) -> bool {
    mapping.get(key).and_then(|entry| flag(entry, report)).unwrap_or(default)
}

/// A whole number from 0 to 4294967295, not in quotes.
pub fn whole(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<u32> {
    const RANGE: &str = "write a whole number from 0 to 4294967295";
    let Entry { key, node, .. } = entry;
    let (message, help) = match &node.value {
        Value::Integer(_) if node.is_quoted() => {
            (format!("`{key}` is a number in quotes"), without_quotes(entry))
        }
        Value::Integer(number) => match u32::try_from(*number) {
            Ok(number) => return Some(number),
            Err(_) if *number < 0 => (format!("`{key}` is negative"), RANGE.into()),
            Err(_) => (format!("`{key}` is too large"), RANGE.into()),
        },
        Value::Float(_) if is_whole(node.literal) && node.literal.starts_with('0') => {
            let fix = "write it without: with a zero in front, YAML has two meanings";
            (format!("`{key}` begins with a zero"), fix.into())
        }
        Value::Float(_) if is_whole(node.literal) => {
            (format!("`{key}` is too large"), RANGE.into())
        }
        Value::Float(_) => {
            (format!("`{key}` is {}, which is no whole number", shown(node.literal)), RANGE.into())
        }
        Value::Text(text) if is_whole(text) => {
            (format!("`{key}` is a number in quotes"), without_quotes(entry))
        }
        _ => (format!("`{key}` is {}, not a number", node.kind()), RANGE.into()),
    };
    report.reject(wrong(entry, message).help(help))
}

/// One of a few words.
pub fn one_of<'a>(
    entry: &Entry<'_>,
    words: &[&'a str],
    report: &mut Report<'_>,
) -> Option<&'a str> {
    let Entry { key, node, .. } = entry;
    let (message, meant) = match &node.value {
        Value::Text(text) => match words.iter().find(|word| *word == text) {
            Some(word) => return Some(word),
            None => {
                let meant = closest(text, words);
                (format!("`{key}` is {}, which it cannot be", shown(text)), meant)
            }
        },
        _ => (format!("`{key}` is {}, not text", node.kind()), None),
    };
    let meant = meant.map(|word| format!("did you mean `{word}`?\n")).unwrap_or_default();
    let one_of = if words.len() > 1 { "one of " } else { "" };
    let words = listed(words).replace(" and ", " or ");
    report.reject(wrong(entry, message).help(format!("{meant}write {one_of}{words}")))
}

/// The mapping that a key must have.
pub fn mapping<'a, 'b>(
    entry: &'b Entry<'a>,
    example: &str,
    report: &mut Report<'_>,
) -> Option<&'b Mapping<'a>> {
    let Entry { key, node, .. } = entry;
    if let Value::Mapping(mapping) = &node.value {
        return Some(mapping);
    }
    report.reject(
        wrong(entry, format!("`{key}` is {}, not a mapping", node.kind()))
            .help(format!("write `{key}: {example}`")),
    )
}

/// The mapping that a key must have, with the keys of a table. Others are reported.
pub fn table<'a, 'b>(
    entry: &'b Entry<'a>,
    table: &Table,
    example: &str,
    report: &mut Report<'_>,
) -> Option<&'b Mapping<'a>> {
    let mapping = mapping(entry, example, report)?;
    report.check_keys(mapping, table);
    Some(mapping)
}

/// The entry that a mapping must have under a key. It is missing at `of`, the key of the mapping.
pub fn required<'a, 'b>(
    mapping: &'b Mapping<'a>,
    key: &str,
    of: &Entry<'_>,
    help: impl Into<String>,
    report: &mut Report<'_>,
) -> Option<&'b Entry<'a>> {
    let found = mapping.get(key);
    if found.is_none() {
        let message = format!("`{key}` is missing");
        report.push(Diagnostic::error(of.key_place, message).help(help).key(key));
    }
    found
}

/// The list that a key must have.
pub fn list<'a, 'b>(
    entry: &'b Entry<'a>,
    example: &str,
    report: &mut Report<'_>,
) -> Option<&'b [Node<'a>]> {
    let Entry { key, node, .. } = entry;
    if let Value::List(items) = &node.value {
        return Some(items);
    }
    report.reject(
        wrong(entry, format!("`{key}` is {}, not a list", node.kind())).help(format!(
            "write `{key}:` and below it items that begin with `- `, as in {example}"
        )),
    )
}

/// An error about a value.
pub fn wrong(entry: &Entry<'_>, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(entry.place(), message).key(&entry.key)
}

/// A warning about a limit that refuses everything.
pub fn refuses_everything(entry: &Entry<'_>, message: impl Into<String>) -> Diagnostic {
    Diagnostic::warning(entry.place(), message)
        .help("leave it if nobody is to pass; otherwise write a number above 0")
        .key(&entry.key)
}

/// A number or boolean as it was written.
fn unquoted(node: &Node<'_>) -> String {
    node.literal.trim_matches(['"', '\'']).into()
}

/// Whether it is a whole number, of whatever size.
pub fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn quoted(entry: &Entry<'_>) -> String {
    let Entry { key, node, .. } = entry;
    match node.literal {
        "" => format!("`{key}: \"…\"`"),
        literal => shown(&format!("{key}: \"{literal}\"")),
    }
}

fn without_quotes(entry: &Entry<'_>) -> String {
    let Entry { key, node, .. } = entry;
    format!("write it without quotes: {}", shown(&format!("{key}: {}", unquoted(node))))
}

fn short_enough(entry: &Entry<'_>, text: &str, report: &mut Report<'_>) -> bool {
    let fits = text.len() <= LONGEST_TEXT;
    if !fits {
        report.push(wrong(entry, format!("`{}` {}", entry.key, too_long())).help(SHORTER));
    }
    fits
}

/// What is said of text that is too long.
pub fn too_long() -> String {
    format!("is longer than {LONGEST_TEXT} bytes")
}
