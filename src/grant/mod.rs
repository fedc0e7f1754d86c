//! Grants: a replica takes a slice of tokens out of a shared bucket ahead of need, spends it by itself, and gives
//! back what it does not need. So a request need not wait for the store, and hundreds cost it one call.
//!
//! Tokens are taken before they are spent, so no more are spent than the bucket gave out. They may be spent for so
//! long after, `max_age`; and of what comes back, only that is credited which has not been refilled meanwhile
//! (`limiter/token_bucket/ledger.rs`): each chunk is claimed by what the bucket has been charged since, so that this
//! holds also where the limit was changed or the clock was set back. So all replicas together never admit more than
//! `burst + rate × (t + max_age)`, and what callers give back.
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
    limiter::{
        Cost, Limit, State, Wait,
        token_bucket::{self, Ledger, Returned},
    },
    verdict::Kept,
};
use std::num::NonZeroU64;

/// What a replica asks of one bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The bucket.
    pub limit: token_bucket::Limit,
    /// Tokens that come back, each chunk by itself.
    pub returned: Vec<Returned>,
    /// So many more are asked for.
    pub wanted: u64,
    /// A number drawn for this ask: its ledger, where the bucket has none yet.
    pub drawn: NonZeroU64,
}

impl Ask {
    /// How many tokens come back.
    pub fn tokens_returned(&self) -> u64 {
        self.returned.iter().map(|returned| returned.tokens).sum()
    }
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
    /// By which what was handed out may be given back.
    pub ledger: Option<Ledger>,
    /// Tokens that came back by a claim that does not hold, and were not credited.
    pub void: u64,
}

/// What becomes of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is kept for as long as its limit says.
    Written(Kept),
    /// Something came back, and nothing else: it is kept for as long as before.
    Credited(State),
    /// It is forgotten.
    Forgotten,
    /// Nothing, but that it is kept until then, where it would be forgotten before.
    Extended(Timestamp),
}

/// The atomic step: for each bucket, what stands there, and what is asked of it. Returns what is given, and what becomes
/// of it; `None` where it stays as it is.
pub fn grant(
    asks: &[Ask],
    stored: &[Option<State>],
    now: Timestamp,
) -> (Vec<Granted>, Vec<Option<Change>>) {
    asks.iter().zip(stored).map(|(ask, stored)| grant_one(ask, stored.as_ref(), now)).unzip()
}

fn grant_one(ask: &Ask, stored: Option<&State>, now: Timestamp) -> (Granted, Option<Change>) {
    let limit = Limit::TokenBucket(ask.limit);
    let (mut state, void) = take_back(ask, stored.and_then(State::token_bucket));
    let (wanted, mut tokens) = (ask.wanted.min(ask.limit.burst().into()), 0);
    if wanted > 0 {
        state = state.map(|state| state.pulled_back(now).unwrap_or(state));
        tokens = wanted.min(ask.limit.remaining(state, now));
    }
    if tokens > 0 {
        let taken = ask.limit.check(state, now, Cost::Take(tokens)).state;
        state = taken.map(|state| ask.limit.with_ledger(state, tokens, ask.drawn));
    }
    let ledger = state.and_then(|state| state.ledger).filter(|_| tokens > 0);
    // An instant that lies too far ahead to be true is not believed, also where nothing is written.
    let seen = state.map(|state| state.pulled_back(now).unwrap_or(state));
    let remaining = ask.limit.remaining(seen, now);
    let next_in_us = match ask.limit.check(seen, now, Cost::Take(remaining + 1)).over {
        Some(Wait::Micros(micros)) => micros,
        _ => 0,
    };
    let full_in_us = ask.limit.full_in_us(seen, now);
    let state = state.map(State::TokenBucket);
    if state.as_ref() == stored {
        let extends = state.is_some() && wanted > 0 && full_in_us > 0;
        let change = extends.then(|| Change::Extended(now + full_in_us));
        return (Granted { tokens, remaining, next_in_us, ledger, void }, change);
    }
    let change = state.map(|state| match (limit.expires_at(&state), tokens) {
        (Some(fresh_at), 1..) => {
            Change::Written(Kept { state, fresh_at, refill_us: limit.refill_us() })
        }
        _ if state.token_bucket().is_some_and(|state| state.used > 0) => Change::Credited(state),
        _ => Change::Forgotten,
    });
    (Granted { tokens, remaining, next_in_us, ledger, void }, change)
}

/// The state once it has back what comes back, and how many tokens are not credited.
fn take_back(
    ask: &Ask,
    mut state: Option<token_bucket::State>,
) -> (Option<token_bucket::State>, u64) {
    let mut void = 0;
    for returned in &ask.returned {
        match state.and_then(|state| ask.limit.give_back(state, *returned)) {
            Some(credited) => state = Some(credited),
            None => void += returned.tokens,
        }
    }
    (state, void)
}
