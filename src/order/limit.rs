//! Limits that are set at run time for one counter of a rule.

use crate::limiter::{
    Limit, concurrency,
    token_bucket::{self, Rate},
};
use serde::{Deserialize, Serialize};

/// A limit for one counter of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetLimit {
    /// The path of the rule.
    pub rule: String,
    /// How much is let pass.
    pub amount: Amount,
    /// When it ends, by the store's clock in microseconds; `None` for when it is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_us: Option<u64>,
}

/// How much a limit lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Amount {
    /// So many tokens a period, and so many at once.
    Rate {
        /// Tokens a period.
        tokens: u32,
        /// The period, in microseconds.
        period_us: u64,
        /// How many at once.
        burst: u32,
    },
    /// So many requests in flight.
    InFlight {
        /// How many.
        max: u32,
    },
}

impl SetLimit {
    /// Whether this is the text of a limit whose time is over. `now_us` is the time by the store's clock.
    pub fn is_over(text: &str, now_us: u64) -> bool {
        let set = serde_json::from_str::<Self>(text).ok();
        set.and_then(|set| set.until_us).is_some_and(|until_us| until_us <= now_us)
    }
}

impl Amount {
    /// Whether a limit can have it: a store may hold what nobody has checked.
    pub(super) const fn is_sound(&self) -> bool {
        match self {
            Self::Rate { period_us, .. } => *period_us > 0,
            Self::InFlight { .. } => true,
        }
    }

    /// The limit with this amount in the place of its own; `None` where it is of another kind.
    pub fn applied_to(self, limit: Limit) -> Option<Limit> {
        match (self, limit) {
            (Self::Rate { tokens, period_us, burst }, Limit::TokenBucket(limit)) => {
                let set = token_bucket::Limit::new(Rate { tokens, period_us }, burst);
                let set = if limit.overdraw() { set.with_overdraw() } else { set };
                let set = set.with_grants(limit.grants());
                Some(Limit::TokenBucket(set))
            }
            (Self::InFlight { max }, Limit::Concurrency(limit)) => {
                Some(Limit::Concurrency(concurrency::Limit { max, ..limit }))
            }
            _ => None,
        }
    }
}
