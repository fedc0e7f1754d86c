//! What tests need of fleet limits.

use super::{Capacity, Limit};
use crate::{
    lease::{Term, samples::any_term_us},
    limiter::samples::SampledSlots,
    unit::WHOLE_PARTS,
    worker::LONGEST_REPORT_TTL_US,
};
use proptest::prelude::*;

impl SampledSlots for Limit {
    fn any() -> BoxedStrategy<Self> {
        let slots = prop_oneof![0..=5_u32, 0..=100_u32, any::<u32>(), Just(u32::MAX)];
        let reserved = prop_oneof![Just(0), Just(200_000), Just(WHOLE_PARTS), 0..=1_000_000_u32];
        let flags = (any::<bool>(), any::<bool>());
        let limit = (slots, reserved, any_term_us(), flags).prop_map(
            |(slots, reserved_parts, term_us, (critical, weighs_hits))| {
                let report_ttl = Term::of_micros(term_us.min(LONGEST_REPORT_TTL_US));
                let capacity = match slots % 3 {
                    0 => Capacity::Reported { report_ttl, slots: None },
                    _ => Capacity::Slots(slots),
                };
                let term = Term::of_micros(term_us);
                Self { capacity, reserved_parts, critical, term, weighs_hits }
            },
        );
        limit.boxed()
    }
}
