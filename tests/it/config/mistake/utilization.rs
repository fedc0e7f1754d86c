//! Mistakes of shedders, and of what their pools say.

use super::check;
use crate::config::{parse_all, without_limiters};
use insta::assert_snapshot;
use tollgate::config::{Loaded, Severity};

/// A file with a pool, and a limit on it with a path of two entries. What is in the pool begins on line 3
/// and column 9, the limiter on line 8 and column 9.
pub(super) fn file(pool: &str, limiter: &str) -> String {
    format!(
        "domain: edge\npools:\n  api: {pool}\ndescriptors:\n  - key: shed\n    descriptors:\n      \
         - key: class\n        {limiter}\n"
    )
}

/// A pool that sheds.
pub(super) const SHEDS: &str = "{utilization: {shed: [test, get]}}";

/// A limit that sheds.
pub(super) const SHEDDER: &str = "utilization: {pool: api}";

pub(super) fn shedder(limiter: &str) -> Loaded {
    parse_all(&[&file(SHEDS, limiter)])
}

#[track_caller]
fn check_pool(utilization: &str, column: usize, message: &str) {
    let text = file(&format!("{{utilization: {utilization}}}"), SHEDDER);
    check(&parse_all(&[&text]), &[(Severity::Error, 3, column + 21, message)], &text);
}

#[track_caller]
pub(super) fn check_limit(lines: &str, line: usize, column: usize, message: &str) {
    let text = file(SHEDS, lines);
    check(&parse_all(&[&text]), &[(Severity::Error, line + 7, column + 8, message)], &text);
}

#[track_caller]
fn check_warning(lines: &str, line: usize, column: usize, message: &str) {
    let text = file(SHEDS, lines);
    check(&parse_all(&[&text]), &[(Severity::Warning, line + 7, column + 8, message)], &text);
}

#[test]
fn what_a_pool_says_of_its_utilization() {
    check_pool("[test]", 1, "`utilization` is a list, not a mapping");
    check_pool("0.7", 1, "`utilization` is a number, not a mapping");
    check_pool("{class: a}", 2, "unknown key `class` in the `utilization` of a pool");
    check_pool("{shd: [get]}", 2, "unknown key `shd` in the `utilization` of a pool");
}

#[test]
fn thresholds() {
    let check = |inside: &str, column: usize, message: &str| {
        check_pool(&format!("{{{inside}}}"), column, message);
    };
    check("good_below: 70", 14, "`good_below` is `70` times the whole");
    check("bad_above: high", 13, "`high` is no share");
    check("good_below: 0", 14, "`good_below` is 0");
    check("good_below: 100%", 14, "`good_below` is 100 %");
    check("bad_above: 0%", 13, "`bad_above` is 0");
    check("bad_above: 1.0", 13, "`bad_above` is 100 %");
    check("good_below: 0.9, bad_above: 0.8", 14, "`good_below` is above `bad_above`");
    check(
        "good_below: 85%",
        14,
        "`good_below` is above `bad_above`, which is 80 % unless it is given",
    );
    check(
        "bad_above: 0.65",
        13,
        "`bad_above` is below `good_below`, which is 70 % unless it is given",
    );
}

#[test]
fn times() {
    let check = |inside: &str, column: usize, message: &str| {
        check_pool(&format!("{{{inside}}}"), column, message);
    };
    check("hold_off: 0", 12, "`hold_off` has no unit of time");
    check("hold_off: 31m", 12, "`hold_off` is longer than half an hour");
    check("shed_all_after: 0s", 18, "`shed_all_after` is 0");
    check("shed_all_after: 1801s", 18, "`shed_all_after` is longer than half an hour");
    check("report_ttl: 999ms", 14, "`report_ttl` is shorter than a second");
    check("report_ttl: 0s", 14, "`report_ttl` is 0");
    check("report_ttl: 11m", 14, "`report_ttl` is longer than ten minutes");
    check("report_ttl:", 2, "`report_ttl` is empty");
}

#[test]
fn classes_that_are_shed() {
    let check = |shed: &str, column: usize, message: &str| {
        check_pool(&format!("{{shed: {shed}}}"), column + 7, message);
    };
    check("test", 1, "`shed` is text, not a list");
    check("[]", 1, "`shed` is empty");
    check("[get, '']", 7, "an item of `shed` is empty");
    check("[get, ~]", 7, "an item of `shed` is empty");
    check("[get, 1.5]", 7, "an item of `shed` is `1.5`, which is no whole number");
    check("[get, [post]]", 7, "an item of `shed` is a list");
    check("[get, test, get]", 13, "`get` stands twice in `shed`");
    check("[7, \"7\"]", 5, "`7` stands twice in `shed`");
    let long = format!("[{}]", "x".repeat(4_097));
    check(&long, 2, "an item of `shed` is longer than 4096 bytes");
    let many: Vec<_> = (0..33).map(|class| format!("c{class}")).collect();
    check(&format!("[{}]", many.join(", ")), 1, "`shed` has 33 classes");
}

#[test]
fn shedders() {
    let check = |inside: &str, column: usize, message: &str| {
        check_limit(&format!("utilization: {inside}"), 1, column + 13, message);
    };
    check("api", 1, "`utilization` is text, not a mapping");
    check("{pool: apo}", 8, "this domain has no pool `apo`");
    check("{pool: api, worker: class}", 13, "unknown key `worker` in `utilization`");
    check("{pool: api, good_below: 70%}", 13, "unknown key `good_below` in `utilization`");
    check("{pool: api, class: clas}", 20, "no entry `clas` leads here");
    check("{pool: api, class: [class]}", 20, "`class` is a list");
    check("{pool: api, shed_by: user}", 22, "`shed_by` is text, not a list");
    check("{pool: api, shed_by: []}", 22, "`shed_by` is empty");
    check("{pool: api, shed_by: [user]}", 22, "no entry `user` leads here");
    check("{pool: api, shed_by: [shed, shed]}", 29, "`shed` stands twice in `shed_by`");
    check_limit("utilization: {}", 1, 1, "`pool` is missing");
}

#[test]
fn what_stands_beside_a_shedder() {
    let check = |line: &str, column: usize, message: &str| {
        check_limit(&format!("{SHEDDER}\n        {line}"), 2, column, message);
    };
    check("weight: hits", 1, "`weight` beside `utilization`: it takes no slots");
    check("lease_header: x-id", 1, "`lease_header` beside `utilization`: it takes no slots");
    check(
        "overdraw: true",
        11,
        "`overdraw` beside `utilization`: nothing is taken that could be drawn",
    );
    check(
        "on_store_failure: local",
        19,
        "`on_store_failure: local` beside `utilization`: \
         one process does not know what workers report elsewhere",
    );
}

#[test]
fn pools_that_shed_nothing() {
    for pool in ["{capacity: 5}", "{capacity: reported}", "{utilization: {}}", "{utilization:}"] {
        let text = file(pool, SHEDDER);
        let message = "the pool `api` has no classes to shed";
        check(&parse_all(&[&text]), &[(Severity::Error, 8, 29, message)], &text);
    }
}

#[test]
fn classes_that_are_never_shed() {
    check_warning(
        "value: post\n        utilization: {pool: api}",
        2,
        14,
        "this never drops anything: `post` is no class that its pool sheds",
    );
    check_warning(
        "value: post\n        descriptors: [{key: a, utilization: {pool: api, class: class}}]",
        2,
        56,
        "this never drops anything: `post` is no class that its pool sheds",
    );
    for value in ["get", "p*", "\"*\"", ""] {
        let lines = format!("value: {value}\n        {SHEDDER}");
        assert_eq!(shedder(&lines).render(false), "", "{value}");
    }
}

#[test]
fn callers_that_are_not_told_apart() {
    const MESSAGE: &str =
        "`shed_by` tells nobody apart: of each class all requests are dropped, or none";
    check_warning("utilization: {pool: api, shed_by: [class]}", 1, 35, MESSAGE);
    check_warning(
        "descriptors: [{key: plan, value: free, utilization: {pool: api, class: class, shed_by: [class, plan]}}]",
        1,
        88,
        MESSAGE,
    );
    assert_eq!(shedder("utilization: {pool: api, shed_by: [class, shed]}").render(false), "");
}

#[test]
fn pools_that_say_something_for_nobody() {
    let check = |pool: &str, limiter: &str, message: &str| {
        let text = file(pool, limiter);
        check(&parse_all(&[&text]), &[(Severity::Warning, 3, 3, message)], &text);
    };
    let unused = "no limit uses the pool `api`";
    check("{capacity: 5}", "value: a", unused);
    check(SHEDS, "value: a", unused);
    let unshed = "nothing of the pool `api` is ever shed: no `utilization` limit is on it";
    check("{capacity: 5, utilization: {shed: [a]}}", "fleet: {pool: api}", unshed);
    check(SHEDS, "utilization_report: {pool: api}", unshed);
    check(
        "{utilization: {}}",
        "fleet: {pool: api}",
        "`fleet` limits are on the pool `api`, which does not say its capacity",
    );
    for (pool, limiter) in [
        ("{utilization: {}}", "utilization_report: {pool: api}"),
        ("{capacity: 5, utilization: {}}", "fleet: {pool: api}"),
        ("{capacity: reported}", "fleet: {pool: api}"),
    ] {
        assert_eq!(parse_all(&[&file(pool, limiter)]).render(false), "", "{pool} {limiter}");
    }
}

#[test]
fn a_pool_may_be_met_by_a_fleet_limit_and_a_shedder() {
    let pool = "{capacity: 5, utilization: {shed: [get]}}";
    let limits = format!("limits: [{{fleet: {{pool: api}}}}, {{{SHEDDER}}}, {{{SHEDDER}}}]");
    assert_eq!(parse_all(&[&file(pool, &limits)]).render(false), "");
    let limits =
        format!("limits: [{{fleet: {{pool: api}}}}, {{{SHEDDER}}}, {{fleet: {{pool: api}}}}]");
    let message = "a request takes slots of the pool `api` twice here, first on line 8";
    let text = file(pool, &limits);
    check(&parse_all(&[&text]), &[(Severity::Warning, 8, 69, message)], &text);
}

#[test]
fn what_is_wrong_above_is_said_once() {
    let text = "domain: edge\npools: {api: {utilization: {shed: [a]}}}\ndescriptors:\n  - key: [a]\n    \
                descriptors: [{key: b, utilization: {pool: api, class: a, shed_by: [c]}}]\n";
    check(&parse_all(&[text]), &[(Severity::Error, 4, 10, "`key` is a list")], text);
    let text = file("{utilization: {bad_above: 0}}", "utilization: {pool: api}");
    check(&parse_all(&[&text]), &[(Severity::Error, 3, 34, "`bad_above` is 0")], &text);
}

#[test]
fn keys_that_belong_to_the_other_utilization_are_told_where() {
    let help = |text: &str| without_limiters(&parse_all(&[text]).diagnostics[0].help);
    assert_snapshot!(help(&file(SHEDS, "utilization: {pool: api, shed: [a]}")), @r"
    `shed` goes in the `utilization` of the pool, under `pools`
    `utilization` takes `pool`, `class` and `shed_by`
    ");
    assert_snapshot!(help(&file("{utilization: {pool: api}}", SHEDDER)), @r"
    `pool` goes inside `utilization`, beside `key`
    the `utilization` of a pool takes `good_below`, `bad_above`, `hold_off`, `shed_all_after`, `report_ttl` and `shed`
    ");
    assert_snapshot!(help(&file("{shed: [a], capacity: 5}", SHEDDER)), @r"
    `shed` goes in the `utilization` of the pool, under `pools`
    a pool takes `capacity`, `reserved`, `lease_ttl` and `utilization`
    ");
    assert_snapshot!(help(&file(SHEDS, "class: class")), @r"
    `class` goes inside `utilization`, beside `key`
    a descriptor takes `key`, `value`, `rate_limit`, [the limiters], `utilization_report`, `limits`, `descriptors`, `share_threshold`, `value_to_metric`, `name`, `enabled`, `overdraw`, `shadow_mode`, `quota_mode`, `detailed_metric`, `metadata`, `on_store_failure`, `message`, `weight` and `lease_header`
    ");
}

#[test]
fn a_missing_capacity_is_told_with_both_forms() {
    assert_snapshot!(parse_all(&[&file("{}", "fleet: {pool: api}")]).render(false), @r"
    error: `capacity` is missing
     --> 1.yaml:3:3
      |
    3 |   api: {}
      |   ^^^
      |
      = help: say how many requests the pool takes at once: `capacity: 1000`, or `capacity: reported` for as many as its workers report
    ");
    assert_snapshot!(
        parse_all(&[&file("{capacity: report}", "fleet: {pool: api}")]).render(false), @r"
    error: `capacity` is `report`, which is no number of slots
     --> 1.yaml:3:19
      |
    3 |   api: {capacity: report}
      |                   ^^^^^^
      |
      = help: did you mean `reported`?
              write `capacity: 1000`, or `capacity: reported` for as many as its workers report
    "
    );
}

#[test]
fn thresholds_are_shown_with_what_to_write() {
    let render = |utilization: &str| {
        let pool = format!("{{utilization: {{shed: [a], {utilization}}}}}");
        parse_all(&[&file(&pool, SHEDDER)]).render(false)
    };
    assert_snapshot!(render("good_below: 90%, bad_above: 0.8"), @r"
    error: `good_below` is above `bad_above`
     --> 1.yaml:3:46
      |
    3 |   api: {utilization: {shed: [a], good_below: 90%, bad_above: 0.8}}
      |                                              ^^^
      |
     ::: 1.yaml:3:62
      |
    3 |   api: {utilization: {shed: [a], good_below: 90%, bad_above: 0.8}}
      |                                                              --- that is less
      |
      = help: write at most `good_below: 80%`, or raise `bad_above`: between the two nothing changes
    ");
    assert_snapshot!(render("good_below: 90%"), @r"
    error: `good_below` is above `bad_above`, which is 80 % unless it is given
     --> 1.yaml:3:46
      |
    3 |   api: {utilization: {shed: [a], good_below: 90%}}
      |                                              ^^^
      |
      = help: give both: add `bad_above: 90%` or more
    ");
    assert_snapshot!(render("bad_above: 0.65"), @r"
    error: `bad_above` is below `good_below`, which is 70 % unless it is given
     --> 1.yaml:3:45
      |
    3 |   api: {utilization: {shed: [a], bad_above: 0.65}}
      |                                             ^^^^
      |
      = help: give both: add `good_below: 65%` or less
    ");
}

#[test]
fn an_entry_that_is_not_on_the_way_is_shown_with_what_was_meant() {
    assert_snapshot!(shedder("utilization: {pool: api, class: clas}").render(false), @r"
    error: no entry `clas` leads here
     --> 1.yaml:8:41
      |
    8 |         utilization: {pool: api, class: clas}
      |                                         ^^^^
      |
      = help: did you mean `class`?
              name the key of an entry on the way here: `shed`, `class`
    ");
}

#[test]
fn a_pool_without_classes_is_shown_with_the_limit() {
    assert_snapshot!(parse_all(&[&file("{capacity: 5}", SHEDDER)]).render(false), @r"
    error: the pool `api` has no classes to shed
     --> 1.yaml:8:29
      |
    8 |         utilization: {pool: api}
      |                             ^^^
      |
     ::: 1.yaml:3:3
      |
    3 |   api: {capacity: 5}
      |   --- add `shed` here
      |
      = help: list them in the pool, what is given up first in front: `utilization: {shed: [test, get, post]}`
    ");
}

#[test]
fn a_class_that_stands_twice_is_shown_with_the_first() {
    let text = file("{utilization: {shed: [a, b, a]}}", SHEDDER);
    assert_snapshot!(parse_all(&[&text]).render(false), @r"
    error: `a` stands twice in `shed`
     --> 1.yaml:3:36
      |
    3 |   api: {utilization: {shed: [a, b, a]}}
      |                                    ^
      |
     ::: 1.yaml:3:30
      |
    3 |   api: {utilization: {shed: [a, b, a]}}
      |                              - first here
      |
      = help: remove one of the two
    ");
}
