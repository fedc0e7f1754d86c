//! What tests need of token buckets.

use super::{Ledger, Limit, Rate, State};
use crate::{
    clock::Timestamp,
    limiter::samples::{SampledRate, any_count, any_instant_us, counts, doubles},
    unit::Unit,
};
use proptest::prelude::*;
use std::num::NonZeroU64;

impl SampledRate for Limit {
    fn any() -> BoxedStrategy<Self> {
        let tokens = prop_oneof![0_u32..=10, 1_u32..=100_000, any::<u32>(), Just(u32::MAX)];
        let burst =
            prop_oneof![Just(1_u32), 0_u32..=10, 1_u32..=1000, any::<u32>(), Just(u32::MAX)];
        let unit = prop::sample::select(Unit::ALL.to_vec());
        let limit =
            (tokens, unit, burst, any::<bool>()).prop_map(|(tokens, unit, burst, overdraw)| {
                let limit = Self::new(Rate::per(tokens, unit), burst);
                if overdraw { limit.with_overdraw() } else { limit }
            });
        limit.boxed()
    }

    fn any_state() -> BoxedStrategy<State> {
        let ledger = prop::option::of((any_count(), any_count())).prop_map(|ledger| {
            let since = |since: u64| NonZeroU64::new(since).unwrap_or(NonZeroU64::MIN);
            ledger.map(|(it, charged)| Ledger { since: since(it), charged })
        });
        let state = (any_count(), any_instant_us(), any_count(), ledger).prop_map(
            |(used, updated, grains_per_token, ledger)| {
                let updated = Timestamp::from_micros(updated);
                State { used, updated, grains_per_token: grains_per_token.max(1), ledger }
            },
        );
        state.boxed()
    }

    fn write(state: &State) -> Vec<u8> {
        let numbers = [state.used, state.updated.as_micros(), state.grains_per_token];
        let ledger = state.ledger.map_or_else(Vec::new, |it| vec![it.since.get(), it.charged]);
        counts(&[&numbers[..], &ledger].concat())
    }

    fn any_broken() -> BoxedStrategy<Vec<u8>> {
        let good = || (1..=1_u64 << 53).prop_map(|count| count as f64);
        let bad_count = || {
            prop_oneof![
                Just(f64::NAN),
                Just(f64::INFINITY),
                Just(-1.0),
                Just(0.5),
                Just(2.0_f64.powi(53) + 2.0),
                any::<f64>()
                    .prop_filter("a count", |it| it.fract() != 0.0 || *it < 0.0 || *it > 1e16),
            ]
        };
        let nearly = (good(), good(), bad_count(), 0..3_usize).prop_map(|(a, b, bad, place)| {
            let mut numbers = vec![a, b];
            // A token of no grains is none.
            let bad = if place == 2 && bad == 0.5 { 0.0 } else { bad };
            numbers.insert(place, bad);
            doubles(numbers)
        });
        let other = prop::collection::vec(any::<u8>(), 0..40)
            .prop_filter("the length of a state", |bytes| bytes.len() != 24);
        let no_ledger =
            prop_oneof![(Just(0.0), good()), (bad_count(), good()), (good(), bad_count())];
        let no_ledger = (good(), good(), good(), no_ledger)
            .prop_map(|(a, b, c, (since, charged))| doubles([a, b, c, since, charged]));
        prop_oneof![nearly, other, no_ledger].boxed()
    }
}
