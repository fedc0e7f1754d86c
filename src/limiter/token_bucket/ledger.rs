//! Giving back what was charged and not used: the unspent part of a chunk, or a charge whose caller had been answered
//! without it.
//!
//! A refund must not bring back what others may have taken meanwhile. The refill since the charge has come back by
//! itself, so it is not credited as well. How much that is, is known in one of two ways ([`Claim`]).
//!
//! **By what was charged since.** Split `used` into one part for each charge, and let the refill use up the oldest part
//! first:
//!
//! ```text
//!     used   ├── older ──┤▒▒▒ own ▒▒▒├──── charged since ────┤
//!              ◄── drains
//! ```
//!
//! Then what is left of the own part is at most `used − charged since`, and at most the charge itself. A refund of the
//! lower of the two takes from no other part. This needs no clock and no rate, so it holds whatever was changed and
//! however the clock moved. It needs a [`Ledger`] in the state: an identity, drawn at random, and the sum of all
//! charges since. Whatever cuts `used`, or changes its unit, drops the ledger; a state that was lost has none. A claim on
//! a ledger that is gone is void.
//!
//! **By time**, for states without a ledger: the refill since the charge is rate × time, rounded up. This holds only
//! where rate, burst and unit are those of the charge, and the clock has not been set back since.
//!
//! Both leave the instant of the state alone: the refill that is not counted yet is counted later.

use super::{Limit, State};
use crate::clock::Timestamp;
use std::num::NonZeroU64;

/// The highest sum of charges that is kept: a Lua number holds it exactly.
const MOST_CHARGED: u64 = 1 << 53;

/// Giving back, in Lua.
pub const LEDGER_SCRIPT: &str = include_str!("../../../lua/token_bucket/ledger.lua");

/// What has been charged to a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// Which ledger it is: a number drawn when it began.
    pub since: NonZeroU64,
    /// The sum of all charges since, in grains. Refunds leave it alone.
    pub charged: u64,
}

/// Tokens that come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// How many.
    pub tokens: u64,
    /// By what they are claimed.
    pub claim: Claim,
}

/// How it is known what has been refilled since a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// By the ledger, as it stood directly after the charge.
    Charged(Ledger),
    /// By the instant of the charge, by the store's clock.
    At(Timestamp),
}

impl Ledger {
    /// The same ledger after a further charge. `None` where the sum would be too high.
    pub(super) fn charged_with(self, charge: u64) -> Option<Self> {
        let charged = self.charged.checked_add(charge)?;
        (charged <= MOST_CHARGED).then_some(Self { charged, ..self })
    }
}

impl Limit {
    /// The state with a ledger: where it has none, one of this number begins with the tokens that were charged last.
    #[must_use]
    pub fn with_ledger(&self, state: State, tokens: u64, since: NonZeroU64) -> State {
        let charged = tokens.saturating_mul(self.grains.per_token);
        let ledger = state.ledger.unwrap_or(Ledger { since, charged });
        State { ledger: Some(ledger), ..state }
    }

    /// The state that a refund leaves, and whether the claim holds.
    pub fn give_back(&self, state: State, now: Timestamp, returned: Returned) -> (State, bool) {
        let credit = match returned.claim {
            Claim::Charged(ledger) => Self::credit_by_charges(&state, returned.tokens, ledger),
            Claim::At(at) => self.credit_by_time(&state, now, (returned.tokens, at)),
        };
        let used = state.used.saturating_sub(credit.unwrap_or(0));
        (State { used, ..state }, credit.is_some())
    }

    /// The grains to credit; `None` where the claim is void.
    fn credit_by_charges(state: &State, tokens: u64, claimed: Ledger) -> Option<u64> {
        let ledger = state.ledger.filter(|ledger| ledger.since == claimed.since)?;
        let charged_since = ledger.charged.checked_sub(claimed.charged)?;
        // As long as the ledger is the same, so is the unit.
        let own = tokens.saturating_mul(state.grains_per_token);
        Some(own.min(state.used.saturating_sub(charged_since)))
    }

    /// The same by time. A debt has been cut off at its floor, perhaps; so nothing is known of it.
    fn credit_by_time(
        &self,
        state: &State,
        now: Timestamp,
        (tokens, at): (u64, Timestamp),
    ) -> Option<u64> {
        let is_same_unit = state.grains_per_token == self.grains.per_token;
        let is_clock_set_back = now < at || now < state.updated;
        if self.overdraw || !is_same_unit || is_clock_set_back {
            return None;
        }
        let own = tokens.min(self.burst.into()) * self.grains.per_token;
        let steps = (now - at).div_ceil(self.grains.step_us);
        let credit = own.saturating_sub(steps.saturating_mul(self.grains.per_step));
        // Less is used, or was charged: the state was reset, cut or lost since.
        let is_there = credit <= state.used;
        let is_charged = state.ledger.is_none_or(|ledger| ledger.charged >= own);
        (is_there && is_charged).then_some(credit)
    }
}
