//! Mistakes of descriptors by which workers report.

use super::{
    check,
    utilization::{SHEDDER, check_limit, file, shedder},
};
use crate::config::parse_all;
use insta::assert_snapshot;
use tollgate::config::Severity;

#[test]
fn reports() {
    let inside = |inside: &str, column: usize, message: &str| {
        check_limit(&format!("utilization_report: {inside}"), 1, column + 20, message);
    };
    inside("{pool: apo}", 8, "this domain has no pool `apo`");
    inside("{pool: api, class: class}", 13, "unknown key `class` in `utilization_report`");
    inside("{pool: api, worker: wroker}", 21, "no entry `wroker` leads here");
    inside("{pool: api, worker: ''}", 21, "`worker` is empty");
    check_limit("utilization_report:", 1, 1, "`utilization_report` is empty, not a mapping");
    check_limit("utilization_report: {worker: class}", 1, 1, "`pool` is missing");
    let text = file("{capacity: 5}", "utilization_report: {pool: api}");
    let message = "the pool `api` takes no reports";
    check(&parse_all(&[&text]), &[(Severity::Error, 8, 36, message)], &text);
}

#[test]
fn reports_among_limits() {
    const MESSAGE: &str =
        "`utilization_report` among limits: what reports is no request, and is not limited";
    const REPORT: &str = "utilization_report: {pool: api}";
    check_limit(&format!("limits: [{{{REPORT}}}]"), 1, 11, MESSAGE);
    check_limit(&format!("limits: [{{{REPORT}, {SHEDDER}}}]"), 1, 11, MESSAGE);
    check_limit(&format!("{REPORT}\n        {SHEDDER}"), 1, 1, MESSAGE);
    check_limit(&format!("{SHEDDER}\n        {REPORT}"), 2, 1, MESSAGE);
    check_limit(&format!("limits: [{{{SHEDDER}}}]\n        {REPORT}"), 2, 1, MESSAGE);
}

#[test]
fn what_stands_beside_a_report() {
    let lines = |line: &str| format!("utilization_report: {{pool: api}}\n        {line}");
    let takes_nothing = "`overdraw` beside `utilization_report`: a report takes nothing";
    check_limit(&lines("overdraw: true"), 2, 11, takes_nothing);
    let no_slots = "`weight` beside `utilization_report`: it takes no slots";
    check_limit(&lines("weight: hits"), 2, 1, no_slots);
    for line in [
        "shadow_mode: true",
        "quota_mode: true",
        "on_store_failure: deny",
        "message: Busy.",
        "metadata: {a: b}",
        "detailed_metric: true",
    ] {
        let key = line.split(':').next().unwrap();
        let pool = "{utilization: {}}";
        let text = file(pool, &lines(line));
        let message =
            format!("`{key}` does nothing here: a report is no request, and is not refused");
        check(&parse_all(&[&text]), &[(Severity::Warning, 9, 9, &message)], &text);
    }
    for line in ["enabled: false", "name: workers", "overdraw: false"] {
        let text = file("{utilization: {}}", &lines(line));
        assert_eq!(parse_all(&[&text]).render(false), "", "{line}");
    }
}

#[test]
fn a_report_is_not_replaced() {
    let text = file(
        "{utilization: {}}",
        "utilization_report: {pool: api}\n        name: a\n  - key: b\n    \
         rate_limit: {unlimited: true, replaces: [{name: a}]}",
    );
    let message = "no limit of this domain is called `a`";
    check(&parse_all(&[&text]), &[(Severity::Warning, 11, 53, message)], &text);
}

#[test]
fn workers_that_are_always_the_same() {
    let check = |lines: &str, line: usize, column: usize| {
        let text = file("{utilization: {}}", lines);
        let message = "all reports are of one worker here, which is always `w1`";
        check(&parse_all(&[&text]), &[(Severity::Warning, line, column, message)], &text);
    };
    check("value: w1\n        utilization_report: {pool: api}", 9, 29);
    check(
        "value: w1\n        descriptors: [{key: a, utilization_report: {pool: api, worker: class}}]",
        9,
        72,
    );
    let text = file("{utilization: {}}", "value: w*\n        utilization_report: {pool: api}");
    assert_eq!(parse_all(&[&text]).render(false), "");
}

#[test]
fn a_pool_without_reports_is_shown_with_the_report() {
    let text = file("{capacity: 5}", "utilization_report: {pool: api}");
    assert_snapshot!(parse_all(&[&text]).render(false), @r"
    error: the pool `api` takes no reports
     --> 1.yaml:8:36
      |
    8 |         utilization_report: {pool: api}
      |                                    ^^^
      |
     ::: 1.yaml:3:3
      |
    3 |   api: {capacity: 5}
      |   --- add `utilization` here
      |
      = help: add `utilization: {}` to the pool, which takes them as usual
    ");
}

#[test]
fn a_report_among_limits_is_told_where_it_goes() {
    assert_snapshot!(shedder("limits: [{utilization_report: {pool: api}}]").render(false), @r"
    error: `utilization_report` among limits: what reports is no request, and is not limited
     --> 1.yaml:8:19
      |
    8 |         limits: [{utilization_report: {pool: api}}]
      |                   ^^^^^^^^^^^^^^^^^^
      |
      = help: give it a descriptor of its own: `- {key: worker, utilization_report: {pool: api}}`
    ");
}
