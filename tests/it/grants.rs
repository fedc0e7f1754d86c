//! Slices of a bucket, taken ahead of need: all servers together never admit more than the bound, the limit is used
//! up, Redis is seldom asked, and what is not spent comes back.

use crate::{
    grpc::{Client, is_degraded},
    support::{self, Metrics, Redis, Server, TempDir, on, until},
};
use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitResponse, rate_limit_response::Code,
};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use tokio::task::JoinSet;

/// Of hot keys, a tenth of the burst may be in hand for half a second; of the others, which hardly refill, for ten.
const RULES: &str = "
domain: edge
descriptors:
  - key: hot
    token_bucket: {rate: 40/s, burst: 400, grants: {share: 10%, max_age: 500ms}}
  - key: slow
    token_bucket: {rate: 1000/day, burst: 10000, grants: {max_age: 10s}}
  - key: small
    token_bucket: {rate: 10/day, burst: 20, grants: {share: 50%, max_age: 10s}}
";

const KEYS: u64 = 2;
const RATE: u64 = 40;
/// Ten seconds of the rate: so long a machine may stand still, and nothing of the supply is lost to a full bucket.
const BURST: u64 = 400;
const MAX_AGE_US: u64 = 500_000;

/// The most that a server has in hand of `slow`.
const MOST_IN_HAND: f64 = 500.0;

/// Requests at a time, to each server.
const CALLERS: u64 = 4;

/// Tokens that each server has spent from slices when demand ends.
const LEAST_SPENT: f64 = 100.0;

/// How long demand goes on at least.
const LASTS_US: u64 = 8_000_000;

async fn open(redis: &Redis) -> (Server, TempDir) {
    let files = TempDir::new();
    let server = Server::start_with(&files.file("edge.yaml", RULES), &on(redis)).await;
    (server, files)
}

fn edge(keys: &[&str], value: &str) -> Value {
    let descriptors = keys.iter().map(|key| json!({ "entries": [[key, value]] }));
    json!({ "domain": "edge", "descriptors": descriptors.collect::<Vec<_>>() })
}

async fn ask(client: &mut Client, request: &Value) -> RateLimitResponse {
    client.ask(request).await.unwrap()
}

async fn now_us(redis: &Redis) -> u64 {
    let (seconds, micros): (u64, u64) = redis.ask(&["TIME"]).await;
    seconds * 1_000_000 + micros
}

async fn tokens(server: &Server, event: &str) -> f64 {
    let metrics = Metrics::of(server.admin).await;
    metrics.value("tollgate_grants_tokens_total", &[("event", event)]).unwrap()
}

async fn in_hand(server: &Server) -> f64 {
    Metrics::of(server.admin).await.value("tollgate_grants_in_hand", &[]).unwrap()
}

/// Asks until the server has something in hand. How many were admitted.
async fn take_ahead(server: &Server, client: &mut Client, request: &Value) -> u64 {
    let mut admitted = 0;
    while in_hand(server).await < 100.0 {
        for _ in 0..20 {
            assert_eq!(ask(client, request).await.overall_code(), Code::Ok);
            admitted += 1;
        }
        assert!(admitted < 5000, "nothing is taken ahead");
    }
    admitted
}

/// What Redis says is left of the first limit, as a request sees it that takes nothing.
async fn in_bucket(client: &mut Client, request: &Value) -> u32 {
    let mut peek = request.clone();
    peek["descriptors"][0]["hits_addend"] = json!(0);
    ask(client, &peek).await.statuses[0].limit_remaining
}

/// What Redis itself says is left of the first limit, once one more is taken.
async fn left(server: &Server, request: &Value) -> u64 {
    let answer = ask(&mut Client::connect(server.grpc).await, request).await;
    answer.statuses[0].limit_remaining.into()
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "how close it came is for whoever wants to know")]
async fn two_servers_use_up_the_limits_of_hot_keys_and_seldom_ask() {
    let redis = Redis::start().await;
    let servers = [open(&redis).await, open(&redis).await];
    let run = async || -> u64 {
        let stats: String = redis.ask(&["INFO", "commandstats"]).await;
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
    };
    let (before, ran_before) = (now_us(&redis).await, run().await);
    let [admitted, asked] = [0, 0].map(|count| Arc::new(AtomicU64::new(count)));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for (server, _) in &servers {
        for caller in 0..CALLERS {
            let mut client = Client::connect(server.grpc).await;
            let (admitted, asked) = (Arc::clone(&admitted), Arc::clone(&asked));
            let is_over = Arc::clone(&is_over);
            callers.spawn(async move {
                let mut key = caller;
                while !is_over.load(Relaxed) {
                    key = (key + 1) % KEYS;
                    let answer = ask(&mut client, &edge(&["hot"], &key.to_string())).await;
                    asked.fetch_add(1, Relaxed);
                    admitted.fetch_add(u64::from(answer.overall_code() == Code::Ok), Relaxed);
                }
            });
        }
    }
    // No bucket is full any more, so nothing that comes from now on is lost.
    until("all buckets were emptied", async || {
        (admitted.load(Relaxed) > KEYS * BURST).then_some(())
    })
    .await;
    let since = now_us(&redis).await;
    until("demand was above supply for long enough, and slices were spent", async || {
        let is_long = now_us(&redis).await > since + LASTS_US;
        let mut are_spent = true;
        for (server, _) in &servers {
            are_spent &= tokens(server, "spent").await > LEAST_SPENT;
        }
        (is_long && are_spent).then_some(())
    })
    .await;
    is_over.store(true, Relaxed);
    callers.join_all().await;
    let demand_ended = now_us(&redis).await;
    // What has come since a bucket was last asked is still there, in a hand or in the bucket.
    let mut left = 0.0;
    for (server, _) in &servers {
        left += in_hand(server).await;
    }
    let mut client = Client::connect(servers[0].0.grpc).await;
    for key in 0..KEYS {
        left += f64::from(in_bucket(&mut client, &edge(&["hot"], &key.to_string())).await);
    }
    let (after, ran) = (now_us(&redis).await, run().await - ran_before);

    let (admitted, asked) = (admitted.load(Relaxed), asked.load(Relaxed));
    let most = KEYS * (BURST * 1_000_000 + RATE * (after - before + MAX_AGE_US));
    // Since each bucket was emptied none was full, so none of its supply is lost.
    let due = KEYS * (BURST * 1_000_000 + RATE * (demand_ended - since));
    let share = (admitted as f64 + left) * 1e6 / due as f64;
    println!(
        "{asked} asked, {admitted} admitted, {left} left: {share:.4} of what was due, {ran} scripts run"
    );
    assert!(admitted * 1_000_000 <= most, "{admitted} of {most}");
    assert!(share >= 0.97, "{share}");
    // Beside requests that Redis decides there are a hundred calls a second of each server at most.
    let seconds = (after - before) / 1_000_000 + 1;
    assert!(ran <= asked / 50 + 200 * seconds, "{ran} for {asked} in {seconds}");
}

#[tokio::test]
async fn a_server_that_leaves_gives_back_what_it_has_in_hand() {
    let redis = Redis::start().await;
    let ((one, _files), (other, _more)) = (open(&redis).await, open(&redis).await);
    let request = edge(&["slow"], "ada");
    let mut client = Client::connect(one.grpc).await;
    let admitted = take_ahead(&one, &mut client, &request).await;
    // What it has, others do not.
    let left_meanwhile = left(&other, &request).await;
    assert!(left_meanwhile + 100 < 10_000 - admitted, "{left_meanwhile} after {admitted}");
    one.signal("TERM").await;
    drop(client);
    assert!(one.ended().await.success());
    assert_eq!(left(&other, &request).await, 10_000 - admitted - 2);
}

#[tokio::test]
async fn what_is_asked_of_two_buckets_is_taken_of_both_or_of_none() {
    let redis = Redis::start().await;
    let ((one, _files), (other, _more)) = (open(&redis).await, open(&redis).await);
    let mut client = Client::connect(one.grpc).await;
    let slow = take_ahead(&one, &mut client, &edge(&["slow"], "ada")).await;
    let (mut admitted, mut refused) = (0, 0);
    while refused < 200 {
        match ask(&mut client, &edge(&["slow", "small"], "ada")).await.overall_code() {
            Code::Ok => admitted += 1,
            _ => refused += 1,
        }
    }
    assert!(admitted <= 20, "{admitted}");
    assert!(tokens(&one, "spent").await > 0.0);
    one.signal("TERM").await;
    drop(client);
    assert!(one.ended().await.success());
    assert_eq!(left(&other, &edge(&["slow"], "ada")).await, 10_000 - slow - admitted - 1);
    // Nothing was lost of the small one either.
    let mut client = Client::connect(other.grpc).await;
    let mut rest = 0;
    while ask(&mut client, &edge(&["small"], "ada")).await.overall_code() == Code::Ok {
        rest += 1;
    }
    assert!((20..=21).contains(&(admitted + rest)), "{admitted} and {rest}");
}

#[tokio::test]
async fn a_counter_that_is_reset_or_set_lets_go_of_what_is_in_hand() {
    let redis = Redis::start().await;
    let ((one, _files), (other, _more)) = (open(&redis).await, open(&redis).await);
    let request = edge(&["slow"], "ada");
    let mut client = Client::connect(one.grpc).await;
    let admin = one.admin.to_string();
    let order = async |words: &[&str]| {
        let output = support::run(&[words, &["--admin", &admin]].concat(), &[]).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    take_ahead(&one, &mut client, &request).await;
    order(&["key", "reset", "edge:slow", "slow=ada"]).await;
    let lost = tokens(&one, "lost").await;
    assert!(lost >= 100.0, "{lost}");
    assert_eq!(left(&other, &request).await, 9_999);

    // Of the limit that was set it takes slices anew.
    take_ahead(&one, &mut client, &request).await;
    order(&["limit", "set", "edge:slow", "slow=ada", "--rate", "1000/d", "--burst", "20000"]).await;
    until("the new limit is met", async || {
        ask(&mut client, &request).await;
        (tokens(&one, "lost").await >= lost + 100.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_is_in_hand_is_spent_while_redis_is_gone() {
    let mut redis = Redis::start().await;
    let (server, _files) = open(&redis).await;
    let request = edge(&["slow"], "ada");
    let mut client = Client::connect(server.grpc).await;
    take_ahead(&server, &mut client, &request).await;
    let had = in_hand(&server).await;
    redis.kill().await;
    let mut spent = 0.0;
    // For ten seconds at most, after which the rest is too old.
    while !is_degraded(&ask(&mut client, &request).await) {
        spent += 1.0;
    }
    assert!(spent > 0.0 && spent <= MOST_IN_HAND, "{spent} of {had}");
    redis.restart().await;
    until("Redis decides again", async || {
        (!is_degraded(&ask(&mut client, &request).await)).then_some(())
    })
    .await;
}

/// Otherwise the old limit's tokens would be spent on, fetched again, and given back at the old rate.
#[tokio::test]
async fn of_a_limit_that_was_lowered_in_its_file_nothing_is_in_hand_any_more() {
    const BEFORE: &str =
        "token_bucket: {rate: 10000/s, burst: 10000, grants: {share: 50%, max_age: 2s}}";
    const AFTER: &str = "token_bucket: {rate: 10/h, burst: 10}";
    let rules = |limit| format!("domain: edge\ndescriptors:\n  - key: slow\n    {limit}\n");
    let (redis, files) = (Redis::start().await, TempDir::new());
    let path = files.file("edge.yaml", &rules(BEFORE));
    let server = Server::start_with(&path, &on(&redis)).await;
    let request = edge(&["slow"], "ada");
    let mut client = Client::connect(server.grpc).await;
    take_ahead(&server, &mut client, &request).await;
    files.file("edge.yaml", &rules(AFTER));
    until("the rules are reloaded", async || {
        ask(&mut client, &request).await;
        server.log().contains("reloaded the rules").then_some(())
    })
    .await;
    let (began, mut admitted) = (now_us(&redis).await, 0);
    let returned = tokens(&server, "returned").await;
    // For longer than a slice is kept, and given back.
    until("slices would have been given back", async || {
        for _ in 0..50 {
            let answer = ask(&mut client, &request).await;
            admitted += u64::from(answer.overall_code() == Code::Ok);
        }
        (now_us(&redis).await > began + 6_000_000).then_some(())
    })
    .await;
    assert!(admitted <= 10, "{admitted} of 10");
    assert_eq!(in_hand(&server).await, 0.0);
    assert_eq!(tokens(&server, "returned").await, returned);
}
