//! What is in flight under one limit: how many slots come back at which instant.
//!
//! ```text
//!        now          deadlines, on steps of time
//!   ──────┼──────┬──────┬─────────────┬──────▶
//!         │      3      1             20         slots that come back there by themselves
//! ```
//!
//! Slots whose instant has passed are not in flight any more, whether or not anybody has removed them. So
//! what is in flight is the sum of what stands right of now, which is a few numbers however many leases
//! there are. To give back is to subtract at the lease's deadline, to renew is to move to a later one.
//!
//! It is a timing wheel (Varghese and Lauck, 1987) that keeps counts in place of timers: when a step has
//! passed, nobody needs to know whose slots they were.

use super::{LONGEST_TERM_US, Term};
use crate::clock::Timestamp;

/// The most slots that are counted: what a Lua number holds exactly.
const MOST: u64 = 1 << 53;

/// How far ahead of the clock a deadline may lie beyond the longest lease, in microseconds, before it is
/// taken for a mistake: a clock may be set back by so much.
const MOST_AHEAD_US: u64 = 60_000_000;

/// What is in flight under one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// When it began: when the first slot was taken since there was none. It tells this from another
    /// under the same key, which was there before somebody deleted it.
    pub since: Timestamp,
    /// Deadlines ascending, none twice, none without slots.
    pub buckets: Vec<Bucket>,
}

/// Slots that come back at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// When.
    pub deadline: Timestamp,
    /// How many.
    pub slots: Slots,
}

/// So many slots, critical requests' apart from all others'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slots {
    /// Of critical requests.
    pub critical: u64,
    /// Of all others.
    pub others: u64,
}

impl Slots {
    /// So many, all critical or none.
    pub fn of(count: u64, critical: bool) -> Self {
        let count = count.min(MOST);
        if critical {
            Self { critical: count, others: 0 }
        } else {
            Self { critical: 0, others: count }
        }
    }

    /// All of them.
    pub const fn total(self) -> u64 {
        self.critical.saturating_add(self.others)
    }

    const fn is_none(self) -> bool {
        self.critical == 0 && self.others == 0
    }

    fn plus(self, more: Self) -> Self {
        Self {
            critical: self.critical.saturating_add(more.critical).min(MOST),
            others: self.others.saturating_add(more.others).min(MOST),
        }
    }

    const fn minus(self, fewer: Self) -> Self {
        Self {
            critical: self.critical.saturating_sub(fewer.critical),
            others: self.others.saturating_sub(fewer.others),
        }
    }
}

impl InFlight {
    /// What of a state is in flight now. Where nothing is, it begins now.
    #[must_use]
    pub fn live(state: Option<&Self>, now: Timestamp) -> Self {
        let Some(state) = state else { return Self::none(now) };
        let live = state.buckets.iter().filter(|bucket| bucket.deadline > now);
        let buckets: Vec<_> = live.copied().collect();
        if buckets.is_empty() { Self::none(now) } else { Self { since: state.since, buckets } }
    }

    const fn none(now: Timestamp) -> Self {
        Self { since: now, buckets: Vec::new() }
    }

    /// The same state, with those deadlines pulled back that lie too far ahead to be true; `None` where
    /// none do.
    #[must_use]
    pub fn pulled_back(&self, term: Term, now: Timestamp) -> Option<Self> {
        let last = now + LONGEST_TERM_US + LONGEST_TERM_US / 32 + MOST_AHEAD_US;
        if self.empty_at().is_none_or(|deadline| deadline <= last) {
            return None;
        }
        let mut pulled = Self { since: self.since, buckets: Vec::new() };
        for bucket in &self.buckets {
            let is_absurd = bucket.deadline > last;
            pulled.add(if is_absurd { term.deadline(now) } else { bucket.deadline }, bucket.slots);
        }
        Some(pulled)
    }

    /// All slots in flight; of a state that is live.
    pub fn slots(&self) -> Slots {
        self.buckets.iter().fold(Slots::default(), |sum, bucket| sum.plus(bucket.slots))
    }

    /// When the last slot comes back by itself; `None` where none is out.
    pub fn empty_at(&self) -> Option<Timestamp> {
        self.buckets.last().map(|bucket| bucket.deadline)
    }

    /// The first instant at which what is then left in flight, when nobody gives anything back, is what
    /// `fits` asks for; `None` where it never is. `state` is live.
    pub fn fits_at(&self, fits: impl Fn(Slots) -> bool) -> Option<Timestamp> {
        let mut left = self.slots();
        for bucket in &self.buckets {
            left = left.minus(bucket.slots);
            if fits(left) {
                return Some(bucket.deadline);
            }
        }
        None
    }

    /// Takes slots until a deadline.
    pub fn add(&mut self, deadline: Timestamp, slots: Slots) {
        match self.buckets.binary_search_by_key(&deadline, |bucket| bucket.deadline) {
            Ok(place) => {
                if let Some(bucket) = self.buckets.get_mut(place) {
                    bucket.slots = bucket.slots.plus(slots);
                }
            }
            Err(place) => self.buckets.insert(place, Bucket { deadline, slots }),
        }
    }

    /// Gives slots back that were taken until a deadline. Where deadlines were pulled back, it is the last
    /// one; where fewer are there, it is those.
    pub fn remove(&mut self, deadline: Timestamp, slots: Slots) {
        let Some(last) = self.empty_at() else { return };
        let deadline = deadline.min(last);
        let found = self.buckets.binary_search_by_key(&deadline, |bucket| bucket.deadline);
        let Ok(place) = found else { return };
        if let Some(bucket) = self.buckets.get_mut(place) {
            bucket.slots = bucket.slots.minus(slots);
            if bucket.slots.is_none() {
                self.buckets.remove(place);
            }
        }
    }

    /// Whether so many slots are there that come back at a deadline, or at the last one before it.
    pub fn has(&self, deadline: Timestamp, slots: Slots) -> bool {
        let Some(last) = self.empty_at() else { return false };
        let deadline = deadline.min(last);
        let found = self.buckets.binary_search_by_key(&deadline, |bucket| bucket.deadline);
        let there = found.ok().and_then(|place| self.buckets.get(place));
        there.is_some_and(|there| {
            there.slots.critical >= slots.critical && there.slots.others >= slots.others
        })
    }
}
