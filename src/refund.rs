//! To give back charges after a timeout: their callers were answered without the store, and it charged them
//! nevertheless.
//!
//! What has come back by itself since a charge is not given back as well: how much that is, the limiter says
//! ([`RateLimit::credit`](crate::limiter::RateLimit::credit)).
//!
//! [`refund`] is the atomic step, which is `lua/refund.lua` in Lua.

#[cfg(test)]
mod tests;

use crate::{
    clock::Timestamp,
    grant::Change,
    limiter::{Limit, State},
};

/// Charges to give back to one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    /// The limit by which they were charged.
    pub limit: Limit,
    /// How much was charged, and when, by the store's clock.
    pub charges: Vec<(u64, Timestamp)>,
}

/// The atomic step: for each refund, the state that it is about. Returns how many charges of each are not given back,
/// and what becomes of the state; `None` where it stays as it is.
pub fn refund(
    refunds: &[Refund],
    stored: &[Option<State>],
    now: Timestamp,
) -> (Vec<usize>, Vec<Option<Change>>) {
    refunds.iter().zip(stored).map(|(refund, stored)| refund.apply(stored.as_ref(), now)).unzip()
}

impl Refund {
    fn apply(&self, stored: Option<&State>, now: Timestamp) -> (usize, Option<Change>) {
        let (mut credited, mut void) = (None, 0);
        for charge in &self.charges {
            let state = credited.as_ref().or(stored);
            match state.and_then(|state| self.limit.credit(state, now, *charge)) {
                Some(state) => credited = Some(state),
                None => void += 1,
            }
        }
        let changed = credited.filter(|state| Some(state) != stored);
        let change = changed.map(|state| match self.limit.expires_at(&state) {
            Some(_) => Change::Credited(state),
            None => Change::Forgotten,
        });
        (void, change)
    }
}
