//! Mistakes of descriptors, and what is only odd about them.

use super::check_descriptors;
use crate::config::{descriptor, parse_all};
use tollgate::config::Severity;

#[test]
fn descriptors() {
    check_descriptors(
        Severity::Error,
        &[
            ("value: alice", 1, 1, "a descriptor without `key`"),
            ("key:", 1, 1, "`key` is empty"),
            ("key: \"\"", 1, 6, "`key` is empty"),
            ("key: 1.5", 1, 6, "`key` is `1.5`, which is no whole number"),
            ("key: .inf", 1, 6, "`key` is `.inf`, which is no whole number"),
            ("key: a\nvalue: 1e3", 2, 8, "`value` is `1e3`, which is no whole number"),
            ("key: a\nvalue: [b]", 2, 8, "`value` is a list"),
            ("key: a\nvalue: [b]\nshare_threshold: true", 2, 8, "`value` is a list"),
            ("key: a\nvalue:\n  b: c", 2, 1, "`value` is a mapping"),
            ("key: a\nrat_limit: {}", 2, 1, "unknown key `rat_limit` in a descriptor"),
            ("key: a\nunit: day", 2, 1, "unknown key `unit` in a descriptor"),
            ("key: a\nkey: b", 2, 1, "`key` stands twice, first on line 3"),
            ("key: a\ndescriptors: b", 2, 14, "`descriptors` is text, not a list"),
            (
                "key: a\nvalue_to_metric: 1",
                2,
                18,
                "`value_to_metric` is a number, not true or false",
            ),
            (
                "key: a\nshare_threshold: true",
                2,
                18,
                "`share_threshold` needs a value with a `*`, but there is no value",
            ),
            (
                "key: a\nvalue: b\nshare_threshold: true",
                3,
                18,
                "`share_threshold` needs a value with a `*`, but the value `b` has none",
            ),
            (
                "key: a\ndescriptors:\n  - key: b\n  - key: b\n    value: \"\"",
                4,
                10,
                "the key `b` without a value stands twice, first on line 5",
            ),
            (
                "key: a\ndescriptors:\n  - {key: b, value: c}\n  - {key: b, value: c}",
                4,
                21,
                "the key `b` with the value `c` stands twice, first on line 5",
            ),
        ],
    );
}

#[test]
fn what_can_hardly_be_meant() {
    check_descriptors(
        Severity::Warning,
        &[
            (
                "key: a\nrate_limit: {unit: day, requests_per_unit: 0}",
                2,
                44,
                "`requests_per_unit: 0` refuses everything",
            ),
            ("key: a\ntoken_bucket: {rate: 0/s}", 2, 22, "a rate of 0 refuses everything"),
            ("key: a\ntoken_bucket: {rate: 5/s, burst: 0}", 2, 34, "`burst: 0` refuses everything"),
            (
                "key: a\ntoken_bucket: {rate: 0/s, burst: 5}",
                2,
                34,
                "`burst` does nothing: at a rate of 0 everything is refused",
            ),
            ("key: a\nconcurrency: {max: 0}", 2, 20, "`max: 0` refuses everything"),
            (
                "key: a\nweight: hits",
                2,
                1,
                "`weight` does nothing here: the descriptor has no limit",
            ),
            (
                "key: a\nlease_header: x-lease-id",
                2,
                1,
                "`lease_header` does nothing here: the descriptor has no limit",
            ),
            (
                "key: lease_id",
                1,
                6,
                "the key `lease_id` is never matched: such an entry releases a lease",
            ),
            (
                "key: a\ndescriptors:\n  - key: acquire_lease_id",
                3,
                10,
                "the key `acquire_lease_id` is never matched: such an entry names the lease that a request takes",
            ),
            (
                "key: a\nshadow_mode: true",
                2,
                1,
                "`shadow_mode` does nothing here: the descriptor has no limit",
            ),
            (
                "key: a\nrate_limit: {unlimited: true}\nquota_mode: true",
                3,
                1,
                "`quota_mode` does nothing here: an unlimited limit refuses nobody",
            ),
            (
                "key: a\nrate_limit: {unit: day, requests_per_unit: 5, replaces: [{name: b}]}",
                2,
                65,
                "no limit of this domain is called `b`",
            ),
            (
                "key: a\ndescriptors:\n  - {key: b, value: x*}\n  - {key: b, value: xy*z}",
                4,
                21,
                "the value `xy*z` is never reached: `x*` on line 5 matches all that it would",
            ),
            (
                "key: a\ndescriptors:\n  - {key: b}\n  - {key: b, value: \"*\"}",
                3,
                11,
                "the key `b` without a value is never reached: `*` on line 6 matches all that it would",
            ),
        ],
    );
}

#[test]
fn what_may_well_be_meant() {
    for lines in [
        "key: a\ntoken_bucket: {rate: 0/s}\nenabled: false",
        "key: a\ntoken_bucket: {rate: 1/s}\nenabled: false",
        "key: a\nconcurrency: {max: 0}\nenabled: false",
        "key: a\nvalue: lease_id",
        "key: a\nvalue: b",
        "key: a\ndescriptors:\n  - {key: b, value: x*}\n  - {key: b, value: xy}\n  - {key: b}\n  - {key: c, value: xy*}",
        "key: a\ndescriptors:\n  - {key: b, value: xy*}\n  - {key: b, value: x*}",
    ] {
        assert_eq!(parse_all(&[&descriptor(lines)]).render(false), "", "{lines}");
    }
}
