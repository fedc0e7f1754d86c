//! What callers get while the store does not decide: by each rule's word, marked, before their deadline; and
//! that nothing of it stays behind.

use crate::{
    grpc::{Client, is_degraded},
    support::{
        self, Leases, Proxy, Redis, Server, TempDir, a_second, acquire, envoy_example, span,
        start_envoy, until,
    },
};
use axum::{Router, routing};
use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitResponse, rate_limit_response::Code,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{net::TcpListener, task::JoinSet, time};
use tollgate::{
    clock::Clock,
    grpc::proto::tollgate::v1::{AcquireRequest, LeaseState, acquire_response::Outcome},
};

const RULES: &str = "
domain: shop
pools:
  api: {capacity: 10, reserved: 20%}
descriptors:
  - key: account
    rate_limit: {unit: year, requests_per_unit: 5}
  - key: quick
    token_bucket: {rate: 5/s, burst: 5}
    on_store_failure: deny
  - key: single
    token_bucket: {rate: 20/minute, burst: 1}
  - key: critical
    fleet: {pool: api, critical: true}
  - key: nothing
  - key: login
    rate_limit: {unit: year, requests_per_unit: 5, name: logins}
    on_store_failure: deny
  - key: local
    rate_limit: {unit: year, requests_per_unit: 30}
    on_store_failure: local
  - key: spent
    rate_limit: {unit: year, requests_per_unit: 5}
    overdraw: true
  - key: job
    concurrency: {max: 3, lease_ttl: 2s}
  - key: safe
    concurrency: {max: 3}
    on_store_failure: deny
";

/// No test of ours is done that waits for this.
const NEVER: &str = "60s";

/// Longer than a machine that is busy stands still, and far shorter than [`NEVER`].
const SOON: Duration = Duration::from_secs(5);

struct Shop {
    client: Client,
    leases: Leases,
    server: Server,
    _files: TempDir,
}

impl Shop {
    async fn open(url: &str, timeout: &str, more: &[(&str, &str)]) -> Self {
        let files = TempDir::new();
        let rules = files.file("shop.yaml", RULES);
        let store = [("TOLLGATE_STORE", url), ("TOLLGATE_STORE_TIMEOUT", timeout)];
        let server = Server::start_with(&rules, &[&store, more].concat()).await;
        let client = Client::connect(server.grpc).await;
        let leases = Leases::connect(server.grpc).await;
        Self { client, leases, server, _files: files }
    }

    async fn ask(&mut self, key: &str) -> RateLimitResponse {
        self.client.ask(&request(key, 1)).await.unwrap()
    }

    /// What is left, by the store.
    async fn left(&mut self, key: &str) -> Option<u32> {
        let answer = self.client.ask(&request(key, 0)).await.unwrap();
        (!is_degraded(&answer)).then(|| answer.statuses[0].limit_remaining)
    }

    async fn until_left(&mut self, key: &str, count: u32) {
        let is_left = async || (self.left(key).await == Some(count)).then_some(());
        until(&format!("{count} are left of {key}"), is_left).await;
    }

    async fn is_back(&mut self) {
        until("the store is back", async || self.left("account").await).await;
    }

    async fn until_logged(&self, text: &str) {
        let is_logged = async || self.server.log().contains(text).then_some(());
        until(&format!("the log says {text}"), is_logged).await;
    }
}

fn request(key: &str, hits: u32) -> Value {
    let descriptor = json!({ "entries": [[key, "ada"]], "hits_addend": hits });
    json!({ "domain": "shop", "descriptors": [descriptor] })
}

#[tokio::test]
async fn a_caller_with_a_deadline_is_answered_before_it_however_long_the_store_may_take() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), NEVER, &[]).await;
    redis.signal("STOP").await;
    // Otherwise this ends as DEADLINE_EXCEEDED, or not at all.
    let answer = shop.client.ask_within(&request("login", 1), SOON).await.unwrap();
    assert!(is_degraded(&answer) && answer.overall_code() == Code::OverLimit, "{answer:?}");

    let body = json!({ "domain": "shop", "descriptors": [{ "entries": [{ "key": "account", "value": "x" }] }] });
    let body = body.to_string();
    let length = body.len().to_string();
    for (name, value) in [("x-envoy-expected-rq-timeout-ms", "1000"), ("grpc-timeout", "1S")] {
        let headers = [("content-length", length.as_bytes()), (name, value.as_bytes())];
        let answer = support::send(shop.server.http, "POST", "/json", &headers, body.as_bytes());
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.contains("degraded"), "{answer:?}");
    }
    let job = acquire("shop", &[&[["job", "ada"]]]);
    let acquired = shop.leases.acquire_within(job, SOON).await.unwrap();
    assert!(acquired.degraded && acquired.outcome() == Outcome::Acquired, "{acquired:?}");
}

#[tokio::test]
async fn who_is_denied_is_told_so_on_every_port() {
    let mut redis = Redis::start().await;
    let header = [("TOLLGATE_DEGRADED_HEADER", "x-degraded")];
    let mut shop = Shop::open(redis.url(), "100ms", &header).await;
    let answer = shop.ask("login").await;
    assert!(!is_degraded(&answer) && answer.response_headers_to_add.is_empty(), "{answer:?}");

    redis.kill().await;
    let text = "The rate limit `logins` cannot be asked at present. Retry in 1 s.\n";
    let answer = until("the store is lost", async || {
        let answer = shop.ask("login").await;
        is_degraded(&answer).then_some(answer)
    })
    .await;
    assert_eq!(answer.overall_code(), Code::OverLimit);
    assert_eq!(answer.raw_body, text.as_bytes());
    let headers: Vec<_> = answer.response_headers_to_add.iter().collect();
    let headers: Vec<_> = headers.iter().map(|it| (it.key.as_str(), it.value.as_str())).collect();
    assert_eq!(headers, [("retry-after", "1"), ("x-degraded", "true")]);

    let body = json!({ "domain": "shop", "descriptors": [{ "entries": [{ "key": "login", "value": "x" }] }] });
    let answer = support::post(shop.server.http, "/json", &body.to_string()).await.unwrap();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("x-degraded"), Some("true"));
    assert_eq!(answer.number("retry-after"), Some(1));

    let refused = shop.leases.acquire(acquire("shop", &[&[["safe", "ada"]]])).await.unwrap();
    let refusal = refused.refusal.unwrap();
    assert!(refused.degraded && refused.lease_id.is_empty());
    assert_eq!((refusal.http_status, refusal.retry_after.unwrap().seconds), (503, 1));
}

/// Otherwise a pause of Redis would cost callers what they never used.
#[tokio::test]
async fn what_a_late_script_charged_is_given_back() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), "100ms", &[]).await;
    assert_eq!(shop.left("account").await, Some(5));
    redis.signal("STOP").await;
    // The scripts wait in Redis's socket.
    for _ in 0..3 {
        assert!(is_degraded(&shop.ask("account").await));
    }
    redis.signal("CONT").await;
    shop.until_left("account", 5).await;
    shop.until_logged("3 were given back what they were charged").await;
    let calls: String = redis.ask(&["INFO", "commandstats"]).await;
    assert!(calls.contains("cmdstat_set"), "they were charged: {calls}");
    assert_eq!(shop.left("account").await, Some(5));
}

/// A refund that is made late does not bring back what the refill has brought back meanwhile, and others have taken.
#[tokio::test]
async fn what_was_refilled_before_a_refund_is_made_is_not_given_back_as_well() {
    const REFILL_US: u64 = 3_000_000;
    let redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    let mut shop = Shop::open(&proxy.url(), "100ms", &[]).await;
    let mut other = Shop::open(redis.url(), NEVER, &[]).await;
    shop.is_back().await;
    let now_us = async || {
        let (seconds, micros): (u64, u64) = redis.ask(&["TIME"]).await;
        seconds * 1_000_000 + micros
    };
    proxy.hold();
    assert!(is_degraded(&shop.ask("single").await));
    proxy.stall();
    assert_eq!(other.left("single").await, Some(0), "it was charged");
    // The refund is on its way, and the bucket full again.
    other.until_left("single", 1).await;
    let before_us = now_us().await;
    assert_eq!(other.ask("single").await.overall_code(), Code::Ok);
    proxy.release();
    until("the late charge is settled", async || {
        let metrics = support::Metrics::of(shop.server.admin).await;
        let count =
            |outcome| metrics.value("tollgate_store_late_charges_total", &[("outcome", outcome)]);
        (count("given_back")? + count("kept")? > 0.0).then_some(())
    })
    .await;
    let passes = other.ask("single").await.overall_code() == Code::Ok;
    assert!(!passes || now_us().await - before_us >= REFILL_US, "2 of 1");
}

/// It answers, but too late for anybody; so it is not asked, but for what it owes.
#[tokio::test]
async fn what_a_store_that_is_too_slow_has_charged_is_given_back_while_it_is() {
    const MANY: u32 = 30;
    let redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    let shop = Shop::open(&proxy.url(), "100ms", &[]).await;
    let mut other = Shop::open(redis.url(), NEVER, &[]).await;
    assert_eq!(other.left("local").await, Some(MANY));
    proxy.delay(Duration::from_millis(400));
    let mut asking = JoinSet::new();
    for _ in 0..MANY {
        let mut client = shop.client.clone();
        asking.spawn(async move { client.ask(&request("local", 1)).await.unwrap() });
    }
    assert!(asking.join_all().await.iter().all(is_degraded));
    shop.until_logged("ERROR the store cannot be used: it does not answer in time").await;
    other.until_left("local", MANY).await;
}

/// It was spent, whoever heard of it.
#[tokio::test]
async fn a_cost_that_has_arisen_already_is_charged_however_late() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), "100ms", &[]).await;
    assert_eq!(shop.left("spent").await, Some(5));
    redis.signal("STOP").await;
    for _ in 0..2 {
        assert!(is_degraded(&shop.ask("spent").await));
    }
    redis.signal("CONT").await;
    shop.until_left("spent", 3).await;
    a_second().await;
    assert_eq!(shop.left("spent").await, Some(3));
}

#[tokio::test]
async fn what_was_charged_for_a_caller_who_has_left_is_given_back() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), NEVER, &[]).await;
    assert_eq!(shop.left("account").await, Some(5));
    redis.signal("STOP").await;
    let mut leaving = Vec::new();
    for _ in 0..3 {
        let mut client = shop.client.clone();
        leaving.push(tokio::spawn(async move { client.ask(&request("account", 1)).await }));
    }
    // They have to be under way to be left.
    a_second().await;
    for caller in leaving {
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
    }
    a_second().await;
    redis.signal("CONT").await;
    shop.until_logged("3 were given back what they were charged").await;
    shop.until_left("account", 5).await;
}

#[tokio::test]
async fn a_redis_that_gives_no_answer_is_asked_no_more_until_it_does() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), "20ms", &[]).await;
    until("it decides", async || shop.left("account").await).await;
    let evalsha = async || {
        let calls: String = redis.ask(&["INFO", "commandstats"]).await;
        let calls = calls.split_once("cmdstat_evalsha:calls=").unwrap().1;
        calls.split_once(',').unwrap().0.parse::<u32>().unwrap()
    };
    let before = evalsha().await;
    redis.signal("STOP").await;
    until("it is known", async || {
        shop.ask("account").await;
        shop.server
            .log()
            .contains("ERROR the store cannot be used: it does not answer")
            .then_some(())
    })
    .await;
    for _ in 0..2000 {
        assert!(is_degraded(&shop.ask("account").await));
    }
    redis.signal("CONT").await;
    shop.until_left("account", 5).await;
    shop.until_logged("INFO the store can be used again").await;
    let asked = evalsha().await - before;
    // Beside those before it was known, and those after: a probe every 70 ms.
    assert!(asked < 1000, "{asked} of more than 2000");
}

/// The answer of a degraded acquire is a promise that the store does not know of. It is kept as soon as it can.
#[tokio::test]
async fn a_stream_that_began_without_the_store_holds_its_slot_when_that_is_back() {
    let mut redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), "100ms", &[]).await;
    redis.kill().await;
    until("the store is lost", async || is_degraded(&shop.ask("account").await).then_some(()))
        .await;
    let job = || acquire("shop", &[&[["job", "ada"]]]);
    let mut hold = shop.leases.hold(job()).await;
    let acquired = hold.acquired().await;
    assert!(acquired.degraded && acquired.outcome() == Outcome::Acquired, "{acquired:?}");
    redis.restart().await;
    while hold.renewed().await != LeaseState::Retaken {}
    assert_eq!(shop.left("job").await, Some(2));
    drop(hold);
    shop.until_left("job", 3).await;
}

#[tokio::test]
async fn a_local_limit_is_shared_by_all_replicas_that_the_store_knew_of() {
    let mut redis = Redis::start().await;
    let mut shops = Vec::new();
    for _ in 0..3 {
        shops.push(Shop::open(redis.url(), "100ms", &[]).await);
    }
    until("all are counted", async || {
        let length: usize = redis.ask(&["STRLEN", "tg1:replicas:"]).await;
        // An epoch, and two numbers for each.
        (length == 8 + 3 * 16).then_some(())
    })
    .await;
    // Each hears of all at its next beat.
    a_second().await;
    a_second().await;
    redis.kill().await;
    for shop in &mut shops {
        until("the store is lost", async || is_degraded(&shop.ask("account").await).then_some(()))
            .await;
        let mut passed = 0;
        for _ in 0..30 {
            let answer = shop.ask("local").await;
            passed += u32::from(answer.overall_code() == Code::Ok);
        }
        assert_eq!(passed, 10);
    }
}

#[tokio::test]
async fn a_flag_says_how_many_replicas_there_are_and_what_limits_do_that_do_not_say() {
    let mut redis = Redis::start().await;
    let flags = [("TOLLGATE_REPLICAS", "2"), ("TOLLGATE_ON_STORE_FAILURE", "deny")];
    let mut shop = Shop::open(redis.url(), "100ms", &flags).await;
    redis.kill().await;
    until("the store is lost", async || is_degraded(&shop.ask("account").await).then_some(()))
        .await;
    assert_eq!(shop.ask("account").await.overall_code(), Code::OverLimit);
    let mut passed = 0;
    for _ in 0..30 {
        passed += u32::from(shop.ask("local").await.overall_code() == Code::Ok);
    }
    assert_eq!(passed, 15);
}

const ALL_LOST: &str = "ERROR the store has lost its states";
const LAST_LOST: &str = "WARN the store has lost what was written last";

#[tokio::test]
async fn that_the_store_has_lost_its_states_is_noticed() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), "100ms", &[]).await;
    let known = async || {
        let known: Option<Vec<u8>> = redis.ask(&["GET", "tg1:replicas:"]).await;
        known
    };
    let first = until("it has been there", known).await;
    shop.ask("account").await;
    redis.ask::<()>(&["FLUSHALL"]).await;
    shop.until_logged(ALL_LOST).await;
    shop.until_left("account", 5).await;

    // A replica that had not got the last writes takes over.
    let second = until("it is there again", known).await;
    assert_ne!(first[..8], second[..8], "another epoch");
    until("it has beaten again", async || (known().await.as_ref() != Some(&second)).then_some(()))
        .await;
    let mut connection = redis.connect().await;
    let mut restore = redis::cmd("SET");
    restore.arg("tg1:replicas:").arg(&second);
    restore.exec_async(&mut connection).await.unwrap();
    shop.until_logged(LAST_LOST).await;
    assert_eq!(shop.server.log().matches(ALL_LOST).count(), 1, "{}", shop.server.log());
}

#[tokio::test]
async fn nothing_is_said_to_be_lost_where_nothing_is() {
    let redis = Redis::start().await;
    let _other = Shop::open(redis.url(), "100ms", &[]).await;
    let shop = Shop::open(redis.url(), "100ms", &[]).await;
    redis.signal("STOP").await;
    a_second().await;
    redis.signal("CONT").await;
    for _ in 0..3 {
        a_second().await;
    }
    let log = shop.server.log();
    assert!(!log.contains("has lost"), "{log}");
}

#[tokio::test]
async fn an_acquire_that_may_wait_is_answered_before_its_deadline_too() {
    let redis = Redis::start().await;
    let shop = Shop::open(redis.url(), NEVER, &[]).await;
    redis.signal("STOP").await;
    let job = AcquireRequest {
        wait: span(Duration::from_secs(1)),
        ..acquire("shop", &[&[["job", "ada"]]])
    };
    let acquired = shop.leases.acquire_within(job, Duration::from_secs(5)).await.unwrap();
    assert!(acquired.degraded && acquired.outcome() == Outcome::Acquired, "{acquired:?}");
    assert!(acquired.limit_matched && acquired.held.is_empty(), "it holds nothing: {acquired:?}");
}

/// The lease is given back, so when he asks again under his id, he is charged again.
#[tokio::test]
async fn what_a_late_acquire_under_a_chosen_id_charged_is_charged_once_at_most() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), "100ms", &[]).await;
    assert_eq!(shop.left("login").await, Some(5));
    let login = AcquireRequest {
        lease_id: "the-callers-own-id".to_owned(),
        ..acquire("shop", &[&[["login", "ada"]]])
    };
    redis.signal("STOP").await;
    let refused = shop.leases.acquire(login.clone()).await.unwrap();
    assert!(refused.degraded && refused.outcome() == Outcome::Refused, "{refused:?}");
    redis.signal("CONT").await;
    shop.is_back().await;
    a_second().await;
    let acquired = shop.leases.acquire(login).await.unwrap();
    assert!(!acquired.degraded && acquired.outcome() == Outcome::Acquired, "{acquired:?}");
    assert_eq!(shop.left("login").await, Some(4), "one lease was acquired");
}

/// That they got no answer is no news of the store.
#[tokio::test]
async fn callers_with_little_time_do_not_cut_off_those_with_more() {
    let redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    let mut shop = Shop::open(&proxy.url(), "30s", &[]).await;
    proxy.delay(Duration::from_millis(200));
    assert_eq!(shop.left("account").await, Some(5), "the store is well, if far away");
    let mut impatient = JoinSet::new();
    for _ in 0..30 {
        let mut client = shop.client.clone();
        impatient.spawn(async move {
            let request = request("account", 0);
            client.ask_within(&request, Duration::from_millis(50)).await.is_ok()
        });
    }
    let mut degraded = 0;
    for _ in 0..20 {
        let answer = shop.client.ask(&request("account", 0)).await.unwrap();
        degraded += u32::from(is_degraded(&answer));
    }
    impatient.join_all().await;
    assert_eq!(degraded, 0, "of 20 who had all the time\n{}", shop.server.log());
}

#[tokio::test]
async fn an_acquire_that_meets_no_limit_is_marked_where_the_store_was_not_asked() {
    let redis = Redis::start().await;
    let shop = Shop::open(redis.url(), "100ms", &[]).await;
    redis.signal("STOP").await;
    let nothing = acquire("shop", &[&[["nothing", "ada"]]]);
    let nothing = AcquireRequest { require_limit: false, ..nothing };
    let acquired = shop.leases.acquire(nothing).await.unwrap();
    assert!(acquired.degraded && !acquired.limit_matched, "{acquired:?}");
}

/// `docs/rules.md`: with `critical: true` it is never refused by this limit.
#[tokio::test]
async fn a_critical_request_is_never_refused_by_a_fleet_limit() {
    let mut redis = Redis::start().await;
    let deny = [("TOLLGATE_ON_STORE_FAILURE", "deny")];
    let mut shop = Shop::open(redis.url(), "100ms", &deny).await;
    redis.kill().await;
    let answer = shop.client.ask(&request("critical", 1)).await.unwrap();
    assert!(is_degraded(&answer));
    assert_eq!(answer.overall_code(), Code::Ok, "{answer:?}");
}

/// What is given back by then has come back already, by the refill.
#[tokio::test]
async fn a_late_refund_makes_no_more_room_than_there_would_have_been() {
    let redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    let mut shop = Shop::open(&proxy.url(), "100ms", &[]).await;
    assert_eq!(shop.left("quick").await, Some(5));
    // Five are charged, and their callers denied.
    proxy.hold();
    let mut asked = JoinSet::new();
    for _ in 0..5 {
        let mut client = shop.client.clone();
        asked.spawn(async move { client.ask(&request("quick", 1)).await.unwrap() });
    }
    for answer in asked.join_all().await {
        assert!(is_degraded(&answer) && answer.overall_code() == Code::OverLimit, "{answer:?}");
    }
    // All is refilled, and taken by others, at another replica.
    time::sleep(Duration::from_secs(3)).await;
    let mut other = Shop::open(redis.url(), "2s", &[]).await;
    let mut passed = 0;
    for _ in 0..5 {
        let answer = other.client.ask(&request("quick", 1)).await.unwrap();
        passed += u32::from(answer.overall_code() == Code::Ok);
    }
    // Then the answers come.
    let clock = Clock::monotonic();
    let began = clock.now();
    proxy.release();
    for _ in 0..30 {
        let answer = other.client.ask(&request("quick", 1)).await.unwrap();
        passed += u32::from(answer.overall_code() == Code::Ok);
        time::sleep(Duration::from_millis(10)).await;
    }
    let refilled = u32::try_from(clock.now() - began).unwrap() / 200_000 + 1;
    assert!(passed <= 5 + refilled, "{passed} of 5 and {refilled}");
}

/// It comes back empty each time, and whoever beats first hears that he is alone.
#[tokio::test]
async fn a_local_limit_keeps_its_share_while_redis_comes_and_goes() {
    let mut redis = Redis::start().await;
    let mut shops = Vec::new();
    for _ in 0..3 {
        shops.push(Shop::open(redis.url(), "100ms", &[]).await);
        // Otherwise they beat at the same time.
        time::sleep(Duration::from_millis(300)).await;
    }
    until("all are counted", async || {
        let length: usize = redis.ask(&["STRLEN", "tg1:replicas:"]).await;
        (length == 8 + 3 * 16).then_some(())
    })
    .await;
    a_second().await;
    a_second().await;
    let mut passed = [0; 3];
    for _ in 0..4 {
        redis.kill().await;
        for (shop, passed) in shops.iter_mut().zip(&mut passed) {
            until("the store is lost", async || {
                let answer = shop.client.ask(&request("account", 0)).await.unwrap();
                is_degraded(&answer).then_some(())
            })
            .await;
            for _ in 0..40 {
                let answer = shop.client.ask(&request("local", 1)).await.unwrap();
                *passed += u32::from(answer.overall_code() == Code::Ok);
            }
        }
        redis.restart().await;
        time::sleep(Duration::from_millis(900)).await;
    }
    assert!(passed.iter().sum::<u32>() <= 30, "{passed:?} of 30 a year, without Redis");
}

#[tokio::test]
async fn a_charge_whose_answer_was_lost_with_its_connection_is_counted() {
    let redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    let mut shop = Shop::open(&proxy.url(), "5s", &[]).await;
    assert_eq!(shop.left("account").await, Some(5));
    proxy.hold();
    let mut client = shop.client.clone();
    let asking = tokio::spawn(async move { client.ask(&request("account", 1)).await.unwrap() });
    time::sleep(Duration::from_millis(200)).await;
    proxy.reset();
    assert!(is_degraded(&asking.await.unwrap()));
    shop.is_back().await;
    assert_eq!(shop.left("account").await, Some(4), "it was charged for nothing");
    for _ in 0..3 {
        a_second().await;
    }
    let log = shop.server.log();
    assert!(log.contains("of 1 nobody knows"), "{log}");
}

/// With Envoy's default timeout of 20 ms, and a rule that denies: a request that passes was lost to it.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "how close it came is for whoever wants to know")]
async fn no_request_through_envoy_is_lost_to_its_timeout_while_redis_hangs() {
    const RULES: &str = "
domain: edge
on_store_failure: deny
descriptors:
  - key: plan
    value: free
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 1000000}
";
    const MANY: usize = 500;
    let redis = Redis::start().await;
    let files = TempDir::new();
    let rules = files.file("edge.yaml", RULES);
    // Only the deadline that Envoy tells of ends the wait for the store.
    let store = [("TOLLGATE_STORE", redis.url()), ("TOLLGATE_STORE_TIMEOUT", NEVER)];
    let server = Server::start_with(&rules, &store).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = listener.local_addr().unwrap();
    let answers = Router::new().fallback(routing::any(async || "from the upstream"));
    tokio::spawn(async move { axum::serve(listener, answers).await });
    let mut config = envoy_example("envoy.yaml", server.grpc, upstream);
    let filter =
        "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0";
    let filter = config.pointer_mut(&format!("{filter}/typed_config")).unwrap();
    filter.as_object_mut().unwrap().remove("timeout").expect("the test sets a longer one");
    let config = files.file("envoy.json", &config.to_string());
    let (_envoy, edge) = start_envoy(&config, &files).await;
    let get = async || {
        let headers: [(&str, &[u8]); 2] = [("x-plan", b"free"), ("x-user", b"ada")];
        support::get(edge, "/", &headers).await.unwrap().status
    };
    until("all is connected", async || (get().await == 200).then_some(())).await;
    redis.signal("STOP").await;
    let mut lost = 0;
    for _ in 0..MANY {
        lost += usize::from(get().await != 429);
    }
    println!("{lost} of {MANY} requests were lost to Envoy's timeout");
    // A machine that stands still for 20 ms loses some; without an answer in time, all would be.
    assert!(lost < MANY / 2, "{lost} of {MANY}");
    redis.signal("CONT").await;
    until("the store decides again", async || (get().await == 200).then_some(())).await;
}
