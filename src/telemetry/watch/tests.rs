use super::*;

const SECOND: u64 = 1_000_000;

/// A log that is told, once a second.
#[derive(Default)]
struct Log {
    watch: Watch,
    now: Timestamp,
}

impl Log {
    fn tell(&mut self, condition: &Condition) -> Vec<String> {
        self.now = self.now + SECOND;
        let lines = self.watch.tell(condition.clone(), self.now);
        lines.into_iter().map(|(_, text)| text).collect()
    }
}

fn down(reason: &str) -> Condition {
    Condition { down: Some(reason.to_owned()), ..Condition::default() }
}

fn failed(failures: Failures) -> Condition {
    Condition { failures, ..Condition::default() }
}

#[test]
fn a_lost_store_is_told_once_and_its_failures_when_it_is_back() {
    let mut log = Log::default();
    assert_eq!(log.tell(&Condition::default()), Vec::<String>::new());
    let mut condition = down("connection refused");
    assert_eq!(log.tell(&condition), ["the store cannot be used: connection refused"]);
    for unreachable in 0..3600 {
        condition.failures.unreachable = unreachable;
        assert_eq!(log.tell(&condition), Vec::<String>::new());
    }
    condition.down = Some("wrong password".to_owned());
    assert_eq!(log.tell(&condition), ["the store cannot be used: wrong password"]);
    condition.down = None;
    let back = "the store can be used again; requests not decided: 3599 for want of a connection";
    assert_eq!(log.tell(&condition), [back]);
    assert_eq!(log.tell(&condition), Vec::<String>::new());
}

#[test]
fn failures_are_told_with_their_reasons_and_numbers() {
    let mut log = Log::default();
    let failures = Failures {
        late: 2,
        refused: 7,
        unreadable: 1,
        last_refusal: Some("OOM".to_owned()),
        ..Failures::default()
    };
    let line = "the store fails: requests not decided: 2 for want of an answer in time, \
                7 because it refused (OOM), \
                1 because a key held what is no state of a limit, and was deleted";
    assert_eq!(log.tell(&failed(failures.clone())), [line]);
    assert_eq!(log.tell(&failed(failures.clone())), Vec::<String>::new(), "they are known now");
    log.now = log.now + 10 * SECOND;
    let line = "the store fails: requests not decided: 1 for want of an answer in time";
    assert_eq!(log.tell(&failed(Failures { late: 3, ..failures })), [line]);
}

#[test]
fn whatever_comes_and_goes_lines_are_few() {
    let mut log = Log::default();
    let mut lines = 0;
    for second in 0..3600 {
        let mut condition = if second % 2 == 0 { down("no") } else { Condition::default() };
        condition.failures.late = second;
        condition.forgotten_live = second;
        lines += log.tell(&condition).len();
    }
    assert!((700..=3 * 364).contains(&lines), "six a minute, of three kinds: {lines}");
}

#[test]
fn a_caution_is_told_once_as_long_as_it_holds() {
    let mut log = Log::default();
    let condition = Condition { cautions: vec!["a".to_owned()], ..Condition::default() };
    assert_eq!(log.tell(&condition), ["the store could be set up better: a"]);
    assert_eq!(log.tell(&condition), Vec::<String>::new());
}

#[test]
fn forgotten_keys_are_told_with_the_fix() {
    let mut log = Log::default();
    let lines = log.tell(&Condition { forgotten_live: 5, ..Condition::default() });
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("5 live keys") && lines[0].contains("--max-keys"), "{lines:?}");
    log.now = log.now + 10 * SECOND;
    let lines = log.tell(&Condition { forgotten_live: 7, ..Condition::default() });
    assert!(lines[0].contains("2 live keys"), "{lines:?}");
}

#[test]
fn what_is_still_to_tell_is_told_at_the_end() {
    let mut log = Log::default();
    let mut failures = Failures { late: 1, ..Failures::default() };
    assert_eq!(log.tell(&failed(failures.clone())).len(), 1);
    failures.late = 5;
    assert_eq!(log.tell(&failed(failures.clone())), Vec::<String>::new(), "too soon");
    let last = log.watch.tell_last(failed(failures), log.now);
    assert!(last[0].1.ends_with("4 for want of an answer in time"), "{last:?}");
}

#[test]
fn what_is_lost_of_leases_is_told_in_a_few_lines() {
    let mut log = Log::default();
    let mut lines = Vec::new();
    for second in 1..=100 {
        log.now = log.now + SECOND;
        let counts = LeaseCounts { releases_given_up: second, refunds_ignored: 2 * second };
        lines.extend(log.watch.tell_leases(counts, log.now));
    }
    let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
    assert!(texts.len() <= 12, "{texts:?}");
    assert!(texts[0].starts_with("1 releases are lost"), "{texts:?}");
    assert!(texts[1].starts_with("2 refunds met limits"), "{texts:?}");
}

#[test]
fn what_is_wrong_with_reports_is_told_in_a_few_lines() {
    let mut log = Log::default();
    let mut texts = Vec::new();
    for second in 1..=100 {
        log.now = log.now + SECOND;
        let counts = WorkerCounts {
            bad_reports: second,
            too_many_workers: 2 * second,
            unmetered: 3 * second,
        };
        texts.extend(log.watch.tell_workers(counts, log.now).into_iter().map(|(_, text)| text));
    }
    assert!(texts.len() <= 3 * 11, "{texts:?}");
    assert!(texts[0].starts_with("reports that came with requests"), "{texts:?}");
    assert!(texts[1].starts_with("reports found no room"), "{texts:?}");
    assert!(texts[2].ends_with("(3 since the last word of it)"), "{texts:?}");
    assert_eq!(log.watch.tell_workers(log.watch.told_workers, log.now), [], "they are known");
}
