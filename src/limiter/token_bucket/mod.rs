//! Token bucket: so many requests per second, and so many at once.
//!
//! A bucket holds up to `burst` tokens and refills continuously at `rate`. A request takes what it
//! costs, or is refused and takes nothing.
//!
//! What is kept is not the tokens that are there but those that are gone, and since when:
//!
//! ```text
//!     used        0 ├───────────────●──────────────────────────┤ burst
//!                     ◄── drains ───┘ └─── what may be taken ──┘
//! ```
//!
//! `used` drains at `rate`; a request of `n` tokens passes while `used + n ≤ burst`. A bucket that
//! nobody asked for has nothing used, so a state at 0 and no state at all are the same thing, and the
//! instant at which it drains is the instant at which it may be forgotten.
//!
//! Time is counted in whole microseconds. What is asked for before the next one sees the same tokens, so
//! a bucket of 1 gives at most one in each, however fast it is to refill.
//!
//! This is the leaky bucket as a meter (ITU-T I.371, Turner 1986), whose other face is GCRA. GCRA
//! keeps one instant, `now + used ÷ rate`, but an instant means another amount as soon as the rate
//! is changed; `used` stays what it was: 3 of 5 gone become 3 of 10.

mod config;
mod credit;
mod grants;
mod ledger;
mod rate;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use crate::unit::Rate;
pub use grants::Grants;
pub use ledger::{LEDGER_SCRIPT, Ledger, Returned};
use rate::Grains;

use crate::{
    clock::Timestamp,
    limiter::{
        Algorithm, Checked, Cost, Limiter, MOST_AHEAD_US, Numbers, Properties, RateLimit, Setting,
        Wait,
    },
    unit::Unit,
};
use std::num::NonZeroU64;

/// The longest time that is counted, in microseconds: 142 years. Added to an instant of this or the next
/// century, it is a number that Lua holds exactly.
pub(super) const LONGEST_US: u64 = 1 << 52;

/// The parameters of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    rate: Rate,
    burst: u32,
    overdraw: bool,
    grains: Grains,
    grants: Option<Grants>,
}

/// What is kept of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Grains gone; up to twice the capacity where the bucket may be overdrawn.
    pub used: u64,
    /// Up to when the refill has been counted.
    pub updated: Timestamp,
    /// The size of those grains: how many made a token under the limit that wrote this.
    pub grains_per_token: u64,
    /// What has been charged, where chunks are taken ahead of need and may be given back.
    pub ledger: Option<Ledger>,
}

impl State {
    /// The same state, its instant pulled back to the present, if it lies too far ahead to be true.
    #[must_use]
    pub fn pulled_back(self, now: Timestamp) -> Option<Self> {
        let is_absurd = self.updated - now > MOST_AHEAD_US;
        is_absurd.then_some(Self { updated: now, ..self })
    }
}

impl Limit {
    /// A bucket of `burst` tokens, refilled at `rate`. At a rate of 0 it holds nothing.
    pub fn new(rate: Rate, burst: u32) -> Self {
        let burst = if rate.tokens == 0 { 0 } else { burst };
        Self { rate, burst, overdraw: false, grains: Grains::of(rate, burst), grants: None }
    }

    /// The bucket of an envoyproxy/ratelimit `rate_limit`: what one unit brings is also what it holds.
    pub fn per_unit(requests: u32, unit: Unit) -> Self {
        Self::new(Rate::per(requests, unit), requests)
    }

    /// The same bucket for costs that are known only afterwards: they are always taken, if need be
    /// from tokens that are not there yet, down to −burst.
    #[must_use]
    pub const fn with_overdraw(self) -> Self {
        Self { overdraw: true, ..self }
    }

    /// The same bucket, of which replicas may take slices ahead of need.
    #[must_use]
    pub const fn with_grants(self, grants: Option<Grants>) -> Self {
        Self { grants, ..self }
    }

    /// How fast it refills.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// How many tokens it holds.
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// Whether it may be overdrawn.
    pub const fn overdraw(&self) -> bool {
        self.overdraw
    }

    /// How slices of it may be taken, where they may.
    pub const fn grants(&self) -> Option<Grants> {
        self.grants
    }

    /// Checks a cost against a state, and gives the state it leaves.
    pub fn check(&self, state: Option<State>, now: Timestamp, cost: Cost) -> Checked<State> {
        let state = self.settle(state, now);
        match cost {
            Cost::Peek => Checked::undelayed(None, self.lacks(&state, now, 1)),
            Cost::Take(tokens) if self.overdraw => self.overdrawn(state, now, tokens),
            Cost::Take(tokens) => self.take(state, now, tokens),
            Cost::Refund(tokens) => self.refund(state, tokens),
        }
    }

    /// Whole tokens that are there.
    pub fn remaining(&self, state: Option<State>, now: Timestamp) -> u64 {
        self.capacity().saturating_sub(self.settle(state, now).used) / self.grains.per_token
    }

    /// Microseconds until it is full, 142 years at most.
    pub fn full_in_us(&self, state: Option<State>, now: Timestamp) -> u64 {
        self.drained_in_us(&self.settle(state, now), now, 0)
    }

    /// The instant at which a state, whatever limit wrote it, equals that of a bucket never used under
    /// this one; `None` where it does already.
    pub fn fresh_at(&self, state: &State) -> Option<Timestamp> {
        let used = self.used(state);
        (used > 0).then(|| state.updated + self.steps_us(used))
    }

    /// Takes what is there, or nothing.
    fn take(&self, state: State, now: Timestamp, tokens: u64) -> Checked<State> {
        match self.lacks(&state, now, tokens) {
            None => {
                let charge = tokens * self.grains.per_token;
                let ledger = state.ledger.and_then(|ledger| ledger.charged_with(charge));
                let used = state.used + charge;
                Checked::undelayed(Some(State { used, ledger, ..state }), None)
            }
            over => Checked::undelayed(None, over),
        }
    }

    /// Takes a cost that has arisen already. Over where not one token was there to begin with.
    fn overdrawn(&self, state: State, now: Timestamp, tokens: u64) -> Checked<State> {
        let charge = tokens.saturating_mul(self.grains.per_token);
        let used = state.used.saturating_add(charge);
        // Where a part of the charge is cut off, nothing can be given back by what was charged.
        let ledger = state.ledger.filter(|_| used <= self.most_used());
        let ledger = ledger.and_then(|ledger| ledger.charged_with(charge));
        let after = State { used: used.min(self.most_used()), ledger, ..state };
        let over = self.lacks(&state, now, 1).and_then(|_| self.lacks(&after, now, 1));
        Checked::undelayed(Some(after), over)
    }

    /// Gives back, up to a full bucket.
    fn refund(&self, state: State, tokens: u64) -> Checked<State> {
        let credit = tokens.saturating_mul(self.grains.per_token);
        let used = state.used.saturating_sub(credit);
        Checked::undelayed(Some(State { used, ..state }), None)
    }

    /// How long until so many tokens are there; `None` where they are.
    fn lacks(&self, state: &State, now: Timestamp, tokens: u64) -> Option<Wait> {
        if tokens > u64::from(self.burst) {
            return Some(Wait::Never);
        }
        let may_be_used = self.capacity() - tokens * self.grains.per_token;
        (state.used > may_be_used)
            .then(|| Wait::Micros(self.drained_in_us(state, now, may_be_used)))
    }

    /// Brings a state up to the present, under this limit.
    fn settle(&self, state: Option<State>, now: Timestamp) -> State {
        let grains_per_token = self.grains.per_token;
        let full = State { used: 0, updated: now, grains_per_token, ledger: None };
        let Some(state) = state else { return full };
        let used = self.used(&state);
        // A state that is cut to a smaller burst, or counted in other grains, begins without a ledger.
        let is_same = used == state.used && state.grains_per_token == grains_per_token;
        let full = State { ledger: state.ledger.filter(|_| is_same), ..full };
        let steps = (now - state.updated) / self.grains.step_us;
        let drained = steps.saturating_mul(self.grains.per_step);
        if drained >= used {
            return full;
        }
        // A step that has begun is not lost: the refill is counted up to its beginning only.
        State { used: used - drained, updated: state.updated + steps * self.grains.step_us, ..full }
    }

    /// What is used, as far as this limit counts it.
    fn used(&self, state: &State) -> u64 {
        self.regrain(state).min(self.most_used())
    }

    /// What is used, in this limit's grains. A part of a token is rounded up, by two grains at most,
    /// in arithmetic that Lua has as well.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "less than a token has fewer than 2^53 grains"
    )]
    fn regrain(&self, state: &State) -> u64 {
        let (old, new) = (state.grains_per_token, self.grains.per_token);
        if old == new || old == 0 {
            return state.used;
        }
        let whole = (state.used / old).saturating_mul(new);
        let part = match state.used % old {
            0 => 0,
            part => ((part as f64 / old as f64 * new as f64).ceil() as u64 + 1).min(new),
        };
        whole.saturating_add(part)
    }

    /// Microseconds until no more than `left` grains are used.
    fn drained_in_us(&self, state: &State, now: Timestamp, left: u64) -> u64 {
        match state.used.saturating_sub(left) {
            0 => 0,
            excess => state.updated + self.steps_us(excess) - now,
        }
    }

    /// Microseconds in which so many grains arrive.
    fn steps_us(&self, grains: u64) -> u64 {
        match self.grains.per_step {
            0 => 0,
            per_step => {
                grains.div_ceil(per_step).saturating_mul(self.grains.step_us).min(LONGEST_US)
            }
        }
    }

    fn capacity(&self) -> u64 {
        u64::from(self.burst) * self.grains.per_token
    }

    fn most_used(&self) -> u64 {
        self.capacity() * if self.overdraw { 2 } else { 1 }
    }
}

impl Limiter for Limit {
    const NAME: &'static str = "token_bucket";
    const NOUN: &'static str = "rate limit";
    const SCRIPT: &'static str = include_str!("../../../lua/token_bucket/limit.lua");
    const PROPERTIES: Properties =
        Properties { may_be_overdrawn: true, may_be_prefetched: true, ..Properties::OF_RATES };
    const HOW_TO_SET: &'static str = "give it --rate, and --burst if you like";

    #[expect(clippy::cast_precision_loss, reason = "grains are counted up to 2^53, which is exact")]
    fn push_arguments(&self, to: &mut Vec<f64>) {
        to.extend([
            f64::from(self.burst),
            u8::from(self.overdraw).into(),
            self.grains.per_token as f64,
            self.grains.per_step as f64,
            self.grains.step_us as f64,
        ]);
    }

    /// `50 per second`, or `100 per second, bursts of 500`.
    fn in_words(&self) -> String {
        match self.unit() {
            Some(unit) => format!("{} per {unit}", self.burst),
            None => format!("{}, bursts of {}", self.rate.in_words(), self.burst),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        let mut parameters = serde_json::json!({
            "rate": { "tokens": self.rate.tokens, "per": self.rate.period() },
            "burst": self.burst,
            "overdraw": self.overdraw,
        });
        if let (Some(parameters), Some(grants)) = (parameters.as_object_mut(), self.grants) {
            parameters.insert("grants".to_owned(), grants.to_json());
        }
        parameters
    }

    fn amount(&self) -> Option<u32> {
        Some(self.burst)
    }

    fn set(self, to: Setting) -> Option<Self> {
        let Setting { rate: Some(rate), burst, max: None } = to else { return None };
        let set = Self::new(rate, burst.unwrap_or(rate.tokens));
        Some(Self { overdraw: self.overdraw, grants: self.grants, ..set })
    }
}

impl Algorithm for Limit {
    type State = State;

    fn check(&self, state: Option<&State>, now: Timestamp, cost: Cost) -> Checked<State> {
        self.check(state.copied(), now, cost)
    }

    fn remaining(&self, state: Option<&State>, now: Timestamp) -> u64 {
        self.remaining(state.copied(), now)
    }

    fn full_in_us(&self, state: Option<&State>, now: Timestamp) -> u64 {
        self.full_in_us(state.copied(), now)
    }

    fn refill_us(&self) -> u64 {
        self.steps_us(self.capacity())
    }

    fn expires_at(&self, state: &State) -> Option<Timestamp> {
        self.fresh_at(state)
    }

    fn clamped_to_now(&self, state: &State, now: Timestamp) -> Option<State> {
        state.pulled_back(now)
    }

    fn read_state(numbers: &mut Numbers<'_>) -> Option<State> {
        let (used, updated) = (numbers.count()?, numbers.instant()?);
        let grains_per_token = numbers.count()?;
        let ledger = match numbers.are_over() {
            true => None,
            false => {
                let since = NonZeroU64::new(numbers.count()?)?;
                Some(Ledger { since, charged: numbers.count()? })
            }
        };
        Some(State { used, updated, grains_per_token, ledger })
    }
}

impl RateLimit for Limit {
    const CREDIT_SCRIPT: &'static str = include_str!("../../../lua/token_bucket/credit.lua");
    const OVERDRAW: Result<fn(Self) -> Self, &'static str> = Ok(Self::with_overdraw);

    fn unit(&self) -> Option<Unit> {
        self.rate.unit_of(self.burst)
    }

    /// What may be promised in whole seconds and is true.
    fn window_s(&self) -> Option<u64> {
        self.rate.seconds_for(self.burst)
    }

    fn arrives_in_us(&self, tokens: u64) -> u64 {
        self.steps_us(tokens.saturating_mul(self.grains.per_token))
    }

    /// The rates of all add up to this one's exactly; their bursts, of which each is rounded up, to fewer than
    /// `replicas` more.
    fn shared_by(self, replicas: u32) -> Self {
        let replicas = replicas.max(1);
        let period_us = self.rate.period_us.saturating_mul(u64::from(replicas));
        let rate = Rate { period_us, ..self.rate };
        Self { overdraw: self.overdraw, ..Self::new(rate, self.burst.div_ceil(replicas)) }
    }

    fn credit(&self, state: &State, now: Timestamp, charge: (u64, Timestamp)) -> Option<State> {
        self.credit(state, now, charge)
    }

    fn overdraw(&self) -> bool {
        self.overdraw
    }

    fn grants(&self) -> Option<Grants> {
        self.grants
    }
}
