//! Worker utilization: when workers are too busy, the least important traffic is given up first, slowly, and
//! comes back slowly.
//!
//! The last line of defence. How long and how much a pool of workers has been too busy is its pressure, see
//! [`crate::worker::Workers`]; from it follows the amount of shedding, from 0 to 1. The classes of traffic are
//! given up one after the other, each a little at a time:
//!
//! ```text
//!   chance to be dropped
//!    1 ┤         ╱──────────────────────────
//!      │  test ╱        get ╱       post ╱
//!    0 ┤─────╱────────────╱────────────╱────▶ amount
//!      0               1/3          2/3       1
//! ```
//!
//! Which of the requests of a class are dropped is drawn: for each request, or for each caller, so that a retry
//! is not another chance.
//!
//! This is the worker utilization load shedder of Paul Tarjan, "Scaling your API with rate limiters" (Stripe,
//! 2017). Its sample freezes above a utilization of 1, begins to shed after 121 s where it says 28, and
//! applies the newest report to all the time since the one before.

mod config;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use crate::{
    clock::Timestamp,
    limiter::{Algorithm, Checked, Cost, Limiter, Numbers, Properties, Setting, Shedder, Wait},
    unit::WHOLE_PARTS,
    worker::{Bucket, Counts, Settings, Workers},
};
use sha2::{Digest as _, Sha256};

/// How long a caller's draw stands, in microseconds: three minutes.
pub const TURN_US: u64 = 180_000_000;

/// Into how many equal parts chances are divided.
const DRAWS: u64 = 1 << 32;

/// By how much a caller's draw moves at each turn: 2^32 divided by the golden ratio, so that the draws of
/// successive turns lie as far apart as can be, and a caller is dropped as often as his share says (Knuth,
/// The Art of Computer Programming, 6.4).
const STRIDE: u64 = 2_654_435_769;

/// After so many turns they begin anew; products with the stride stay below 2^53.
const TURNS: u64 = 1 << 20;

/// What is left of a limit that counts nothing.
pub const REMAINING: u64 = u32::MAX as u64;

/// The parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// When the pool is too busy.
    pub settings: Settings,
    /// How many classes may be dropped.
    pub classes: u32,
    /// Which of them the request is of, the one that is given up first being 0.
    pub class: u32,
    /// What decides among its equals.
    pub draw: Draw,
}

/// A number that is drawn: dropped is who draws less than the chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// At random, for this request.
    Request(u32),
    /// By who is calling: the same for all his requests, until it is his turn to draw anew.
    Caller {
        /// Where his draws begin.
        number: u32,
        /// By how much his turns are earlier than others', in microseconds, below [`TURN_US`].
        turns_us: u64,
    },
}

impl Draw {
    /// The draws of a caller, who is known by this.
    pub fn of_caller<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
        let number = u32::from_le_bytes([a, b, c, d]);
        let turns = u64::from(u32::from_le_bytes([e, f, g, h]));
        Self::Caller { number, turns_us: turns * TURN_US / DRAWS }
    }

    /// What is drawn, below 2^32, and microseconds until it is drawn anew by the same caller.
    fn at(self, now: Timestamp) -> (u64, Option<u64>) {
        match self {
            Self::Request(number) => (number.into(), None),
            Self::Caller { number, turns_us } => {
                let time_us = (now + turns_us).as_micros();
                let moved = (time_us / TURN_US % TURNS) * STRIDE;
                ((u64::from(number) + moved) % DRAWS, Some(TURN_US - time_us % TURN_US))
            }
        }
    }
}

impl Limit {
    /// The chance of a request to be dropped, where the workers are like that: from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "in doubles, as in Lua: all are below 2^53")]
    pub fn chance(&self, workers: &Workers) -> f64 {
        let (_, most) = self.settings.bounds();
        let amount = workers.pressure as f64 / most as f64;
        (amount * f64::from(self.classes) - f64::from(self.class)).clamp(0.0, 1.0)
    }

    /// Microseconds until its class is dropped no more, if the workers have nothing to do from now on.
    fn safe_in_us(&self, workers: &Workers) -> u64 {
        let parts = i64::from(WHOLE_PARTS);
        let pressed_us = (workers.pressure + parts - 1).div_euclid(parts);
        let all_us = self.settings.shed_all_after_us;
        let safe_us = all_us * u64::from(self.class) / u64::from(self.classes.max(1));
        u64::try_from(pressed_us).unwrap_or(0).saturating_sub(safe_us).max(1)
    }
}

impl Limiter for Limit {
    const NAME: &'static str = "utilization";
    const NOUN: &'static str = "utilization limit";
    const SCRIPT: &'static str = include_str!("../../../lua/utilization/limit.lua");
    const PROPERTIES: Properties = Properties::OF_SHEDDERS;
    const HOW_TO_SET: &'static str = "what it allows is said of its pool, in the rule file";

    #[expect(clippy::cast_precision_loss, reason = "minutes have fewer than 2^53 microseconds")]
    fn push_arguments(&self, to: &mut Vec<f64>) {
        let (number, turns_us) = match self.draw {
            Draw::Request(number) => (number, -1.0),
            Draw::Caller { number, turns_us } => (number, turns_us as f64),
        };
        to.extend(self.settings.arguments());
        to.extend([self.classes.into(), self.class.into(), number.into(), turns_us]);
    }

    /// `sheds load over 120 s while workers are more than 80 % busy`.
    fn in_words(&self) -> String {
        let Settings { bad_above_parts, shed_all_after_us, .. } = self.settings;
        let percent = f64::from(bad_above_parts) / 10_000.0;
        let seconds = shed_all_after_us.div_ceil(1_000_000);
        format!("sheds load over {seconds} s while workers are more than {percent} % busy")
    }

    fn to_json(&self) -> serde_json::Value {
        self.settings.to_json()
    }

    fn amount(&self) -> Option<u32> {
        None
    }

    fn set(self, _: Setting) -> Option<Self> {
        None
    }
}

impl Algorithm for Limit {
    type State = Workers;

    /// Drops a request, or does not. It takes nothing, and leaves things as they are; a refund is never dropped.
    fn check(&self, workers: Option<&Workers>, now: Timestamp, cost: Cost) -> Checked<Workers> {
        if let Cost::Refund(_) = cost {
            return Checked::undelayed(None, None);
        }
        let workers = Workers::at(workers, &self.settings, now);
        let (drawn, turns_in_us) = self.draw.at(now);
        #[expect(clippy::cast_precision_loss, reason = "2^32 and less")]
        let is_dropped = (drawn as f64) < self.chance(&workers) * DRAWS as f64;
        let over = is_dropped.then(|| {
            let safe_in_us = self.safe_in_us(&workers);
            Wait::Micros(turns_in_us.map_or(safe_in_us, |turns_in_us| safe_in_us.min(turns_in_us)))
        });
        Checked::undelayed(None, over)
    }

    fn remaining(&self, _: Option<&Workers>, _: Timestamp) -> u64 {
        REMAINING
    }

    fn full_in_us(&self, _: Option<&Workers>, _: Timestamp) -> u64 {
        0
    }

    fn refill_us(&self) -> u64 {
        self.settings.shed_all_after_us
    }

    fn expires_at(&self, state: &Workers) -> Option<Timestamp> {
        state.fresh_at(&self.settings)
    }

    /// Reports, which write the state, clamp it.
    fn clamped_to_now(&self, _: &Workers, _: Timestamp) -> Option<Workers> {
        None
    }

    fn read_state(numbers: &mut Numbers<'_>) -> Option<Workers> {
        let (since, updated) = (numbers.instant()?, numbers.instant()?);
        let (pressure, shed_all_after_us) = (numbers.whole()?, numbers.count()?);
        let sum = read_counts(numbers)?;
        let first = numbers.instant()?;
        let (held, held_until) = (numbers.count()?, numbers.instant()?);
        let mut buckets = Vec::new();
        while !numbers.are_over() {
            let deadline = numbers.instant()?;
            buckets.push(Bucket { deadline, counts: read_counts(numbers)? });
        }
        let state =
            Workers { since, updated, pressure, shed_all_after_us, held, held_until, buckets };
        let is_first = state.buckets.first().is_some_and(|bucket| bucket.deadline == first);
        (is_first && state.counts() == sum && state.is_plausible()).then_some(state)
    }
}

fn read_counts(numbers: &mut Numbers<'_>) -> Option<Counts> {
    Some(Counts { workers: numbers.count()?, slots: numbers.count()?, load: numbers.count()? })
}

impl Shedder for Limit {
    fn class(&self) -> u32 {
        self.class
    }

    fn draws(&self) -> bool {
        matches!(self.draw, Draw::Request(_))
    }

    fn drawing(self, number: u32) -> Self {
        let draw = if self.draws() { Draw::Request(number) } else { self.draw };
        Self { draw, ..self }
    }
}
