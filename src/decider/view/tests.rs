use super::*;
use crate::worker::Settings;

impl PoolView {
    /// A pool as in the README, whose workers are like that.
    pub(crate) fn with_workers(workers: Option<WorkersView>) -> Self {
        Self {
            domain: "edge".to_owned(),
            name: "api".to_owned(),
            capacity: Some(1000),
            is_reported: false,
            reserved_parts: 200_000,
            in_flight: Slots { critical: 37, others: 512 },
            workers,
        }
    }
}

impl WorkersView {
    /// Workers that are too busy, so that these classes may be dropped.
    pub(crate) fn busy(classes: Vec<(String, f64)>) -> Self {
        Self {
            settings: Settings::default(),
            utilization_parts: Some(824_000),
            count: 50,
            slots: 500,
            last_report_us: Some(800_000),
            is_enforced: true,
            amount_parts: 310_000,
            classes,
        }
    }
}

#[test]
fn the_operator_is_told_why_the_store_cannot_be_asked() {
    let down = |reason: &str| Condition { down: Some(reason.to_owned()), ..Condition::default() };
    let cases = [
        (StoreError::Late, Condition::default(), "the store did not answer in time"),
        (
            StoreError::Unreachable,
            down("connection refused"),
            "the store cannot be reached: connection refused",
        ),
        (
            StoreError::Refused("OOM".to_owned()),
            Condition::default(),
            "the store refuses to decide: OOM",
        ),
    ];
    for (error, condition, words) in cases {
        assert_eq!(why(&error, &condition), words);
    }
}
