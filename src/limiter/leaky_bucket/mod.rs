//! Leaky bucket: hits are spaced, and up to so many of them wait.
//!
//! Hits leave a queue at `rate`. A hit that finds it empty goes on at once; one that finds others in it is told how long to
//! wait before it goes on; one that finds `queue` hits waiting is refused:
//!
//! ```text
//!     used   0 ├──────●──────────────────┤ queue + 1
//!              ◄─drains┘└─ may still wait ┘
//!     delay  = the time in which what was used before it drains
//! ```
//!
//! It is for what must be called evenly, such as another service with a limit of its own. The caller does the waiting:
//! Acquire with `wait` does it here, and Envoy cannot, so through Envoy nothing is slowed.
//!
//! What is counted is that of a [`token_bucket`] of `queue + 1`, which passes the same hits and lets them go on at once. As
//! there, it is kept as `used` and not as GCRA's one instant, so that it stays what it was where the rate changes.
//!
//! Source: the leaky bucket as a queue (ITU-T I.371, Annex A: the generic cell rate algorithm as a shaper).

mod config;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use crate::{
    clock::Timestamp,
    limiter::{
        Algorithm, Checked, Cost, Limiter, Numbers, Properties, RateLimit, Setting, Wait,
        token_bucket::{self, Grants, LONGEST_US},
    },
    unit::{Rate, Unit},
};

/// The parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    queue: u32,
    /// Of the queue and one more.
    bucket: token_bucket::Limit,
    /// The longest delay that the caller accepts, in microseconds.
    most_delay_us: u64,
}

/// What is kept of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(token_bucket::State);

impl Limit {
    /// Hits at a rate, of which so many may wait.
    pub fn new(rate: Rate, queue: u32) -> Self {
        let bucket = token_bucket::Limit::new(rate, queue.saturating_add(1));
        Self { queue, bucket, most_delay_us: LONGEST_US }
    }
}

fn inner(state: Option<&State>) -> Option<token_bucket::State> {
    state.map(|state| state.0)
}

impl Limiter for Limit {
    const NAME: &'static str = "leaky_bucket";
    const NOUN: &'static str = "rate limit";
    const SCRIPT: &'static str = include_str!("../../../lua/leaky_bucket/limit.lua");
    const PROPERTIES: Properties = Properties { may_delay: true, ..Properties::OF_RATES };
    const HOW_TO_SET: &'static str = "give it --rate, and --burst for the queue if you like";

    #[expect(clippy::cast_precision_loss, reason = "it is at most 2^53")]
    fn push_arguments(&self, to: &mut Vec<f64>) {
        self.bucket.push_arguments(to);
        to.push(self.most_delay_us as f64);
    }

    /// `10 per second, up to 20 waiting`, or `10 per second, none waiting`.
    fn in_words(&self) -> String {
        let rate = self.bucket.rate().in_words();
        match self.queue {
            0 => format!("{rate}, none waiting"),
            queue => format!("{rate}, up to {queue} waiting"),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        let rate = self.bucket.rate();
        serde_json::json!({
            "rate": { "tokens": rate.tokens, "per": rate.period() },
            "queue": self.queue,
        })
    }

    fn amount(&self) -> Option<u32> {
        self.bucket.amount()
    }

    fn set(self, to: Setting) -> Option<Self> {
        let Setting { rate: Some(rate), burst, max: None } = to else { return None };
        Some(Self {
            most_delay_us: self.most_delay_us,
            ..Self::new(rate, burst.unwrap_or(self.queue))
        })
    }
}

impl Algorithm for Limit {
    type State = State;

    fn check(&self, state: Option<&State>, now: Timestamp, cost: Cost) -> Checked<State> {
        let checked = self.bucket.check(inner(state), now, cost).map(State);
        if checked.over.is_some() || !matches!(cost, Cost::Take(_)) {
            return checked;
        }
        // Until what is before it has gone on.
        let delay_us = self.bucket.full_in_us(inner(state), now);
        match delay_us.checked_sub(self.most_delay_us) {
            None | Some(0) => Checked { delay_us, ..checked },
            Some(wait_us) => Checked::undelayed(None, Some(Wait::Micros(wait_us))),
        }
    }

    fn remaining(&self, state: Option<&State>, now: Timestamp) -> u64 {
        self.bucket.remaining(inner(state), now)
    }

    fn full_in_us(&self, state: Option<&State>, now: Timestamp) -> u64 {
        self.bucket.full_in_us(inner(state), now)
    }

    fn refill_us(&self) -> u64 {
        Algorithm::refill_us(&self.bucket)
    }

    fn expires_at(&self, state: &State) -> Option<Timestamp> {
        self.bucket.expires_at(&state.0)
    }

    fn clamped_to_now(&self, state: &State, now: Timestamp) -> Option<State> {
        self.bucket.clamped_to_now(&state.0, now).map(State)
    }

    fn read_state(numbers: &mut Numbers<'_>) -> Option<State> {
        token_bucket::Limit::read_state(numbers).map(State)
    }
}

impl RateLimit for Limit {
    const CREDIT_SCRIPT: &'static str = include_str!("../../../lua/leaky_bucket/credit.lua");
    const OVERDRAW: Result<fn(Self) -> Self, &'static str> =
        Err("for costs known afterwards there are `token_bucket` and `fixed_window`");

    fn unit(&self) -> Option<Unit> {
        RateLimit::unit(&self.bucket)
    }

    fn window_s(&self) -> Option<u64> {
        RateLimit::window_s(&self.bucket)
    }

    fn arrives_in_us(&self, hits: u64) -> u64 {
        RateLimit::arrives_in_us(&self.bucket, hits)
    }

    fn shared_by(self, replicas: u32) -> Self {
        let bucket = RateLimit::shared_by(self.bucket, replicas);
        Self { queue: bucket.burst().saturating_sub(1), bucket, ..self }
    }

    /// Those that came after it wait for their turns, which were given them with it. So nothing is given back.
    fn credit(&self, _: &State, _: Timestamp, _: (u64, Timestamp)) -> Option<State> {
        None
    }

    fn within(self, most_delay_us: u64) -> Self {
        Self { most_delay_us: most_delay_us.min(LONGEST_US), ..self }
    }

    fn overdraw(&self) -> bool {
        false
    }

    fn grants(&self) -> Option<Grants> {
        None
    }
}
