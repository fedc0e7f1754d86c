//! The limiters. A limiter is a folder here: what it promises, its parameters, and its algorithm as a
//! pure function of parameters, state, time and cost. This file is the list of them; a new one is a
//! line in each `match`.
//!
//! Nothing in here reads a clock, takes a lock or speaks to anybody.

pub mod concurrency;
pub mod fleet;
mod slots;
pub mod token_bucket;
pub mod utilization;

pub use slots::SlotLimit;

use crate::{
    clock::Timestamp,
    lease::{InFlight, Record, Slots, Term},
    unit::Unit,
    worker::{Worker, Workers},
};

/// The limiters in Lua but for the token bucket, which most requests need and others do not. `lua/settle.lua` lists all.
pub const OTHER_SCRIPTS: [&str; 3] = [concurrency::SCRIPT, fleet::SCRIPT, utilization::SCRIPT];

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
    /// By class, while workers are too busy.
    Utilization(utilization::Limit),
}

/// What a store keeps under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Of a token bucket.
    TokenBucket(token_bucket::State),
    /// Of a limit on slots.
    InFlight(Box<InFlight>),
    /// Of the utilization limits of a pool: how busy its workers are.
    Workers(Box<Workers>),
    /// Of no limit: what a lease holds.
    Lease(Box<Record>),
    /// Of no limit: what a worker said last.
    Worker(Worker),
}

impl State {
    /// What is in flight, where it is that.
    pub fn in_flight(&self) -> Option<&InFlight> {
        match self {
            Self::InFlight(state) => Some(state),
            _ => None,
        }
    }

    /// The workers of a pool, where it is that.
    pub fn workers(&self) -> Option<&Workers> {
        match self {
            Self::Workers(state) => Some(state),
            _ => None,
        }
    }

    /// What a worker said last, where it is that.
    pub const fn worker(&self) -> Option<&Worker> {
        match self {
            Self::Worker(state) => Some(state),
            _ => None,
        }
    }

    /// The record of a lease, where it is one.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::Lease(record) => Some(record),
            _ => None,
        }
    }

    /// The state of a token bucket, where it is one.
    pub const fn token_bucket(&self) -> Option<token_bucket::State> {
        match self {
            Self::TokenBucket(state) => Some(*state),
            _ => None,
        }
    }
}

/// A limit as what it has in common with all others of its form.
enum Form<'a> {
    Bucket(&'a token_bucket::Limit),
    Slots(&'a dyn SlotLimit),
    Shedder(&'a utilization::Limit),
}

impl Limit {
    fn form(&self) -> Form<'_> {
        match self {
            Self::TokenBucket(limit) => Form::Bucket(limit),
            Self::Concurrency(limit) => Form::Slots(limit),
            Self::Fleet(limit) => Form::Slots(limit),
            Self::Utilization(limit) => Form::Shedder(limit),
        }
    }

    /// The limiter's name, the same in rule files, keys, metrics and folders.
    pub const fn limiter(&self) -> &'static str {
        match self {
            Self::TokenBucket(_) => "token_bucket",
            Self::Concurrency(_) => "concurrency",
            Self::Fleet(_) => "fleet",
            Self::Utilization(_) => "utilization",
        }
    }

    /// Which of the scripts is its own, the first being 1.
    pub const fn script(&self) -> u8 {
        match self {
            Self::TokenBucket(_) => 1,
            Self::Concurrency(_) => 2,
            Self::Fleet(_) => 3,
            Self::Utilization(_) => 4,
        }
    }

    /// Appends what its script is told of it: whole numbers, at most 2^53.
    pub fn push_arguments(&self, to: &mut Vec<f64>) {
        match self {
            Self::TokenBucket(limit) => to.extend(limit.arguments()),
            Self::Concurrency(limit) => to.extend(limit.arguments()),
            Self::Fleet(limit) => to.extend(limit.arguments()),
            Self::Utilization(limit) => to.extend(limit.arguments()),
        }
    }

    /// What of a request's cost this limit charges: slots are one for each request, unless the rule says
    /// that its hits weigh.
    #[must_use]
    pub const fn charge(&self, cost: Cost) -> Cost {
        let weighs_hits = match self {
            Self::TokenBucket(_) | Self::Utilization(_) => true,
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
            Self::TokenBucket(_) | Self::Utilization(_) => false,
            Self::Concurrency(limit) => limit.weighs_hits,
            Self::Fleet(limit) => limit.weighs_hits,
        }
    }

    /// How long a lease lasts on what it takes; `None` where it takes nothing that comes back.
    pub const fn term(&self) -> Option<Term> {
        match self {
            Self::TokenBucket(_) | Self::Utilization(_) => None,
            Self::Concurrency(limit) => Some(limit.term),
            Self::Fleet(limit) => Some(limit.term),
        }
    }

    /// The same limit with leases of another term.
    #[must_use]
    pub const fn with_term(self, term: Term) -> Self {
        match self {
            Self::TokenBucket(_) | Self::Utilization(_) => self,
            Self::Concurrency(limit) => Self::Concurrency(concurrency::Limit { term, ..limit }),
            Self::Fleet(limit) => Self::Fleet(fleet::Limit { term, ..limit }),
        }
    }

    /// Whether it is about rates, and so what a request's own limit takes the place of.
    pub const fn is_about_rates(&self) -> bool {
        matches!(self, Self::TokenBucket(_))
    }

    /// Microseconds in which so many tokens come by themselves; 0 of what is not about rates.
    pub fn arrives_in_us(&self, tokens: u64) -> u64 {
        match self {
            Self::TokenBucket(limit) => limit.arrives_in_us(tokens),
            Self::Concurrency(_) | Self::Fleet(_) | Self::Utilization(_) => 0,
        }
    }

    /// The share of one of so many replicas, each of which limits for itself; of a limit that is not about
    /// rates, the whole.
    #[must_use]
    pub fn shared_by(self, replicas: u32) -> Self {
        match self {
            Self::TokenBucket(limit) => Self::TokenBucket(limit.shared_by(replicas)),
            Self::Concurrency(_) | Self::Fleet(_) | Self::Utilization(_) => self,
        }
    }

    /// Whether it takes what the workers of its pool report to know what it allows.
    pub const fn is_told(&self) -> bool {
        matches!(self, Self::Fleet(limit) if limit.is_reported())
    }

    /// The same limit, once it is known what the workers of its pool report.
    #[must_use]
    pub fn told(self, workers: Option<&State>, now: Timestamp) -> Self {
        match self {
            Self::Fleet(limit) => Self::Fleet(limit.told(workers.and_then(State::workers), now)),
            _ => self,
        }
    }

    /// Whether it draws a number for each request.
    pub const fn draws(&self) -> bool {
        let Self::Utilization(limit) = self else { return false };
        matches!(limit.draw, utilization::Draw::Request(_))
    }

    /// The same limit with another number drawn for the request.
    #[must_use]
    pub const fn drawing(self, number: u32) -> Self {
        match self {
            Self::Utilization(limit) if self.draws() => {
                let draw = utilization::Draw::Request(number);
                Self::Utilization(utilization::Limit { draw, ..limit })
            }
            _ => self,
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
            Form::Shedder(limit) => {
                // To give back says nothing, so nothing of it is dropped.
                if let Cost::Refund(_) = cost {
                    return Checked { state: None, over: None };
                }
                let over = limit.check(state.and_then(State::workers), now).over;
                Checked { state: None, over }
            }
        }
    }

    /// How much may pass at once; `None` where that is not known, or not how it limits.
    pub fn amount(&self) -> Option<u32> {
        match self {
            Self::TokenBucket(limit) => Some(limit.burst()),
            Self::Concurrency(limit) => Some(limit.max),
            Self::Fleet(limit) if limit.is_reported() => None,
            Self::Fleet(limit) => Some(limit.amount()),
            Self::Utilization(_) => None,
        }
    }

    /// The unit in which as much arrives, if there is one.
    pub fn unit(&self) -> Option<Unit> {
        match self {
            Self::TokenBucket(limit) => limit.unit(),
            Self::Concurrency(_) | Self::Fleet(_) | Self::Utilization(_) => None,
        }
    }

    /// In how many seconds as much arrives; `None` of what does not arrive with time.
    pub fn window_s(&self) -> Option<u64> {
        match self {
            Self::TokenBucket(limit) => limit.window_s(),
            Self::Concurrency(_) | Self::Fleet(_) | Self::Utilization(_) => None,
        }
    }

    /// What to call it to somebody whom it refuses.
    pub const fn noun(&self) -> &'static str {
        match self {
            Self::TokenBucket(_) => "rate limit",
            Self::Concurrency(_) => "concurrency limit",
            Self::Fleet(_) => "fleet limit",
            Self::Utilization(_) => "utilization limit",
        }
    }

    /// What it promises, for people.
    pub fn in_words(&self) -> String {
        match self {
            Self::TokenBucket(limit) => limit.in_words(),
            Self::Concurrency(limit) => limit.in_words(),
            Self::Fleet(limit) => limit.in_words(),
            Self::Utilization(limit) => limit.in_words(),
        }
    }

    /// Whether costs known only afterwards may take more than is there.
    pub const fn overdraw(&self) -> bool {
        match self {
            Self::TokenBucket(limit) => limit.overdraw(),
            Self::Concurrency(_) | Self::Fleet(_) | Self::Utilization(_) => false,
        }
    }

    /// How slices of it may be taken ahead of need, where they may.
    pub const fn grants(&self) -> Option<token_bucket::Grants> {
        match self {
            Self::TokenBucket(limit) => limit.grants(),
            Self::Concurrency(_) | Self::Fleet(_) | Self::Utilization(_) => None,
        }
    }

    /// Whether who is refused by it asks for nothing out of the ordinary: it is the service that is short
    /// of room.
    pub const fn sheds_load(&self) -> bool {
        match self {
            Self::TokenBucket(_) | Self::Concurrency(_) => false,
            Self::Fleet(_) | Self::Utilization(_) => true,
        }
    }

    /// Its parameters as JSON, named as in a rule file.
    pub fn to_json(&self) -> serde_json::Value {
        let parameters = match self {
            Self::TokenBucket(limit) => limit.to_json(),
            Self::Concurrency(limit) => limit.to_json(),
            Self::Fleet(limit) => limit.to_json(),
            Self::Utilization(limit) => limit.to_json(),
        };
        serde_json::json!({ self.limiter(): parameters })
    }

    /// Whether a cost is settled even when the request as a whole is refused: what is given back, and
    /// what was spent before anybody asked.
    pub const fn is_settled_regardless(&self, cost: Cost) -> bool {
        match self {
            Self::TokenBucket(limit) => limit.is_settled_regardless(cost),
            Self::Concurrency(_) | Self::Fleet(_) | Self::Utilization(_) => false,
        }
    }

    /// How much is left, in whole tokens or slots.
    pub fn remaining(&self, state: Option<&State>, now: Timestamp) -> u64 {
        match self.form() {
            Form::Bucket(limit) => limit.remaining(state.and_then(State::token_bucket), now),
            Form::Slots(limit) => limit.remaining(state.and_then(State::in_flight), now),
            Form::Shedder(_) => utilization::REMAINING,
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
            Form::Shedder(_) => 0,
        }
    }

    /// Microseconds in which a limit that is all used is whole again, by itself.
    pub fn refill_us(&self) -> u64 {
        match self {
            Self::TokenBucket(limit) => limit.refill_us(),
            Self::Concurrency(limit) => limit.term.as_micros(),
            Self::Fleet(limit) => limit.term.as_micros(),
            Self::Utilization(limit) => limit.settings.shed_all_after_us,
        }
    }

    /// When a state will equal that of a limit never used and may be forgotten; `None` where it does
    /// already.
    pub fn fresh_at(&self, state: &State) -> Option<Timestamp> {
        match (self.form(), state) {
            (Form::Bucket(limit), State::TokenBucket(state)) => limit.fresh_at(state),
            (_, State::InFlight(state)) => state.empty_at(),
            (Form::Shedder(limit), State::Workers(state)) => state.fresh_at(&limit.settings),
            (_, State::Lease(record)) => record.fresh_at(),
            _ => None,
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
