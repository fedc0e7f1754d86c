//! What tests need of utilization limits.

use super::{Draw, Limit, TURN_US};
use crate::{limiter::samples::SampledShedder, worker::samples::any_settings};
use proptest::prelude::*;

impl SampledShedder for Limit {
    fn any() -> BoxedStrategy<Self> {
        let draw = prop_oneof![
            any::<u32>().prop_map(Draw::Request),
            (any::<u32>(), 0..TURN_US)
                .prop_map(|(number, turns_us)| Draw::Caller { number, turns_us }),
        ];
        let limit = (any_settings(), 1..=32_u32, any::<u32>(), draw).prop_map(
            |(settings, classes, class, draw)| Self {
                settings,
                classes,
                class: class % classes,
                draw,
            },
        );
        limit.boxed()
    }
}
