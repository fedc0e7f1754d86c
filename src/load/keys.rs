//! Which key is asked for next.

use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use rand_distr::{Distribution as _, Zipf};

/// Draws keys, which are numbers from 0 on, by Zipf's law: the one with number k in proportion to
/// 1 ÷ (k + 1)^s. With s = 0 all are alike.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    count: u32,
    /// `None` where all are alike, which costs less to draw.
    law: Option<Zipf<f64>>,
    random: SmallRng,
}

impl Keys {
    /// So many keys, at least one, with an exponent of at least 0. The same seed draws the same keys: loads can be
    /// repeated.
    pub(super) fn new(count: u32, exponent: f64, seed: u64) -> Result<Self, rand_distr::ZipfError> {
        let law = Zipf::new(f64::from(count), exponent)?;
        let law = (exponent > 0.0).then_some(law);
        Ok(Self { count, law, random: SmallRng::seed_from_u64(seed) })
    }

    /// The next one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ranks are whole, from 1 to 2^32"
    )]
    pub(super) fn draw(&mut self) -> u32 {
        match &self.law {
            None => self.random.random_range(0..self.count),
            Some(law) => law.sample(&mut self.random) as u32 - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How often each key comes in so many draws.
    fn counts(keys: u32, exponent: f64, draws: u32) -> Vec<f64> {
        let mut drawn = Keys::new(keys, exponent, 1).unwrap();
        let mut counts = vec![0.0; keys as usize];
        for _ in 0..draws {
            counts[drawn.draw() as usize] += 1.0;
        }
        counts
    }

    proptest! {
        #[test]
        fn draws_none_but_its_keys(keys in 1..u32::MAX, exponent in 0.0..10.0_f64, seed in any::<u64>()) {
            let mut drawn = Keys::new(keys, exponent, seed).unwrap();
            for _ in 0..100 {
                prop_assert!(drawn.draw() < keys);
            }
        }

        /// Held against the law by its own weights, with room for five standard deviations.
        #[test]
        fn draws_each_as_often_as_the_law_says(keys in 1..50_u32, exponent in 0.0..3.0_f64) {
            const DRAWS: f64 = 20_000.0;
            let weight = |key: u32| f64::from(key + 1).powf(-exponent);
            let all: f64 = (0..keys).map(weight).sum();
            let counts = counts(keys, exponent, DRAWS as u32);
            for (key, count) in (0..).zip(counts) {
                let share = weight(key) / all;
                let (expected, deviation) = (DRAWS * share, (DRAWS * share * (1.0 - share)).sqrt());
                prop_assert!(
                    (count - expected).abs() <= 5.0 * deviation + 1.0,
                    "key {key} of {keys}, s = {exponent}: {count} times and not {expected}"
                );
            }
        }
    }

    #[test]
    fn a_seed_draws_the_same_again() {
        let draw = |seed| {
            let mut keys = Keys::new(1000, 1.0, seed).unwrap();
            (0..10).map(|_| keys.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
