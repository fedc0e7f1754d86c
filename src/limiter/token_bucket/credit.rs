//! Giving back a charge whose caller had been answered without it.
//!
//! The refill since the charge, rate × time rounded up, has come back by itself and is not credited. This holds only
//! where burst and unit are those of the charge, and where the clock has not been set back since. The instant of the
//! state stays: the refill that is not counted yet is counted later.

use super::{Limit, State};
use crate::clock::Timestamp;

impl Limit {
    /// The state once it has back what is left of a charge of that instant; `None` where that is not known.
    pub(super) fn credit(
        &self,
        state: &State,
        now: Timestamp,
        (tokens, at): (u64, Timestamp),
    ) -> Option<State> {
        let is_same_unit = state.grains_per_token == self.grains.per_token;
        let is_clock_set_back = now < at || now < state.updated;
        // A debt may have been cut off at its floor.
        if self.overdraw || !is_same_unit || is_clock_set_back {
            return None;
        }
        let own = tokens.min(self.burst.into()) * self.grains.per_token;
        let steps = (now - at).div_ceil(self.grains.step_us);
        let credit = own.saturating_sub(steps.saturating_mul(self.grains.per_step));
        // Less is used, or was charged: the state was reset, cut or lost since.
        let is_charged = state.ledger.is_none_or(|ledger| ledger.charged >= own);
        let used = state.used.checked_sub(credit).filter(|_| is_charged)?;
        Some(State { used, ..*state })
    }
}
