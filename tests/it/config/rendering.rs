//! What people and programs get to see.

use super::{descriptor, merge_all, parse_all, without_limiters};
use insta::assert_snapshot;

fn render(text: &str) -> String {
    without_limiters(&parse_all(&[text]).render(false))
}

#[test]
fn an_unknown_key_is_shown_with_what_was_meant() {
    assert_snapshot!(render(&descriptor("key: user\nratelimit: {unit: day, requests_per_unit: 5}")), @r"
    error: unknown key `ratelimit` in a descriptor
     --> 1.yaml:4:5
      |
    4 |     ratelimit: {unit: day, requests_per_unit: 5}
      |     ^^^^^^^^^
      |
      = help: did you mean `rate_limit`?
              a descriptor takes `key`, `value`, `rate_limit`, [the limiters], `utilization_report`, `limits`, `descriptors`, `share_threshold`, `value_to_metric`, `name`, `enabled`, `overdraw`, `shadow_mode`, `quota_mode`, `detailed_metric`, `metadata`, `on_store_failure`, `message`, `weight` and `lease_header`
    ");
}

#[test]
fn a_block_of_lines_is_shown_by_its_key() {
    assert_snapshot!(render(&descriptor("key: user\nrate_limit:\n  unit: day")), @r"
    error: `requests_per_unit` is missing
     --> 1.yaml:4:5
      |
    4 |     rate_limit:
      |     ^^^^^^^^^^
      |
      = help: say how many requests may pass in a unit: `rate_limit: {unit: minute, requests_per_unit: 100}`; for no limit, `rate_limit: {unlimited: true}`
    ");
}

#[test]
fn what_stands_twice_is_shown_with_the_first() {
    assert_snapshot!(render("domain: edge\ndomain: inner\n"), @r"
    error: `domain` stands twice, first on line 1
     --> 1.yaml:2:1
      |
    2 | domain: inner
      | ^^^^^^
      |
     ::: 1.yaml:1:1
      |
    1 | domain: edge
      | ------ first here
      |
      = help: remove one of the two
    ");
}

#[test]
fn a_domain_in_two_files_is_shown_in_both() {
    assert_snapshot!(parse_all(&["domain: edge\n", "# ours\ndomain: edge\n"]).render(false), @r"
    error: the domain `edge` stands in two files, first on line 1 of `1.yaml`
     --> 2.yaml:2:9
      |
    2 | domain: edge
      |         ^^^^
      |
     ::: 1.yaml:1:9
      |
    1 | domain: edge
      |         ---- first here
      |
      = help: put all of its descriptors into one file, or set MERGE_DOMAIN_CONFIG=true
    ");
}

#[test]
fn what_two_files_say_of_one_domain_is_shown_in_both() {
    let first = "domain: edge\nlease_key: a\npools: {api: {capacity: 5}}\n";
    let second = "domain: edge\nlease_key: b\npools:\n  api: {capacity: 6}\n";
    assert_snapshot!(merge_all(&[first, second]).render(false), @r"
    error: `lease_key` is `a` on line 2 of `1.yaml`
     --> 2.yaml:2:12
      |
    2 | lease_key: b
      |            ^
      |
     ::: 1.yaml:2:12
      |
    2 | lease_key: a
      |            - the domain's other `lease_key`
      |
      = help: say the same in all files of the domain, or say it in one

    error: the pool `api` stands twice, first on line 3 of `1.yaml`
     --> 2.yaml:4:3
      |
    4 |   api: {capacity: 6}
      |   ^^^
      |
     ::: 1.yaml:3:9
      |
    3 | pools: {api: {capacity: 5}}
      |         --- first here
      |
      = help: describe it in one file: limits in all files of the domain may name it
    ");
}

#[test]
fn a_pool_that_is_not_there_is_shown_with_what_was_meant() {
    let text = "domain: edge\npools:\n  api: {capacity: 5}\ndescriptors:\n  - {key: a, fleet: {pool: apo}}\n";
    assert_snapshot!(render(text), @r"
    error: this domain has no pool `apo`
     --> 1.yaml:5:28
      |
    5 |   - {key: a, fleet: {pool: apo}}
      |                            ^^^
      |
      = help: did you mean `api`?
              its pools are `api`
    ");
}

#[test]
fn a_warning_says_so() {
    assert_snapshot!(
        render("domain: edge\ndescriptors:\n  - {key: path, value: /api/*}\n  - {key: path, value: /api/v1/*}\n"),
        @r"
    warning: the value `/api/v1/*` is never reached: `/api/*` on line 3 matches all that it would
     --> 1.yaml:4:24
      |
    4 |   - {key: path, value: /api/v1/*}
      |                        ^^^^^^^^^
      |
     ::: 1.yaml:3:24
      |
    3 |   - {key: path, value: /api/*}
      |                        ------ this comes first
      |
      = help: move it before that one, or make `/api/*` narrower
    "
    );
}

#[test]
fn text_that_is_no_yaml_is_shown_where_it_stops_making_sense() {
    assert_snapshot!(render(&descriptor("key: host\nvalue: *.example.com")), @r#"
    error: this is not YAML: alias references unknown anchor
     --> 1.yaml:4:12
      |
    4 |     value: *.example.com
      |            ^
      |
      = help: put text that begins with `*`, `@`, `%` or a backtick in quotes: `value: "*.example.com"`
    "#);
}

#[test]
fn columns_count_characters() {
    assert_snapshot!(render("domain: edge\ndescriptors: [{key: größe, valeu: 1}]\n"), @r"
    error: unknown key `valeu` in a descriptor
     --> 1.yaml:2:28
      |
    2 | descriptors: [{key: größe, valeu: 1}]
      |                            ^^^^^
      |
      = help: did you mean `value`?
              a descriptor takes `key`, `value`, `rate_limit`, [the limiters], `utilization_report`, `limits`, `descriptors`, `share_threshold`, `value_to_metric`, `name`, `enabled`, `overdraw`, `shadow_mode`, `quota_mode`, `detailed_metric`, `metadata`, `on_store_failure`, `message`, `weight` and `lease_header`
    ");
}

#[test]
fn an_empty_file_has_no_line_to_show() {
    assert_snapshot!(render(""), @r"
    error: `domain` is missing
    --> 1.yaml:1:1
     = help: begin the file with the domain that Envoy asks for: `domain: example`
    ");
}

#[test]
fn a_long_line_is_not_shown() {
    let text = format!("domain: edge\ndescriptors: [{{key: {}, valeu: 1}}]\n", "x".repeat(3_000));
    assert_snapshot!(render(&text), @r"
    error: unknown key `valeu` in a descriptor
    --> 1.yaml:2:3023
     = help: did you mean `value`?
             a descriptor takes `key`, `value`, `rate_limit`, [the limiters], `utilization_report`, `limits`, `descriptors`, `share_threshold`, `value_to_metric`, `name`, `enabled`, `overdraw`, `shadow_mode`, `quota_mode`, `detailed_metric`, `metadata`, `on_store_failure`, `message`, `weight` and `lease_header`
    ");
}

#[test]
fn all_mistakes_of_all_files_are_shown_in_their_order() {
    let first = descriptor("value: alice\nrate_limit: {unit: hours, requests_per_unit: \"5\"}");
    let loaded = parse_all(&[&first, "descriptors: {}\n", "domain: inner\ndescriptors:\n"]);
    assert_snapshot!(loaded.render(false), @r#"
    error: a descriptor without `key`
     --> 1.yaml:3:5
      |
    3 |   - value: alice
      |     ^^^^^
      |
      = help: say which entry it is about: `key: user`

    error: `hours` is no unit
     --> 1.yaml:4:24
      |
    4 |     rate_limit: {unit: hours, requests_per_unit: "5"}
      |                        ^^^^^
      |
      = help: did you mean `hour`?
              write one of `second`, `minute`, `hour`, `day`, `week`, `month` or `year`

    error: `requests_per_unit` is a number in quotes
     --> 1.yaml:4:50
      |
    4 |     rate_limit: {unit: hours, requests_per_unit: "5"}
      |                                                  ^^^
      |
      = help: write it without quotes: `requests_per_unit: 5`

    error: `domain` is missing
     --> 2.yaml:1:1
      |
    1 | descriptors: {}
      | ^^^^^^^^^^^
      |
      = help: begin the file with the domain that Envoy asks for: `domain: example`

    error: `descriptors` is a mapping, not a list
     --> 2.yaml:1:14
      |
    1 | descriptors: {}
      |              ^
      |
      = help: write `descriptors:` and below it items that begin with `- `, as in `- key: user`
    "#);
}

#[test]
fn color_is_for_terminals() {
    let loaded = parse_all(&["domain: 1.5\n"]);
    assert!(loaded.render(true).contains("\u{1b}["));
    assert!(!loaded.render(false).contains('\u{1b}'));
    assert_eq!(parse_all(&["domain: edge\n"]).render(false), "");
}

#[test]
fn a_file_cannot_write_to_the_terminal() {
    let text = "domain: edge\n\"\\e[31mred\": 1\nmessage: \"\u{1b}[31m\"\n";
    assert!(!render(text).contains('\u{1b}'));
}

#[test]
fn programs_get_objects() {
    let json = parse_all(&["domain: edge\nversion: 2\n"]).to_json();
    assert_snapshot!(serde_json::to_string_pretty(&json).unwrap(), @r#"
    [
      {
        "severity": "error",
        "message": "unknown key `version` in a rule file",
        "help": "a rule file takes `domain`, `lease_key`, `on_store_failure`, `pools` and `descriptors`",
        "key": "version",
        "place": {
          "file": "1.yaml",
          "line": 2,
          "column": 1,
          "start": 13,
          "end": 20
        },
        "related": null
      }
    ]
    "#);
}
