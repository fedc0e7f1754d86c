//! Concurrency: so many requests in flight.
//!
//! At most `max` slots are taken at a time. A request takes one, or as many as it has hits where the rule
//! weighs them, and holds them under a lease until it ends; a lease that nobody gives back ends by itself
//! at its deadline. What is in flight is counted by deadlines, see [`crate::lease::InFlight`].
//!
//! This is the concurrent requests limiter of Paul Tarjan, "Scaling your API with rate limiters" (Stripe,
//! 2017), with a lease for each request in place of a sorted set of all of them.

mod config;
#[cfg(test)]
mod samples;

use crate::{
    lease::{Slots, Term},
    limiter::{Limiter, Properties, Setting, SlotLimit},
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

impl Limiter for Limit {
    const NAME: &'static str = "concurrency";
    const NOUN: &'static str = "concurrency limit";
    const SCRIPT: &'static str = include_str!("../../../lua/concurrency/limit.lua");
    const PROPERTIES: Properties = Properties { may_be_set: true, ..Properties::OF_SLOTS };
    const HOW_TO_SET: &'static str = "give it --max";

    #[expect(clippy::cast_precision_loss, reason = "the microseconds of a day are fewer than 2^53")]
    fn push_arguments(&self, to: &mut Vec<f64>) {
        to.extend([self.max.into(), self.term.as_micros() as f64]);
    }

    /// `20 in flight`.
    fn in_words(&self) -> String {
        format!("{} in flight", self.max)
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "max": self.max,
            "lease_ttl": self.term.in_words(),
            "weight": self.weighs_hits.then_some("hits"),
        })
    }

    fn amount(&self) -> Option<u32> {
        Some(self.max)
    }

    fn set(self, to: Setting) -> Option<Self> {
        let Setting { rate: None, burst: None, max: Some(max) } = to else { return None };
        Some(Self { max, ..self })
    }
}

impl SlotLimit for Limit {
    fn term(&self) -> Term {
        self.term
    }

    fn with_term(self, term: Term) -> Self {
        Self { term, ..self }
    }

    fn weighs_hits(&self) -> bool {
        self.weighs_hits
    }

    fn free(&self, taken: Slots) -> u64 {
        u64::from(self.max).saturating_sub(taken.total())
    }
}
