//! What is meant by pools whose workers report, by the limits that shed, and by the reports.

use super::{merge_all, parse_all};
use tollgate::{
    lease::Term,
    limiter::{
        Limit, fleet,
        utilization::{self, Draw},
    },
    rules::{
        Capacity, Descriptor, Domain, Kind, OnStoreFailure, Pool, Rule, Shedding, Utilization,
    },
    worker::Settings,
};

/// The only domain of a file that is right.
#[track_caller]
fn domain(text: &str) -> Domain {
    let mut loaded = parse_all(&[text]);
    assert_eq!(loaded.render(false), "");
    loaded.domains.remove(0)
}

/// The pool that says this of itself, with a limit of each kind on it.
#[track_caller]
fn pool(pool: &str) -> Pool {
    let mut limits = String::from("{key: a, fleet: {pool: api}}");
    if pool.contains("shed:") {
        limits.push_str(", {key: b, utilization: {pool: api}}");
    }
    domain(&format!("domain: edge\npools: {{api: {pool}}}\ndescriptors: [{limits}]\n"))
        .pools
        .remove(0)
}

/// What a pool says of its utilization.
#[track_caller]
fn utilization(inside: &str) -> Utilization {
    let pool = pool(&format!("{{capacity: 5, utilization: {inside}}}"));
    pool.utilization.unwrap()
}

#[test]
fn a_utilization_has_defaults() {
    for nothing in ["{}", "", "~"] {
        assert_eq!(utilization(nothing), Utilization::default(), "{nothing}");
    }
    let given =
        "{good_below: 0.7, bad_above: 80%, hold_off: 28s, shed_all_after: 2m, report_ttl: 20s}";
    assert_eq!(utilization(given), Utilization::default());
}

#[test]
fn a_pool_that_says_nothing_of_it_has_no_utilization() {
    assert_eq!(pool("{capacity: 5}").utilization, None);
}

#[test]
fn every_key_of_a_utilization_is_read() {
    let given = "{good_below: 12.5%, bad_above: 0.999999, hold_off: 0s, shed_all_after: 30m, \
                 report_ttl: 1s, shed: [test, 007, yes, \"1.5\"]}";
    let settings = Settings {
        good_below_parts: 125_000,
        bad_above_parts: 999_999,
        hold_off_us: 0,
        shed_all_after_us: 1_800_000_000,
        report_ttl: Term::of_micros(1_000_000),
    };
    let shed = ["test", "007", "yes", "1.5"].map(str::to_owned).to_vec();
    assert_eq!(utilization(given), Utilization { settings, shed });
}

#[test]
fn thresholds_may_be_one() {
    let settings = utilization("{good_below: 80%}").settings;
    assert_eq!((settings.good_below_parts, settings.bad_above_parts), (800_000, 800_000));
    let settings = utilization("{bad_above: 70%}").settings;
    assert_eq!((settings.good_below_parts, settings.bad_above_parts), (700_000, 700_000));
}

#[test]
fn the_longest_times_are_allowed() {
    let settings = utilization("{hold_off: 1800s, report_ttl: 10m}").settings;
    assert_eq!(
        (settings.hold_off_us, settings.report_ttl.as_micros()),
        (1_800_000_000, 600_000_000)
    );
}

#[test]
fn a_capacity_may_be_what_workers_report() {
    let reported = pool("{capacity: reported, reserved: 20%}");
    assert_eq!(reported.capacity, Capacity::Reported);
    assert_eq!(reported.utilization, Some(Utilization::default()));
    let reported = pool("{capacity: reported, utilization: {report_ttl: 5s}}");
    assert_eq!(reported.capacity, Capacity::Reported);
    let report_ttl = reported.utilization.unwrap().settings.report_ttl;
    assert_eq!(report_ttl, Term::of_micros(5_000_000));
}

#[test]
fn a_fleet_limit_on_reported_capacity_knows_how_long_a_report_is_fresh() {
    let limit = |pool: &str| {
        let text = format!(
            "domain: edge\npools: {{api: {pool}}}\ndescriptors: [{{key: a, fleet: {{pool: api}}}}]\n"
        );
        match domain(&text).descriptors[0].limits[0].kind {
            Kind::Limit(Limit::Fleet(limit)) => limit.capacity,
            other => panic!("{other:?}"),
        }
    };
    let reported = |seconds: u64| {
        let report_ttl = Term::of_micros(seconds * 1_000_000);
        fleet::Capacity::Reported { report_ttl, slots: None }
    };
    assert_eq!(limit("{capacity: reported}"), reported(20));
    assert_eq!(limit("{capacity: reported, utilization: {report_ttl: 5s}}"), reported(5));
    assert_eq!(limit("{capacity: 5, utilization: {report_ttl: 5s}}"), fleet::Capacity::Slots(5));
}

#[test]
fn what_only_sheds_needs_no_capacity() {
    let text = "domain: edge\npools: {api: {utilization: {shed: [get]}}}\n\
                descriptors: [{key: class, utilization: {pool: api}}]\n";
    assert_eq!(domain(text).pools[0].capacity, Capacity::Reported);
}

/// A domain whose pool sheds, with a limit at the end of a path: `plan`, `user`, `class`, and `user` again.
#[track_caller]
fn at_the_end(limiter: &str) -> Rule {
    let text = format!(
        "
domain: edge
pools: {{api: {{capacity: 5, utilization: {{bad_above: 90%, shed: [test, get, post]}}}}}}
descriptors:
  - key: plan
    value: free
    descriptors:
      - key: user
        descriptors:
          - key: class
            descriptors:
              - key: user
                {limiter}
  - key: other
    limits: [{{fleet: {{pool: api}}}}, {{utilization: {{pool: api}}}}]
"
    );
    let mut domain = domain(&text);
    let below = |descriptor: Descriptor| descriptor.descriptors.into_iter().next();
    let top = domain.descriptors.remove(0);
    let mut last = below(top).and_then(below).and_then(below).unwrap();
    last.limits.remove(0)
}

fn shedding(class: usize, callers: &[usize]) -> Option<Shedding> {
    let classes = ["test", "get", "post"].map(str::to_owned).to_vec();
    Some(Shedding { classes, class, callers: callers.to_vec() })
}

#[test]
fn a_shedder_has_the_numbers_of_its_pool() {
    let rule = at_the_end("utilization: {pool: api}");
    let limit = utilization::Limit {
        settings: Settings { bad_above_parts: 900_000, ..Settings::default() },
        classes: 3,
        class: 0,
        draw: Draw::Request(0),
    };
    assert_eq!(rule.kind, Kind::Limit(Limit::Utilization(limit)));
    assert_eq!((rule.pool.as_deref(), rule.worker), (Some("api"), None));
    assert_eq!(rule.label, None);
}

#[test]
fn a_shedder_goes_by_its_own_entry_unless_it_names_another() {
    let rule = |inside: &str| at_the_end(&format!("utilization: {{pool: api{inside}}}")).shedding;
    assert_eq!(rule(""), shedding(3, &[]));
    assert_eq!(rule(", class: class"), shedding(2, &[]));
    assert_eq!(rule(", class: class, shed_by: [plan, user]"), shedding(2, &[0, 3]));
}

#[test]
fn of_two_entries_of_one_key_the_inner_one_is_meant() {
    let rule = at_the_end("utilization: {pool: api, class: user, shed_by: [class]}");
    assert_eq!(rule.shedding, shedding(3, &[2]));
}

#[test]
fn every_flag_is_read_beside_a_shedder() {
    let indent = "\n                ";
    let lines = [
        "utilization: {pool: api}",
        "name: shed",
        "enabled: no",
        "shadow_mode: true",
        "quota_mode: true",
        "detailed_metric: yes",
        "on_store_failure: deny",
        "message: Busy.",
        "metadata: {a: b}",
        "overdraw: false",
    ];
    let rule = at_the_end(&lines.join(indent));
    assert_eq!(rule.name.as_deref(), Some("shed"));
    assert!(!rule.enabled && rule.shadow_mode && rule.quota_mode && rule.detailed_metric);
    assert_eq!(rule.on_store_failure, Some(OnStoreFailure::Deny));
    assert_eq!(rule.message.as_deref(), Some("Busy."));
    assert_eq!(rule.metadata.len(), 1);
}

#[test]
fn a_shedder_may_stand_among_limits() {
    let rule = at_the_end("limits: [{utilization: {pool: api, class: class}, name: shed}]");
    assert_eq!(rule.shedding, shedding(2, &[]));
    assert_eq!(rule.label, Some(tollgate::rules::Label::Name("shed".into())));
}

#[test]
fn a_report_is_of_its_own_entry_unless_it_names_another() {
    let settings = Settings { bad_above_parts: 900_000, ..Settings::default() };
    for (inside, worker) in [("", 3), (", worker: class", 2), (", worker: user", 3)] {
        let rule = at_the_end(&format!("utilization_report: {{pool: api{inside}}}"));
        assert_eq!(rule.kind, Kind::Report(settings));
        assert_eq!((rule.pool.as_deref(), rule.worker), (Some("api"), Some(worker)), "{inside}");
        assert_eq!(rule.shedding, None);
    }
}

#[test]
fn a_limit_on_something_else_has_no_part_in_this() {
    let rule = at_the_end("token_bucket: {rate: 1/s}");
    assert_eq!((rule.shedding, rule.worker), (None, None));
}

#[test]
fn the_pool_may_stand_in_another_file() {
    let loaded = merge_all(&[
        "domain: edge\ndescriptors: [{key: class, utilization: {pool: api}}]\n",
        "domain: edge\npools: {api: {utilization: {shed: [get]}}}\n",
    ]);
    assert_eq!(loaded.render(false), "");
}
