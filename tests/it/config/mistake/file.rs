//! Mistakes of whole files.

use super::{Case, check};
use crate::config::{descriptor, merge_all, parse_all};
use tollgate::config::Severity;

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
