//! Fleet usage: a share of a pool's capacity is kept for critical requests.
//!
//! A pool has `capacity` slots. Every request in flight holds one, critical or not. Critical requests are
//! never refused here; the others are while they would leave less than the reserve:
//!
//! ```text
//!   0                                             capacity
//!   ├── others ──▶│                │◀── max(reserved, critical in flight) ──┤
//! ```
//!
//! So what critical requests hold fills the reserve first, and beyond it takes the room of the others.
//!
//! This is the fleet usage load shedder of Paul Tarjan, "Scaling your API with rate limiters" (Stripe,
//! 2017), but with critical requests counted: a reserve that nobody measures holds only by luck.

mod script;
#[cfg(test)]
mod tests;

pub use script::SCRIPT;

use crate::{
    lease::{Slots, Term},
    limiter::SlotLimit,
};

/// All of it, in parts: the unit in which shares are written.
pub const WHOLE_PARTS: u32 = 1_000_000;

/// The parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How many slots the pool has.
    pub capacity: u32,
    /// The share of them that is kept for critical requests, in millionths, at most [`WHOLE_PARTS`].
    pub reserved_parts: u32,
    /// Whether the requests that meet this limit are critical.
    pub critical: bool,
    /// How long a lease lasts unless it is renewed.
    pub term: Term,
    /// Whether a request takes as many slots as it has hits, and not one.
    pub weighs_hits: bool,
}

impl Limit {
    /// How many slots are kept for critical requests: of a slot that is reserved in part, others may have
    /// the rest.
    pub fn reserved(&self) -> u64 {
        u64::from(self.capacity) * u64::from(self.reserved_parts) / u64::from(WHOLE_PARTS)
    }

    /// The most slots that the requests which meet this limit are promised.
    pub fn amount(&self) -> u32 {
        let amount = self.free(Slots::default());
        u32::try_from(amount).unwrap_or(u32::MAX)
    }

    /// Its promise, for people: `1000 in flight, 200 of them reserved`.
    pub fn in_words(&self) -> String {
        let (capacity, reserved) = (self.capacity, self.reserved());
        match self.critical {
            true => format!("critical among {capacity} in flight, {reserved} of them reserved"),
            false => format!("{capacity} in flight, {reserved} of them reserved"),
        }
    }

    /// Its parameters as JSON, named as in a rule file.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "capacity": self.capacity,
            "reserved": f64::from(self.reserved_parts) / f64::from(WHOLE_PARTS),
            "lease_ttl": self.term.in_words(),
            "critical": self.critical,
            "weight": self.weighs_hits.then_some("hits"),
        })
    }
}

impl SlotLimit for Limit {
    fn term(&self) -> Term {
        self.term
    }

    fn free(&self, taken: Slots) -> u64 {
        let kept = if self.critical { taken.critical } else { self.reserved().max(taken.critical) };
        u64::from(self.capacity).saturating_sub(kept.saturating_add(taken.others))
    }

    fn is_critical(&self) -> bool {
        self.critical
    }

    fn only_counts(&self) -> bool {
        self.critical
    }
}
