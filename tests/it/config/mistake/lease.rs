//! Mistakes of limits on slots, and of what is said of leases.

use super::check;
use crate::config::{descriptor, merge_all, parse_all};
use tollgate::config::Severity;

#[test]
fn concurrency() {
    let check = |inside: &str, column: usize, message: &str| {
        let text = descriptor(&format!("key: a\nconcurrency: {inside}"));
        check(&parse_all(&[&text]), &[(Severity::Error, 4, column + 4, message)], &text);
    };
    check("20", 14, "`concurrency` is a number, not a mapping");
    check("", 1, "`concurrency` is empty, not a mapping");
    check("{}", 1, "`max` is missing");
    check("{max: 1.5}", 20, "`max` is `1.5`, which is no whole number");
    check("{max: -1}", 20, "`max` is negative");
    check("{max: 4294967296}", 20, "`max` is too large");
    check("{max: \"5\"}", 20, "`max` is a number in quotes");
    check("{max: 5, burst: 5}", 23, "unknown key `burst` in `concurrency`");
    let ttl = |ttl: &str, message: &str| {
        check(&format!("{{max: 5, lease_ttl: {ttl}}}"), 34, message);
    };
    ttl("60", "`lease_ttl` has no unit of time");
    ttl("0s", "`lease_ttl` is 0");
    ttl("1w", "`1w` is no duration");
    ttl("24h1m", "`24h1m` is no duration");
    ttl("86401s", "`lease_ttl` is longer than a day");
    ttl("2d", "`lease_ttl` is longer than a day");
    ttl("[60s]", "`lease_ttl` is a list");
}

#[test]
fn what_stands_beside_a_limit_on_slots() {
    let check = |line: &str, column: usize, message: &str| {
        let text = descriptor(&format!("key: a\nconcurrency: {{max: 5}}\n{line}"));
        check(&parse_all(&[&text]), &[(Severity::Error, 5, column + 4, message)], &text);
    };
    check("weight: hit", 9, "`weight` is `hit`, which it cannot be");
    check("weight: 5", 9, "`weight` is a number, not text");
    check(
        "overdraw: true",
        11,
        "`overdraw` beside `concurrency`: a slot is taken before it is used",
    );
    check(
        "on_store_failure: local",
        19,
        "`on_store_failure: local` beside `concurrency`: \
         one process does not know which slots are taken elsewhere",
    );
    check("lease_header:", 1, "`lease_header` is empty");
    check("lease_header: X-Lease-Id", 15, "the header `X-Lease-Id` is not in lower case");
    check("lease_header: x lease", 15, "`x lease` is no name of a header");
    check("lease_header: \"x\\u00e9\"", 15, "`xé` is no name of a header");
    for header in ["\":path\"", "host", "Host", "content-length"] {
        let name = header.trim_matches('"');
        let message = format!("the header `{name}` says how, and to whom, the request goes");
        check(&format!("lease_header: {header}"), 15, &message);
    }
}

#[test]
fn what_is_for_limits_on_slots_alone() {
    const HITS: &str = "what a request takes of a rate is always its hits";
    const NO_LEASE: &str = "what a request takes of a rate is under no lease";
    for (key, limit) in [
        ("token_bucket", "token_bucket: {rate: 1/s}"),
        ("rate_limit", "rate_limit: {unit: day, requests_per_unit: 5}"),
        ("rate_limit", "rate_limit: {unlimited: true}"),
    ] {
        for (line, why) in [("weight: hits", HITS), ("lease_header: x-lease-id", NO_LEASE)] {
            let text = descriptor(&format!("key: a\n{limit}\n{line}"));
            let beside = line.split(':').next().unwrap();
            let message = format!("`{beside}` beside `{key}`: {why}");
            check(&parse_all(&[&text]), &[(Severity::Error, 5, 5, &message)], &text);
        }
    }
}

#[test]
fn wrong_values_are_wrong_where_there_is_no_limit() {
    let text = descriptor("key: a\nweight: 5");
    let expected = [
        (Severity::Warning, 4, 5, "`weight` does nothing here: the descriptor has no limit"),
        (Severity::Error, 4, 13, "`weight` is a number, not text"),
    ];
    check(&parse_all(&[&text]), &expected, &text);
}

#[test]
fn what_is_right_beside_a_limit_on_slots() {
    for lines in [
        "key: a\nconcurrency: {max: 5}\noverdraw: false\non_store_failure: deny",
        "key: a\nconcurrency: {max: 5}\nquota_mode: true\nshadow_mode: true\nname: b",
    ] {
        assert_eq!(parse_all(&[&descriptor(lines)]).render(false), "", "{lines}");
    }
}

#[test]
fn lease_keys() {
    let check = |key: &str, message: &str| {
        let text = format!("domain: edge\nlease_key: {key}\n");
        let column = if key.is_empty() { 1 } else { 12 };
        check(&parse_all(&[&text]), &[(Severity::Error, 2, column, message)], &text);
    };
    check("", "`lease_key` is empty");
    check("[a]", "`lease_key` is a list");
    for name in ["domain", "descriptors", "hitsAddend", "metadata"] {
        let why = "that is a name that Envoy's metadata has for something else";
        check(name, &format!("`lease_key` cannot be `{name}`: {why}"));
    }
    check(
        "acquire_lease_id",
        "`lease_key` cannot be `acquire_lease_id`: that is the entry that takes a lease",
    );
}

#[test]
fn the_lease_key_of_a_domain_is_no_key_of_its_descriptors() {
    let text = "domain: edge\nlease_key: id\ndescriptors: [{key: lease_id}, {key: id}]\n";
    let message = "the key `id` is never matched: such an entry releases a lease";
    check(&parse_all(&[text]), &[(Severity::Warning, 3, 38, message)], text);

    let texts = ["domain: edge\ndescriptors: [{key: id}]\n", "domain: edge\nlease_key: id\n"];
    check(&merge_all(&texts), &[(Severity::Warning, 2, 21, message)], "said in another file");
}

#[test]
fn two_lease_keys_in_one_domain() {
    let texts = ["domain: edge\nlease_key: a\n", "domain: edge\nlease_key: b\n"];
    let message = "`lease_key` is `a` on line 2 of `1.yaml`";
    check(&merge_all(&texts), &[(Severity::Error, 2, 12, message)], "two keys");
}
