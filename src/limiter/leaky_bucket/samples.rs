//! What tests need of leaky buckets.

use super::{Limit, State};
use crate::{
    limiter::{samples::SampledRate, token_bucket},
    unit::{Rate, Unit},
};
use proptest::prelude::*;

impl SampledRate for Limit {
    fn any() -> BoxedStrategy<Self> {
        let tokens = prop_oneof![0_u32..=10, 1_u32..=100_000, any::<u32>()];
        let queue = prop_oneof![0_u32..=10, 0_u32..=1000, any::<u32>(), Just(u32::MAX)];
        let unit = prop::sample::select(Unit::ALL.to_vec());
        (tokens, unit, queue)
            .prop_map(|(tokens, unit, queue)| Self::new(Rate::per(tokens, unit), queue))
            .boxed()
    }

    fn any_state() -> BoxedStrategy<State> {
        token_bucket::Limit::any_state().prop_map(State).boxed()
    }

    fn write(state: &State) -> Vec<u8> {
        token_bucket::Limit::write(&state.0)
    }

    fn any_broken() -> BoxedStrategy<Vec<u8>> {
        token_bucket::Limit::any_broken()
    }
}
