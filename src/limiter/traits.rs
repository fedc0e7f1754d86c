//! What the rest of the program knows of a limiter. A limiter implements [`Limiter`] and the trait of its family: a
//! [`RateLimit`] or [`Shedder`] its own [`Algorithm`] besides, a [`SlotLimit`](super::SlotLimit) nothing more. What a
//! family has in common is written once, here and in `slots.rs`.

use super::{Checked, Cost, Numbers, Setting, State, token_bucket::Grants};
use crate::{clock::Timestamp, unit::Unit};
use std::fmt;

/// What a limiter can do, whatever the parameters of a limit: a line of the table in docs/rules.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// Whether a refusal means that the service is overloaded (503), and not that the caller asks for too much (429).
    pub sheds_load: bool,
    /// Whether `is_negative_hits` gives back what was charged.
    pub is_refundable: bool,
    /// Whether an admitted request holds slots until it ends, and so takes a lease.
    pub holds_slots: bool,
    /// Whether `overdraw` may stand beside it.
    pub may_be_overdrawn: bool,
    /// Whether one process can apply its share while the store is away (`on_store_failure: local`).
    pub has_local_form: bool,
    /// Whether a replica may take a part of it ahead of need (`grants`).
    pub may_be_prefetched: bool,
    /// Whether an operator may set it at run time for one counter.
    pub may_be_set: bool,
    /// Whether an admitted request may be told to wait before it goes on.
    pub may_delay: bool,
    /// Whether a refusal holds until the wait is over if nothing is given back, so that a replica may repeat it without
    /// asking the store.
    pub may_cache_denials: bool,
}

impl Properties {
    /// What follows from the family of rates.
    pub const OF_RATES: Self = Self {
        sheds_load: false,
        is_refundable: true,
        holds_slots: false,
        may_be_overdrawn: false,
        has_local_form: true,
        may_be_prefetched: false,
        may_be_set: true,
        may_delay: false,
        may_cache_denials: true,
    };

    /// What follows from the family of slots.
    pub const OF_SLOTS: Self = Self {
        sheds_load: false,
        is_refundable: false,
        holds_slots: true,
        may_be_overdrawn: false,
        has_local_form: false,
        may_be_prefetched: false,
        may_be_set: false,
        may_delay: false,
        may_cache_denials: false,
    };

    /// What follows from the family of load shedders.
    pub const OF_SHEDDERS: Self = Self { sheds_load: true, holds_slots: false, ..Self::OF_SLOTS };
}

/// One limit of a limiter: its parameters, and how they are shown.
pub trait Limiter: Copy + fmt::Debug + Eq {
    /// The limiter's name, the same in rule files, keys, metrics, folders and Lua.
    const NAME: &'static str;

    /// The words for it in a message to a refused caller.
    const NOUN: &'static str;

    /// The algorithm in Lua: a function of this name that makes it.
    const SCRIPT: &'static str;

    /// What it can do.
    const PROPERTIES: Properties;

    /// What to do to set a limit at run time, for an operator who asked for one that does not fit.
    const HOW_TO_SET: &'static str;

    /// Appends the arguments of the script: whole numbers, at most 2^53.
    fn push_arguments(&self, to: &mut Vec<f64>);

    /// The limit, for people.
    fn in_words(&self) -> String;

    /// The parameters as JSON, named as in a rule file.
    fn to_json(&self) -> serde_json::Value;

    /// How much may pass at once; `None` where that is not known, or not how it limits.
    fn amount(&self) -> Option<u32>;

    /// The limit with what an operator has set in place of its own; `None` where that does not fit.
    #[must_use]
    fn set(self, to: Setting) -> Option<Self>;
}

/// A limiter's algorithm: a pure function of limit, state, time and cost.
pub trait Algorithm: Limiter {
    /// What a store keeps under a key.
    type State: Stored;

    /// Checks a cost against a state (`None`: never used), and returns the state it leaves.
    fn check(
        &self,
        state: Option<&Self::State>,
        now: Timestamp,
        cost: Cost,
    ) -> Checked<Self::State>;

    /// How much is left, in whole tokens or slots.
    fn remaining(&self, state: Option<&Self::State>, now: Timestamp) -> u64;

    /// Microseconds until nothing is used, if nothing is given back.
    fn full_in_us(&self, state: Option<&Self::State>, now: Timestamp) -> u64;

    /// Microseconds in which a limit that is all used is whole again.
    fn refill_us(&self) -> u64;

    /// The same at the pace at which what a state has used comes back: measured by this, the time until it expires says
    /// how much of the limit is used. Of what comes back steadily, the two are the same.
    fn refill_us_of(&self, _state: &Self::State) -> u64 {
        self.refill_us()
    }

    /// When a state will equal that of a limit never used and may be forgotten; `None` where it does already.
    fn expires_at(&self, state: &Self::State) -> Option<Timestamp>;

    /// A state whose instants lie too far ahead to be true, with those clamped to now; `None` where none do.
    fn clamped_to_now(&self, state: &Self::State, now: Timestamp) -> Option<Self::State>;

    /// Reads a state as Redis holds it. `None` where it is none.
    fn read_state(numbers: &mut Numbers<'_>) -> Option<Self::State>;
}

/// A kind of state that a store keeps.
pub trait Stored: Sized {
    /// The state of this kind; `None` where it is of another.
    fn of(state: &State) -> Option<&Self>;

    /// The state of any kind.
    fn into_state(self) -> State;
}

/// A limit on a rate: its state returns to that of a limit never used by itself. It can be refunded, is divided among
/// replicas that have lost the store, and is what a request's own limit replaces.
pub trait RateLimit: Algorithm {
    /// [`Self::credit`] in Lua: a function with the limiter's name and `_credit`.
    const CREDIT_SCRIPT: &'static str;

    /// How to make of a limit one for costs that are known only afterwards (`overdraw`), or why there is none.
    const OVERDRAW: Result<fn(Self) -> Self, &'static str>;

    /// The unit in which as much arrives as may pass at once, if there is one.
    fn unit(&self) -> Option<Unit>;

    /// In how many seconds as much arrives, rounded up; `None` where nothing ever arrives.
    fn window_s(&self) -> Option<u64>;

    /// Microseconds in which so many tokens arrive.
    fn arrives_in_us(&self, tokens: u64) -> u64;

    /// The share of one of so many replicas, each of which limits for itself.
    #[must_use]
    fn shared_by(self, replicas: u32) -> Self;

    /// The state once it has back a charge of so much at an instant by the store's clock, less what has come back by
    /// itself since. `None` where that would take from other charges, or where it is not known whether it would.
    fn credit(
        &self,
        state: &Self::State,
        now: Timestamp,
        charge: (u64, Timestamp),
    ) -> Option<Self::State>;

    /// Whether costs that are known only afterwards may take more than is there.
    fn overdraw(&self) -> bool;

    /// How chunks of it may be prefetched; `None` where they may not.
    fn grants(&self) -> Option<Grants>;

    /// The same limit, which refuses what it would delay for longer than so many microseconds; the wait of such a refusal
    /// is the time until the delay would be that short. It is shown and stored like the limit itself, and may be asked for
    /// again with another time. A limit that delays nothing is unchanged.
    #[must_use]
    fn within(self, _most_delay_us: u64) -> Self {
        self
    }

    /// Whether a cost is applied even if the request as a whole is refused: refunds, and costs that have arisen already.
    fn is_applied_if_refused(&self, cost: Cost) -> bool {
        match cost {
            Cost::Refund(_) => true,
            Cost::Take(_) => self.overdraw(),
            Cost::Peek => false,
        }
    }
}

/// A load shedder: it charges nothing, and refuses some requests by a number that is drawn. Its state is the load of a
/// pool's workers.
pub trait Shedder: Algorithm<State = crate::worker::Workers> {
    /// The place of the request's class among those that are given up, the first being 0.
    fn class(&self) -> u32;

    /// Whether a number is drawn for each request, and not for each caller.
    fn draws(&self) -> bool;

    /// The same limit with this number drawn for the request.
    #[must_use]
    fn drawing(self, number: u32) -> Self;
}
