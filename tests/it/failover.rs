//! One name, and another primary behind it, which has not got the last writes: what was taken from the one before is not
//! given back to it.

use crate::{
    grpc::{Client, is_degraded},
    support::{Metrics, Proxy, Redis, Server, TempDir, until},
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use serde_json::{Value, json};

const RULES: &str = "
domain: edge
descriptors:
  - key: hot
    token_bucket: {rate: 1000/day, burst: 10000, grants: {max_age: 10s}}
  - key: account
    rate_limit: {unit: year, requests_per_unit: 5}
";

/// A server behind a proxy, the primary that this leads to, and a replica that gets its writes.
struct Pair {
    primary: Redis,
    replica: Redis,
    proxy: Proxy,
    server: Server,
    client: Client,
    _files: TempDir,
}

impl Pair {
    async fn open() -> Self {
        let primary = Redis::start_on_port(&[]).await;
        let port = primary.port().to_string();
        let replica = Redis::start_on_port(&["--replicaof", "127.0.0.1", &port]).await;
        let proxy = Proxy::to(primary.port()).await;
        let files = TempDir::new();
        let store = [("TOLLGATE_STORE", &*proxy.url()), ("TOLLGATE_STORE_TIMEOUT", "100ms")];
        let server = Server::start_with(&files.file("edge.yaml", RULES), &store).await;
        let client = Client::connect(server.grpc).await;
        Self { primary, replica, proxy, server, client, _files: files }
    }

    /// Takes so much, and has it be the last that the replica gets.
    async fn take_last(&mut self, key: &str, hits: u32) {
        let answer = self.client.ask(&request(key, hits)).await.unwrap();
        assert!(answer.overall_code() == Code::Ok && !is_degraded(&answer), "{answer:?}");
        let keys = format!("tg1:token_bucket:edge:{key}=ada");
        until("the replica has it", async || {
            let stored: Option<Vec<u8>> = self.replica.ask(&["GET", &keys]).await;
            stored.map(drop)
        })
        .await;
        let () = self.replica.ask(&["REPLICAOF", "NO", "ONE"]).await;
    }

    /// What is left, by the primary behind the proxy.
    async fn left(&mut self, key: &str) -> Option<u32> {
        let answer = self.client.ask(&request(key, 0)).await.unwrap();
        (!is_degraded(&answer)).then(|| answer.statuses[0].limit_remaining)
    }

    async fn metric(&self, name: &str, label: (&str, &str)) -> f64 {
        Metrics::of(self.server.admin).await.value(name, &[label]).unwrap()
    }
}

fn request(key: &str, hits: u32) -> Value {
    let descriptor = json!({ "entries": [[key, "ada"]], "hits_addend": hits });
    json!({ "domain": "edge", "descriptors": [descriptor] })
}

#[tokio::test]
async fn what_is_in_hand_is_dropped_when_another_primary_answers() {
    const TOKENS: &str = "tollgate_grants_tokens_total";
    let mut pair = Pair::open().await;
    pair.take_last("hot", 1000).await;
    until("something is in hand", async || {
        for _ in 0..20 {
            pair.client.ask(&request("hot", 1)).await.unwrap();
        }
        let taken = pair.metric(TOKENS, ("event", "taken")).await;
        let gone = pair.metric(TOKENS, ("event", "spent")).await;
        (taken - gone >= 100.0).then_some(())
    })
    .await;
    let returned = pair.metric(TOKENS, ("event", "returned")).await;
    pair.proxy.lead_to(pair.replica.port());
    pair.proxy.reset();
    // The new primary knows of the first thousand alone.
    until("the new primary answers", async || pair.left("account").await).await;
    until("what was in hand is lost", async || {
        let in_hand = Metrics::of(pair.server.admin).await.value("tollgate_grants_in_hand", &[])?;
        (in_hand == 0.0).then_some(())
    })
    .await;
    assert!(pair.metric(TOKENS, ("event", "lost")).await > 0.0);
    assert_eq!(pair.metric(TOKENS, ("event", "returned")).await, returned);
    let left = pair.left("hot").await.unwrap();
    assert!((9000..=9001).contains(&left), "{left}");
}

#[tokio::test]
async fn what_was_charged_too_late_is_not_given_back_to_another_primary() {
    const LATE: &str = "tollgate_store_late_charges_total";
    let mut pair = Pair::open().await;
    pair.take_last("account", 2).await;
    let held = pair.proxy.hold_these();
    assert!(is_degraded(&pair.client.ask(&request("account", 1)).await.unwrap()));
    pair.proxy.lead_to(pair.replica.port());
    // Nothing is answered on the connection before, so it is replaced.
    until("the new primary answers", async || pair.left("account").await.filter(|left| *left == 3))
        .await;
    held.release();
    until("the late charge is settled", async || {
        let kept = pair.metric(LATE, ("outcome", "kept")).await;
        let given_back = pair.metric(LATE, ("outcome", "given_back")).await;
        (kept + given_back > 0.0).then_some(())
    })
    .await;
    assert_eq!(pair.left("account").await, Some(3), "the new primary never charged it");
    // The one before has it back, for it is still there.
    let files = TempDir::new();
    let rules = files.file("edge.yaml", RULES);
    let server = Server::start_with(&rules, &[("TOLLGATE_STORE", pair.primary.url())]).await;
    let mut client = Client::connect(server.grpc).await;
    let answer = client.ask(&request("account", 0)).await.unwrap();
    assert_eq!(answer.statuses[0].limit_remaining, 3);
}
