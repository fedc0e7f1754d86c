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

mod config;
#[cfg(test)]
mod samples;

use crate::{
    clock::Timestamp,
    lease::{Slots, Term},
    limiter::{Limiter, Properties, Setting, SlotLimit, Wait},
    unit::WHOLE_PARTS,
    worker::Workers,
};

/// The parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How many slots the pool has.
    pub capacity: Capacity,
    /// The share of them that is kept for critical requests, in millionths, at most [`WHOLE_PARTS`].
    pub reserved_parts: u32,
    /// Whether the requests that meet this limit are critical.
    pub critical: bool,
    /// How long a lease lasts unless it is renewed.
    pub term: Term,
    /// Whether a request takes as many slots as it has hits, and not one.
    pub weighs_hits: bool,
}

/// How many slots a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// So many.
    Slots(u32),
    /// As many as its workers report.
    Reported {
        /// How long a report is fresh.
        report_ttl: Term,
        /// How many that is, where it is known. Where it is not, everything is admitted: a pool of which
        /// nothing is heard is not refused for that.
        slots: Option<u64>,
    },
}

/// When to ask again for slots that the workers do not have now.
const ASK_AGAIN: Wait = Wait::Micros(1_000_000);

/// What is left of a pool whose capacity nobody knows.
pub const UNKNOWN: u64 = u32::MAX as u64;

impl Capacity {
    /// How many slots there are; `None` where nobody knows.
    pub fn slots(self) -> Option<u64> {
        match self {
            Self::Slots(slots) => Some(slots.into()),
            Self::Reported { slots, .. } => slots,
        }
    }
}

impl Limit {
    /// How many slots are kept for critical requests: of a slot that is reserved in part, others may have
    /// the rest. None of a capacity that nobody knows.
    pub fn reserved(&self) -> u64 {
        self.capacity.slots().unwrap_or(0) * u64::from(self.reserved_parts) / u64::from(WHOLE_PARTS)
    }

    /// Whether its capacity is what workers report.
    pub const fn is_reported(&self) -> bool {
        matches!(self.capacity, Capacity::Reported { .. })
    }
}

impl Limiter for Limit {
    const NAME: &'static str = "fleet";
    const NOUN: &'static str = "fleet limit";
    const SCRIPT: &'static str = include_str!("../../../lua/fleet/limit.lua");
    const PROPERTIES: Properties = Properties { sheds_load: true, ..Properties::OF_SLOTS };
    const HOW_TO_SET: &'static str = "what it allows is said of its pool, in the rule file";

    #[expect(clippy::cast_precision_loss, reason = "the microseconds of a day are fewer than 2^53")]
    fn push_arguments(&self, to: &mut Vec<f64>) {
        let (capacity, report_ttl_us) = match self.capacity {
            Capacity::Slots(slots) => (slots.into(), 0.0),
            Capacity::Reported { report_ttl, .. } => (0.0, report_ttl.as_micros() as f64),
        };
        to.extend([
            capacity,
            self.reserved_parts.into(),
            u8::from(self.critical).into(),
            self.term.as_micros() as f64,
            report_ttl_us,
        ]);
    }

    /// `1000 in flight, 200 of them reserved`.
    fn in_words(&self) -> String {
        let critical = if self.critical { "critical among " } else { "" };
        match self.capacity {
            Capacity::Slots(capacity) => {
                format!("{critical}{capacity} in flight, {} of them reserved", self.reserved())
            }
            Capacity::Reported { .. } => {
                let percent = f64::from(self.reserved_parts) / 10_000.0;
                format!("{critical}as many in flight as workers report, {percent} % reserved")
            }
        }
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "capacity": match self.capacity {
                Capacity::Slots(slots) => slots.into(),
                Capacity::Reported { .. } => serde_json::Value::from("reported"),
            },
            "reserved": f64::from(self.reserved_parts) / f64::from(WHOLE_PARTS),
            "lease_ttl": self.term.in_words(),
            "critical": self.critical,
            "weight": self.weighs_hits.then_some("hits"),
        })
    }

    /// The most slots that the requests which meet this limit are promised; `None` where workers report them.
    fn amount(&self) -> Option<u32> {
        let amount = u32::try_from(self.free(Slots::default())).unwrap_or(u32::MAX);
        (!self.is_reported()).then_some(amount)
    }

    fn set(self, _: Setting) -> Option<Self> {
        None
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
        let Some(capacity) = self.capacity.slots() else { return UNKNOWN };
        let kept = if self.critical { taken.critical } else { self.reserved().max(taken.critical) };
        capacity.saturating_sub(kept.saturating_add(taken.others))
    }

    fn is_critical(&self) -> bool {
        self.critical
    }

    fn only_counts(&self) -> bool {
        self.critical || self.capacity.slots().is_none()
    }

    fn has_reported_capacity(&self) -> bool {
        self.is_reported()
    }

    fn with_reported_capacity(self, workers: Option<&Workers>, now: Timestamp) -> Self {
        let capacity = match self.capacity {
            Capacity::Slots(_) => self.capacity,
            Capacity::Reported { report_ttl, .. } => {
                let slots = Workers::capacity(workers, report_ttl.as_micros(), now);
                Capacity::Reported { report_ttl, slots }
            }
        };
        Self { capacity, ..self }
    }

    fn wait_for_more(&self) -> Wait {
        if self.is_reported() { ASK_AGAIN } else { Wait::Never }
    }
}
