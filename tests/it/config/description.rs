//! Rules as they are shown: every fact of a file is in the tree and in the JSON.

use super::parse_all;
use insta::assert_snapshot;
use serde_json::json;
use tollgate::rules::{Domain, describe};

const FLEET: &str = "
domain: fleet
lease_key: fleet_lease_id
pools:
  api: {capacity: 1000, reserved: 12.5%, lease_ttl: 30s}
  reports: {capacity: 20}
descriptors:
  - key: pool
    value: api
    descriptors:
      - key: priority
        value: critical
        fleet: {pool: api, critical: true}
        lease_header: x-lease-id
      - key: priority
        fleet: {pool: api}
        weight: hits
        name: others
  - key: path
    limits:
      - fleet: {pool: reports}
        quota_mode: true
      - concurrency: {max: 20, lease_ttl: 250ms}
        weight: hits
        name: in_flight
";

#[track_caller]
fn domains(text: &str) -> Vec<Domain> {
    let loaded = parse_all(&[text]);
    assert_eq!(loaded.render(false), "");
    loaded.domains
}

#[test]
fn the_tree_shows_pools_and_limits_on_slots() {
    assert_snapshot!(describe::tree(&domains(FLEET)), @r"
    fleet                     leases called fleet_lease_id
    │  pool api               1000 slots, 12.5% reserved, leases of 30s                  fleet#api
    │  pool reports           20 slots, 0% reserved, leases of 60s                       fleet#reports
    ├─ pool=api
    │  ├─ priority=critical   fleet on the pool api, critical [lease in x-lease-id]      fleet:pool=api:priority=critical
    │  └─ priority            fleet on the pool api as others [weight: hits]             fleet:pool=api:priority
    └─ path                   fleet on the pool reports [quota]                          fleet:path#1
                              concurrency 20 in flight, leases of 250ms [weight: hits]   fleet:path#in_flight
    ");
}

#[test]
fn a_domain_whose_leases_are_called_as_usual_says_nothing_of_them() {
    let tree =
        describe::tree(&domains("domain: edge\ndescriptors: [{key: a, concurrency: {max: 5}}]\n"));
    assert_snapshot!(tree, @r"
    edge
    └─ a   concurrency 5 in flight, leases of 60s   edge:a
    ");
}

#[test]
fn slices_are_told_of_the_bucket_that_grants_them() {
    let domains = domains(
        "domain: edge\ndescriptors:\n  - {key: a, token_bucket: {rate: 100/s, grants: {share: 12.5%, max_age: 2s}}}\n  - {key: b, token_bucket: {rate: 100/s, grants: {}}}\n",
    );
    assert_snapshot!(describe::tree(&domains), @r"
    edge
    ├─ a   token_bucket 100 per second [grants: 12.5% for 2s]   edge:a
    └─ b   token_bucket 100 per second [grants: 5% for 100ms]   edge:b
    ");
    let grants =
        |place: usize| describe::json(&domains)[place]["limit"]["token_bucket"]["grants"].clone();
    assert_eq!(grants(0), json!({ "share": 0.125, "max_age": "2s" }));
    assert_eq!(grants(1), json!({ "share": 0.05, "max_age": "100ms" }));
}

#[test]
fn json_has_pools_and_limits_on_slots() {
    let domains = domains(FLEET);
    let expected = json!([{
        "domain": "fleet",
        "lease_key": "fleet_lease_id",
        "on_store_failure": null,
        "pools": [
            {
                "name": "api",
                "capacity": 1000,
                "reserved": 0.125,
                "lease_ttl": "30s",
                "utilization": null,
            },
            {
                "name": "reports",
                "capacity": 20,
                "reserved": 0.0,
                "lease_ttl": "60s",
                "utilization": null,
            },
        ],
    }]);
    assert_eq!(describe::domains_json(&domains), expected);

    let rules = describe::json(&domains);
    let fleet = |critical: bool, weight: Option<&str>| {
        json!({"fleet": {
            "capacity": 1000,
            "reserved": 0.125,
            "lease_ttl": "30s",
            "critical": critical,
            "weight": weight,
        }})
    };
    assert_eq!(rules[0]["limit"], fleet(true, None));
    assert_eq!(rules[1]["limit"], fleet(false, Some("hits")));
    assert_eq!(
        (&rules[0]["pool"], &rules[0]["lease_header"]),
        (&json!("api"), &json!("x-lease-id"))
    );
    let concurrency = json!({"concurrency": {"max": 20, "lease_ttl": "250ms", "weight": "hits"}});
    assert_eq!(rules[3]["limit"], concurrency);
    assert_eq!((&rules[3]["pool"], &rules[3]["lease_header"]), (&json!(null), &json!(null)));
}

const SHEDDING: &str = "
domain: fleet
pools:
  api:
    capacity: reported
    reserved: 20%
    utilization: {good_below: 65%, hold_off: 30s, shed: [test, get]}
  jobs: {capacity: 5, utilization: {report_ttl: 2500ms}}
  now: {utilization: {hold_off: 0s, shed_all_after: 90s, shed: [a]}}
descriptors:
  - key: shed
    descriptors:
      - key: class
        utilization: {pool: api}
        shadow_mode: true
        descriptors:
          - key: user
            utilization: {pool: api, class: class, shed_by: [shed, user]}
            name: by_user
  - key: load
    descriptors:
      - key: worker
        utilization_report: {pool: jobs}
        descriptors:
          - {key: port, utilization_report: {pool: jobs, worker: worker}, enabled: false}
  - key: both
    limits: [{fleet: {pool: api}}, {utilization: {pool: now}}]
";

#[test]
fn the_tree_shows_what_is_shed_and_who_reports() {
    assert_snapshot!(describe::tree(&domains(SHEDDING)), @r"
    fleet
    │  pool api     as many slots as workers report, 20% reserved, leases of 60s                  fleet#api
    │               good below 65%, bad above 80%, reports fresh for 20s
    │               sheds test, get after 30s, all of it 120s later
    │  pool jobs    5 slots, 0% reserved, leases of 60s                                           fleet#jobs
    │               good below 70%, bad above 80%, reports fresh for 2500ms
    │  pool now     as many slots as workers report, 0% reserved, leases of 60s                   fleet#now
    │               good below 70%, bad above 80%, reports fresh for 20s
    │               sheds a at once, all of it 90s later
    ├─ shed
    │  └─ class     utilization on the pool api [shadow]                                          fleet:shed:class
    │     └─ user   utilization on the pool api as by_user [class: class] [shed_by: shed, user]   fleet:shed:class:user
    ├─ load
    │  └─ worker    utilization_report for the pool jobs                                          fleet:load:worker
    │     └─ port   utilization_report for the pool jobs [off] [worker: worker]                   fleet:load:worker:port
    └─ both         fleet on the pool api                                                         fleet:both#1
                    utilization on the pool now                                                   fleet:both#2
    ");
}

#[test]
fn json_has_what_is_shed_and_who_reports() {
    let domains = domains(SHEDDING);
    let api = json!({
        "good_below": 0.65,
        "bad_above": 0.8,
        "hold_off": "30s",
        "shed_all_after": "120s",
        "report_ttl": "20s",
        "shed": ["test", "get"],
    });
    let pools = &describe::domains_json(&domains)[0]["pools"];
    assert_eq!(pools[0]["capacity"], "reported");
    assert_eq!(pools[0]["utilization"], api);
    assert_eq!(pools[1]["utilization"]["shed"], json!([]));
    assert_eq!(pools[2]["utilization"]["hold_off"], "0s");

    let rules = describe::json(&domains);
    let shedder = |class: &str, shed_by: &[&str]| {
        let mut limit = api.clone();
        limit["class"] = class.into();
        limit["shed_by"] = shed_by.into();
        json!({ "utilization": limit })
    };
    assert_eq!(rules[0]["limit"], shedder("class", &[]));
    assert_eq!(rules[0]["pool"], "api");
    assert_eq!(rules[1]["limit"], shedder("class", &["shed", "user"]));
    let report = |worker: &str| {
        json!({"utilization_report": {
            "good_below": 0.7,
            "bad_above": 0.8,
            "hold_off": "28s",
            "shed_all_after": "120s",
            "report_ttl": "2500ms",
            "worker": worker,
        }})
    };
    assert_eq!((&rules[2]["limit"], &rules[2]["pool"]), (&report("worker"), &json!("jobs")));
    assert_eq!((&rules[3]["limit"], &rules[3]["enabled"]), (&report("worker"), &json!(false)));
}
