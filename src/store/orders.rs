//! Orders as a store keeps them: fields of text, and a version that every change raises.
//!
//! Whoever tells one says what he takes to stand there, so that what was said meanwhile is not lost. A store
//! whose version is lower than one that was heard of has lost something, and is told again by whoever knows.

#[cfg(test)]
mod tests;

use crate::clock::Timestamp;
use std::collections::BTreeMap;

/// The most orders that are kept.
pub const MOST_ORDERS: usize = 10_000;

/// What stands in the fields.
pub type Fields = BTreeMap<String, String>;

/// A change of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub field: String,
    /// What is to stand there before: if it is something else, and not what is to stand there after either,
    /// nothing is changed. `None` for whatever stands there.
    pub was: Option<Option<String>>,
    /// What is to stand there after; `None` for nothing.
    pub is: Option<String>,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It stands there.
    Done,
    /// Something else stood there than was thought.
    Differs,
    /// There are [`MOST_ORDERS`] already.
    Full,
}

/// What a store is told of orders.
#[derive(Debug, Clone, Copy)]
pub enum Telling<'a> {
    /// These changes, or nothing. None is made where the store has lost something.
    Changes(&'a [Change]),
    /// All that stood there at the version that was heard of; for a store that has lost something.
    All(&'a Fields),
}

/// What a store says of orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The version of what stands there. Lower than the one that was heard of: it has lost something.
    pub version: u64,
    /// The time by the store's clock.
    pub now: Timestamp,
    /// What became of each change.
    pub changed: Vec<Changed>,
    /// What stands there, where that is another version than the one that was heard of.
    pub fields: Option<Fields>,
}

/// Orders in memory: what `lua/orders.lua` does in Redis.
#[derive(Debug, Default)]
pub(super) struct Orders {
    version: u64,
    fields: Fields,
}

impl Orders {
    /// Takes in what is told. `known` is the version that was heard of, 0 for none.
    pub(super) fn tell(&mut self, now: Timestamp, known: u64, telling: Telling<'_>) -> Told {
        let mut changed = Vec::new();
        match telling {
            Telling::All(fields) if self.version < known => {
                self.version = known;
                self.fields.clone_from(fields);
            }
            Telling::Changes(changes) if self.version >= known => {
                let mut is_changed = false;
                for change in changes {
                    // What stands there already is no change.
                    let stands = self.fields.get(&change.field) == change.is.as_ref();
                    let became = if stands { Changed::Done } else { self.change(change) };
                    is_changed |= !stands && became == Changed::Done;
                    changed.push(became);
                }
                self.version += u64::from(is_changed);
            }
            _ => {}
        }
        let fields = (self.version != known).then(|| self.fields.clone());
        Told { version: self.version, now, changed, fields }
    }

    fn change(&mut self, Change { field, was, is }: &Change) -> Changed {
        let stands = self.fields.get(field);
        if was.as_ref().is_some_and(|was| stands != was.as_ref()) {
            return Changed::Differs;
        }
        match is {
            None => {
                self.fields.remove(field);
            }
            Some(_) if stands.is_none() && self.fields.len() >= MOST_ORDERS => {
                return Changed::Full;
            }
            Some(is) => {
                self.fields.insert(field.clone(), is.clone());
            }
        }
        Changed::Done
    }
}
