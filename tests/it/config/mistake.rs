//! Every mistake, with its words and its place.

use super::{descriptor, merge_all, parse_all};
use tollgate::config::{Loaded, Severity};

/// A mistake: what a descriptor says, and where that is wrong, counted from its first line and from
/// the column of its keys, and how.
type Case = (&'static str, usize, usize, &'static str);

#[track_caller]
fn check(loaded: &Loaded, expected: &[(Severity, usize, usize, &str)], text: &str) {
    let found: Vec<_> = loaded
        .diagnostics
        .iter()
        .map(|it| (it.severity, it.place.unwrap().line, it.place.unwrap().column, &*it.message))
        .collect();
    assert_eq!(found, expected, "{text}\n{}", loaded.render(false));
    assert!(loaded.diagnostics.iter().all(|it| !it.help.is_empty()));
}

#[track_caller]
fn check_descriptors(severity: Severity, cases: &[Case]) {
    for &(lines, line, column, message) in cases {
        let text = descriptor(lines);
        check(&parse_all(&[&text]), &[(severity, line + 2, column + 4, message)], &text);
    }
}

#[track_caller]
fn check_files(cases: &[Case]) {
    for &(text, line, column, message) in cases {
        check(&parse_all(&[text]), &[(Severity::Error, line, column, message)], text);
    }
}

#[test]
fn files() {
    check_files(&[
        ("", 1, 1, "`domain` is missing"),
        ("# nothing\n", 1, 1, "`domain` is missing"),
        ("descriptors:\n", 1, 1, "`domain` is missing"),
        ("- domain: edge\n", 1, 1, "a rule file is a list"),
        ("edge\n", 1, 1, "a rule file is text"),
        ("domain:\n", 1, 1, "`domain` is empty"),
        ("domain: ''\n", 1, 9, "`domain` is empty"),
        ("domain: 1.5\n", 1, 9, "`domain` is `1.5`, which is no whole number"),
        ("domain: [edge]\n", 1, 9, "`domain` is a list"),
        ("domain: edge\nDomain: edge\n", 2, 1, "unknown key `Domain` in a rule file"),
        ("domain: edge\nversion: 2\n", 2, 1, "unknown key `version` in a rule file"),
        ("domain: edge\n2: 3\n", 2, 1, "unknown key `2` in a rule file"),
        ("domain: edge\n? [a]\n: b\n", 2, 3, "a key is a list"),
        ("domain: edge\ndomain: edge\n", 2, 1, "`domain` stands twice, first on line 1"),
        ("domain: edge\n---\ndomain: b\n", 3, 1, "a second document begins here"),
        ("domain: edge\npools: {}\n", 2, 1, "this version does not have `pools` yet"),
        ("domain: edge\nlease_key: id\n", 2, 1, "this version does not have `lease_key` yet"),
        ("domain: edge\ndescriptors: {}\n", 2, 14, "`descriptors` is a mapping, not a list"),
        ("domain: edge\ndescriptors: [a]\n", 2, 15, "a descriptor is text"),
        ("domain: edge\ndescriptors: [~]\n", 2, 15, "a descriptor is empty"),
    ]);
}

#[test]
fn text_that_is_no_yaml() {
    check_files(&[
        ("'''\n", 1, 1, "this is not YAML: unclosed quote"),
        ("domain: [\n", 1, 9, "this is not YAML: unclosed bracket '['"),
        ("domain: *edge\n", 1, 9, "this is not YAML: alias references unknown anchor"),
        (
            "domain: &a [*a]\n",
            1,
            13,
            "this is not YAML: recursive references require weak recursion types",
        ),
        ("domain: !edge a\n", 1, 15, "this is not YAML: unsupported tag `!edge`"),
    ]);
}

#[test]
fn keys_that_are_numbers_and_stand_twice() {
    let text = descriptor("key: a\ntoken_bucket: {rate: 1/s}\nmetadata: {1: a, b: c, 1: d}");
    check(&parse_all(&[&text]), &[(Severity::Error, 5, 28, "`1` stands twice")], &text);
}

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
            ("key: a\nconcurrency: {max: 5}", 2, 1, "this version does not have `concurrency` yet"),
            ("key: a\nfleet: {pool: b}\nname: c", 2, 1, "this version does not have `fleet` yet"),
            ("key: a\nutilization: {}", 2, 1, "this version does not have `utilization` yet"),
            (
                "key: a\nutilization_report: {}",
                2,
                1,
                "this version does not have `utilization_report` yet",
            ),
            ("key: a\nweight: hits", 2, 1, "this version does not have `weight` yet"),
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
fn rate_limits() {
    let check = |inside: &str, column: usize, message: &str| {
        let text = descriptor(&format!("key: a\nrate_limit: {inside}"));
        check(&parse_all(&[&text]), &[(Severity::Error, 4, column + 4, message)], &text);
    };
    check("", 1, "`rate_limit` is empty, not a mapping");
    check("5", 13, "`rate_limit` is a number, not a mapping");
    check("{requests_per_unit: 5}", 1, "`unit` is missing");
    check("{unit: day}", 1, "`requests_per_unit` is missing");
    check("{unit: unknown, requests_per_unit: 5}", 20, "`unknown` is no unit");
    check("{unit: days, requests_per_unit: 5}", 20, "`days` is no unit");
    check("{unit: 5, requests_per_unit: 5}", 20, "`unit` is a number, not text");
    check("{unit: '', requests_per_unit: 5}", 20, "`` is no unit");
    let number = |number: &str, message: &str| {
        check(&format!("{{unit: day, requests_per_unit: {number}}}"), 44, message);
    };
    number("\"5\"", "`requests_per_unit` is a number in quotes");
    number("1.5", "`requests_per_unit` is `1.5`, which is no whole number");
    number("-1", "`requests_per_unit` is negative");
    number("4294967296", "`requests_per_unit` is too large");
    number("99999999999999999999", "`requests_per_unit` is too large");
    number("010", "`requests_per_unit` begins with a zero");
    number("many", "`requests_per_unit` is text, not a number");
    number("~", "`requests_per_unit` is empty, not a number");
    check(
        "{unlimited: true, unit: day}",
        37,
        "`unlimited: true` with a `unit`: it is one or the other",
    );
    check(
        "{unlimited: true, unit: x}",
        37,
        "`unlimited: true` with a `unit`: it is one or the other",
    );
    check("{unlimited: \"true\"}", 25, "`unlimited` is text, not true or false");
}

#[test]
fn replaced_limits() {
    let check = |inside: &str, column: usize, message: &str| {
        let text = descriptor(&format!(
            "key: a\nrate_limit: {{unit: day, requests_per_unit: 5, name: n, replaces: {inside}}}"
        ));
        check(&parse_all(&[&text]), &[(Severity::Error, 4, column + 66, message)], &text);
    };
    check("b", 4, "`replaces` is text, not a list");
    check("[b]", 5, "an item of `replaces` is text");
    check("[{}]", 5, "an item of `replaces` without `name`");
    check("[{name: ''}]", 12, "`name` is empty");
    check("[{name: n}]", 12, "the limit `n` replaces itself");
}

#[test]
fn token_buckets() {
    let check = |inside: &str, column: usize, message: &str| {
        let text = descriptor(&format!("key: a\ntoken_bucket: {inside}"));
        check(&parse_all(&[&text]), &[(Severity::Error, 4, column + 4, message)], &text);
    };
    check("100/s", 15, "`token_bucket` is text, not a mapping");
    check("{burst: 5}", 1, "`rate` is missing");
    check("{rate: 1/s, unit: day}", 27, "unknown key `unit` in `token_bucket`");
    check("{rate: 1/s, name: a}", 27, "unknown key `name` in `token_bucket`");
    check("{rate: 100}", 22, "`rate` has no unit of time");
    check("{rate: 1.5}", 22, "`rate` is a number");
    check("{rate: fast}", 22, "`fast` is no rate");
    check("{rate: 1.5/s}", 22, "`1.5/s` is no rate in whole tokens");
    check("{rate: -1/s}", 22, "`-1/s` is no rate");
    check("{rate: 1/m}", 22, "`m` is no unit of a rate");
    check("{rate: 1/fortnight}", 22, "`fortnight` is no unit of a rate");
    check("{rate: 4294967296/day}", 22, "`4294967296` is too many tokens");
    check("{rate: 1/s, burst: 1.5}", 34, "`burst` is `1.5`, which is no whole number");
    check("{rate: {tokens: 5}}", 22, "`per` is missing");
    check("{rate: {per: 5s}}", 22, "`tokens` is missing");
    check("{rate: {tokens: 5, per: 5s, x: 1}}", 43, "unknown key `x` in `rate`");
    check("{rate: {tokens: 5, per: 30}}", 39, "`per` has no unit of time");
    check("{rate: {tokens: 5, per: 0s}}", 39, "`per` is 0");
    check("{rate: {tokens: 5, per: 5us}}", 39, "`5us` is no duration");
    check("{rate: {tokens: 5, per: 366d}}", 39, "`per` is longer than a year");
    check("{rate: {tokens: 4294968, per: 1ms}}", 22, "`rate` is above 4294967295 per second");
}

#[test]
fn several_limits() {
    const ONE: &str = "a descriptor takes one limit, or several under `limits`";
    check_descriptors(
        Severity::Error,
        &[
            (
                "key: a\ntoken_bucket: {rate: 1/s}\nrate_limit: {unit: day, requests_per_unit: 5}",
                3,
                1,
                ONE,
            ),
            ("key: a\nlimits: [{token_bucket: {rate: 1/s}}]\ntoken_bucket: {rate: 1/s}", 2, 1, ONE),
            ("key: a\nlimits: []", 2, 9, "`limits` is empty"),
            ("key: a\nlimits:", 2, 1, "`limits` is empty, not a list"),
            ("key: a\nlimits: [a]", 2, 10, "an item of `limits` is text"),
            ("key: a\nlimits: [{name: b}]", 2, 10, "an item of `limits` without a limit"),
            (
                "key: a\nlimits: [{concurrency: {}}]",
                2,
                11,
                "this version does not have `concurrency` yet",
            ),
            (
                "key: a\nlimits: [{token_bucket: {rate: 1/s}, value: b}]",
                2,
                38,
                "unknown key `value` in an item of `limits`",
            ),
            (
                "key: a\nlimits:\n  - token_bucket: {rate: 1/s}\n    rate_limit: {unlimited: true}",
                4,
                5,
                "two limits in one item of `limits`",
            ),
            (
                "key: a\nlimits: [{token_bucket: {rate: 1/s}}]\nname: b",
                3,
                1,
                "`name` beside `limits` is for no limit",
            ),
            (
                "key: a\nlimits:\n  - {token_bucket: {rate: 1/s}, name: b}\n  - {token_bucket: {rate: 2/s}, name: b}",
                4,
                39,
                "two limits of one descriptor are called `b`, the first on line 5",
            ),
            (
                "key: a\nlimits:\n  - token_bucket: {rate: 1/s}\n  - rate_limit: {unlimited: true}",
                4,
                5,
                "`unlimited` among several limits means nothing: all must pass",
            ),
        ],
    );
}

#[test]
fn flags() {
    let check = |lines: &str, line: usize, column: usize, message: &str| {
        let text = descriptor(&format!("key: a\ntoken_bucket: {{rate: 1/s}}\n{lines}"));
        check(&parse_all(&[&text]), &[(Severity::Error, line + 4, column + 4, message)], &text);
    };
    check("name: ''", 1, 7, "`name` is empty");
    check("name: 1.5", 1, 7, "`name` is `1.5`, which is no whole number");
    for flag in ["enabled", "overdraw", "shadow_mode", "quota_mode", "detailed_metric"] {
        let message = format!("`{flag}` is text, not true or false");
        check(&format!("{flag}: \"true\""), 1, flag.len() + 3, &message);
    }
    check("shadow_mode:", 1, 1, "`shadow_mode` is empty, not true or false");
    check("metadata: [a]", 1, 11, "`metadata` is a list, not a mapping");
    check("metadata: {a: .nan}", 1, 15, "metadata cannot hold the number `.nan`");
    check("metadata: {a: b, a: c}", 1, 18, "`a` stands twice, first on line 5");
    check("on_store_failure: open", 1, 19, "`on_store_failure` is `open`, which it cannot be");
    check("on_store_failure: no", 1, 19, "`on_store_failure` is true or false, not text");
    check("message: \"\"", 1, 10, "`message` is empty");
    check("message: 5", 1, 10, "`message` is a number, not text");
    check("message: \"a\\eb\"", 1, 10, "`message` has control characters in it");
    let long = format!("message: {}", "x".repeat(4_097));
    check(&long, 1, 10, "`message` is longer than 4096 bytes");
}

#[test]
fn flags_that_contradict_the_limit() {
    check_descriptors(
        Severity::Error,
        &[
            (
                "key: a\nrate_limit: {unit: day, requests_per_unit: 5, name: b}\nname: c",
                3,
                7,
                "`name` stands beside `rate_limit` and inside it",
            ),
            (
                "key: a\nrate_limit: {unlimited: true}\noverdraw: true",
                3,
                11,
                "`overdraw` on an unlimited limit: there is nothing to draw from",
            ),
            (
                "key: a\nrate_limit: {unit: day, requests_per_unit: 5, replaces: [{name: b}]}\nname: b",
                2,
                65,
                "the limit `b` replaces itself",
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
        "key: a\nvalue: b",
        "key: a\ndescriptors:\n  - {key: b, value: x*}\n  - {key: b, value: xy}\n  - {key: b}\n  - {key: c, value: xy*}",
        "key: a\ndescriptors:\n  - {key: b, value: xy*}\n  - {key: b, value: x*}",
    ] {
        assert_eq!(parse_all(&[&descriptor(lines)]).render(false), "", "{lines}");
    }
}

#[test]
fn domains_of_several_files() {
    let texts =
        ["domain: edge\ndescriptors: [{key: a}]\n", "domain: edge\ndescriptors: [{key: a}]\n"];
    let message = "the domain `edge` stands in two files, first on line 1 of `1.yaml`";
    check(&parse_all(&texts), &[(Severity::Error, 1, 9, message)], "two domains");
    let message = "the key `a` without a value stands twice, first on line 2 of `1.yaml`";
    check(&merge_all(&texts), &[(Severity::Error, 2, 21, message)], "joined");
}

#[test]
fn what_an_alias_brings_is_told_where_the_alias_is() {
    let text = descriptor(concat!(
        "key: a\ntoken_bucket: &bad {rate: 5}\ndescriptors:\n",
        "  - {key: b, token_bucket: *bad}\n  - {key: c, token_bucket: {<<: *bad}}",
    ));
    let message = "`rate` has no unit of time";
    let expected =
        [(4, 31), (6, 32), (7, 37)].map(|(line, column)| (Severity::Error, line, column, message));
    check(&parse_all(&[&text]), &expected, &text);
}
