//! Several servers on one Redis are one limiter, whatever their clocks say, and whatever Redis's does.

use crate::{
    grpc::Client,
    support::{self, Redis, Server, TempDir, a_second, libfaketime, on},
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use tokio::task::JoinSet;

const RATE: u64 = 20;
const BURST: u64 = 1000;

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    token_bucket: {rate: 20/s, burst: 1000}
  - key: login
    rate_limit: {unit: minute, requests_per_unit: 5}
";

/// Requests at a time, to each server.
const CALLERS: u64 = 4;

/// Demand goes on until so many were refused, and for so long.
const REFUSED: u64 = 500;
const LASTS_US: u64 = 3_000_000;

fn for_one(key: &str) -> Value {
    json!({ "domain": "shop", "descriptors": [{ "entries": [[key, "ada"]] }] })
}

async fn is_admitted(client: &mut Client, key: &str) -> bool {
    client.ask(&for_one(key)).await.unwrap().overall_code() == Code::Ok
}

/// Redis's time, in microseconds.
async fn now_us(redis: &Redis) -> u64 {
    let (seconds, micros): (u64, u64) = redis.ask(&["TIME"]).await;
    seconds * 1_000_000 + micros
}

/// Has all servers asked at once for tokens of one bucket, more than there are, and holds what they
/// admitted against what one bucket may give.
#[allow(clippy::print_stdout, reason = "how close it came is for whoever wants to know")]
async fn assert_they_are_one(redis: &Redis, servers: &[Server]) {
    let before_the_first = now_us(redis).await;
    let admitted = Arc::new(AtomicU64::new(0));
    let refused = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut client = Client::connect(servers[0].grpc).await;
    let mut callers = JoinSet::new();
    for server in servers {
        for _ in 0..CALLERS {
            let mut client = Client::connect(server.grpc).await;
            let (admitted, refused) = (Arc::clone(&admitted), Arc::clone(&refused));
            let is_over = Arc::clone(&is_over);
            callers.spawn(async move {
                while !is_over.load(Relaxed) {
                    let counter =
                        if is_admitted(&mut client, "user").await { &admitted } else { &refused };
                    counter.fetch_add(1, Relaxed);
                }
            });
        }
    }
    support::until("somebody is admitted", async || (admitted.load(Relaxed) > 0).then_some(()))
        .await;
    // The bucket is not full any more, so nothing that comes from now on is lost.
    let since = now_us(redis).await;
    support::until("demand was above supply for long enough", async || {
        let is_long = now_us(redis).await > before_the_first + LASTS_US;
        (is_long && refused.load(Relaxed) > REFUSED).then_some(())
    })
    .await;
    is_over.store(true, Relaxed);
    callers.join_all().await;
    // Whoever is refused now says that nothing is left over from before.
    let before_the_last = now_us(redis).await;
    while is_admitted(&mut client, "user").await {
        admitted.fetch_add(1, Relaxed);
    }
    let after_the_last = now_us(redis).await;

    let admitted = admitted.load(Relaxed);
    let most = BURST * 1_000_000 + RATE * (after_the_last - before_the_first);
    let due = BURST * 1_000_000 + RATE * (before_the_last - since);
    let share = admitted as f64 * 1e6 / due as f64;
    let refused = refused.load(Relaxed);
    println!(
        "{refused} refused, {admitted} admitted, {:.1} at most, {share:.4} of what was due",
        most as f64 / 1e6
    );
    assert!(admitted * 1_000_000 <= most);
    assert!(share >= 0.98);
}

#[tokio::test]
async fn four_servers_admit_together_what_one_would() {
    let (redis, files) = (Redis::start().await, TempDir::new());
    let rules = files.file("shop.yaml", RULES);
    let mut servers = Vec::new();
    for _ in 0..4 {
        servers.push(Server::start_with(&rules, &on(&redis)).await);
    }
    assert_they_are_one(&redis, &servers).await;
}

#[tokio::test]
async fn servers_whose_clocks_are_minutes_apart_admit_together_what_one_would() {
    let (redis, files) = (Redis::start().await, TempDir::new());
    let rules = files.file("shop.yaml", RULES);
    let library = libfaketime();
    let mut servers = Vec::new();
    for clock in ["-10m", "+0", "+7m", "+3d"] {
        let faked = [("LD_PRELOAD", library.as_str()), ("FAKETIME", clock)];
        servers.push(Server::start_with(&rules, &[&on(&redis)[..], &faked].concat()).await);
    }
    assert_they_are_one(&redis, &servers).await;
}

#[tokio::test]
async fn a_clock_of_redis_that_is_set_back_admits_nothing_extra() {
    let (redis, files) = (Redis::start_at("2030-01-01 12:00:00").await, TempDir::new());
    let server = Server::start_with(&files.file("shop.yaml", RULES), &on(&redis)).await;
    let mut client = Client::connect(server.grpc).await;
    // A token comes every twelve seconds.
    let mut admitted_at = async |clock: &str| {
        redis.set_clock(clock);
        // It has just heard that this is refused, and does not know of the jump.
        a_second().await;
        let mut admitted = 0;
        while is_admitted(&mut client, "login").await {
            admitted += 1;
        }
        admitted
    };
    assert_eq!(admitted_at("2030-01-01 12:00:00").await, 5);
    assert_eq!(admitted_at("2030-01-01 12:00:12").await, 1);
    // Set back a little, the bucket waits until the clock has caught up.
    assert_eq!(admitted_at("2030-01-01 11:59:42").await, 0);
    assert_eq!(admitted_at("2030-01-01 12:00:12").await, 0);
    assert_eq!(admitted_at("2030-01-01 12:00:23").await, 0);
    assert_eq!(admitted_at("2030-01-01 12:00:24").await, 1);
    // Set back an hour, it does not wait for an hour; it begins again from there.
    assert_eq!(admitted_at("2030-01-01 11:00:00").await, 0);
    assert_eq!(admitted_at("2030-01-01 11:00:11").await, 0);
    assert_eq!(admitted_at("2030-01-01 11:00:12").await, 1);
    assert_eq!(admitted_at("2030-01-01 11:00:36").await, 2);
    // A year is more than it holds.
    assert_eq!(admitted_at("2031-01-01 12:00:00").await, 5);
}

#[tokio::test]
async fn without_redis_a_calendar_that_is_set_admits_nothing_extra() {
    let files = TempDir::new();
    let calendar = files.file("clock", "+0").display().to_string();
    let faked = [
        ("LD_PRELOAD", libfaketime()),
        ("FAKETIME_TIMESTAMP_FILE", calendar),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let faked = faked.each_ref().map(|(name, value)| (*name, value.as_str()));
    // No token comes while this runs, unless time is thought to have passed.
    let rules = files.file(
        "shop.yaml",
        "{domain: shop, descriptors: [{key: login, token_bucket: {rate: 5/d, burst: 5}}]}",
    );
    let server = Server::start_with(&rules, &faked).await;
    let mut client = Client::connect(server.grpc).await;
    for (clock, passes) in [("+0", 5), ("+2d", 0), ("-2d", 0), ("+0", 0)] {
        files.file("clock", clock);
        let mut admitted = 0;
        while is_admitted(&mut client, "login").await {
            admitted += 1;
        }
        assert_eq!(admitted, passes, "at {clock}");
    }
}
