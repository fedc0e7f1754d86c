//! A rate, as written and as counted.

use crate::unit::Unit;

/// So many tokens in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Tokens per period. 0 never refills.
    pub tokens: u32,
    /// The period, in microseconds. Never 0.
    pub period_us: u64,
}

impl Rate {
    /// So many tokens in one unit.
    pub const fn per(tokens: u32, unit: Unit) -> Self {
        Self { tokens, period_us: unit.micros() }
    }

    /// In how many seconds so many tokens arrive, rounded up; `None` where none ever do.
    pub fn seconds_for(self, tokens: u32) -> Option<u64> {
        let micros = u128::from(tokens) * u128::from(self.period_us);
        let per_second = u128::from(self.tokens) * 1_000_000;
        let seconds = (per_second > 0).then(|| micros.div_ceil(per_second))?;
        Some(u64::try_from(seconds).unwrap_or(u64::MAX))
    }

    /// The unit in which exactly `amount` tokens arrive, if there is one; its own first.
    pub fn unit_of(self, amount: u32) -> Option<Unit> {
        let arrives_in = |unit: &Unit| {
            u128::from(self.tokens) * u128::from(unit.micros())
                == u128::from(amount) * u128::from(self.period_us)
        };
        self.unit().filter(arrives_in).or_else(|| Unit::ALL.into_iter().find(arrives_in))
    }

    /// For people: `100 per second`, or `100 per 30s`.
    pub fn in_words(self) -> String {
        let period = self.unit().map_or_else(|| self.period(), |unit| unit.to_string());
        format!("{} per {period}", self.tokens)
    }

    /// The period as a rule file writes it: `30s`, or `250ms`.
    pub fn period(self) -> String {
        if self.period_us.is_multiple_of(1_000_000) {
            format!("{}s", self.period_us / 1_000_000)
        } else {
            format!("{}ms", self.period_us / 1_000)
        }
    }

    /// The unit that is its period, if one is.
    fn unit(self) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.micros() == self.period_us)
    }
}

/// A bucket is counted in grains, so small that both a token and a step of the refill are whole
/// numbers of them: then refilling is exact, and no rounding adds up over a million small steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grains {
    /// Grains in one token.
    pub(crate) per_token: u64,
    /// Grains that one step of the refill brings.
    pub(crate) per_step: u64,
    /// The length of a step, in microseconds.
    pub(crate) step_us: u64,
}

impl Grains {
    /// The most grains in a bucket. A debt may be as deep as the bucket, and twice this is the largest
    /// count that a Lua number holds exactly.
    const MOST: u64 = 1 << 52;

    /// The grains for a bucket of `burst` tokens.
    ///
    /// The fraction tokens ÷ period in lowest terms is exact with a step of one microsecond, for every
    /// rate and burst that people write. Where the bucket would then hold more grains than can be
    /// counted (four billion a day, say), grains and steps grow together by a power of two; the one
    /// rounding there is makes the refill slower, by less than a part in 500,000.
    pub(crate) fn of(rate: Rate, burst: u32) -> Self {
        let divisor = greatest_common_divisor(u64::from(rate.tokens), rate.period_us).max(1);
        let exact = rate.period_us / divisor;
        let mut grains =
            Self { per_token: exact, per_step: u64::from(rate.tokens) / divisor, step_us: 1 };
        while u128::from(grains.per_token) * u128::from(burst) > u128::from(Self::MOST) {
            grains.step_us *= 2;
            grains.per_token = exact.div_ceil(grains.step_us);
        }
        grains
    }
}

const fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
