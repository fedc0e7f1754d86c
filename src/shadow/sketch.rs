//! The heaviest of any number of keys, in little room: Space-Saving (Metwally, Agrawal and El Abbadi, 2005).
//!
//! There is a counter for each of some keys. A key that has none takes that of the key with the least count, and
//! goes on from there: the count is too high then, by what was there before at most, and that is remembered as
//! its error. So no count is too low, none is too high by more than its error, and, since the counts add up to
//! what was counted, the least of n counters is at most an nth of it: nobody who has more than that is missing.

#[cfg(test)]
mod tests;

use super::top::{Counter, MOST_COUNTERS, Top};
use std::{cmp::Reverse, collections::HashMap};

/// Counts keys one by one.
#[derive(Debug, Default)]
pub struct Sketch {
    counters: HashMap<Box<str>, Count>,
}

/// A key's count, and its error.
#[derive(Debug, Clone, Copy)]
struct Count {
    count: u64,
    error: u64,
}

impl Sketch {
    /// Counts a key once more.
    pub fn count(&mut self, key: &str) {
        if let Some(known) = self.counters.get_mut(key) {
            known.count += 1;
            return;
        }
        let error = if self.counters.len() < MOST_COUNTERS { 0 } else { self.forget_least() };
        self.counters.insert(key.into(), Count { count: error + 1, error });
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// What was counted, the heaviest first; from here on it counts anew.
    pub fn take(&mut self) -> Top {
        let counters = self.counters.drain();
        let mut counters: Vec<Counter> =
            counters.map(|(key, Count { count, error })| Counter { key, count, error }).collect();
        counters.sort_by_key(|counter| Reverse(counter.count));
        Top::of(counters).unwrap_or_default()
    }

    /// Forgets the key that was counted least. How often that was.
    fn forget_least(&mut self) -> u64 {
        let least = self.counters.iter().min_by_key(|(_, count)| count.count);
        let Some((key, count)) = least.map(|(key, count)| (key.clone(), count.count)) else {
            return 0;
        };
        self.counters.remove(&key);
        count
    }
}
