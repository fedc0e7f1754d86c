//! What alerts and panels ask for is what the program tells: by its names and labels, and by a real Prometheus.

use super::repository;
use crate::{
    grpc::Client,
    support::{Metrics, Prometheus, Redis, Reports, Server, TempDir, on, report, until, yaml},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs};
use tollgate::grpc::proto::tollgate::v1::report_utilization_request::Load;

/// Limits of every kind.
const RULES: &str = "
domain: edge
pools:
  api:
    capacity: 10
    reserved: 20%
    lease_ttl: 10m
    utilization: {report_ttl: 10m, shed: [test]}
descriptors:
  - {key: user, token_bucket: {rate: 1/day}, name: user}
  - {key: dark, token_bucket: {rate: 1/day}, shadow_mode: true, detailed_metric: true}
  - {key: paid, token_bucket: {rate: 1/day}, detailed_metric: true}
  - {key: tokens, token_bucket: {rate: 9/day}}
  - {key: report, concurrency: {max: 1, lease_ttl: 10m}}
  - {key: priority, fleet: {pool: api}}
  - {key: class, utilization: {pool: api}}
";

/// A server that has met requests of every kind.
async fn busy_server(environment: &[(&str, &str)]) -> (Server, TempDir) {
    let files = TempDir::new();
    let server = Server::start_with(&files.file("edge.yaml", RULES), environment).await;
    let mut client = Client::connect(server.grpc).await;
    for key in ["user", "dark", "paid", "report", "priority", "class", "unknown"] {
        let request = json!({ "domain": "edge", "descriptors": [{ "entries": [[key, "test"]] }] });
        for _ in 0..3 {
            client.ask(&request).await.unwrap();
        }
    }
    for cost in [0, 10] {
        let descriptor = json!({ "entries": [["tokens", "test"]], "hits_addend": cost });
        let request = json!({ "domain": "edge", "descriptors": [descriptor] });
        client.ask(&request).await.unwrap();
    }
    let reports = Reports::connect(server.grpc).await;
    reports.say(report("edge", "one", Load::Ratio(0.5))).await.unwrap();
    (server, files)
}

/// The expressions of all alerts and of the rules that record for them, with what they are called.
fn alerts() -> Vec<(String, String)> {
    let alerts = yaml("deploy/prometheus/alerts.yaml");
    let rules = alerts["groups"][0]["rules"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let named = rules.map(|rule| {
        let name = if rule["alert"].is_string() { &rule["alert"] } else { &rule["record"] };
        (text(name), text(&rule["expr"]))
    });
    named.collect()
}

/// The expressions of all panels, with their titles, as Grafana fills them in.
fn panels() -> Vec<(String, String)> {
    let text = fs::read_to_string(repository().join("deploy/grafana/tollgate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| (panel["title"].clone(), target["expr"].clone()))
    });
    let filled = targets.map(|(title, expression)| {
        let expression = expression.as_str().unwrap().replace("$__rate_interval", "1m");
        let expression = expression.replace("$job", "tollgate").replace("$domain", ".*");
        assert!(!expression.contains('$'), "{title}: {expression}");
        (title.as_str().unwrap().to_owned(), expression)
    });
    let panels: Vec<_> = filled.collect();
    assert!(!panels.is_empty());
    panels
}

/// A metric as an expression asks for it: its name, and label, operator and value of each matcher.
type Asked<'e> = (&'e str, Vec<(&'e str, &'e str, &'e str)>);

/// The metrics of ours that an expression names.
fn asked(expression: &str) -> Vec<Asked<'_>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut asked = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_part) {
        let word = &rest[start..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        let (matchers, after) = match after.strip_prefix('{') {
            Some(inside) => inside.split_once('}').expect("a closing brace"),
            None => ("", after),
        };
        // With a colon it is what a rule records.
        let is_ours = ["tollgate_", "process_"].iter().any(|ours| name.starts_with(ours));
        if is_ours && !name.contains(':') {
            let matchers = matchers.split(',').filter(|matcher| !matcher.is_empty());
            asked.push((name, matchers.map(matcher).collect()));
        }
        rest = after;
    }
    asked
}

/// `label="value"`, taken apart.
fn matcher(text: &str) -> (&str, &str, &str) {
    let (label, rest) = text.split_at(text.find(['=', '!']).expect("an operator"));
    let (operator, value) = rest.split_at(rest.find('"').expect("a quote"));
    (label, operator, value.trim_matches('"'))
}

/// The labels by which an expression adds up or joins.
fn grouped(expression: &str) -> BTreeSet<&str> {
    let words = ["by (", "on (", "group_left ("];
    let lists = words.iter().flat_map(|word| expression.split(word).skip(1));
    let labels = lists.flat_map(|list| list.split(')').next().unwrap().split(','));
    labels.map(str::trim).filter(|label| !label.is_empty()).collect()
}

#[test]
fn an_expression_is_taken_apart_as_it_is_meant() {
    let expression = r#"sum by (le, job) (rate(tollgate_a_total{b="c d",e=~"f|g"}[1m])) / tollgate:h:i > process_j"#;
    let matchers = vec![("b", "=", "c d"), ("e", "=~", "f|g")];
    assert_eq!(asked(expression), [("tollgate_a_total", matchers), ("process_j", vec![])]);
    assert_eq!(grouped(expression), BTreeSet::from(["job", "le"]));
}

#[tokio::test]
async fn every_name_and_label_that_alerts_and_panels_ask_for_is_told() {
    let redis = Redis::start().await;
    let (on_redis, _files) = busy_server(&on(&redis)).await;
    let (in_memory, _files_too) = busy_server(&[]).await;
    let told = until("what the worker reported was looked at", async || {
        let metrics = Metrics::of(on_redis.http).await;
        metrics.value("tollgate_pool_utilization_ratio", &[]).is_some().then_some(metrics)
    })
    .await;
    let told = Metrics { text: told.text + &Metrics::of(in_memory.http).await.text };
    // What Prometheus adds.
    let added = ["job", "instance", "namespace"];

    for (title, expression) in alerts().into_iter().chain(panels()) {
        let mut labels = BTreeSet::from(added);
        for (name, matchers) in asked(&expression) {
            let series = told.series(name);
            assert!(!series.is_empty(), "{title}: nobody tells of {name}");
            for (label, operator, value) in matchers {
                if added.contains(&label) {
                    continue;
                }
                let values: BTreeSet<_> =
                    series.iter().filter_map(|(labels, _)| labels.get(label).copied()).collect();
                assert!(!values.is_empty(), "{title}: {name} has no label {label}");
                let wanted = value.split('|').filter(|value| *value != ".*");
                for value in wanted {
                    assert!(
                        values.contains(value),
                        "{title}: {name}{{{label}{operator}\"{value}\"}}"
                    );
                }
            }
            labels.extend(series.iter().flat_map(|(labels, _)| labels.keys().copied()));
        }
        // Of what a rule records, the labels are seen where it is recorded.
        for label in grouped(&expression).into_iter().filter(|_| !asked(&expression).is_empty()) {
            assert!(labels.contains(label), "{title}: there is no {label} in {expression}");
        }
    }
}

#[tokio::test]
async fn a_real_prometheus_evaluates_every_alert_and_panel_and_alerts() {
    let mut redis = Redis::start().await;
    let (server, files) = busy_server(&on(&redis)).await;
    // Nobody waits for minutes here.
    let alerts = fs::read_to_string(repository().join("deploy/prometheus/alerts.yaml")).unwrap();
    let alerts: String = alerts
        .lines()
        .filter(|line| !line.starts_with("        for: "))
        .fold(String::new(), |text, line| text + line + "\n");
    let prometheus = Prometheus::start(&[server.http], &alerts).await;
    let is_there = async |expression: &str| {
        until(expression, async || prometheus.query(expression).await?.into_iter().next()).await
    };
    is_there(r#"up{job="tollgate"} == 1"#).await;
    is_there("tollgate_build_info").await;

    for (title, expression) in panels() {
        // It panics where it cannot be evaluated.
        let answer = prometheus.query(&expression).await;
        assert!(answer.is_some(), "{title}: {expression}");
    }
    until("every rule was evaluated", async || {
        let rules = prometheus.ask("/api/v1/rules").await?;
        let rules = rules["groups"][0]["rules"].as_array()?.clone();
        for rule in &rules {
            assert_ne!(rule["health"], "err", "{rule}");
        }
        rules.iter().all(|rule| rule["health"] == "ok").then_some(())
    })
    .await;

    let firing = |name: &str| format!("ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}}");
    assert_eq!(prometheus.query(&firing("TollgateReloadRefused")).await, Some(vec![]));
    files.file("edge.yaml", &RULES.replace("rate: 1/day", "rate: daily"));
    is_there(&firing("TollgateReloadRefused")).await;
    redis.kill().await;
    is_there(&firing("TollgateStoreDown")).await;

    let alerts = prometheus.ask("/api/v1/alerts").await.unwrap();
    let alerts = alerts["alerts"].as_array().unwrap();
    let refused = alerts.iter().find(|it| it["labels"]["alertname"] == "TollgateReloadRefused");
    let summary = refused.unwrap()["annotations"]["summary"].as_str().unwrap();
    assert_eq!(summary, "1 replicas refuse the rules on disk, and serve older ones.");
}
