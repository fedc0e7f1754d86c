//! Mistakes of limits, and of what stands beside them.

use super::{check, check_descriptors};
use crate::config::{descriptor, parse_all};
use tollgate::config::Severity;

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
fn grants() {
    let check = |inside: &str, column: usize, message: &str| {
        let text = descriptor(&format!("key: a\ntoken_bucket: {{rate: 1/s, grants: {inside}}}"));
        let found = [(Severity::Error, 4, column + 4, message)];
        super::check(&parse_all(&[&text]), &found, &text);
    };
    check("true", 35, "`grants` is true or false, not a mapping");
    check("{part: 5%}", 36, "unknown key `part` in `grants`");
    check("{share: all}", 43, "`all` is no share");
    check("{share: 0.05%}", 43, "`share` is below a thousandth");
    check("{share: 51%}", 43, "`share` is above a half");
    check("{share: 5}", 43, "`share` is `5` times the whole");
    check("{max_age: 9ms}", 45, "`max_age` is shorter than ten milliseconds");
    check("{max_age: 11s}", 45, "`max_age` is longer than ten seconds");
    check("{max_age: 100}", 45, "`max_age` has no unit of time");
    check_descriptors(
        Severity::Error,
        &[(
            "key: a\ntoken_bucket: {rate: 1/s, grants: {}}\noverdraw: true",
            3,
            11,
            "`overdraw` beside `grants`: what was spent before anybody asks is not taken ahead of need",
        )],
    );
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
