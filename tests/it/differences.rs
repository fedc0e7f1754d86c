//! Where we differ from envoyproxy/ratelimit on purpose: the case, what happens here, and why. The
//! README tells the same under "Coming from envoyproxy/ratelimit".

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What happens here instead.
pub(crate) struct Difference {
    /// Whether the rules are refused.
    pub(crate) refuses_rules: bool,
    /// The answers.
    pub(crate) expected: Vec<Value>,
}

fn answers(expected: Vec<Value>) -> Difference {
    Difference { refuses_rules: false, expected }
}

fn refused_rules() -> Difference {
    Difference { refuses_rules: true, expected: Vec::new() }
}

fn ok(statuses: Value) -> Value {
    json!({ "overall_code": "OK", "statuses": statuses })
}

fn over(statuses: Value) -> Value {
    json!({ "overall_code": "OVER_LIMIT", "statuses": statuses })
}

fn left(remaining: u32) -> Value {
    json!({ "code": "OK", "has_limit": true, "limit_remaining": remaining })
}

fn reached() -> Value {
    json!({ "code": "OVER_LIMIT", "has_limit": true, "limit_remaining": 0 })
}

fn unlimited() -> Value {
    json!({ "code": "OK", "has_limit": false, "limit_remaining": 0 })
}

fn invalid() -> Value {
    json!({ "grpc_error": "INVALID_ARGUMENT" })
}

/// Every difference, by the name of its case.
pub(crate) fn all() -> BTreeMap<&'static str, Difference> {
    BTreeMap::from([
        // A refusal spends nothing: no counter is charged when another one is over, so the daily limit
        // keeps its 10.
        (
            "count_two_descriptors_one_goes_over",
            answers(vec![
                ok(json!([left(10), left(0)])),
                over(json!([left(10), reached()])),
                over(json!([left(10), reached()])),
            ]),
        ),
        // A refusal spends nothing: 2 are still there after 5 were refused.
        (
            "count_over_limit_hits_are_charged",
            answers(vec![ok(json!([left(2)])), over(json!([reached()])), ok(json!([left(1)]))]),
        ),
        // A refusal spends nothing: the second of two on one counter is over, and the first not charged.
        (
            "count_same_descriptor_twice_second_goes_over",
            answers(vec![ok(json!([left(1)])), over(json!([left(1), reached()]))]),
        ),
        // A peek asks what a cost of 1 would get, so an exhausted limit answers that it is over.
        ("count_zero_limit_peek_is_ok", answers(vec![over(json!([reached()]))])),
        (
            "count_peek_at_exactly_exhausted_limit_is_ok",
            answers(vec![
                ok(json!([left(0)])),
                over(json!([reached()])),
                over(json!([reached()])),
                over(json!([reached()])),
            ]),
        ),
        (
            "quota_token_style_peek_then_charge",
            answers(vec![
                ok(json!([left(1), left(2)])),
                ok(json!([left(0)])),
                ok(json!([reached(), left(2)])),
                over(json!([reached()])),
                ok(json!([reached(), left(2)])),
            ]),
        ),
        // A descriptor without a limit is no quota that passes: it must not switch the others off.
        (
            "quota_global_mode_unmatched_descriptor_counts_as_passing_quota",
            answers(vec![over(json!([reached(), unlimited()]))]),
        ),
        // Keys and values are compared one by one, not joined into text in which `a_b` could be either.
        (
            "match_key_value_join_ambiguity_key_only",
            answers(vec![ok(json!([unlimited()])), ok(json!([left(2)]))]),
        ),
        ("match_key_value_join_ambiguity_key_value", answers(vec![ok(json!([unlimited()]))])),
        (
            "counter_key_collision_between_different_tuples",
            answers(vec![ok(json!([left(99)])), ok(json!([left(9)]))]),
        ),
        // The two rules are different rules.
        ("config_error_duplicate_by_join", answers(vec![ok(json!([unlimited()]))])),
        // `*` is a wildcard in values only.
        (
            "wildcard_in_key_without_value",
            answers(vec![ok(json!([unlimited(), unlimited(), unlimited()]))]),
        ),
        // Missing, the number would be 0 and refuse everything without a word.
        ("count_missing_requests_per_unit_means_zero", refused_rules()),
        // A unit that does not exist is a slip, also where it has no effect.
        ("unlimited_with_unknown_unit_text_is_accepted", refused_rules()),
        // A server without rules would answer errors, which Envoy takes for permission.
        ("reload_from_invalid_start_to_valid", refused_rules()),
        // Rules that nobody reads are a slip.
        ("config_multi_document_yaml_second_document_ignored", refused_rules()),
        // The first limit that refuses is shown, as everywhere else in the answer; a limit of 0 resets never.
        (
            "headers_last_over_limit_descriptor_wins",
            answers(vec![
                json!({
                    "overall_code": "OVER_LIMIT",
                    "response_headers": [["RateLimit-Limit", "0"], ["RateLimit-Remaining", "0"]],
                }),
                json!({
                    "overall_code": "OVER_LIMIT",
                    "response_headers": [["RateLimit-Limit", "0"], ["RateLimit-Remaining", "0"]],
                }),
            ]),
        ),
        // Metadata are never lost.
        (
            "metadata_lost_with_detailed_metric",
            answers(vec![json!({
                "overall_code": "OK",
                "dynamic_metadata": {
                    "domain": "shop",
                    "descriptors": [{"entries": ["dm=y"]}],
                    "metadata": {"lost": true},
                },
            })]),
        ),
        // A bug there that kills the process.
        ("override_unit_unknown_crashes_reference", answers(vec![invalid()])),
        // A bug there that leaves a negative counter.
        ("error_hits_addend_overflow", answers(vec![invalid()])),
        // A bug there that gives back; whoever means to give back says is_negative_hits.
        ("error_hits_addend_wraps_to_refund", answers(vec![ok(json!([left(2)])), invalid()])),
    ])
}
