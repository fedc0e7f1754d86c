//! Costs known afterwards, met by a limit that does not `overdraw`: counted, and warned of once with the fix.

use crate::{
    grpc::Client,
    support::{Metrics, Server, Store, TempDir, on_every_store, until},
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use serde_json::json;
use tokio::task::JoinSet;

const RULES: &str = "
domain: llm
descriptors:
  - key: team
    token_bucket: {rate: 100/day}
  - key: user
    token_bucket: {rate: 100/day}
  - key: debt
    token_bucket: {rate: 100/day}
    overdraw: true
  - key: window
    fixed_window: {limit: 100, per: year}
  - key: queue
    leaky_bucket: {rate: 100/day, queue: 99}
";

on_every_store! {
    a_refused_cost_after_a_peek_is_counted_and_warned_of_once,
    an_ordinary_refused_cost_is_neither,
    costs_that_come_together_are_counted_one_by_one,
    of_a_window_they_are_counted_too_and_of_what_takes_no_overdraw_none,
}

struct Llm {
    client: Client,
    server: Server,
    _files: TempDir,
}

impl Llm {
    async fn open(store: &Store) -> Self {
        let files = TempDir::new();
        let server = Server::start_on(store, &files.file("llm.yaml", RULES)).await;
        Self { client: Client::connect(server.grpc).await, server, _files: files }
    }

    async fn ask(&mut self, key: &str, hits: u64) -> Code {
        ask(&mut self.client, key, hits).await
    }

    /// How many costs a rule did not charge though it should have; `None` where nothing is told of it.
    async fn not_charged(&self, rule: &str) -> Option<f64> {
        let metrics = Metrics::of(self.server.admin).await;
        let limiter = match rule {
            "llm:window" => "fixed_window",
            "llm:queue" => "leaky_bucket",
            _ => "token_bucket",
        };
        let labels = [("domain", "llm"), ("limiter", limiter), ("rule", rule)];
        metrics.value("tollgate_costs_not_charged_total", &labels)
    }

    fn warnings(&self) -> Vec<String> {
        let log = self.server.log();
        log.lines().filter(|line| line.contains("overdraw")).map(str::to_owned).collect()
    }
}

async fn ask(client: &mut Client, key: &str, hits: u64) -> Code {
    let descriptor = json!({ "entries": [[key, "private-ada"]], "hits_addend": hits });
    let request = json!({ "domain": "llm", "descriptors": [descriptor] });
    client.ask(&request).await.unwrap().overall_code()
}

async fn of_a_window_they_are_counted_too_and_of_what_takes_no_overdraw_none(store: &Store) {
    let mut llm = Llm::open(store).await;
    assert_eq!(llm.ask("window", 40).await, Code::Ok);
    assert_eq!(llm.ask("window", 70).await, Code::OverLimit);
    assert_eq!(llm.not_charged("llm:window").await, None, "nothing was peeked");
    for cost in [70, 200] {
        assert_eq!(llm.ask("window", 0).await, Code::Ok);
        assert_eq!(llm.ask("window", cost).await, Code::OverLimit);
    }
    assert_eq!(llm.not_charged("llm:window").await, Some(2.0));
    // Where the last peek was refused, the window is used up: no mistake.
    assert_eq!(llm.ask("window", 60).await, Code::Ok);
    assert_eq!(llm.ask("window", 0).await, Code::OverLimit);
    assert_eq!(llm.ask("window", 70).await, Code::OverLimit);
    assert_eq!(llm.not_charged("llm:window").await, Some(2.0));
    assert_eq!(llm.ask("queue", 0).await, Code::Ok);
    assert_eq!(llm.ask("queue", 200).await, Code::OverLimit);
    assert_eq!(llm.not_charged("llm:queue").await, None);
}

async fn a_refused_cost_after_a_peek_is_counted_and_warned_of_once(store: &Store) {
    let mut llm = Llm::open(store).await;
    assert_eq!(llm.not_charged("llm:team").await, None);
    assert_eq!(llm.ask("team", 40).await, Code::Ok);
    // What is refused just before is refused without asking Redis: that counts as well.
    for round in 1..=5 {
        assert_eq!(llm.ask("team", 0).await, Code::Ok, "every peek passes");
        for _ in 0..2 {
            assert_eq!(llm.ask("team", 70).await, Code::OverLimit);
        }
        assert_eq!(llm.not_charged("llm:team").await, Some(2.0 * f64::from(round)));
    }
    if let Store::Redis(_) = store {
        let metrics = Metrics::of(llm.server.admin).await;
        assert!(metrics.value("tollgate_store_denials_total", &[]).unwrap() > 0.0);
    }
    until("it is warned of", async || (!llm.warnings().is_empty()).then_some(())).await;
    assert_eq!(llm.ask("user", 0).await, Code::Ok);
    assert_eq!(llm.ask("user", 101).await, Code::OverLimit, "more than there ever is");
    until("the other rule is warned of", async || (llm.warnings().len() > 1).then_some(())).await;
    let warnings = llm.warnings();
    let [team, user] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(team.contains("WARN") && team.contains("llm:team may not limit"), "{team}");
    assert!(team.contains("`overdraw: true`") && user.contains("llm:user"), "{team} {user}");
    assert!(!llm.server.log().contains("private-ada"));
}

async fn an_ordinary_refused_cost_is_neither(store: &Store) {
    let mut llm = Llm::open(store).await;
    assert_eq!(llm.ask("user", 0).await, Code::Ok, "another key");
    // Nobody has peeked at this one.
    assert_eq!(llm.ask("team", 70).await, Code::Ok);
    assert_eq!(llm.ask("team", 70).await, Code::OverLimit);
    // Used up, it refuses peeks as well.
    assert_eq!(llm.ask("user", 100).await, Code::Ok);
    for hits in [1, 50, 100] {
        assert_eq!(llm.ask("user", hits).await, Code::OverLimit);
    }
    // And what overdraws is charged.
    assert_eq!(llm.ask("debt", 0).await, Code::Ok);
    llm.ask("debt", 150).await;
    assert_eq!(llm.ask("debt", 0).await, Code::OverLimit);
    for rule in ["llm:team", "llm:user", "llm:debt"] {
        assert_eq!(llm.not_charged(rule).await, None, "{rule}");
    }
    assert_eq!(llm.warnings(), [""; 0]);
}

async fn costs_that_come_together_are_counted_one_by_one(store: &Store) {
    let mut llm = Llm::open(store).await;
    assert_eq!(llm.ask("team", 0).await, Code::Ok);
    let mut together = JoinSet::new();
    for _ in 0..40 {
        let mut client = llm.client.clone();
        together.spawn(async move { ask(&mut client, "team", 101).await });
    }
    assert!(together.join_all().await.iter().all(|code| *code == Code::OverLimit));
    assert_eq!(llm.not_charged("llm:team").await, Some(40.0));
}
