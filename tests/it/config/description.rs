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
fn json_has_pools_and_limits_on_slots() {
    let domains = domains(FLEET);
    let expected = json!([{
        "domain": "fleet",
        "lease_key": "fleet_lease_id",
        "pools": [
            {"name": "api", "capacity": 1000, "reserved": 0.125, "lease_ttl": "30s"},
            {"name": "reports", "capacity": 20, "reserved": 0.0, "lease_ttl": "60s"},
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
