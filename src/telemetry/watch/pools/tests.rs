use super::*;
use crate::{lease::Slots, worker::Settings};

const SECOND: u64 = 1_000_000;

/// A log that is told, every few seconds.
#[derive(Default)]
struct Log {
    watch: PoolWatch,
    now: Timestamp,
}

impl Log {
    fn tell(&mut self, pools: &[PoolView]) -> Vec<String> {
        self.now = self.now + 3 * SECOND;
        let lines = self.watch.tell(pools, self.now);
        lines.into_iter().map(|(_, text)| text).collect()
    }
}

/// A pool whose workers are so busy, in percent, and that drops its two classes with these chances.
fn pool(name: &str, percent: Option<u64>, chances: [f64; 2]) -> PoolView {
    let classes = ["test", "get"].map(str::to_owned).into_iter().zip(chances);
    let workers = WorkersView {
        settings: Settings::default(),
        utilization_parts: percent.map(|percent| percent * 10_000),
        count: 1,
        slots: 1,
        last_report_us: Some(21 * SECOND),
        is_enforced: true,
        amount_parts: 0,
        classes: classes.collect(),
    };
    PoolView {
        domain: "edge".to_owned(),
        name: name.to_owned(),
        capacity: Some(10),
        is_reported: false,
        reserved_parts: 0,
        in_flight: Slots::default(),
        workers: Some(workers),
    }
}

#[test]
fn what_is_in_shadow_mode_is_told_as_that() {
    let mut shadowed = pool("api", Some(90), [0.03, 0.0]);
    shadowed.workers.as_mut().unwrap().is_enforced = false;
    assert_eq!(
        Log::default().tell(&[shadowed]),
        [
            "load would be shed, but for shadow mode: the pool api of edge (90 % busy, would drop 3 % of test)"
        ]
    );
}

#[test]
fn shedding_is_told_when_it_begins_and_deepens_and_ends() {
    let mut log = Log::default();
    assert_eq!(log.tell(&[pool("api", Some(90), [0.0, 0.0])]), [""; 0]);
    assert_eq!(
        log.tell(&[pool("api", Some(90), [0.03, 0.0])]),
        ["load is shed: the pool api of edge (90 % busy, drops 3 % of test)"]
    );
    assert_eq!(log.tell(&[pool("api", Some(90), [0.9, 0.0])]), [""; 0], "it is known");
    assert_eq!(
        log.tell(&[pool("api", Some(90), [1.0, 0.2])]),
        ["load is shed: the pool api of edge (90 % busy, drops 100 % of test, 20 % of get)"]
    );
    assert_eq!(log.tell(&[pool("api", Some(70), [0.9, 0.0])]), [""; 0]);
    assert_eq!(log.tell(&[pool("api", Some(90), [1.0, 0.1])]), [""; 0], "it has been as much");
    assert_eq!(
        log.tell(&[pool("api", Some(60), [0.0, 0.0])]),
        ["load is shed no more: the pool api of edge (60 % busy)"]
    );
}

#[test]
fn silence_is_told_of_those_who_were_heard() {
    let mut log = Log::default();
    assert_eq!(log.tell(&[pool("api", None, [0.0; 2])]), [""; 0], "nobody is missed");
    assert_eq!(log.tell(&[pool("api", Some(50), [0.0; 2])]), [""; 0]);
    assert_eq!(
        log.tell(&[pool("api", None, [0.0; 2])]),
        [
            "no worker's report is fresh, so shedding neither begins nor grows: the pool api of edge (the last came 21 s ago)"
        ]
    );
    assert_eq!(log.tell(&[pool("api", None, [0.0; 2])]), [""; 0]);
    assert_eq!(
        log.tell(&[pool("api", Some(50), [0.0; 2])]),
        ["workers report again: the pool api of edge (50 % busy)"]
    );
}

#[test]
fn what_happens_to_many_pools_at_once_is_one_line() {
    let pools = |percent, chance| {
        (0..1000).map(|it| pool(&format!("p{it}"), percent, [chance, 0.0])).collect::<Vec<_>>()
    };
    let mut log = Log::default();
    let lines = log.tell(&pools(Some(90), 0.5));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].ends_with("; and 995 more"), "{lines:?}");
    assert_eq!(log.tell(&pools(Some(90), 0.5)), [""; 0], "all of them are known");
    assert_eq!(log.tell(&pools(None, 0.5)).len(), 1);
}

#[test]
fn whatever_comes_and_goes_lines_are_few_and_nothing_is_left_untold() {
    let mut log = Log::default();
    let mut lines = Vec::new();
    for round in 0..1200 {
        let is_up = round % 2 == 0;
        let flapping = pool("a", is_up.then_some(90), [f64::from(u8::from(is_up)), 0.0]);
        let steady = pool("b", Some(90), [if round > 600 { 0.5 } else { 0.0 }, 0.0]);
        lines.extend(log.tell(&[flapping, steady]));
    }
    assert!(lines.len() < 2 * 364, "six a minute, of two kinds: {}", lines.len());
    let steady = lines.iter().filter(|line| line.contains("the pool b of edge"));
    assert_eq!(steady.count(), 1);
}

#[test]
fn names_cannot_write_to_the_log() {
    let mut log = Log::default();
    let lines = log.tell(&[pool("a\nb\u{1b}[2J", Some(90), [0.5, 0.0])]);
    assert!(!lines[0].contains(char::is_control), "{lines:?}");
}
