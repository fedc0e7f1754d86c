//! Grants: a replica takes a slice of tokens out of a shared bucket ahead of need, spends it by itself, and gives
//! back what it does not need. So a request need not wait for the store, and hundreds cost it one call.
//!
//! Tokens are taken before they are spent, so no more are spent than the bucket gave out. They may be spent for so
//! long after, `max_age`; and of what comes back, only that is credited which has not been refilled meanwhile:
//!
//! ```text
//!     the bucket   ├──────────────── left ────────────────┤▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒┤ burst
//!                                                         └── in some hand ──┘
//!                                            refill ─────▶ ◀── not credited any more
//! ```
//!
//! So what is left and what may still be credited are together never more than the burst, as they were when the
//! slice was taken: the refill adds to the one and takes from the other. Whatever is spent in a time of t was
//! in the bucket `max_age` before it, or could be credited to it, or was refilled since: all replicas
//! together never admit more than `burst + rate × (t + max_age)`.
//!
//! The price is that tokens in the hand of one replica are refused by others, and that those which are lost with
//! it, or come back late, come back by the refill alone.
//!
//! [`grant`] is the atomic step, which `lua/grant.lua` is in Lua; [`Hand`] is what a replica has of one bucket.

mod demand;
mod hand;
#[cfg(test)]
mod tests;

pub use hand::{Hand, Short};

use crate::{
    clock::Timestamp,
    limiter::{Cost, Limit, State, Wait, token_bucket},
    verdict::{Kept, Write},
};

/// What a replica asks of one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The bucket.
    pub limit: token_bucket::Limit,
    /// So many tokens come back that were handed out and not spent.
    pub returned: u64,
    /// When the oldest of them were, by the store's clock.
    pub since: Timestamp,
    /// So many more are asked for.
    pub wanted: u64,
}

/// What it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Tokens handed out.
    pub tokens: u64,
    /// Whole tokens that are left there.
    pub remaining: u64,
    /// Microseconds until there is one more, if nobody takes any; 0 where it is full.
    pub next_in_us: u64,
}

/// The atomic step: for each bucket, what stands there, and what is asked of it. Returns what is given, and what to
/// write.
pub fn grant(asks: &[Ask], stored: &[Option<State>], now: Timestamp) -> (Vec<Granted>, Vec<Write>) {
    let (mut all, mut writes) = (Vec::with_capacity(asks.len()), Vec::new());
    for (slot, (ask, stored)) in asks.iter().zip(stored).enumerate() {
        let (granted, state) = grant_one(ask, stored.as_ref(), now);
        all.push(granted);
        if let Some(state) = state.filter(|state| stored.as_ref() != Some(state)) {
            let limit = Limit::TokenBucket(ask.limit);
            let kept = limit.fresh_at(&state).map(|fresh_at| {
                let refill_us = limit.refill_us();
                Kept { state, fresh_at, refill_us }
            });
            // To forget what was never stored is to do nothing.
            if kept.is_some() || stored.is_some() {
                writes.push(Write { slot, kept });
            }
        }
    }
    (all, writes)
}

fn grant_one(ask: &Ask, stored: Option<&State>, now: Timestamp) -> (Granted, Option<State>) {
    let limit = Limit::TokenBucket(ask.limit);
    let pulled_back = stored.and_then(|state| limit.pulled_back(state, now));
    let mut state = pulled_back.or_else(|| stored.cloned());
    let bucket = state.as_ref().and_then(State::token_bucket);
    let credited = ask.limit.give_back(bucket, now, (ask.returned, now - ask.since));
    state = credited.map(State::TokenBucket).or(state);
    let tokens = ask.wanted.min(limit.remaining(state.as_ref(), now));
    if tokens > 0 {
        state = limit.check(state.as_ref(), now, Cost::Take(tokens)).state;
    }
    let remaining = limit.remaining(state.as_ref(), now);
    let next_in_us = match limit.check(state.as_ref(), now, Cost::Take(remaining + 1)).over {
        Some(Wait::Micros(micros)) => micros,
        _ => 0,
    };
    (Granted { tokens, remaining, next_in_us }, state)
}
