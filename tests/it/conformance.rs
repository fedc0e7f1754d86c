//! The cases that envoyproxy/ratelimit passed, run against this server through its ports.
//!
//! Every case of `cases.json` is run. Those of level `must` behave as there; of the others, those that
//! differ are listed in `differences.rs`, each with what happens here instead and why.

use crate::{
    differences::{self, Difference},
    grpc::Client,
    support::{self, Server, Store, TempDir, on_every_store},
};
use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitResponse, rate_limit_response::Code,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};
use tollgate::grpc::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;

#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    level: String,
    configs: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    requests: Vec<Value>,
    expected: Vec<Value>,
    config_error: Option<String>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("cases.json")).unwrap()
}

on_every_store! { every_case_behaves_as_there_or_as_listed }

async fn every_case_behaves_as_there_or_as_listed(store: &Store) {
    let differences = differences::all();
    let mut failures = Vec::new();
    let mut unused: BTreeSet<&str> = differences.keys().copied().collect();
    let mut compared = 0;
    for case in &cases() {
        let difference = differences.get(case.name.as_str());
        unused.remove(case.name.as_str());
        if difference.is_some() && case.level == "must" {
            failures.push(format!("{}: a `must` case may not differ", case.name));
        }
        compared += 1;
        if let Err(failure) = run(store, case, difference).await {
            failures.push(format!("{} ({}): {failure}", case.name, case.level));
        }
    }
    failures
        .extend(unused.iter().map(|name| format!("{name}: listed as different, but no such case")));
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
}

/// Runs a case; what it should have done and did not is the error.
async fn run(store: &Store, case: &Case, difference: Option<&Difference>) -> Result<(), String> {
    let files = TempDir::new();
    for (place, config) in case.configs.iter().enumerate() {
        files.file(&format!("{place}.yaml"), config);
    }
    let wants_error = match difference {
        Some(difference) => difference.refuses_rules,
        None => case.config_error.is_some(),
    };
    if wants_error {
        return expect_refused(case, &files).await;
    }
    let environment: Vec<(&str, &str)> =
        case.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    store.clear().await;
    let environment = [store.environment(), environment].concat();
    let server = Server::start_with(files.path(), &environment).await;
    let mut client = Client::connect(server.grpc).await;
    let expected = difference.map_or(&case.expected, |difference| &difference.expected);
    assert_eq!(case.requests.len(), expected.len(), "{}: an answer for each request", case.name);
    for (place, (request, expected)) in case.requests.iter().zip(expected).enumerate() {
        if request["action"] == "reload" {
            reload(&server, &files, request).await;
            continue;
        }
        for round in 0..request["repeat"].as_u64().unwrap_or(1) {
            let answer = ask(&server, &mut client, request, expected).await;
            let is_last = round + 1 == request["repeat"].as_u64().unwrap_or(1);
            if is_last && let Some(fault) = differs(expected, &answer) {
                return Err(format!(
                    "request {place}: {fault}\n  expected {expected}\n  got {answer}"
                ));
            }
        }
    }
    Ok(())
}

/// Replaces the files by others that are valid, and waits until they are in force.
async fn reload(server: &Server, files: &TempDir, request: &Value) {
    let reloads = || server.log().matches("reloaded the rules").count();
    let before = reloads();
    let configs = request["configs"].as_array().unwrap();
    for (place, config) in configs.iter().enumerate() {
        let new = files.file("new", config.as_str().unwrap());
        fs::rename(new, files.path().join(format!("{place}.yaml"))).unwrap();
    }
    for place in configs.len().. {
        if fs::remove_file(files.path().join(format!("{place}.yaml"))).is_err() {
            break;
        }
    }
    let is_reloaded = async || (reloads() > before).then_some(());
    support::until("the rules are reloaded", is_reloaded).await;
}

/// Rules that are no rules: `check` names the fault and its place, and `serve` does not start.
async fn expect_refused(case: &Case, files: &TempDir) -> Result<(), String> {
    let environment: Vec<_> =
        case.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let path = files.path().to_str().unwrap();
    for arguments in [&["check", path][..], &["serve", "--config", path]] {
        let output = support::run(arguments, &environment).await;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(1) {
            return Err(format!("{arguments:?} exits with {:?}", output.status));
        }
        if !text.contains("error: ") || !text.contains(".yaml:") {
            return Err(format!("{arguments:?} does not name the fault and its place: {text}"));
        }
    }
    Ok(())
}

/// Asks by the way the case asks for, and gives the answer in the shape of an expectation.
async fn ask(server: &Server, client: &mut Client, request: &Value, expected: &Value) -> Value {
    let is_json = !expected["http_status"].is_null();
    if is_json {
        let body = match request["raw_body"].as_str() {
            Some(body) => body.to_owned(),
            None => crate::http::to_json(request).to_string(),
        };
        let response = support::post(server.http, "/json", &body).await.unwrap();
        return crate::http::from_json(&response);
    }
    match client.ask(request).await {
        Ok(response) => shape(&response),
        Err(status) => {
            json!({ "grpc_error": format!("{:?}: {}", status.code(), status.message()) })
        }
    }
}

/// An answer in the shape of an expectation.
fn shape(response: &RateLimitResponse) -> Value {
    let statuses: Vec<Value> = response
        .statuses
        .iter()
        .map(|status| {
            let limit = status.current_limit.as_ref();
            json!({
                "code": code(status.code()),
                "has_limit": limit.is_some(),
                "requests_per_unit": limit.map(|limit| limit.requests_per_unit),
                "unit": limit.map(|limit| unit(limit.unit)),
                "name": limit.map(|limit| limit.name.clone()),
                "limit_remaining": status.limit_remaining,
            })
        })
        .collect();
    let headers: Vec<Value> = response
        .response_headers_to_add
        .iter()
        .map(|header| json!([header.key, header.value]))
        .collect();
    json!({
        "overall_code": code(response.overall_code()),
        "statuses": statuses,
        "response_headers": headers,
        "dynamic_metadata": response.dynamic_metadata.as_ref().map(crate::grpc::struct_to_json),
    })
}

fn code(code: Code) -> &'static str {
    code.as_str_name()
}

fn unit(number: i32) -> &'static str {
    // The independent types are older than WEEK.
    Unit::try_from(number).unwrap().as_str_name()
}

/// What an answer lacks of what is expected; what is not expected is not compared.
fn differs(expected: &Value, answer: &Value) -> Option<String> {
    for (name, wanted) in expected.as_object().unwrap() {
        let got = &answer[name];
        let same = match name.as_str() {
            // Every error there is UNKNOWN, every error of a caller here INVALID_ARGUMENT.
            "grpc_error" => got
                .as_str()
                .is_some_and(|got| got.starts_with("InvalidArgument: ") && got.len() > 30),
            "statuses" => same_statuses(wanted, got),
            "response_headers" => same_headers(wanted, got),
            _ => same(wanted, got),
        };
        if !same {
            return Some(format!("{name} differs"));
        }
    }
    None
}

fn same_statuses(wanted: &Value, got: &Value) -> bool {
    let (wanted, got) = (wanted.as_array().unwrap(), got.as_array().cloned().unwrap_or_default());
    wanted.len() == got.len()
        && wanted.iter().zip(&got).all(|(wanted, got)| {
            wanted.as_object().unwrap().iter().all(|(name, wanted)| same(wanted, &got[name]))
        })
}

/// The values in angle brackets are words for times that depend on a calendar; here a bucket's.
fn same_headers(wanted: &Value, got: &Value) -> bool {
    let (wanted, got) = (wanted.as_array().unwrap(), got.as_array().cloned().unwrap_or_default());
    wanted.len() == got.len()
        && wanted.iter().zip(&got).all(|(wanted, got)| {
            let is_number = || got[1].as_str().is_some_and(|value| value.parse::<u64>().is_ok());
            let is_words = wanted[1].as_str().is_some_and(|value| value.starts_with('<'));
            wanted[0] == got[0] && if is_words { is_number() } else { wanted[1] == got[1] }
        })
}

/// Equal, but for the spelling of numbers.
fn same(wanted: &Value, got: &Value) -> bool {
    match (wanted, got) {
        (Value::Number(wanted), Value::Number(got)) => wanted.as_f64() == got.as_f64(),
        (Value::Array(wanted), Value::Array(got)) => {
            wanted.len() == got.len() && wanted.iter().zip(got).all(|(a, b)| same(a, b))
        }
        (Value::Object(wanted), Value::Object(got)) => {
            wanted.len() == got.len()
                && wanted.iter().all(|(name, a)| got.get(name).is_some_and(|b| same(a, b)))
        }
        _ => wanted == got,
    }
}
