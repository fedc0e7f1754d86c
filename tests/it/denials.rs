//! What Redis has refused is refused without asking it, for as long as that is certain.

use crate::{
    grpc::Client,
    support::{self, Metrics, Redis, Server, TempDir, on, until},
};
use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitResponse, rate_limit_response::Code,
};
use serde_json::{Value, json};

/// Limits that are full after two requests, and refill in a month.
const RULES: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: month, requests_per_unit: 2}
  - key: team
    rate_limit: {unit: month, requests_per_unit: 1000}
  - key: dark
    rate_limit: {unit: month, requests_per_unit: 2}
    shadow_mode: true
  - key: quota
    rate_limit: {unit: month, requests_per_unit: 2}
    quota_mode: true
  - key: soon
    token_bucket: {rate: 20/s, burst: 1}
";

/// How long a denial is believed, in microseconds.
const BELIEVED_US: u64 = 250_000;

async fn open(redis: &Redis) -> (Server, TempDir) {
    let files = TempDir::new();
    let server = Server::start_with(&files.file("edge.yaml", RULES), &on(redis)).await;
    (server, files)
}

fn edge(keys: &[&str]) -> Value {
    let descriptors = keys.iter().map(|key| json!({ "entries": [[key, "ada"]] }));
    json!({ "domain": "edge", "descriptors": descriptors.collect::<Vec<_>>() })
}

fn costing(hits: u64, request: &Value) -> Value {
    let mut request = request.clone();
    request["descriptors"][0]["hits_addend"] = json!(hits);
    request
}

fn giving_back(hits: u64, request: &Value) -> Value {
    let mut request = costing(hits, request);
    request["descriptors"][0]["is_negative_hits"] = json!(true);
    request
}

async fn ask(client: &mut Client, request: &Value) -> RateLimitResponse {
    client.ask(request).await.unwrap()
}

async fn passes(client: &mut Client, request: &Value) -> bool {
    ask(client, request).await.overall_code() == Code::Ok
}

/// Spends what there is, until Redis has refused.
async fn spend(client: &mut Client, request: &Value) {
    while passes(client, request).await {}
}

/// How often a server has asked Redis for a decision, and how often it knew it.
async fn asked_and_known(server: &Server) -> (f64, f64) {
    let metrics = Metrics::of(server.admin).await;
    let asked = [("operation", "decide")];
    let asked = metrics.value("tollgate_store_call_duration_seconds_count", &asked);
    let known = metrics.value("tollgate_store_denials_total", &[]);
    (asked.unwrap_or_default(), known.unwrap())
}

async fn now_us(redis: &Redis) -> u64 {
    let (seconds, micros): (u64, u64) = redis.ask(&["TIME"]).await;
    seconds * 1_000_000 + micros
}

/// How often Redis has run a script.
async fn scripts_run(redis: &Redis) -> u64 {
    let stats: String = redis.ask(&["INFO", "commandstats"]).await;
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.unwrap().split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn redis_is_asked_four_times_a_second_of_who_is_over() {
    let redis = Redis::start().await;
    let (server, _files) = open(&redis).await;
    let mut client = Client::connect(server.grpc).await;
    let began_us = now_us(&redis).await;
    spend(&mut client, &edge(&["user"])).await;
    let (before, (asked_before, _)) = (scripts_run(&redis).await, asked_and_known(&server).await);
    for _ in 0..2000 {
        let answer = ask(&mut client, &edge(&["user"])).await;
        assert_eq!(answer.overall_code(), Code::OverLimit);
        // The limit that refuses is all there is, so the answer lacks nothing.
        assert_eq!(answer.dynamic_metadata, None);
        let status = &answer.statuses[0];
        assert_eq!((status.code(), status.limit_remaining), (Code::OverLimit, 0));
        let days = status.duration_until_reset.as_ref().unwrap().seconds / 86_400;
        assert!((14..=15).contains(&days), "{days}");
    }
    let (asked, known) = asked_and_known(&server).await;
    let took_us = now_us(&redis).await - began_us;
    assert_eq!(asked - asked_before + known, 2000.0);
    assert!(asked - asked_before <= (took_us / BELIEVED_US + 1) as f64, "{asked} in {took_us}");
    // Beside that there are heartbeats and what operators say, some five in a second.
    let ran = scripts_run(&redis).await - before;
    assert!(ran <= took_us / 100_000 + 5, "{ran} in {took_us}");
}

#[tokio::test]
async fn what_is_given_back_reset_or_set_on_this_server_opens_at_once() {
    let redis = Redis::start().await;
    let (server, _files) = open(&redis).await;
    let (mut client, user) = (Client::connect(server.grpc).await, edge(&["user"]));
    for _ in 0..20 {
        spend(&mut client, &user).await;
        assert!(passes(&mut client, &giving_back(1, &user)).await);
        assert!(passes(&mut client, &user).await);
        assert!(!passes(&mut client, &user).await);
    }
    let admin = server.admin.to_string();
    let order = async |words: &[&str]| {
        let output = support::run(&[words, &["--admin", &admin]].concat(), &[]).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    assert!(!passes(&mut client, &user).await);
    order(&["key", "reset", "edge:user", "user=ada"]).await;
    assert!(passes(&mut client, &costing(2, &user)).await);
    assert!(!passes(&mut client, &user).await);
    order(&["limit", "set", "edge:user", "user=ada", "--rate", "5/month", "--burst", "5"]).await;
    assert!(passes(&mut client, &costing(3, &user)).await);
}

#[tokio::test]
async fn what_another_server_gives_back_opens_soon() {
    let redis = Redis::start().await;
    let ((one, _files), (other, _more)) = (open(&redis).await, open(&redis).await);
    let (mut client, user) = (Client::connect(one.grpc).await, edge(&["user"]));
    let mut other = Client::connect(other.grpc).await;
    spend(&mut client, &user).await;
    assert!(passes(&mut other, &giving_back(1, &user)).await);
    let began_us = now_us(&redis).await;
    until("it has opened", async || passes(&mut client, &user).await.then_some(())).await;
    let refused = asked_and_known(&one).await;
    // It was asked again as soon as it did not believe it any more, not before and not much later.
    let took_us = now_us(&redis).await - began_us;
    assert!(refused.0 <= 5.0 + (took_us / BELIEVED_US) as f64, "{refused:?} in {took_us}");
}

#[tokio::test]
async fn opens_when_the_next_token_comes() {
    let redis = Redis::start().await;
    let (server, _files) = open(&redis).await;
    let (mut client, soon) = (Client::connect(server.grpc).await, edge(&["soon"]));
    assert!(passes(&mut client, &soon).await);
    let (began_us, mut admitted) = (now_us(&redis).await, 0);
    while admitted < 20 {
        admitted += u64::from(passes(&mut client, &soon).await);
    }
    let took_us = now_us(&redis).await - began_us;
    let (_, known) = asked_and_known(&server).await;
    assert!(known > 0.0);
    // None came early.
    assert!(admitted <= took_us / 50_000 + 1, "{admitted} in {took_us}");
}

#[tokio::test]
async fn peeks_refunds_shadow_and_quotas_always_go_to_redis() {
    let redis = Redis::start().await;
    let (server, _files) = open(&redis).await;
    let mut client = Client::connect(server.grpc).await;
    spend(&mut client, &edge(&["user"])).await;
    spend(&mut client, &edge(&["quota"])).await;
    for _ in 0..3 {
        assert!(passes(&mut client, &edge(&["dark"])).await);
    }
    let (before, known) = asked_and_known(&server).await;
    for _ in 0..20 {
        assert!(!passes(&mut client, &costing(0, &edge(&["user"]))).await);
        assert!(passes(&mut client, &giving_back(1, &edge(&["team"]))).await);
        assert!(passes(&mut client, &edge(&["dark"])).await);
        assert!(!passes(&mut client, &edge(&["quota"])).await);
    }
    assert_eq!(asked_and_known(&server).await, (before + 80.0, known));
}

#[tokio::test]
async fn how_it_stands_with_other_limits_is_asked_and_true() {
    let redis = Redis::start().await;
    let (server, _files) = open(&redis).await;
    let (mut client, both) = (Client::connect(server.grpc).await, edge(&["team", "user"]));
    spend(&mut client, &both).await;
    let (before, known) = asked_and_known(&server).await;
    for _ in 0..10 {
        let answer = ask(&mut client, &both).await;
        assert_eq!(answer.overall_code(), Code::OverLimit);
        let [team, user] = &answer.statuses[..] else { panic!("{answer:?}") };
        assert_eq!((team.code(), user.code()), (Code::Ok, Code::OverLimit));
        assert!(team.current_limit.is_some() && team.limit_remaining > 0, "{team:?}");
    }
    assert_eq!(asked_and_known(&server).await, (before + 10.0, known));
}
