//! YAML as serde-saphyr, the parser, gives it.
//!
//! Values are read without a schema, each with its place, so that everything that can be said about
//! a file is said by us, in the words of rule files, and not only about the first mistake.
//!
//! A hostile file is one that is small and becomes large: by aliases, by values of one byte. So the parser makes our
//! [`Node`]s at once, with no tree of its own beside them, and stops at a number of values ([`MOST_VALUES`]).

use super::{
    diagnostic::Place,
    node::{Entry, KeyForm, Mapping, Node, Value},
};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Error, Location, NonFiniteFloatPolicy, Options, Spanned};
use std::{borrow::Cow, fmt};

/// The most values in all files together, aliases followed, keys included: those of some 25,000 plain rules, or of 10,000
/// with eight keys each.
pub const MOST_VALUES: usize = 250_000;

/// The same for a file with keys that are numbers or no words at all: the parser takes five times as much for a value there.
const MOST_VALUES_WITH_ODD_KEYS: usize = 80_000;

/// The most values that the parser copies so that aliases can repeat them. A value counts once for each anchor around it.
const MOST_REPEATABLE: usize = 50_000;

/// The most bytes of text that it copies for that.
const MOST_REPEATABLE_BYTES: usize = 4 << 20;

/// The most bytes of text in a file, aliases followed. Only aliases have more than the largest file has.
const MOST_TEXT: usize = 16 << 20;

fn options(most_values: usize, duplicates: DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: most_values,
            // Beside values there are the ends of lists and mappings.
            max_events: 2 * most_values + 1_000,
            max_recorded_anchor_events: MOST_REPEATABLE,
            max_recorded_anchor_bytes: MOST_REPEATABLE_BYTES,
            max_total_scalar_bytes: MOST_TEXT,
        },
        duplicate_keys: duplicates,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// Reads all documents of a text, with so many values at most. What the text says of a place is for the caller to add.
pub(super) fn parse(text: &str, most_values: usize) -> Result<Vec<Node<'_>>, Error> {
    let most = match has_odd_keys(text, most_values)? {
        true => most_values.min(MOST_VALUES_WITH_ODD_KEYS),
        false => most_values,
    };
    serde_saphyr::from_multiple_with_options(text, options(most, DuplicateKeyPolicy::LastWins))
}

/// Whether no key stands twice, numbers included.
pub(super) fn check_keys(text: &str, most_values: usize) -> Result<(), Error> {
    skip(text, most_values, DuplicateKeyPolicy::Error).map(drop)
}

/// Whether a key is no text. Where one is, the parser holds all that follows in its mapping to find its equals.
fn has_odd_keys(text: &str, most_values: usize) -> Result<bool, Error> {
    let documents = skip(text, most_values, DuplicateKeyPolicy::FirstWins)?;
    Ok(documents.iter().any(|document| document.has_odd_keys))
}

fn skip(text: &str, most: usize, duplicates: DuplicateKeyPolicy) -> Result<Vec<Skipped>, Error> {
    serde_saphyr::from_multiple_with_options(text, options(most, duplicates))
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value: Read(value), referenced, defined } =
            Spanned::<Read<'de>>::deserialize(deserializer)?;
        let place = place(referenced);
        Ok(Self { value, span: place, literal: "", defined: self::place(defined).bytes_u32() })
    }
}

/// Where a value is, as far as the parser knows.
pub(super) fn place(location: Location) -> Place {
    let span = location.span();
    let to_u32 = |number: Option<u64>| number.and_then(|it| u32::try_from(it).ok());
    let (start, length) = (to_u32(span.byte_offset()), to_u32(span.byte_len()));
    let (start, length) = (start.unwrap_or_default(), length.unwrap_or_default());
    let (line, column) = (to_u32(Some(location.line())), to_u32(Some(location.column())));
    Place {
        source: 0,
        line: line.unwrap_or_default().max(1),
        column: column.unwrap_or_default().max(1),
        start,
        end: start.saturating_add(length),
    }
}

/// A value as the parser gives it, without its place.
struct Read<'a>(Value<'a>);

impl<'de> Deserialize<'de> for Read<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        Read::deserialize(deserializer).map(|read| read.0)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Self::Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Self::Value, E> {
        let value = i128::try_from(value);
        value.map(Value::Integer).map_err(|_| E::custom("a number that is too large"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(value.into())))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        // Most lists and mappings are short, and a vector begins with room for four.
        list.shrink_to_fit();
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut mapping = Mapping::default();
        while let Some((key, node)) = entries.next_entry::<Node<'de>, Node<'de>>()? {
            let form = match &key.value {
                Value::Text(_) => KeyForm::Text,
                Value::List(_) | Value::Mapping(_) => KeyForm::Collection(key.kind()),
                _ => KeyForm::Other(key.defined),
            };
            let key_place = key.place();
            let key = if let Value::Text(text) = key.value { text } else { Cow::Borrowed("") };
            mapping.entries.push(Entry { key, key_place, form, node });
        }
        mapping.entries.shrink_to_fit();
        Ok(Value::Mapping(mapping))
    }
}

/// A value that is read and not kept.
#[derive(Default)]
struct Skipped {
    is_text: bool,
    has_odd_keys: bool,
}

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self::default())
    }
}

impl<'de> Visitor<'de> for Skipped {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_none<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(Self { is_text: true, ..self })
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Self, A::Error> {
        while let Some(item) = items.next_element::<Self>()? {
            self.has_odd_keys |= item.has_odd_keys;
        }
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Self, A::Error> {
        while let Some((key, value)) = entries.next_entry::<Self, Self>()? {
            self.has_odd_keys |= !key.is_text || value.has_odd_keys;
        }
        Ok(self)
    }
}
