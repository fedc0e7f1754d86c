//! What a server leaves in Redis: only what says something, under names that tell what, and not for ever.

use crate::{
    grpc::Client,
    support::{Redis, Server, TempDir, on, until},
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use serde_json::{Value, json};
use tokio::process::Command;

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: ages
    token_bucket: {rate: 1/year, burst: 4294967295}
  - key: fast
    token_bucket: {rate: 1000000/s, burst: 1}
  - key: both
    limits:
      - rate_limit: {unit: minute, requests_per_unit: 2}
      - rate_limit: {unit: day, requests_per_unit: 2}
        name: daily
";

struct Shop {
    redis: Redis,
    client: Client,
    _server: Server,
    _files: TempDir,
}

impl Shop {
    async fn open() -> Self {
        // Time stands still: nothing expires.
        let (redis, files) = (Redis::start_at("2030-01-01 00:00:00").await, TempDir::new());
        let server = Server::start_with(&files.file("shop.yaml", RULES), &on(&redis)).await;
        let client = Client::connect(server.grpc).await;
        Self { redis, client, _server: server, _files: files }
    }

    async fn ask(&mut self, descriptor: Value) -> Code {
        let request = json!({ "domain": "shop", "descriptors": [descriptor] });
        self.client.ask(&request).await.unwrap().overall_code()
    }

    async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.redis.ask(&["KEYS", "*"]).await;
        // Where replicas count each other.
        keys.retain(|key| key != "tg1:replicas:");
        keys.sort();
        keys
    }

    async fn ttl_ms(&self, key: &str) -> u64 {
        self.redis.ask::<i64>(&["PTTL", key]).await.try_into().expect("every key expires")
    }
}

#[tokio::test]
async fn a_key_names_its_limit_and_expires_when_nothing_is_used_any_more() {
    let mut shop = Shop::open().await;
    assert_eq!(shop.ask(json!({ "entries": [["user", "a:b"]] })).await, Code::Ok);
    assert_eq!(shop.ask(json!({ "entries": [["both", "x"]] })).await, Code::Ok);
    let of = |rule: &str| format!("tg1:token_bucket:shop:{rule}");
    assert_eq!(shop.keys().await, [of("both=x#1"), of("both=x#daily"), of("user=a%3Ab")]);
    // A second longer than it takes to refill.
    assert_eq!(shop.ttl_ms(&of("user=a%3Ab")).await, 8 * 3_600_000 + 1000);
    assert_eq!(shop.ttl_ms(&of("both=x#1")).await, 30_000 + 1000);
    assert_eq!(shop.ttl_ms(&of("both=x#daily")).await, 12 * 3_600_000 + 1000);
}

#[tokio::test]
async fn a_key_expires_however_fast_or_slow_its_limit_is() {
    let mut shop = Shop::open().await;
    assert_eq!(shop.ask(json!({ "entries": [["fast", "x"]] })).await, Code::Ok);
    let dear = json!({ "entries": [["ages", "x"]], "hits_addend": 4_000_000_000_u64 });
    assert_eq!(shop.ask(dear).await, Code::Ok);
    let keys = shop.keys().await;
    assert_eq!(keys.len(), 2);
    assert_eq!(shop.ttl_ms(&keys[0]).await, (1_u64 << 52).div_ceil(1000) + 1000, "142 years");
    assert_eq!(shop.ttl_ms(&keys[1]).await, 1001, "a millisecond for a microsecond");
}

#[tokio::test]
async fn what_equals_a_limit_never_used_is_not_stored() {
    let mut shop = Shop::open().await;
    let user = |hits: u64| json!({ "entries": [["user", "a"]], "hits_addend": hits });
    let refund = |hits: u64| json!({ "entries": [["user", "a"]], "hits_addend": hits, "is_negative_hits": true });
    assert_eq!(shop.ask(user(0)).await, Code::Ok, "a peek");
    assert_eq!(shop.ask(user(4)).await, Code::OverLimit);
    assert_eq!(shop.ask(refund(2)).await, Code::Ok);
    assert_eq!(shop.keys().await.len(), 0);
    assert_eq!(shop.ask(user(2)).await, Code::Ok);
    assert_eq!(shop.keys().await.len(), 1);
    assert_eq!(shop.ask(refund(2)).await, Code::Ok);
    assert_eq!(shop.keys().await.len(), 0);
}

#[tokio::test]
async fn the_documented_command_reads_a_state() {
    let mut shop = Shop::open().await;
    let ada = json!({ "entries": [["user", "ada"]], "hits_addend": 2 });
    assert_eq!(shop.ask(ada).await, Code::Ok);
    let blocks = include_str!("../../docs/redis.md").split("```sh\n").skip(1);
    let mut blocks = blocks.map(|block| block.split("```").next().unwrap());
    let command = blocks.find(|block| block.starts_with("redis-cli EVAL")).unwrap();
    let socket = shop.redis.url().strip_prefix("unix://").unwrap();
    let command = command
        .replace("redis-cli", &format!("redis-cli -s {socket}"))
        .replace("edge:plan=free:user=alice#daily", "shop:user=ada");
    let output = Command::new("bash").args(["-c", &command]).output().await.unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with("2.000 tokens used at "), "{told}");
}

/// What the limit before has stored, and would have expire in six seconds.
#[tokio::test]
async fn a_state_is_kept_for_as_long_as_a_lowered_limit_needs_once_it_is_asked_for() {
    let rules = |limit: &str| {
        let keys = ["take", "peek", "chunk"];
        let grants = |key| if key == "chunk" { ", grants: {}" } else { "" };
        let rules = keys
            .map(|key| format!("  - {{key: {key}, token_bucket: {{{limit}{}}}}}\n", grants(key)));
        format!("domain: shop\ndescriptors:\n{}", rules.concat())
    };
    // Time stands still: nothing expires, and nothing is refilled.
    let (redis, files) = (Redis::start_at("2030-01-01 00:00:00").await, TempDir::new());
    let path = files.file("shop.yaml", &rules("rate: 100/s, burst: 500"));
    let server = Server::start_with(&path, &on(&redis)).await;
    let mut client = Client::connect(server.grpc).await;
    let request = |key: &str, hits: u64| {
        let descriptor = json!({ "entries": [[key, "ada"]], "hits_addend": hits });
        json!({ "domain": "shop", "descriptors": [descriptor] })
    };
    let lives_ms = async |key: &str| -> i64 {
        redis.ask(&["PTTL", &format!("tg1:token_bucket:shop:{key}=ada")]).await
    };
    for key in ["take", "peek", "chunk"] {
        let answer = client.ask(&request(key, 500)).await.unwrap();
        assert_eq!(answer.overall_code(), Code::Ok);
        assert_eq!(lives_ms(key).await, 6000);
    }
    files.file("shop.yaml", &rules("rate: 10/h, burst: 10"));
    until("the rules are reloaded", async || {
        server.log().contains("reloaded the rules").then_some(())
    })
    .await;
    for (key, hits) in [("take", 1), ("peek", 0), ("chunk", 1)] {
        until("its life is extended", async || {
            let answer = client.ask(&request(key, hits)).await.unwrap();
            assert_eq!(answer.overall_code(), Code::OverLimit);
            (lives_ms(key).await == 3_601_000).then_some(())
        })
        .await;
    }
}
