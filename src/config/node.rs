//! YAML as a tree in which every value knows where it was written, and how.

use super::Place;
use std::borrow::Cow;

/// A value.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) value: Value<'a>,
    /// Where it is; empty for a block of lines and for a value that is not there. A value that came
    /// through an alias is where the alias is.
    pub(super) span: Place,
    /// A scalar as it was written, quotes included. At an alias, as its anchor has it.
    pub(super) literal: &'a str,
    /// Where that stands, from and to, in bytes of the file's text.
    pub(super) defined: (u32, u32),
}

/// What a value is.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Mapping(Mapping<'a>),
}

/// Keys and values, in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Mapping<'a> {
    pub(super) entries: Vec<Entry<'a>>,
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// The key's text; as it was written, where it is a number or the like.
    pub(super) key: Cow<'a, str>,
    pub(super) key_place: Place,
    pub(super) form: KeyForm,
    pub(super) node: Node<'a>,
}

/// What a key was written as.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyForm {
    Text,
    /// A number or the like, which stands there in the file's text.
    Other((u32, u32)),
    /// What it is in words. No entry has such a key once its file is read.
    Collection(&'static str),
}

impl Node<'_> {
    /// Where to point. A block of lines is pointed at by its first key.
    pub(super) fn place(&self) -> Place {
        match &self.value {
            Value::Mapping(mapping) if self.span.is_empty() => {
                mapping.entries.first().map_or(self.span, |entry| entry.key_place)
            }
            _ => self.span,
        }
    }

    /// What it is, in words.
    pub(super) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "empty",
            Value::Bool(_) => "true or false",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Mapping(_) => "a mapping",
        }
    }

    /// Whether it was written in quotes.
    pub(super) fn is_quoted(&self) -> bool {
        self.literal.starts_with(['"', '\''])
    }
}

impl<'a> Mapping<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The entries with any of these keys, in the order in which they were written.
    pub(super) fn among<'b>(&'b self, keys: &'b [&str]) -> impl Iterator<Item = &'b Entry<'a>> {
        self.entries.iter().filter(|entry| keys.contains(&&*entry.key))
    }
}

impl Entry<'_> {
    /// Where to point: at the value, or at the key where the value is nothing or a block of lines.
    pub(super) const fn place(&self) -> Place {
        if self.node.span.is_empty() { self.key_place } else { self.node.span }
    }
}
