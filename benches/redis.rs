//! What a decision costs in Redis, and what a key takes there.
//!
//! `cargo bench --bench redis [KEYS]` starts a `redis-server` of its own, measures, and ends it. Times are
//! CPU time, of Redis and of this process, because that is steadier on a busy machine than time on a
//! clock; compare figures of one run only.

mod support;

use redis::{Connection, Pipeline};
use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};
use support::{Server, cpu_us, field, load, used_memory};
use tollgate::{
    clock::{Deadline, Timestamp},
    key::{Key, Path},
    limiter::{Cost, Limit, token_bucket},
    store::redis::{
        Address, Certificates, Redis,
        batch::Batch,
        script::{self, Script},
    },
    unit::Unit,
    verdict::{Check, Question},
};

/// Decisions for each figure.
const DECISIONS: usize = 200_000;

/// Calls that are written before their answers are read.
const PIPELINED: usize = 64;

/// Keys that decisions are about.
const KEYS: usize = 10_000;

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys = env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000);
    let server = Server::start()?;
    let mut redis = server.connect()?;
    let info: String = redis::cmd("INFO").query(&mut redis)?;
    println!("Redis {}", field(&info, "redis_version"));

    println!("\nA key\n");
    let sha = load(&mut redis, &Script::Request.join(script::CLOCK))?;
    let before = used_memory(&mut redis)?;
    let text: usize = (0..keys).map(|user| key(user).as_str().len()).sum();
    for users in (0..keys).collect::<Vec<_>>().chunks(PIPELINED) {
        let mut calls = redis::pipe();
        for &user in users {
            calls.add_command(call(&sha, vec![key(user)], 1)).ignore();
        }
        calls.exec(&mut redis)?;
    }
    let each = (used_memory(&mut redis)? - before) as f64 / keys as f64;
    let text = text as f64 / keys as f64;
    println!("{keys} live keys: {each:.0} bytes each, {text:.0} of them its own text");
    redis::cmd("FLUSHALL").exec(&mut redis)?;

    println!("\nµs of Redis for a decision, {PIPELINED} of them in a pipeline, {KEYS} keys\n");
    let empty = load(&mut redis, "return 1")?;
    println!("requests in a call {:>25} {:>6} {:>6} {:>6}", 1, 4, 16, 64);
    for (what, sha, limits) in [
        ("an empty script", &empty, 1),
        ("one limit", &sha, 1),
        ("two limits", &sha, 2),
        ("four limits", &sha, 4),
    ] {
        print!("{what:<37}");
        for together in [1, 4, 16, 64] {
            print!(" {:6.1}", pipelined(&server, &mut redis, sha, (limits, together))?);
        }
        println!();
    }

    println!("\nThrough the store, one limit, from one thread\n");
    println!("at a time   decisions/s   µs here   µs of Redis   p50 µs   p99 µs");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for at_a_time in [1, 8, 64, 256] {
        runtime.block_on(through_the_store(&server, at_a_time))?;
    }
    Ok(())
}

/// CPU time of Redis for each of many requests of so many limits, so many in a call, in microseconds.
fn pipelined(
    server: &Server,
    redis: &mut Connection,
    sha: &str,
    (limits, together): (usize, usize),
) -> redis::RedisResult<f64> {
    let asked = |place: usize| {
        let user = place * limits;
        question((user..user + limits).map(|user| key(user % KEYS)).collect(), limits)
    };
    let pipelines: Vec<Pipeline> = (0..DECISIONS / PIPELINED)
        .map(|round| {
            let mut calls = redis::pipe();
            for place in (0..PIPELINED).step_by(together) {
                let mut batch = Batch::default();
                for place in place..place + together {
                    batch.push(&asked(round * PIPELINED + place));
                }
                calls.add_command(batch.by_name(sha)).ignore();
            }
            calls
        })
        .collect();
    let (warm, measured) = pipelines.split_at(pipelines.len() / 10);
    warm.iter().try_for_each(|calls| calls.exec(redis))?;
    let before = server.cpu_us();
    measured.iter().try_for_each(|calls| calls.exec(redis))?;
    Ok((server.cpu_us() - before) / (measured.len() * PIPELINED) as f64)
}

/// As many decisions at a time as given, each caller waiting for its own.
#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
#[allow(clippy::disallowed_methods, reason = "it measures")]
async fn through_the_store(
    server: &Server,
    at_a_time: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let address = Address::parse(&server.url())?;
    let patience = Duration::from_secs(10);
    let store = Arc::new(Redis::open(address, Certificates::default(), patience).await?);
    let each = DECISIONS / 2 / at_a_time / if at_a_time == 1 { 5 } else { 1 };
    let (here, there, start) = (cpu_us("self"), server.cpu_us(), Instant::now());
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..at_a_time {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let mut times = Vec::with_capacity(each);
            for round in 0..each {
                let keys = vec![key((caller * 7919 + round * 31) % KEYS)];
                let asked = Instant::now();
                // A second apart, so that nobody knows any more what was refused.
                let now = Timestamp::from_micros(round as u64 * 1_000_000);
                store
                    .decide(now, &question(keys, 1), Deadline::default())
                    .await
                    .map_err(|error| error.to_string())?;
                times.push(asked.elapsed().as_micros());
            }
            Ok::<_, String>(times)
        });
    }
    let mut times = Vec::new();
    for answered in callers.join_all().await {
        times.extend(answered?);
    }
    let (elapsed, count) = (start.elapsed().as_secs_f64(), times.len() as f64);
    let (here, there) = (cpu_us("self") - here, server.cpu_us() - there);
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    println!(
        "{at_a_time:9} {:13.0} {:9.1} {:13.1} {:8} {:8}",
        count / elapsed,
        here / count,
        there / count,
        at(50),
        at(99)
    );
    Ok(())
}

/// To take one of each of so many limits.
fn question(keys: Vec<Key>, limits: usize) -> Question {
    let limit = Limit::TokenBucket(token_bucket::Limit::per_unit(1_000_000, Unit::Day));
    let check = |slot| Check::of(slot, limit, Cost::Take(1));
    Question::new(keys, (0..limits).map(check).collect())
}

fn call(sha: &str, keys: Vec<Key>, limits: usize) -> redis::Cmd {
    Batch::of(&question(keys, limits)).by_name(sha)
}

fn key(user: usize) -> Key {
    let mut path = Path::of_domain(b"edge");
    path.push_value(b"plan", b"free");
    path.push_value(b"user", format!("{user:010}").as_bytes());
    Key::new("token_bucket", &path)
}
