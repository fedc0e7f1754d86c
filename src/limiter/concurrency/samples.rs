//! What tests need of concurrency limits.

use super::Limit;
use crate::{
    lease::{Term, samples::any_term_us},
    limiter::samples::SampledSlots,
};
use proptest::prelude::*;

impl SampledSlots for Limit {
    fn any() -> BoxedStrategy<Self> {
        let max = prop_oneof![0..=5_u32, 0..=100_u32, any::<u32>(), Just(u32::MAX)];
        let limit = (max, any_term_us(), any::<bool>()).prop_map(|(max, term_us, weighs_hits)| {
            Self { max, term: Term::of_micros(term_us), weighs_hits }
        });
        limit.boxed()
    }
}
