//! Fixed window: so many requests in each window of time, such as a day of the calendar.
//!
//! A counter counts what was admitted in the current window, and begins anew with the next one:
//!
//! ```text
//!     ├──────── window ────────┼──────── window ────────┤
//!     0 ──▶ used ≤ limit       0 ──▶ used ≤ limit
//!                        ▲▲▲▲▲▲ ▲▲▲▲▲▲
//!                        up to 2 × limit around a boundary
//! ```
//!
//! That is its promise and its price: at most `limit` in each window, but up to twice as many in a short time around a
//! boundary. It is for quotas that people count by the calendar, and for what envoyproxy/ratelimit did.
//!
//! A state names its window. One of another window counts as none: so a changed period begins anew. While the clock is
//! set back, the window of the state goes on.
//!
//! It is the fixed window counter of the write-ups of Kong ("How to Design a Scalable Rate Limiting Algorithm", 2017) and
//! Figma ("An alternative approach to rate limiting", 2017).

mod config;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
mod window;

use crate::{
    clock::Timestamp,
    limiter::{
        Algorithm, Checked, Cost, Limiter, MOST_AHEAD_US, Numbers, Properties, RateLimit, Setting,
        Wait, token_bucket::Grants,
    },
    unit::Unit,
};
use window::Cut;
pub use window::{Period, Window};

/// The parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    limit: u32,
    period: Period,
    overdraw: bool,
}

/// What is kept of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// What was charged in the window.
    pub used: u64,
    /// The window.
    pub window: Window,
}

impl Limit {
    /// A limit of so many in each window of a period.
    pub const fn new(limit: u32, period: Period) -> Self {
        Self { limit, period, overdraw: false }
    }

    /// The same limit for costs that are known only afterwards: they are always taken, up to twice the limit.
    #[must_use]
    pub const fn with_overdraw(self) -> Self {
        Self { overdraw: true, ..self }
    }

    /// How time is cut into windows.
    pub const fn period(&self) -> Period {
        self.period
    }

    /// The current window, and what is used of it. Of a state that lies ahead, its window goes on.
    fn current(&self, state: Option<&State>, now: Timestamp) -> State {
        match state.and_then(|state| self.own(state)) {
            Some(own) if now < own.window.end => own,
            _ => State { used: 0, window: self.period.window(now) },
        }
    }

    /// A state of a window of this limit; `None` where it equals one never used, as that of another window does.
    fn own(&self, state: &State) -> Option<State> {
        let is_own = state.used > 0 && state.window == self.period.window(state.window.start);
        is_own.then_some(*state)
    }

    /// How long until so many fit; `None` where they do.
    fn lacks(&self, state: &State, now: Timestamp, hits: u64) -> Option<Wait> {
        if hits > u64::from(self.limit) {
            return Some(Wait::Never);
        }
        let is_full = state.used > u64::from(self.limit) - hits;
        is_full.then(|| Wait::Micros(state.window.end - now))
    }
}

impl Limiter for Limit {
    const NAME: &'static str = "fixed_window";
    const NOUN: &'static str = "rate limit";
    const SCRIPT: &'static str = include_str!("../../../lua/fixed_window/limit.lua");
    const PROPERTIES: Properties = Properties { may_be_overdrawn: true, ..Properties::OF_RATES };
    const HOW_TO_SET: &'static str = "give it --max";

    #[expect(clippy::cast_precision_loss, reason = "durations are below 2^53 microseconds")]
    fn push_arguments(&self, to: &mut Vec<f64>) {
        let (length, before_us) = match self.period.cut() {
            Cut::Length { length_us, before_us } => (length_us as f64, before_us),
            Cut::Months(months) => (-(months as f64), 0),
        };
        let overdraw = u8::from(self.overdraw);
        to.extend([self.limit.into(), overdraw.into(), length, before_us as f64]);
    }

    /// `1000 in each day`, or `5 in each 10s`.
    fn in_words(&self) -> String {
        format!("{} in each {}", self.limit, self.period)
    }

    fn to_json(&self) -> serde_json::Value {
        let mut parameters = serde_json::json!({
            "limit": self.limit,
            "per": self.period.to_string(),
            "overdraw": self.overdraw,
        });
        if let (Some(parameters), Some(align)) = (parameters.as_object_mut(), self.period.align()) {
            parameters.insert("align".to_owned(), align.into());
        }
        parameters
    }

    fn amount(&self) -> Option<u32> {
        Some(self.limit)
    }

    fn set(self, to: Setting) -> Option<Self> {
        let Setting { rate: None, burst: None, max: Some(limit) } = to else { return None };
        Some(Self { limit, ..self })
    }
}

impl Algorithm for Limit {
    type State = State;

    fn check(&self, state: Option<&State>, now: Timestamp, cost: Cost) -> Checked<State> {
        let current = self.current(state, now);
        let with = |used| Some(State { used, ..current });
        let (state, over) = match cost {
            Cost::Peek => (None, self.lacks(&current, now, 1)),
            Cost::Take(hits) if self.overdraw => {
                let most = 2 * u64::from(self.limit);
                // A limit that was lowered forgets nothing: it may be raised again.
                let used = current.used.saturating_add(hits).min(most).max(current.used);
                (with(used), self.lacks(&current, now, 1))
            }
            Cost::Take(hits) => match self.lacks(&current, now, hits) {
                None => (with(current.used + hits), None),
                over => (None, over),
            },
            Cost::Refund(hits) => (with(current.used.saturating_sub(hits)), None),
        };
        Checked::undelayed(state, over)
    }

    fn remaining(&self, state: Option<&State>, now: Timestamp) -> u64 {
        u64::from(self.limit).saturating_sub(self.current(state, now).used)
    }

    fn full_in_us(&self, state: Option<&State>, now: Timestamp) -> u64 {
        let State { used, window } = self.current(state, now);
        if used > 0 { window.end - now } else { 0 }
    }

    fn refill_us(&self) -> u64 {
        self.period.longest_us()
    }

    /// Of a window it all comes back at once: as if it came evenly, by the end.
    fn refill_us_of(&self, state: &State) -> u64 {
        let length_us = state.window.end - state.window.start;
        let refill_us =
            u128::from(length_us) * u128::from(self.limit.max(1)) / u128::from(state.used.max(1));
        u64::try_from(refill_us).unwrap_or(u64::MAX)
    }

    fn expires_at(&self, state: &State) -> Option<Timestamp> {
        self.own(state).map(|own| own.window.end)
    }

    fn clamped_to_now(&self, state: &State, now: Timestamp) -> Option<State> {
        let is_absurd = state.window.start - now > MOST_AHEAD_US;
        is_absurd.then(|| State { window: self.period.window(now), ..*state })
    }

    fn read_state(numbers: &mut Numbers<'_>) -> Option<State> {
        let used = numbers.count()?;
        let window = Window { start: numbers.instant()?, end: numbers.instant()? };
        (window.start < window.end).then_some(State { used, window })
    }
}

impl RateLimit for Limit {
    const OVERDRAW: Result<fn(Self) -> Self, &'static str> = Ok(Self::with_overdraw);
    const CREDIT_SCRIPT: &'static str = include_str!("../../../lua/fixed_window/credit.lua");

    fn unit(&self) -> Option<Unit> {
        self.period.unit()
    }

    fn window_s(&self) -> Option<u64> {
        Some(self.period.longest_us().div_ceil(1_000_000))
    }

    /// All of them come at the end of the window.
    fn arrives_in_us(&self, _: u64) -> u64 {
        0
    }

    fn shared_by(self, replicas: u32) -> Self {
        Self { limit: self.limit.div_ceil(replicas.max(1)), ..self }
    }

    /// Only in the window of the charge.
    fn credit(&self, state: &State, now: Timestamp, (hits, at): (u64, Timestamp)) -> Option<State> {
        let window = self.period.window(now);
        let is_same = state.window == window && window == self.period.window(at);
        // A debt may have been cut off at its floor.
        let used = state.used.checked_sub(hits).filter(|_| is_same && !self.overdraw)?;
        Some(State { used, ..*state })
    }

    fn overdraw(&self) -> bool {
        self.overdraw
    }

    fn grants(&self) -> Option<Grants> {
        None
    }
}
