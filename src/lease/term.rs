//! How long a lease lasts, and on which steps of time it ends.

use crate::clock::Timestamp;

/// The longest that a lease may last without being renewed, in microseconds: a day.
pub const LONGEST_TERM_US: u64 = 86_400_000_000;

/// Into how many steps the time of a lease is divided, at least. More would make deadlines finer, and
/// states larger, which hold a number for each step that has slots in flight.
const STEPS: u64 = 32;

/// How long a lease lasts unless it is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// In microseconds, from 1 to [`LONGEST_TERM_US`].
    length_us: u64,
}

impl Default for Term {
    /// A minute.
    fn default() -> Self {
        Self { length_us: 60_000_000 }
    }
}

impl Term {
    /// A term of so many microseconds; what is shorter than one is one, what is longer than a day a day.
    pub fn of_micros(length_us: u64) -> Self {
        Self { length_us: length_us.clamp(1, LONGEST_TERM_US) }
    }

    /// Its length in microseconds.
    pub const fn as_micros(self) -> u64 {
        self.length_us
    }

    /// Its length as a rule file writes it: `60s`, or `250ms`.
    pub fn in_words(self) -> String {
        if self.length_us.is_multiple_of(1_000_000) {
            format!("{}s", self.length_us / 1_000_000)
        } else {
            format!("{}ms", self.length_us.div_ceil(1_000))
        }
    }

    /// The steps on which leases of this term end, in microseconds: a power of two, so that shorter terms
    /// end on the steps of longer ones, and a 32nd of the term or less.
    pub const fn step_us(self) -> u64 {
        match (self.length_us / STEPS).checked_ilog2() {
            None => 1,
            Some(power) => 1 << power,
        }
    }

    /// When a lease ends that begins, or is renewed, now: after its whole term, and up to a step later.
    pub fn deadline(self, now: Timestamp) -> Timestamp {
        let step_us = self.step_us();
        Timestamp::from_micros((now + self.length_us).as_micros().div_ceil(step_us) * step_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_its_term_and_a_32nd_more_at_most() {
        for length_us in [1, 31, 32, 999, 1_000_000, 60_000_000, LONGEST_TERM_US] {
            let term = Term::of_micros(length_us);
            for now_us in [0, 1, 12_345, 1_800_000_000_123_457] {
                let now = Timestamp::from_micros(now_us);
                let lasts_us = term.deadline(now) - now;
                assert!((length_us..=length_us + length_us / 32).contains(&lasts_us));
            }
        }
    }
}
