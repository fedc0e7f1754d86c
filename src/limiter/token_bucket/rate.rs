//! How fast a bucket refills, as it is counted.

use crate::unit::Rate;

/// A bucket is counted in grains, so small that both a token and a step of the refill are whole
/// numbers of them: then refilling is exact, and no rounding adds up over a million small steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grains {
    /// Grains in one token.
    pub(super) per_token: u64,
    /// Grains that one step of the refill brings.
    pub(super) per_step: u64,
    /// The length of a step, in microseconds.
    pub(super) step_us: u64,
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
    pub(super) fn of(rate: Rate, burst: u32) -> Self {
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
