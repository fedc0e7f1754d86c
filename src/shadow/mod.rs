//! What limits in shadow mode would have refused: what share of the requests that they met, and whom most.
//!
//! It is for whoever launches a limit: first in shadow, where it is checked and charged like any other but
//! refuses nobody; and enforced once the report says that it would refuse those it is meant for.
//!
//! Each process counts for itself ([`Tally`] how many, [`Sketch`] whom), and adds what is new to the store every
//! other second. There it stands in [`Slots`] of time, until it is older than a day. All of it is bounded: a
//! sketch keeps the heaviest of any number of keys, and what it says of one is never more than the truth.
//!
//! [`Tally`]: crate::rules::Tally

mod sketch;
mod slots;
mod top;

pub use sketch::Sketch;
pub use slots::{PLACES, Slot, Slots, Window};
pub use top::{Counter, MOST_COUNTERS, Top};

use std::ops::AddAssign;

/// How many requests a limit in shadow met, by what it did to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// It did not stand in the way.
    pub allowed: u64,
    /// It would have refused them.
    pub would_refuse: u64,
    /// Nobody knows: the store did not decide.
    pub degraded: u64,
}

impl Counts {
    /// How many were decided.
    pub const fn decided(&self) -> u64 {
        self.allowed.saturating_add(self.would_refuse)
    }

    /// Which share of those it would have refused, 1 being all; `None` where none was decided.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub fn share(&self) -> Option<f64> {
        let decided = self.decided();
        (decided > 0).then(|| self.would_refuse as f64 / decided as f64)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.allowed = self.allowed.saturating_add(other.allowed);
        self.would_refuse = self.would_refuse.saturating_add(other.would_refuse);
        self.degraded = self.degraded.saturating_add(other.degraded);
    }
}

/// What a limit in shadow did for a while.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// To how many requests.
    pub counts: Counts,
    /// Whom it would have refused most.
    pub top: Top,
}

impl Seen {
    /// Whether it did nothing.
    pub fn is_empty(&self) -> bool {
        self.counts == Counts::default() && self.top.counters().is_empty()
    }

    /// Adds what it did for another while.
    pub fn add(&mut self, other: &Self) {
        self.counts += other.counts;
        self.top.merge(&other.top);
    }
}
