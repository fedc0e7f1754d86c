//! The heaviest keys, as they are handed on and kept: a list that others are added to.

use std::{cmp::Reverse, collections::HashMap};

/// The most keys that are counted of one limit at a time. Of whoever makes more than a 128th of all refusals it is
/// certain that he is among them.
pub const MOST_COUNTERS: usize = 128;

/// How often a key would have been refused, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// The path of its state.
    pub key: Box<str>,
    /// How often at most.
    pub count: u64,
    /// How much of that may have been others, whose place it took.
    pub error: u64,
}

impl Counter {
    /// How often at least.
    pub const fn at_least(&self) -> u64 {
        self.count.saturating_sub(self.error)
    }
}

/// The heaviest keys, no more than [`MOST_COUNTERS`], and none twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Top {
    counters: Vec<Counter>,
}

impl Top {
    /// Of these keys; `None` where they are too many, or an error is more than its count.
    pub fn of(counters: Vec<Counter>) -> Option<Self> {
        let is_one = |counter: &Counter| counter.error <= counter.count;
        (counters.len() <= MOST_COUNTERS && counters.iter().all(is_one))
            .then_some(Self { counters })
    }

    /// The keys, in no order that means anything.
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// Adds the counts of others. Where all places are taken, a key that is new begins with the least count there
    /// is, which may have been its own: it can have been counted no more often and be gone. `lua/shadow.lua` does
    /// the same.
    pub fn merge(&mut self, others: &Self) {
        let is_full = self.counters.len() >= MOST_COUNTERS;
        let least = self.counters.iter().map(|counter| counter.count).min();
        let inherited = least.filter(|_| is_full).unwrap_or(0);
        let known: HashMap<Box<str>, usize> =
            self.counters.iter().zip(0..).map(|(it, place)| (it.key.clone(), place)).collect();
        for Counter { key, count, error } in &others.counters {
            match known.get(key).and_then(|place| self.counters.get_mut(*place)) {
                Some(counter) => {
                    counter.count = counter.count.saturating_add(*count);
                    counter.error = counter.error.saturating_add(*error);
                }
                None => self.counters.push(Counter {
                    key: key.clone(),
                    count: inherited.saturating_add(*count),
                    error: inherited.saturating_add(*error),
                }),
            }
        }
        if self.counters.len() > MOST_COUNTERS {
            // Stable: of equals, those stay that were there before.
            self.counters.sort_by_key(|counter| Reverse(counter.count));
            self.counters.truncate(MOST_COUNTERS);
        }
    }
}
