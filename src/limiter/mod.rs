//! The limiters. A limiter is a folder here, and its Lua a folder in `lua/`: what it promises, its parameters, and its
//! algorithm as a pure function of parameters, state, time and cost. What the rest of the program knows of it is its
//! implementation of the traits in `traits.rs`, and its line in the list below: the enums of limits and states, their
//! dispatch and the joined Lua follow from that list.
//!
//! A limiter's folder also has the reader of its mapping in rule files, see [`config`].
//!
//! Nothing in here reads a clock, takes a lock or does I/O.

pub mod concurrency;
pub mod config;
pub mod fixed_window;
pub mod fleet;
pub mod leaky_bucket;
#[macro_use]
mod list;
mod numbers;
pub mod pool;
#[cfg(test)]
pub(crate) mod samples;
pub mod scope;
mod setting;
mod slots;
#[cfg(test)]
mod tests;
pub mod token_bucket;
mod traits;
pub mod utilization;

pub use numbers::Numbers;
pub use setting::Setting;
pub use slots::SlotLimit;
pub use traits::{Algorithm, Limiter, Properties, RateLimit, Shedder, Stored};

use crate::{
    clock::Timestamp,
    lease::{InFlight, Record, Slots, Term},
    unit::Unit,
    worker::{Worker, Workers},
    yaml::Key,
};
use config::{Configured as _, Refused, Schema, read_rate};

limiters! {
    $
    rates {
        /// So many requests per second.
        TokenBucket(token_bucket),
        /// So many requests in each window of time, such as a day.
        FixedWindow(fixed_window),
        /// Requests evenly spaced, of which so many wait.
        LeakyBucket(leaky_bucket),
    }
    slots {
        /// So many requests in flight.
        Concurrency(concurrency),
        /// A share of a pool kept for critical requests.
        Fleet(fleet),
    }
    shedders {
        /// By class, while workers are too busy.
        Utilization(utilization),
    }
}

/// How far ahead of the clock a rate's state may lie, in microseconds. A clock that was set back by less than this has no
/// time counted twice: a bucket does not refill until it has caught up, and a window goes on. An instant further ahead is
/// no skew but a mistake, and must not refuse for years.
const MOST_AHEAD_US: u64 = 60_000_000;

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
    /// Where it passes, after how many microseconds the request is to go on; 0 for at once.
    pub delay_us: u64,
}

impl Stored for InFlight {
    fn of(state: &State) -> Option<&Self> {
        state.in_flight()
    }

    fn into_state(self) -> State {
        State::InFlight(self.into())
    }
}

impl Stored for Workers {
    fn of(state: &State) -> Option<&Self> {
        state.workers()
    }

    fn into_state(self) -> State {
        State::Workers(self.into())
    }
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

impl<S> Checked<S> {
    /// Of a check that delays nothing.
    pub const fn undelayed(state: Option<S>, over: Option<Wait>) -> Self {
        Self { state, over, delay_us: 0 }
    }

    /// The same with the state as another type.
    fn map<T>(self, into: impl FnOnce(S) -> T) -> Checked<T> {
        Checked { state: self.state.map(into), over: self.over, delay_us: self.delay_us }
    }
}

const fn name_of<L: Limiter>(_: &L) -> &'static str {
    L::NAME
}

const fn noun_of<L: Limiter>(_: &L) -> &'static str {
    L::NOUN
}

const fn how_to_set<L: Limiter>(_: &L) -> &'static str {
    L::HOW_TO_SET
}

const fn properties<L: Limiter>(_: &L) -> Properties {
    L::PROPERTIES
}

fn own<'s, L: Algorithm>(_: &L, state: Option<&'s State>) -> Option<&'s L::State> {
    state.and_then(L::State::of)
}

/// See [`Limiter`].
impl Limit {
    /// The limiter's name, the same in rule files, keys, metrics and folders.
    pub const fn limiter(&self) -> &'static str {
        of_each!(self, limit => name_of(limit))
    }

    /// What to call it in a message to a refused caller.
    pub const fn noun(&self) -> &'static str {
        of_each!(self, limit => noun_of(limit))
    }

    /// Whether a refusal means that the service is overloaded, and not that the caller asks for too much.
    pub const fn sheds_load(&self) -> bool {
        self.properties().sheds_load
    }

    /// What the limiter can do.
    pub const fn properties(&self) -> Properties {
        of_each!(self, limit => properties(limit))
    }

    /// What to do to set one at run time.
    pub const fn how_to_set(&self) -> &'static str {
        of_each!(self, limit => how_to_set(limit))
    }

    /// Appends the arguments of its script: whole numbers, at most 2^53.
    pub fn push_arguments(&self, to: &mut Vec<f64>) {
        of_each!(self, limit => limit.push_arguments(to));
    }

    /// What it promises, for people.
    pub fn in_words(&self) -> String {
        of_each!(self, limit => limit.in_words())
    }

    /// Its parameters as JSON, named as in a rule file.
    pub fn to_json(&self) -> serde_json::Value {
        let parameters = of_each!(self, limit => limit.to_json());
        serde_json::json!({ self.limiter(): parameters })
    }

    /// How much may pass at once; `None` where that is not known, or not how it limits.
    pub fn amount(&self) -> Option<u32> {
        of_each!(self, limit => limit.amount())
    }

    /// The limit with what an operator has set in place of its own; `None` where that does not fit.
    #[must_use]
    pub fn set(self, to: Setting) -> Option<Self> {
        map_each!(self, limit => limit.set(to)?)
    }
}

/// See [`Algorithm`].
impl Limit {
    /// Checks a cost against a state (`None`: never used), and gives the state it leaves.
    pub fn check(&self, state: Option<&State>, now: Timestamp, cost: Cost) -> Checked<State> {
        of_each!(self, limit => {
            Algorithm::check(limit, own(limit, state), now, cost).map(Stored::into_state)
        })
    }

    /// How much is left, in whole tokens or slots.
    pub fn remaining(&self, state: Option<&State>, now: Timestamp) -> u64 {
        of_each!(self, limit => Algorithm::remaining(limit, own(limit, state), now))
    }

    /// Microseconds until nothing is used, if nothing is given back.
    pub fn full_in_us(&self, state: Option<&State>, now: Timestamp) -> u64 {
        of_each!(self, limit => Algorithm::full_in_us(limit, own(limit, state), now))
    }

    /// Microseconds in which a limit that is all used is whole again, by itself.
    pub fn refill_us(&self) -> u64 {
        of_each!(self, limit => Algorithm::refill_us(limit))
    }

    /// The same at the pace at which what a state has used comes back; 0 where it is of another limiter.
    pub fn refill_us_of(&self, state: &State) -> u64 {
        of_each!(self, limit => {
            own(limit, Some(state)).map_or(0, |state| Algorithm::refill_us_of(limit, state))
        })
    }

    /// When a state will equal that of a limit never used and may be forgotten; `None` where it does
    /// already, and where it is not of this limiter.
    pub fn expires_at(&self, state: &State) -> Option<Timestamp> {
        if let State::Lease(record) = state {
            return record.fresh_at();
        }
        of_each!(self, limit => Algorithm::expires_at(limit, own(limit, Some(state))?))
    }

    /// A state whose instants lie too far ahead to be true, with those clamped to now; `None` where none do.
    #[must_use]
    pub fn clamped_to_now(&self, state: &State, now: Timestamp) -> Option<State> {
        of_each!(self, limit => {
            Algorithm::clamped_to_now(limit, own(limit, Some(state))?, now).map(Stored::into_state)
        })
    }
}

/// See [`RateLimit`].
impl Limit {
    /// Whether it is on a rate, and so what a request's own limit takes the place of.
    pub const fn is_rate_limit(&self) -> bool {
        of_family!(self, rate(_) => true, slots(_) => false, shedder(_) => false)
    }

    /// Microseconds in which so many tokens come by themselves; 0 of what is not on a rate.
    pub fn arrives_in_us(&self, tokens: u64) -> u64 {
        of_family!(
            self,
            rate(limit) => RateLimit::arrives_in_us(limit, tokens),
            slots(_) => 0,
            shedder(_) => 0,
        )
    }

    /// The state once it has back a charge of so much at an instant by the store's clock, less what has come back by
    /// itself since; `None` where it is not to be given back.
    #[must_use]
    pub fn credit(&self, state: &State, now: Timestamp, charge: (u64, Timestamp)) -> Option<State> {
        of_family!(
            self,
            rate(limit) => {
                RateLimit::credit(limit, own(limit, Some(state))?, now, charge).map(Stored::into_state)
            },
            slots(_) => None,
            shedder(_) => None,
        )
    }

    /// The share of one of so many replicas, each of which limits for itself; of a limit that is not on a rate, the
    /// whole.
    #[must_use]
    pub fn shared_by(self, replicas: u32) -> Self {
        map_family!(self, rate limit => RateLimit::shared_by(limit, replicas))
    }

    /// The unit in which as much arrives as may pass at once, if there is one.
    pub fn unit(&self) -> Option<Unit> {
        of_family!(self, rate(limit) => RateLimit::unit(limit), slots(_) => None, shedder(_) => None)
    }

    /// In how many seconds as much arrives; `None` of what does not arrive with time.
    pub fn window_s(&self) -> Option<u64> {
        of_family!(
            self,
            rate(limit) => RateLimit::window_s(limit),
            slots(_) => None,
            shedder(_) => None,
        )
    }

    /// Whether costs known only afterwards may take more than is there.
    pub fn overdraw(&self) -> bool {
        of_family!(
            self,
            rate(limit) => RateLimit::overdraw(limit),
            slots(_) => false,
            shedder(_) => false,
        )
    }

    /// How chunks of it may be prefetched, where they may.
    pub fn grants(&self) -> Option<token_bucket::Grants> {
        of_family!(
            self,
            rate(limit) => RateLimit::grants(limit),
            slots(_) => None,
            shedder(_) => None,
        )
    }

    /// The same limit, which refuses what it would delay for longer than so many microseconds.
    #[must_use]
    pub fn within(self, most_delay_us: u64) -> Self {
        map_family!(self, rate limit => RateLimit::within(limit, most_delay_us))
    }

    /// Whether a cost is applied even when the request as a whole is refused: what is given back, and
    /// what was spent before anything was asked.
    pub fn is_applied_if_refused(&self, cost: Cost) -> bool {
        of_family!(
            self,
            rate(limit) => RateLimit::is_applied_if_refused(limit, cost),
            slots(_) => false,
            shedder(_) => false,
        )
    }
}

/// See [`SlotLimit`].
impl Limit {
    /// What of a request's cost this limit charges: slots are one for each request, unless the rule says
    /// that its hits weigh.
    #[must_use]
    pub fn charge(&self, cost: Cost) -> Cost {
        let Cost::Take(hits) = cost else { return cost };
        of_family!(
            self,
            rate(_) => cost,
            slots(limit) => Cost::Take(if limit.weighs_hits() { hits.min(MOST_SLOTS) } else { 1 }),
            shedder(_) => cost,
        )
    }

    /// Whether it counts slots, and a request takes as many as it has hits.
    pub fn weighs_hits(&self) -> bool {
        of_family!(self, rate(_) => false, slots(limit) => limit.weighs_hits(), shedder(_) => false)
    }

    /// How long a lease lasts on what it takes; `None` where it takes nothing that comes back.
    pub fn term(&self) -> Option<Term> {
        of_family!(self, rate(_) => None, slots(limit) => Some(limit.term()), shedder(_) => None)
    }

    /// The same limit with leases of another term.
    #[must_use]
    pub fn with_term(self, term: Term) -> Self {
        map_family!(self, slots limit => limit.with_term(term))
    }

    /// The slots that a cost takes of it; `None` where it takes none.
    pub fn slots(&self, cost: Cost) -> Option<Slots> {
        let Cost::Take(count) = cost else { return None };
        of_family!(
            self,
            rate(_) => None,
            slots(limit) => Some(Slots::of(count, limit.is_critical())),
            shedder(_) => None,
        )
    }

    /// Whether the requests that meet it are critical among those of its pool.
    pub fn is_critical(&self) -> bool {
        of_family!(self, rate(_) => false, slots(limit) => limit.is_critical(), shedder(_) => false)
    }

    /// Whether it takes what the workers of its pool report to know what it allows.
    pub fn is_told(&self) -> bool {
        of_family!(
            self,
            rate(_) => false,
            slots(limit) => limit.has_reported_capacity(),
            shedder(_) => false,
        )
    }

    /// The same limit, once it is known what the workers of its pool report.
    #[must_use]
    pub fn told(self, workers: Option<&State>, now: Timestamp) -> Self {
        let workers = workers.and_then(State::workers);
        map_family!(self, slots limit => limit.with_reported_capacity(workers, now))
    }
}

/// See [`Shedder`].
impl Limit {
    /// Whether it draws a number for each request.
    pub fn draws(&self) -> bool {
        of_family!(self, rate(_) => false, slots(_) => false, shedder(limit) => limit.draws())
    }

    /// The same limit with another number drawn for the request.
    #[must_use]
    pub fn drawing(self, number: u32) -> Self {
        map_family!(self, shedder limit => limit.drawing(number))
    }

    /// The place of the request's class among those that are given up, the first being 0.
    pub fn class(&self) -> Option<u32> {
        of_family!(self, rate(_) => None, slots(_) => None, shedder(limit) => Some(limit.class()))
    }

    /// Whether it counts nothing, and so has no counter that could be shown or set.
    pub const fn is_shedder(&self) -> bool {
        of_family!(self, rate(_) => false, slots(_) => false, shedder(_) => true)
    }
}
