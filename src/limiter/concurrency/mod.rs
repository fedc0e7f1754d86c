//! Concurrency: so many requests in flight.
//!
//! At most `max` slots are taken at a time. A request takes one, or as many as it has hits where the rule
//! weighs them, and holds them under a lease until it ends; a lease that nobody gives back ends by itself
//! at its deadline. What is in flight is counted by deadlines, see [`crate::lease::InFlight`].
//!
//! This is the concurrent requests limiter of Paul Tarjan, "Scaling your API with rate limiters" (Stripe,
//! 2017), with a lease for each request in place of a sorted set of all of them.

mod script;
#[cfg(test)]
mod tests;

pub use script::SCRIPT;

use crate::{
    lease::{Slots, Term},
    limiter::SlotLimit,
};

/// The parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How many slots there are.
    pub max: u32,
    /// How long a lease lasts unless it is renewed.
    pub term: Term,
    /// Whether a request takes as many slots as it has hits, and not one.
    pub weighs_hits: bool,
}

impl Limit {
    /// Its promise, for people: `20 in flight`.
    pub fn in_words(&self) -> String {
        format!("{} in flight", self.max)
    }

    /// Its parameters as JSON, named as in a rule file.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "max": self.max,
            "lease_ttl": self.term.in_words(),
            "weight": self.weighs_hits.then_some("hits"),
        })
    }
}

impl SlotLimit for Limit {
    fn term(&self) -> Term {
        self.term
    }

    fn free(&self, taken: Slots) -> u64 {
        u64::from(self.max).saturating_sub(taken.total())
    }
}
