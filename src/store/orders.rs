//! Orders as a store keeps them: fields of text, and which state of them that is.
//!
//! Whoever tells one says what he takes to stand there, so that what was said meanwhile is not lost. A state is
//! known by a number that every change raises, by a mark that is drawn anew with it, and by an epoch, drawn when
//! nothing stood there: so a store that has lost something is known for it, whatever was said to it since, and
//! whoever has heard what is missing tells it again.

#[cfg(test)]
mod tests;

use crate::{clock::Timestamp, order::LIMIT};
use std::collections::BTreeMap;

/// The most limits that are kept. Switches are no more than there are rules.
pub const MOST_LIMITS: usize = 10_000;

/// What stands in the fields.
pub type Fields = BTreeMap<String, String>;

/// A change of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub field: String,
    /// What is to stand there before: if it is something else, and not what is to stand there after either,
    /// nothing is changed. `None` for nothing.
    pub was: Option<String>,
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
    /// There are [`MOST_LIMITS`] already.
    Full,
}

/// Which state of the fields it is. The default is that nothing was ever heard, or that nothing stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Version {
    /// Drawn when nothing stood there; never 0.
    pub epoch: u64,
    /// Raised with every change.
    pub number: u64,
    /// Drawn with every change.
    pub mark: u64,
}

impl Version {
    /// Whether what was heard at this version may not stand there any more, though nobody took it back, where
    /// another version does.
    pub const fn is_lost(self, stands: Self) -> bool {
        self.epoch != 0
            && (stands.epoch != self.epoch
                || stands.number < self.number
                || (stands.number == self.number && stands.mark != self.mark))
    }
}

/// What a store is told of orders.
#[derive(Debug, Clone, Copy)]
pub struct Telling<'a> {
    /// The version that was heard of.
    pub known: Version,
    /// The changes to make; none is made where the store has lost something.
    pub changes: &'a [Change],
    /// Numbers that were drawn, not 0 and below 2^53: for an epoch, if one begins, and for the next mark.
    pub drawn: [u64; 2],
}

/// What a store says of orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The version of what stands there.
    pub version: Version,
    /// The time by the store's clock.
    pub now: Timestamp,
    /// What became of each change; nothing where the store has lost something.
    pub changed: Vec<Changed>,
    /// What stands there, where that is another version than the one that was heard of.
    pub fields: Option<Fields>,
}

/// Orders in memory: what `lua/orders.lua` does in Redis.
#[derive(Debug, Default)]
pub(super) struct Orders {
    version: Version,
    fields: Fields,
}

impl Orders {
    /// Takes in what is told.
    pub(super) fn tell(&mut self, now: Timestamp, telling: Telling<'_>) -> Told {
        let Telling { known, changes, drawn: [epoch, mark] } = telling;
        let mut changed = Vec::new();
        if !known.is_lost(self.version) {
            let mut is_changed = false;
            for change in changes {
                // What stands there already is no change.
                let stands = self.fields.get(&change.field) == change.is.as_ref();
                let became = if stands { Changed::Done } else { self.change(change) };
                is_changed |= !stands && became == Changed::Done;
                changed.push(became);
            }
            if is_changed {
                let Version { epoch: before, number, .. } = self.version;
                let epoch = if before == 0 { epoch } else { before };
                self.version = Version { epoch, number: number + 1, mark };
            }
        }
        let fields = (self.version != known).then(|| self.fields.clone());
        Told { version: self.version, now, changed, fields }
    }

    fn change(&mut self, Change { field, was, is }: &Change) -> Changed {
        let stands = self.fields.get(field);
        if stands != was.as_ref() {
            return Changed::Differs;
        }
        match is {
            None => {
                self.fields.remove(field);
            }
            Some(_) if stands.is_none() && field.starts_with(LIMIT) && self.is_full() => {
                return Changed::Full;
            }
            Some(is) => {
                self.fields.insert(field.clone(), is.clone());
            }
        }
        Changed::Done
    }

    fn is_full(&self) -> bool {
        self.fields.keys().filter(|field| field.starts_with(LIMIT)).count() >= MOST_LIMITS
    }
}
