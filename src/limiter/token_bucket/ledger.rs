//! Giving back the unspent part of a chunk that a replica took ahead of need.
//!
//! It must not bring back what others may have taken meanwhile. The refill since the charge has come back by itself, so
//! it is not credited as well. How much that is follows from what was charged since. Split `used` into one part for
//! each charge, and let the refill use up the oldest part first:
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
//! The instant of the state stays: the refill that is not counted yet is counted later.

use super::{Limit, State};
use std::num::NonZeroU64;

/// The highest sum of charges that is kept: a Lua number holds it exactly.
const MOST_CHARGED: u64 = 1 << 53;

/// The same in Lua.
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
    /// The ledger as it stood directly after they were charged.
    pub ledger: Ledger,
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

    /// The state that is left once tokens have come back; `None` where the claim is void.
    pub fn give_back(&self, state: State, Returned { tokens, ledger }: Returned) -> Option<State> {
        let current = state.ledger.filter(|current| current.since == ledger.since)?;
        let charged_since = current.charged.checked_sub(ledger.charged)?;
        // As long as the ledger is the same, so is the unit.
        let own = tokens.saturating_mul(state.grains_per_token);
        let credit = own.min(state.used.saturating_sub(charged_since));
        Some(State { used: state.used - credit, ..state })
    }
}
