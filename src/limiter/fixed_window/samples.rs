//! What tests need of fixed windows.

use super::{Limit, Period, State, Window};
use crate::{
    clock::Timestamp,
    limiter::samples::{SampledRate, any_broken_count, any_count, any_instant_us, counts, doubles},
    unit::Unit,
};
use proptest::prelude::*;

fn any_period() -> BoxedStrategy<Period> {
    prop_oneof![
        prop::sample::select(Unit::ALL.to_vec()).prop_map(Period::Calendar),
        (1..=Unit::Year.micros() / 1000).prop_map(|millis| Period::Fixed(millis * 1000)),
        (1..=60_u64).prop_map(|seconds| Period::Fixed(seconds * Unit::Second.micros())),
    ]
    .boxed()
}

impl SampledRate for Limit {
    fn any() -> BoxedStrategy<Self> {
        let most = prop_oneof![0..=10_u32, 1..=1000_u32, any::<u32>(), Just(u32::MAX)];
        (most, any_period(), any::<bool>())
            .prop_map(|(most, period, overdraw)| {
                let limit = Self::new(most, period);
                if overdraw { limit.with_overdraw() } else { limit }
            })
            .boxed()
    }

    fn any_state() -> BoxedStrategy<State> {
        let of_a_period = (any_instant_us(), any_period())
            .prop_map(|(at, period)| period.window(Timestamp::from_micros(at)));
        let any = (any_instant_us(), 1..=Unit::Year.micros()).prop_map(|(start, length)| {
            let start = start.min((1 << 53) - length);
            let [start, end] = [start, start + length].map(Timestamp::from_micros);
            Window { start, end }
        });
        let window = prop_oneof![3 => of_a_period, 1 => any]
            .prop_filter("Lua has it", |window| window.end.as_micros() <= 1 << 53);
        (any_count(), window).prop_map(|(used, window)| State { used, window }).boxed()
    }

    fn write(State { used, window }: &State) -> Vec<u8> {
        counts(&[*used, window.start.as_micros(), window.end.as_micros()])
    }

    fn any_broken() -> BoxedStrategy<Vec<u8>> {
        let good = [3.0, 1.8e15, 1.9e15];
        let one_bad = (any_broken_count(), 0..3_usize).prop_map(move |(bad, place)| {
            let mut numbers = good;
            numbers[place] = bad;
            doubles(numbers)
        });
        let empty = Just(doubles([3.0, 1.8e15, 1.8e15]));
        let other = prop::collection::vec(any::<u8>(), 0..40)
            .prop_filter("the length of a state", |bytes| bytes.len() != 24);
        prop_oneof![3 => one_bad, 1 => empty, 3 => other].boxed()
    }
}
