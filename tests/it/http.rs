//! The HTTP ports: `/json`, the probes, and the operator's view.

use crate::support::{self, Response, Server, Store, TempDir, on_every_store};
use serde_json::{Value, json};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2, name: per_user}
";

on_every_store! {
    json_takes_both_spellings_and_answers_in_one,
    probes_say_that_it_lives_and_is_ready,
}

async fn open(store: &Store) -> (Server, TempDir) {
    let files = TempDir::new();
    (Server::start_on(store, &files.file("shop.yaml", RULES)).await, files)
}

/// A conformance case's request in the JSON form of the proto.
pub(crate) fn to_json(request: &Value) -> Value {
    let descriptors = request["descriptors"].as_array().unwrap().iter().map(|descriptor| {
        let entries = descriptor["entries"].as_array().unwrap().iter();
        let entries: Vec<_> =
            entries.map(|entry| json!({ "key": entry[0], "value": entry[1] })).collect();
        let mut written = json!({ "entries": entries });
        for field in ["hits_addend", "is_negative_hits", "limit"] {
            if let Some(value) = descriptor.get(field) {
                written[field] = value.clone();
            }
        }
        written
    });
    let descriptors: Vec<_> = descriptors.collect();
    let hits = request["hits_addend"].as_u64().unwrap_or_default();
    json!({ "domain": request["domain"], "descriptors": descriptors, "hitsAddend": hits })
}

/// An answer in the shape of a conformance case's expectation. What proto3 JSON leaves out is 0.
pub(crate) fn from_json(response: &Response) -> Value {
    let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
    let none = Vec::new();
    let statuses = body["statuses"].as_array().unwrap_or(&none).iter().map(|status| {
        let limit = &status["currentLimit"];
        json!({
            "code": status["code"],
            "has_limit": !limit.is_null(),
            "requests_per_unit": limit.get("requestsPerUnit").cloned().unwrap_or(json!(0)),
            "unit": limit["unit"],
            "name": limit.get("name").cloned().unwrap_or(json!("")),
            "limit_remaining": status.get("limitRemaining").cloned().unwrap_or(json!(0)),
        })
    });
    let statuses: Vec<_> = statuses.collect();
    json!({
        "http_status": response.status,
        "overall_code": body["overallCode"],
        "statuses": statuses,
    })
}

async fn json_takes_both_spellings_and_answers_in_one(store: &Store) {
    let (server, _files) = open(store).await;
    let bodies = [
        r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ada"}],"hitsAddend":1}]}"#,
        r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ada"}],"hits_addend":"1"}]}"#,
    ];
    for (body, left) in bodies.into_iter().zip([1, 0]) {
        let response = support::post(server.http, "/json", body).await.unwrap();
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(from_json(&response)["statuses"][0]["limit_remaining"], left);
    }
    let response = support::post(server.http, "/json", bodies[0]).await.unwrap();
    assert_eq!(response.status, 429);
    assert!(response.number("retry-after").unwrap() > 40_000);
    let body: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(body["overallCode"], "OVER_LIMIT");
    assert_eq!(body["statuses"][0]["currentLimit"]["name"], "per_user");
}

#[tokio::test]
async fn json_that_cannot_be_meant_is_400_and_the_fault_is_named() {
    let (server, _files) = open(&Store::Memory).await;
    let cases = [
        ("", "empty"),
        ("}", "no RateLimitRequest"),
        ("[]", "no RateLimitRequest"),
        (r#"{"domain":"shop"} x"#, "trailing"),
        (r#"{"domain":"shop","descriptor":[]}"#, "descriptor"),
        (r#"{"domain":"shop","descriptors":[{"entries":[{"key":1}]}]}"#, "no RateLimitRequest"),
        (r#"{"descriptors":[{"entries":[]}]}"#, "`domain` is empty"),
        (r#"{"domain":"shop"}"#, "`descriptors` is empty"),
        (
            r#"{"domain":"shop","descriptors":[{"limit":{"requestsPerUnit":1}}]}"#,
            "descriptors[0].limit.unit",
        ),
    ];
    for (body, fault) in cases {
        let response = support::post(server.http, "/json", body).await.unwrap();
        assert_eq!(response.status, 400, "{body}");
        let answer: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!(answer["code"], 3);
        assert!(answer["message"].as_str().unwrap().contains(fault), "{body}: {answer}");
    }
    let huge = "x".repeat((4 << 20) + 1);
    assert_eq!(support::post(server.http, "/json", &huge).await.unwrap().status, 413);
}

async fn probes_say_that_it_lives_and_is_ready(store: &Store) {
    let (server, _files) = open(store).await;
    for path in ["/healthcheck", "/ready"] {
        assert_eq!(support::get(server.http, path, &[]).await.unwrap().status, 200, "{path}");
    }
    assert_eq!(support::get(server.http, "/json", &[]).await.unwrap().status, 405);
    assert_eq!(support::get(server.http, "/rlconfig", &[]).await.unwrap().status, 404);
}

#[tokio::test]
async fn the_operator_sees_the_rules_in_force() {
    let (server, _files) = open(&Store::Memory).await;
    let tree = support::get(server.admin, "/rlconfig", &[]).await.unwrap();
    assert_eq!(tree.status, 200);
    assert!(tree.body.contains("shop:user") && tree.body.contains("2 per day"), "{}", tree.body);
    let accept = [("accept", &b"application/json"[..])];
    let json = support::get(server.admin, "/rlconfig", &accept).await.unwrap();
    let rules: Value = serde_json::from_str(&json.body).unwrap();
    assert_eq!(rules["rules"][0]["rule"], "shop:user");
    assert_eq!(rules["rules"][0]["limit"]["token_bucket"]["burst"], 2);
}
