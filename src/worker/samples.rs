//! What tests need of workers: any report.

use super::{
    Instant, LONGEST_REPORT_TTL_US, LONGEST_SHEDDING_US, Load, MOST_SLOTS, Report, Settings,
};
use crate::lease::{Term, samples::EXACT_US};
use proptest::prelude::*;

/// When a pool is too busy.
pub(crate) fn any_settings() -> impl Strategy<Value = Settings> {
    let span = || prop_oneof![1..=100_u64, 1..=60_000_000_u64, 1..=LONGEST_SHEDDING_US];
    let ttl = prop_oneof![Just(EXACT_US), 1..=60_000_000_u64, 1..=LONGEST_REPORT_TTL_US];
    let any = ((1..=999_999_u32, 1..=999_999_u32), (span(), span()), ttl).prop_map(
        |((a, b), (hold_off_us, shed_all_after_us), ttl_us)| Settings {
            good_below_parts: a.min(b),
            bad_above_parts: a.max(b),
            hold_off_us: hold_off_us - 1,
            shed_all_after_us,
            report_ttl: Term::of_micros(ttl_us),
        },
    );
    prop_oneof![Just(Settings::default()), any]
}

/// What a worker has to do.
pub(crate) fn any_load() -> impl Strategy<Value = Load> {
    let slots = prop_oneof![Just(1), 1..=10_u32, 1..=MOST_SLOTS];
    let ratio = prop_oneof![0.0..=1.3_f64, 0.6..=1.0_f64, 0.0..=10.0_f64];
    (ratio, slots).prop_map(|(ratio, slots)| Load::of_ratio(ratio, slots, "ratio").unwrap())
}

/// When a worker measured it, by its own clock.
pub(crate) fn any_instant() -> impl Strategy<Value = Instant> {
    prop_oneof![1..=5_u64, 1..=1_u64 << 53].prop_map(Instant::of_micros)
}

/// What a worker reports.
pub(crate) fn any_report() -> impl Strategy<Value = Report> {
    let load = prop::option::weighted(0.9, any_load());
    let measured = prop::option::weighted(0.3, any_instant());
    (any_settings(), load, measured).prop_map(|(settings, load, measured)| Report {
        settings,
        load,
        measured,
    })
}
