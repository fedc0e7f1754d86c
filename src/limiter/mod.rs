//! The limiters. A limiter is a folder here: what it promises, its parameters, and its algorithm as a
//! pure function of parameters, state, time and cost. This file is the list of them; a new one is a
//! line in each `match`.
//!
//! Nothing in here reads a clock, takes a lock or speaks to anybody.

pub mod token_bucket;

use crate::{clock::Timestamp, unit::Unit};

/// The limiters in Lua, in the order in which `lua/request.lua` lists them.
pub const SCRIPTS: [&str; 1] = [token_bucket::SCRIPT];

/// What a request wants of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Take so much; never 0.
    Take(u64),
    /// Take nothing, but say whether a cost of 1 would pass.
    Peek,
    /// Give so much back.
    Refund(u64),
}

/// When a cost that is over its limit would pass. The longer wait is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// In so many microseconds, if nobody else takes it.
    Micros(u64),
    /// Not ever: it asks for more than the limit holds at its fullest.
    Never,
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked<S> {
    /// The state it leaves; `None` where it leaves things as they were.
    pub state: Option<S>,
    /// When it would pass; `None` where it does.
    pub over: Option<Wait>,
}

/// A limit of any kind: which limiter, and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many requests per second.
    TokenBucket(token_bucket::Limit),
}

/// The state of a limit of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Of a token bucket.
    TokenBucket(token_bucket::State),
}

impl State {
    /// The same state, its instant pulled back to the present if it lies too far ahead to be true.
    #[must_use]
    pub fn pulled_back(self, now: Timestamp) -> Self {
        match self {
            Self::TokenBucket(state) => Self::TokenBucket(state.pulled_back(now)),
        }
    }
}

impl Limit {
    /// The limiter's name, the same in rule files, keys, metrics and folders.
    pub const fn limiter(&self) -> &'static str {
        match self {
            Self::TokenBucket(_) => "token_bucket",
        }
    }

    /// Which of the scripts is its own, the first being 1.
    pub const fn script(&self) -> u8 {
        match self {
            Self::TokenBucket(_) => 1,
        }
    }

    /// Appends what its script is told of it: whole numbers, at most 2^53.
    pub fn push_arguments(&self, to: &mut Vec<f64>) {
        match self {
            Self::TokenBucket(limit) => to.extend(limit.arguments()),
        }
    }

    /// Checks a cost against a state (`None`: never used), and gives the state it leaves.
    pub fn check(&self, state: Option<State>, now: Timestamp, cost: Cost) -> Checked<State> {
        match self {
            Self::TokenBucket(limit) => {
                let Checked { state, over } = limit.check(state.map(token_bucket), now, cost);
                Checked { state: state.map(State::TokenBucket), over }
            }
        }
    }

    /// How much may pass at once.
    pub const fn amount(&self) -> u32 {
        match self {
            Self::TokenBucket(limit) => limit.burst(),
        }
    }

    /// The unit in which as much arrives, if there is one.
    pub fn unit(&self) -> Option<Unit> {
        match self {
            Self::TokenBucket(limit) => limit.unit(),
        }
    }

    /// What it promises, for people.
    pub fn in_words(&self) -> String {
        match self {
            Self::TokenBucket(limit) => limit.in_words(),
        }
    }

    /// Whether costs known only afterwards may take more than is there.
    pub const fn overdraw(&self) -> bool {
        match self {
            Self::TokenBucket(limit) => limit.overdraw(),
        }
    }

    /// Its parameters as JSON, named as in a rule file.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::TokenBucket(limit) => serde_json::json!({
                self.limiter(): {
                    "rate": { "tokens": limit.rate().tokens, "per": limit.rate().period() },
                    "burst": limit.burst(),
                    "overdraw": limit.overdraw(),
                }
            }),
        }
    }

    /// Whether a cost is settled even when the request as a whole is refused: what is given back, and
    /// what was spent before anybody asked.
    pub const fn is_settled_regardless(&self, cost: Cost) -> bool {
        match self {
            Self::TokenBucket(limit) => limit.is_settled_regardless(cost),
        }
    }

    /// How much is left, in whole tokens.
    pub fn remaining(&self, state: Option<State>, now: Timestamp) -> u64 {
        match self {
            Self::TokenBucket(limit) => limit.remaining(state.map(token_bucket), now),
        }
    }

    /// Microseconds until nothing is used.
    pub fn full_in_us(&self, state: Option<State>, now: Timestamp) -> u64 {
        match self {
            Self::TokenBucket(limit) => limit.full_in_us(state.map(token_bucket), now),
        }
    }

    /// Microseconds in which a limit that is all used is whole again.
    pub fn refill_us(&self) -> u64 {
        match self {
            Self::TokenBucket(limit) => limit.refill_us(),
        }
    }

    /// When a state will equal that of a limit never used and may be forgotten; `None` where it does
    /// already.
    pub fn fresh_at(&self, state: &State) -> Option<Timestamp> {
        match (self, state) {
            (Self::TokenBucket(limit), State::TokenBucket(state)) => limit.fresh_at(state),
        }
    }
}

const fn token_bucket(state: State) -> token_bucket::State {
    match state {
        State::TokenBucket(state) => state,
    }
}
