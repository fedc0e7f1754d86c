use super::*;
use crate::lease::Slots;

fn busy() -> WorkersView {
    WorkersView::busy(classes([0.93, 0.0, 0.0]))
}

fn resting() -> WorkersView {
    // The amount is rounded down, as a store's is.
    let amount_parts = -233_334;
    WorkersView {
        utilization_parts: Some(500_000),
        is_enforced: true,
        amount_parts,
        classes: classes([0.0; 3]),
        ..busy()
    }
}

fn silent() -> WorkersView {
    WorkersView {
        utilization_parts: None,
        count: 0,
        slots: 0,
        last_report_us: Some(45_000_000),
        ..resting()
    }
}

fn classes(chances: [f64; 3]) -> Vec<(String, f64)> {
    ["test", "get", "post"].map(str::to_owned).into_iter().zip(chances).collect()
}

/// What is said of the workers, and of shedding.
fn said_of(workers: WorkersView) -> [String; 2] {
    let text = text(&[PoolView::with_workers(Some(workers))]);
    let lines: Vec<_> = text.lines().skip(2).map(|line| line.trim_start().to_owned()).collect();
    lines.try_into().unwrap()
}

#[test]
fn a_pool_under_load_is_seen_at_a_glance() {
    let shown = "\
edge
  api   1000 slots, 200 reserved; in flight: 37 critical, 512 others
        82.4 % busy, 50 workers of 500 slots, last report 0.8 s ago
        shedding, amount 0.31 of 1: drops 93 % of test, 0 % of get, 0 % of post
";
    assert_eq!(text(&[PoolView::with_workers(Some(busy()))]), shown);
}

#[test]
fn pools_stand_below_their_domains_in_columns() {
    let fleet = PoolView { name: "reports".to_owned(), ..PoolView::with_workers(None) };
    let one = PoolView {
        domain: "jobs".to_owned(),
        capacity: Some(1),
        reserved_parts: 0,
        in_flight: Slots::default(),
        ..PoolView::with_workers(None)
    };
    let shown = "\
edge
  api       1000 slots, 200 reserved; in flight: 37 critical, 512 others
  reports   1000 slots, 200 reserved; in flight: 37 critical, 512 others

jobs
  api       1 slot, 0 reserved; in flight: 0 critical, 0 others
";
    assert_eq!(text(&[PoolView::with_workers(None), fleet, one]), shown);
    assert_eq!(text(&[]), "There are no pools: rule files describe them below `pools`.\n");
}

#[test]
fn what_is_in_shadow_mode_only_would_drop() {
    let [_, shedding] = said_of(WorkersView { is_enforced: false, ..busy() });
    let expected =
        "in shadow mode, amount 0.31 of 1: would drop 93 % of test, 0 % of get, 0 % of post";
    assert_eq!(shedding, expected);
}

#[test]
fn what_sheds_nothing_says_how_far_from_it_it_is() {
    let [_, shedding] = said_of(resting());
    assert_eq!(shedding, "not shedding, amount -0.233: begins after 28 s of wholly busy workers");
    let [_, shedding] = said_of(WorkersView { amount_parts: -1, ..resting() });
    assert_eq!(shedding, "not shedding, amount 0: begins after 0.0 s of wholly busy workers");
    let [_, shedding] = said_of(WorkersView { classes: vec![], ..busy() });
    assert_eq!(shedding, "sheds nothing: its `shed` names no class");
}

#[test]
fn silence_is_told_with_its_length() {
    let [workers, _] = said_of(silent());
    assert_eq!(
        workers,
        "no report is fresh: the last came 45 s ago, and counts for 20 s; silence never sheds more"
    );
    let [workers, _] = said_of(WorkersView { last_report_us: None, ..silent() });
    assert_eq!(workers, "no worker has reported of late; silence never sheds");
}

#[test]
fn a_reported_capacity_says_how_far_it_is_known() {
    let slots = |capacity, workers| {
        let pool =
            PoolView { capacity, is_reported: true, ..PoolView::with_workers(Some(workers)) };
        text(&[pool]).lines().nth(1).unwrap().to_owned()
    };
    let known = slots(Some(500), busy());
    assert_eq!(
        known,
        "  api   500 slots as reported, 100 reserved; in flight: 37 critical, 512 others"
    );
    let held = slots(Some(500), silent());
    assert!(held.contains("500 slots as last reported, 100 reserved"), "{held}");
    let unknown = slots(None, silent());
    assert!(
        unknown.contains("nobody reports how many slots there are, so no `fleet` limit refuses")
    );
    assert!(unknown.ends_with("in flight: 37 critical, 512 others"), "{unknown}");
}

#[test]
fn names_cannot_write_to_the_terminal() {
    let evil = "a\u{1b}[2J\nb".to_owned();
    let workers = WorkersView { classes: vec![(evil.clone(), 0.5)], ..busy() };
    let pool =
        PoolView { domain: evil.clone(), name: evil, ..PoolView::with_workers(Some(workers)) };
    let text = text(&[pool]);
    assert_eq!(text.lines().count(), 4, "{text:?}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn little_is_not_shown_as_nothing() {
    assert_eq!(
        [0.0, 0.000_01, 0.0049, 0.5, 1.2].map(percent),
        ["0 %", "under 0.1 %", "0.5 %", "50 %", "120 %"]
    );
    assert_eq!([0, 49_999, 9_949_999].map(span), ["0.0 s", "0.0 s", "9.9 s"]);
    assert_eq!(
        [9_950_000, 119_900_000, 120_000_000, u64::MAX].map(span)[..3],
        ["10 s", "120 s", "2 min"]
    );
}
