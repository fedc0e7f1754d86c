//! The limiters. A limiter is a folder here: what it promises, its parameters, and its algorithm as a
//! pure function of parameters, state, time and cost. This file is the list of them; a new one is a
//! line in each `match`.
//!
//! Nothing in here reads a clock, takes a lock or speaks to anybody.

pub mod concurrency;
pub mod fleet;
mod slots;
pub mod token_bucket;

pub use slots::SlotLimit;

use crate::{
    clock::Timestamp,
    lease::{InFlight, Record, Slots, Term},
    unit::Unit,
};

/// The limiters in Lua, in the order in which `lua/request.lua` lists them.
pub const SCRIPTS: [&str; 3] = [token_bucket::SCRIPT, concurrency::SCRIPT, fleet::SCRIPT];

/// The most slots that a request takes.
const MOST_SLOTS: u64 = 1 << 32;

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
    /// So many requests in flight.
    Concurrency(concurrency::Limit),
    /// A share of a pool kept for critical requests.
    Fleet(fleet::Limit),
}

/// What a store keeps under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Of a token bucket.
    TokenBucket(token_bucket::State),
    /// Of a limit on slots.
    InFlight(Box<InFlight>),
    /// Of no limit: what a lease holds.
    Lease(Box<Record>),
}

impl State {
    /// What is in flight, where it is that.
    pub fn in_flight(&self) -> Option<&InFlight> {
        match self {
            Self::InFlight(state) => Some(state),
            Self::TokenBucket(_) | Self::Lease(_) => None,
        }
    }

    /// The record of a lease, where it is one.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::Lease(record) => Some(record),
            Self::TokenBucket(_) | Self::InFlight(_) => None,
        }
    }

    const fn token_bucket(&self) -> Option<token_bucket::State> {
        match self {
            Self::TokenBucket(state) => Some(*state),
            Self::InFlight(_) | Self::Lease(_) => None,
        }
    }
}

/// A limit as what it has in common with all others of its form.
enum Form<'a> {
    Bucket(&'a token_bucket::Limit),
    Slots(&'a dyn SlotLimit),
}

impl Limit {
    fn form(&self) -> Form<'_> {
        match self {
            Self::TokenBucket(limit) => Form::Bucket(limit),
            Self::Concurrency(limit) => Form::Slots(limit),
            Self::Fleet(limit) => Form::Slots(limit),
        }
    }

    /// The limiter's name, the same in rule files, keys, metrics and folders.
    pub const fn limiter(&self) -> &'static str {
        match self {
            Self::TokenBucket(_) => "token_bucket",
            Self::Concurrency(_) => "concurrency",
            Self::Fleet(_) => "fleet",
        }
    }

    /// Which of the scripts is its own, the first being 1.
    pub const fn script(&self) -> u8 {
        match self {
            Self::TokenBucket(_) => 1,
            Self::Concurrency(_) => 2,
            Self::Fleet(_) => 3,
        }
    }

    /// Appends what its script is told of it: whole numbers, at most 2^53.
    pub fn push_arguments(&self, to: &mut Vec<f64>) {
        match self {
            Self::TokenBucket(limit) => to.extend(limit.arguments()),
            Self::Concurrency(limit) => to.extend(limit.arguments()),
            Self::Fleet(limit) => to.extend(limit.arguments()),
        }
    }

    /// What of a request's cost this limit charges: slots are one for each request, unless the rule says
    /// that its hits weigh.
    #[must_use]
    pub const fn charge(&self, cost: Cost) -> Cost {
        let weighs_hits = match self {
            Self::TokenBucket(_) => true,
            Self::Concurrency(limit) => limit.weighs_hits,
            Self::Fleet(limit) => limit.weighs_hits,
        };
        match (self, cost) {
            (_, Cost::Take(_)) if !weighs_hits => Cost::Take(1),
            // More than any limit has, and few enough to be added up.
            (Self::Concurrency(_) | Self::Fleet(_), Cost::Take(hits)) if hits > MOST_SLOTS => {
                Cost::Take(MOST_SLOTS)
            }
            (_, cost) => cost,
        }
    }

    /// Whether it counts slots, and a request takes as many as it has hits.
    pub const fn weighs_hits(&self) -> bool {
        match self {
            Self::TokenBucket(_) => false,
            Self::Concurrency(limit) => limit.weighs_hits,
            Self::Fleet(limit) => limit.weighs_hits,
        }
    }

    /// How long a lease lasts on what it takes; `None` where it takes nothing that comes back.
    pub const fn term(&self) -> Option<Term> {
        match self {
            Self::TokenBucket(_) => None,
            Self::Concurrency(limit) => Some(limit.term),
            Self::Fleet(limit) => Some(limit.term),
        }
    }

    /// The same limit with leases of another term.
    #[must_use]
    pub const fn with_term(self, term: Term) -> Self {
        match self {
            Self::TokenBucket(limit) => Self::TokenBucket(limit),
            Self::Concurrency(limit) => Self::Concurrency(concurrency::Limit { term, ..limit }),
            Self::Fleet(limit) => Self::Fleet(fleet::Limit { term, ..limit }),
        }
    }

    /// The slots that a cost takes of it; `None` where it takes none.
    pub fn slots(&self, cost: Cost) -> Option<Slots> {
        match (self.form(), cost) {
            (Form::Slots(limit), Cost::Take(count)) => Some(Slots::of(count, limit.is_critical())),
            _ => None,
        }
    }

    /// Checks a cost against a state (`None`: never used), and gives the state it leaves.
    pub fn check(&self, state: Option<&State>, now: Timestamp, cost: Cost) -> Checked<State> {
        match self.form() {
            Form::Bucket(limit) => {
                let state = state.and_then(State::token_bucket);
                let Checked { state, over } = limit.check(state, now, cost);
                Checked { state: state.map(State::TokenBucket), over }
            }
            Form::Slots(limit) => {
                let state = state.and_then(State::in_flight);
                let Checked { state, over } = limit.check(state, now, cost);
                Checked { state: state.map(|state| State::InFlight(state.into())), over }
            }
        }
    }

    /// How much may pass at once.
    pub fn amount(&self) -> u32 {
        match self {
            Self::TokenBucket(limit) => limit.burst(),
            Self::Concurrency(limit) => limit.max,
            Self::Fleet(limit) => limit.amount(),
        }
    }

    /// The unit in which as much arrives, if there is one.
    pub fn unit(&self) -> Option<Unit> {
        match self {
            Self::TokenBucket(limit) => limit.unit(),
            Self::Concurrency(_) | Self::Fleet(_) => None,
        }
    }

    /// What to call it to somebody whom it refuses.
    pub const fn noun(&self) -> &'static str {
        match self {
            Self::TokenBucket(_) => "rate limit",
            Self::Concurrency(_) => "concurrency limit",
            Self::Fleet(_) => "fleet limit",
        }
    }

    /// What it promises, for people.
    pub fn in_words(&self) -> String {
        match self {
            Self::TokenBucket(limit) => limit.in_words(),
            Self::Concurrency(limit) => limit.in_words(),
            Self::Fleet(limit) => limit.in_words(),
        }
    }

    /// Whether costs known only afterwards may take more than is there.
    pub const fn overdraw(&self) -> bool {
        match self {
            Self::TokenBucket(limit) => limit.overdraw(),
            Self::Concurrency(_) | Self::Fleet(_) => false,
        }
    }

    /// Whether who is refused by it asks for nothing out of the ordinary: it is the service that is short
    /// of room.
    pub const fn sheds_load(&self) -> bool {
        match self {
            Self::TokenBucket(_) | Self::Concurrency(_) => false,
            Self::Fleet(_) => true,
        }
    }

    /// Its parameters as JSON, named as in a rule file.
    pub fn to_json(&self) -> serde_json::Value {
        let parameters = match self {
            Self::TokenBucket(limit) => serde_json::json!({
                "rate": { "tokens": limit.rate().tokens, "per": limit.rate().period() },
                "burst": limit.burst(),
                "overdraw": limit.overdraw(),
            }),
            Self::Concurrency(limit) => limit.to_json(),
            Self::Fleet(limit) => limit.to_json(),
        };
        serde_json::json!({ self.limiter(): parameters })
    }

    /// Whether a cost is settled even when the request as a whole is refused: what is given back, and
    /// what was spent before anybody asked.
    pub const fn is_settled_regardless(&self, cost: Cost) -> bool {
        match self {
            Self::TokenBucket(limit) => limit.is_settled_regardless(cost),
            Self::Concurrency(_) | Self::Fleet(_) => false,
        }
    }

    /// How much is left, in whole tokens or slots.
    pub fn remaining(&self, state: Option<&State>, now: Timestamp) -> u64 {
        match self.form() {
            Form::Bucket(limit) => limit.remaining(state.and_then(State::token_bucket), now),
            Form::Slots(limit) => limit.remaining(state.and_then(State::in_flight), now),
        }
    }

    /// Microseconds until nothing is used, if nobody gives anything back.
    pub fn full_in_us(&self, state: Option<&State>, now: Timestamp) -> u64 {
        match self.form() {
            Form::Bucket(limit) => limit.full_in_us(state.and_then(State::token_bucket), now),
            Form::Slots(_) => {
                let live = InFlight::live(state.and_then(State::in_flight), now);
                live.empty_at().map_or(0, |instant| instant - now)
            }
        }
    }

    /// Microseconds in which a limit that is all used is whole again, by itself.
    pub fn refill_us(&self) -> u64 {
        match self {
            Self::TokenBucket(limit) => limit.refill_us(),
            Self::Concurrency(limit) => limit.term.as_micros(),
            Self::Fleet(limit) => limit.term.as_micros(),
        }
    }

    /// When a state will equal that of a limit never used and may be forgotten; `None` where it does
    /// already.
    pub fn fresh_at(&self, state: &State) -> Option<Timestamp> {
        match (self.form(), state) {
            (Form::Bucket(limit), State::TokenBucket(state)) => limit.fresh_at(state),
            (_, State::InFlight(state)) => state.empty_at(),
            (_, State::Lease(record)) => record.fresh_at(),
            (Form::Slots(_), State::TokenBucket(_)) => None,
        }
    }

    /// A state whose instants lie too far ahead to be true, with those pulled back; `None` where none do.
    #[must_use]
    pub fn pulled_back(&self, state: &State, now: Timestamp) -> Option<State> {
        match (self.form(), state) {
            (Form::Bucket(_), State::TokenBucket(state)) => {
                state.pulled_back(now).map(State::TokenBucket)
            }
            (Form::Slots(limit), State::InFlight(state)) => {
                let pulled = state.pulled_back(limit.term(), now)?;
                Some(State::InFlight(pulled.into()))
            }
            _ => None,
        }
    }
}
