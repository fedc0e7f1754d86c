//! YAML as a tree in which every value knows where it was written, and how.

use super::diagnostic::Place;
use std::borrow::Cow;

/// A value.
#[derive(Debug)]
pub struct Node<'a> {
    /// What it is.
    pub value: Value<'a>,
    /// Where it is; empty for a block of lines and for a value that is not there. A value that came
    /// through an alias is where the alias is.
    pub span: Place,
    /// A scalar as it was written, quotes included. At an alias, as its anchor has it.
    pub literal: &'a str,
    /// Where that stands, from and to, in bytes of the file's text.
    pub defined: (u32, u32),
}

/// What a value is.
#[derive(Debug)]
pub enum Value<'a> {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Node<'a>>),
    /// Keys with values.
    Mapping(Mapping<'a>),
}

/// Keys and values, in the order in which they were written.
#[derive(Debug, Default)]
pub struct Mapping<'a> {
    /// The keys with their values.
    pub entries: Vec<Entry<'a>>,
}

/// A key and its value.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The key's text; as it was written, where it is a number or the like.
    pub key: Cow<'a, str>,
    /// Where the key is.
    pub key_place: Place,
    /// What the key was written as.
    pub form: KeyForm,
    /// The value.
    pub node: Node<'a>,
}

/// What a key was written as.
#[derive(Debug, Clone, Copy)]
pub enum KeyForm {
    /// Text.
    Text,
    /// A number or the like, which stands there in the file's text.
    Other((u32, u32)),
    /// What it is in words. No entry has such a key once its file is read.
    Collection(&'static str),
}

impl Node<'_> {
    /// Where to point. A block of lines is pointed at by its first key.
    pub fn place(&self) -> Place {
        match &self.value {
            Value::Mapping(mapping) if self.span.is_empty() => {
                mapping.entries.first().map_or(self.span, |entry| entry.key_place)
            }
            _ => self.span,
        }
    }

    /// What it is, in words.
    pub const fn kind(&self) -> &'static str {
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
    pub fn is_quoted(&self) -> bool {
        self.literal.starts_with(['"', '\''])
    }
}

impl<'a> Mapping<'a> {
    /// The entry with this key.
    pub fn get(&self, key: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// What the value of a key says, by its reader; `default` where the key is left out. `None` where it is wrong.
    pub fn read_or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&Entry<'a>) -> Option<T>,
    ) -> Option<T> {
        self.get(key).map_or(Some(default), read)
    }

    /// The entries whose keys are among these, in the order in which they were written.
    pub fn among(&self, keys: impl Fn(&str) -> bool) -> impl Iterator<Item = &Entry<'a>> {
        self.entries.iter().filter(move |entry| keys(&entry.key))
    }
}

impl Entry<'_> {
    /// Where to point: at the value, or at the key where the value is nothing or a block of lines.
    pub const fn place(&self) -> Place {
        if self.node.span.is_empty() { self.key_place } else { self.node.span }
    }
}
