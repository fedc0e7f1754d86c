//! What valid files mean.

use super::{descriptor, merge_all, parse_all};
use serde_json::json;
use tollgate::{
    lease::{LONGEST_TERM_US, Term},
    limiter::{
        Limit, concurrency, fleet,
        token_bucket::{self, Grants},
    },
    rules::{Capacity, Descriptor, Kind, LEASE_KEY, Label, OnStoreFailure, Pool, Rule},
    unit::Unit,
};

/// The only descriptor of a file with these lines in it.
#[track_caller]
fn read(lines: &str) -> Descriptor {
    let mut loaded = parse_all(&[&descriptor(lines)]);
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    loaded.domains.remove(0).descriptors.remove(0)
}

/// Its only limit.
#[track_caller]
fn rule(lines: &str) -> Rule {
    read(&format!("key: user\n{lines}")).limits.remove(0)
}

#[track_caller]
fn bucket(lines: &str) -> token_bucket::Limit {
    match rule(lines).kind {
        Kind::Limit(Limit::TokenBucket(limit)) => limit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rate_limit_is_a_bucket_of_one_unit() {
    for (name, unit) in [
        ("second", Unit::Second),
        ("MINUTE", Unit::Minute),
        ("Hour", Unit::Hour),
        ("day", Unit::Day),
        ("week", Unit::Week),
        ("month", Unit::Month),
        ("year", Unit::Year),
    ] {
        let limit = bucket(&format!("rate_limit: {{unit: {name}, requests_per_unit: 5}}"));
        assert_eq!(limit, token_bucket::Limit::per_unit(5, unit), "{name}");
    }
}

#[test]
fn slices_are_granted_as_is_said_or_as_usual() {
    let grants = |inside: &str| bucket(&format!("token_bucket: {{rate: 100/s{inside}}}")).grants();
    assert_eq!(grants(""), None);
    let usual = Grants { share_parts: 50_000, max_age_us: 100_000 };
    assert_eq!(grants(", grants: {}"), Some(usual));
    assert_eq!(grants(", grants: {share: 5%, max_age: 100ms}"), Some(usual));
    let other = Grants { share_parts: 1_000, ..usual };
    assert_eq!(grants(", grants: {share: 0.1%}"), Some(other));
    let other = Grants { max_age_us: 10_000_000, ..usual };
    assert_eq!(grants(", grants: {max_age: 10s}"), Some(other));
}

#[test]
fn a_burst_is_one_periods_tokens_unless_it_is_given() {
    assert_eq!(bucket("token_bucket: {rate: 100/s}").burst(), 100);
    assert_eq!(bucket("token_bucket: {rate: {tokens: 30, per: 250ms}}").burst(), 30);
    assert_eq!(bucket("token_bucket: {rate: 100/s, burst: 5}").burst(), 5);
    assert_eq!(bucket("token_bucket: {rate: \"100 / s\"}").rate().in_words(), "100 per second");
    assert_eq!(
        bucket("token_bucket: {rate: {tokens: 9, per: 30s}}").rate().in_words(),
        "9 per 30s"
    );
}

#[test]
fn numbers_are_read_as_yaml_has_them() {
    assert_eq!(bucket("rate_limit: {unit: day, requests_per_unit: 0x10}").burst(), 16);
    assert_eq!(bucket("rate_limit: {unit: day, requests_per_unit: 1_000}").burst(), 1_000);
    assert_eq!(bucket("rate_limit: {unit: day, requests_per_unit: 4294967295}").burst(), u32::MAX);
}

#[test]
fn the_fastest_rate_is_four_billion_a_second() {
    assert_eq!(bucket("token_bucket: {rate: 4294967295/s}").burst(), u32::MAX);
    assert_eq!(bucket("token_bucket: {rate: {tokens: 4294967, per: 1ms}}").burst(), 4_294_967);
}

#[test]
fn names_are_kept_as_they_were_written() {
    for (literal, text) in [
        ("alice", "alice"),
        ("007", "007"),
        ("0x1F", "0x1F"),
        ("yes", "yes"),
        ("True", "True"),
        ("-5", "-5"),
        ("1_000", "1_000"),
        ("18446744073709551616", "18446744073709551616"),
        ("\"1.5\"", "1.5"),
        ("'n'", "n"),
        ("10.0.0.1", "10.0.0.1"),
        ("2026-01-01", "2026-01-01"),
        ("\"\\x41\"", "A"),
        ("!!str 5", "5"),
    ] {
        assert_eq!(read(&format!("key: {literal}")).key, text);
        assert_eq!(read(&format!("key: user\nvalue: {literal}")).value.as_deref(), Some(text));
    }
    let loaded = parse_all(&["domain: 007\n"]);
    assert_eq!(loaded.domains[0].name, "007");
}

#[test]
fn an_empty_value_is_no_value() {
    for value in ["", "\"\"", "~", "null"] {
        assert_eq!(read(&format!("key: user\nvalue: {value}")).value, None, "{value}");
    }
}

#[test]
fn a_star_in_a_key_is_literal() {
    assert_eq!(read("key: \"foo*\"").key, "foo*");
}

#[test]
fn a_limit_that_stands_alone_has_no_label() {
    assert_eq!(rule("token_bucket: {rate: 1/s}").label, None);
    assert_eq!(rule("token_bucket: {rate: 1/s}\nname: slow").label, None);
}

#[test]
fn limits_in_a_list_are_told_apart_by_name_or_place() {
    let limits = read(concat!(
        "key: user\nlimits:\n",
        "  - token_bucket: {rate: 1/s}\n",
        "  - {token_bucket: {rate: 1/s}, name: slow}\n",
        "  - rate_limit: {unit: day, requests_per_unit: 1, name: 3}\n",
        "  - token_bucket: {rate: 1/s}\n",
    ))
    .limits;
    let labels: Vec<_> = limits.into_iter().map(|rule| rule.label.unwrap()).collect();
    let named = |name: &str| Label::Name(name.into());
    assert_eq!(labels, [Label::Place(1), named("slow"), named("3"), Label::Place(4)]);
}

#[test]
fn a_rule_has_defaults() {
    let rule = rule("token_bucket: {rate: 1/s}");
    assert_eq!((rule.name, rule.message, rule.replaces), (None, None, vec![]));
    assert!(rule.enabled && !rule.shadow_mode && !rule.quota_mode && !rule.detailed_metric);
    assert_eq!(rule.on_store_failure, None);
    assert!(rule.metadata.is_empty());
}

#[test]
fn every_flag_is_read() {
    let rule = rule(concat!(
        "token_bucket: {rate: 1/s}\nname: slow\nenabled: no\noverdraw: on\nshadow_mode: true\n",
        "quota_mode: True\ndetailed_metric: yes\non_store_failure: deny\nmessage: Slow down.\n",
        "metadata: {n: 1, big: 18446744073709551615, x: 1.5, t: yes, 7: [~, {a: b}]}\n",
    ));
    assert_eq!(rule.name.as_deref(), Some("slow"));
    assert!(!rule.enabled && rule.shadow_mode && rule.quota_mode && rule.detailed_metric);
    assert_eq!(rule.on_store_failure, Some(OnStoreFailure::Deny));
    assert_eq!(rule.message.as_deref(), Some("Slow down."));
    let expected = json!({"n": 1, "big": u64::MAX, "x": 1.5, "t": true, "7": [null, {"a": "b"}]});
    assert_eq!(serde_json::Value::Object(rule.metadata), expected);
    let Kind::Limit(Limit::TokenBucket(limit)) = rule.kind else { panic!("unlimited") };
    assert!(limit.overdraw());
}

#[test]
fn unlimited_is_no_limit() {
    assert_eq!(rule("rate_limit: {unlimited: true}").kind, Kind::Unlimited);
    assert_eq!(rule("rate_limit: {unlimited: true, requests_per_unit: 1}").kind, Kind::Unlimited);
    assert_eq!(
        bucket("rate_limit: {unlimited: false, unit: day, requests_per_unit: 1}").burst(),
        1
    );
}

#[test]
fn replaces_lists_names() {
    let rule = rule(
        "rate_limit: {unit: day, requests_per_unit: 1, name: c, replaces: [{name: a}, {name: 5}]}",
    );
    assert_eq!(rule.replaces, ["a", "5"]);
    assert_eq!(rule.name.as_deref(), Some("c"));
}

#[test]
fn descriptors_nest() {
    let read = read(
        "key: a\ndescriptors:\n  - key: b\n    descriptors:\n      - key: c\n        value: d",
    );
    assert_eq!(read.descriptors[0].descriptors[0].value.as_deref(), Some("d"));
}

#[test]
fn anchors_and_merge_keys_work() {
    let read = read(concat!(
        "key: a\ntoken_bucket: &slow {rate: 1/s, burst: 3}\ndescriptors:\n",
        "  - {key: b, token_bucket: *slow}\n",
        "  - {key: c, token_bucket: {<<: *slow, burst: 9}}\n",
    ));
    let burst = |descriptor: &Descriptor| match descriptor.limits[0].kind {
        Kind::Limit(limit) => limit.amount(),
        other => panic!("{other:?}"),
    };
    assert_eq!(read.descriptors.iter().map(burst).collect::<Vec<_>>(), [Some(3), Some(9)]);
}

#[test]
fn a_domain_may_be_joined_of_files() {
    let loaded = merge_all(&[
        "domain: edge\ndescriptors: [{key: a}]\n",
        "domain: inner\n",
        "domain: edge\ndescriptors: [{key: b}, {key: a, value: v}]\n",
    ]);
    assert_eq!(loaded.render(false), "");
    let names: Vec<_> = loaded.domains.iter().map(|domain| domain.name.as_str()).collect();
    assert_eq!(names, ["edge", "inner"]);
    let keys: Vec<_> = loaded.domains[0].descriptors.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "a"]);
}

#[test]
fn concurrency_is_a_number_of_requests_in_flight() {
    let limit = |lines: &str| match rule(lines).kind {
        Kind::Limit(Limit::Concurrency(limit)) => limit,
        other => panic!("{other:?}"),
    };
    let plain = concurrency::Limit { max: 20, term: Term::default(), weighs_hits: false };
    assert_eq!(limit("concurrency: {max: 20}"), plain);
    let term = Term::of_micros(250_000);
    assert_eq!(
        limit("concurrency: {max: 20, lease_ttl: 250ms}\nweight: hits"),
        concurrency::Limit { term, weighs_hits: true, ..plain }
    );
    let term = Term::of_micros(LONGEST_TERM_US);
    for longest in ["24h", "1d", "86400s"] {
        let lines = format!("concurrency: {{max: 20, lease_ttl: {longest}}}");
        assert_eq!(limit(&lines), concurrency::Limit { term, ..plain });
    }
}

#[test]
fn every_flag_is_read_beside_a_limit_on_slots() {
    let rule = rule(concat!(
        "concurrency: {max: 5}\nname: slow\nenabled: no\nshadow_mode: true\nquota_mode: true\n",
        "detailed_metric: yes\non_store_failure: deny\nmessage: Slow down.\nmetadata: {a: b}\n",
        "lease_header: x-lease-id\n",
    ));
    assert_eq!(rule.name.as_deref(), Some("slow"));
    assert!(!rule.enabled && rule.shadow_mode && rule.quota_mode && rule.detailed_metric);
    assert_eq!(rule.on_store_failure, Some(OnStoreFailure::Deny));
    assert_eq!(rule.message.as_deref(), Some("Slow down."));
    assert_eq!(serde_json::Value::Object(rule.metadata), json!({"a": "b"}));
    assert_eq!((rule.pool, rule.lease_header.as_deref()), (None, Some("x-lease-id")));
}

/// A domain with a pool that two limits share.
const FLEET: &str = "
domain: fleet
lease_key: fleet_lease_id
pools:
  api: {capacity: 1000, reserved: 20%, lease_ttl: 30s}
descriptors:
  - {key: priority, value: critical, fleet: {pool: api, critical: true}}
  - {key: priority, fleet: {pool: api}, weight: hits}
";

#[test]
fn a_fleet_limit_has_the_numbers_of_its_pool() {
    let loaded = parse_all(&[FLEET]);
    assert_eq!(loaded.render(false), "");
    let domain = &loaded.domains[0];
    assert_eq!(domain.lease_key, "fleet_lease_id");
    let term = Term::of_micros(30_000_000);
    let pool = Pool {
        name: "api".into(),
        capacity: Capacity::Slots(1_000),
        reserved_parts: 200_000,
        term,
        utilization: None,
    };
    assert_eq!(domain.pools, [pool]);
    let limit = |critical| fleet::Limit {
        capacity: fleet::Capacity::Slots(1_000),
        reserved_parts: 200_000,
        critical,
        term,
        weighs_hits: !critical,
    };
    for (descriptor, critical) in domain.descriptors.iter().zip([true, false]) {
        let rule = &descriptor.limits[0];
        assert_eq!(rule.pool.as_deref(), Some("api"));
        assert_eq!(rule.kind, Kind::Limit(Limit::Fleet(limit(critical))));
    }
}

#[test]
fn a_pool_has_defaults() {
    let text =
        "domain: edge\npools: {7: {capacity: 5}}\ndescriptors: [{key: a, fleet: {pool: 7}}]\n";
    let loaded = parse_all(&[text]);
    assert_eq!(loaded.render(false), "");
    let expected = Pool {
        name: "7".into(),
        capacity: Capacity::Slots(5),
        reserved_parts: 0,
        term: Term::default(),
        utilization: None,
    };
    assert_eq!(loaded.domains[0].pools, [expected]);
}

#[test]
fn shares_are_percentages_or_fractions() {
    for (share, parts) in [
        ("20%", 200_000),
        ("0.2", 200_000),
        ("\"20%\"", 200_000),
        ("\"0.2\"", 200_000),
        ("12.5%", 125_000),
        ("0", 0),
        ("0%", 0),
        ("0.000001", 1),
        ("0.999999", 999_999),
    ] {
        let text = FLEET.replace("20%", share);
        let loaded = parse_all(&[&text]);
        assert_eq!(loaded.render(false), "", "{share}");
        assert_eq!(loaded.domains[0].pools[0].reserved_parts, parts, "{share}");
    }
}

#[test]
fn leases_are_called_the_same_in_all_files_of_a_domain() {
    let (said, unsaid) = ("domain: edge\nlease_key: id\n", "domain: edge\n");
    for texts in [[said, unsaid], [unsaid, said], [said, said]] {
        let loaded = merge_all(&texts);
        assert_eq!(loaded.render(false), "");
        assert_eq!(loaded.domains[0].lease_key, "id");
    }
    assert_eq!(merge_all(&[unsaid, unsaid]).domains[0].lease_key, LEASE_KEY);
}

#[test]
fn pools_are_those_of_all_files_of_a_domain() {
    let limit = |pool: &str| {
        format!("domain: edge\ndescriptors: [{{key: {pool}, fleet: {{pool: {pool}}}}}]\n")
    };
    let pool = |pool: &str| format!("domain: edge\npools: {{{pool}: {{capacity: 5}}}}\n");
    let loaded = merge_all(&[&limit("b"), &pool("a"), &pool("b"), &limit("a")]);
    assert_eq!(loaded.render(false), "");
    let names: Vec<_> = loaded.domains[0].pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_fine() {
    let loaded = parse_all(&["\u{feff}domain: edge\r\ndescriptors:\r\n  - key: a\r\n"]);
    assert_eq!(loaded.render(false), "");
    assert_eq!(loaded.domains[0].descriptors[0].key, "a");
}

#[test]
fn what_limits_do_without_the_store_is_the_same_in_all_files_of_a_domain() {
    let (said, unsaid) = ("domain: edge\non_store_failure: deny\n", "domain: edge\n");
    for texts in [[said, unsaid], [unsaid, said], [said, said]] {
        let loaded = merge_all(&texts);
        assert_eq!(loaded.render(false), "");
        assert_eq!(loaded.domains[0].on_store_failure, Some(OnStoreFailure::Deny));
    }
    assert_eq!(merge_all(&[unsaid, unsaid]).domains[0].on_store_failure, None);
    let loaded = merge_all(&[said, "domain: edge\non_store_failure: allow\n"]);
    assert!(loaded.render(false).contains("`on_store_failure` is `deny` on line 2 of `1.yaml`"));
}
