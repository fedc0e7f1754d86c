//! What slices in hand cost and gain: how much of a limit replicas admit together, and how seldom they ask Redis.
//!
//! Each replica is a store of its own, on a runtime of its own, all of them on one Redis. They are asked for ten hot
//! keys, either each as much as the others, or one of them nine times in ten.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};
use support::{Server, field};
use tollgate::{
    clock::Deadline,
    key::{Key, Path},
    limiter::{
        Cost, Limit,
        token_bucket::{self, Grants, Rate},
    },
    store::redis::{Address, Certificates, Redis},
    unit::Unit,
    verdict::{Check, Question},
};

const KEYS: usize = 10;
const RATE: u32 = 500;

/// How often what is asked for is more than what there is.
const TOO_MUCH: [f64; 2] = [0.8, 3.0];

const WARMED_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(8);

#[derive(Default)]
struct Counts {
    asked: AtomicU64,
    admitted: AtomicU64,
}

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "replicas  traffic  asked ÷ limit  slices  admitted ÷ limit  scripts per 100 decisions"
    );
    for replicas in [2, 4] {
        for (traffic, hot) in [("even", 1.0 / f64::from(replicas)), ("skewed", 0.9)] {
            for asked in TOO_MUCH {
                for grants in [None, Some(Grants::DEFAULT)] {
                    let server = Server::start()?;
                    let (share, scripts) = run(&server, replicas, hot, asked, grants)?;
                    let slices = if grants.is_some() { "yes" } else { "no" };
                    println!(
                        "{replicas:8}  {traffic:7}  {asked:13.1}  {slices:6}  {share:16.3}  {scripts:25.2}"
                    );
                }
            }
        }
    }
    Ok(())
}

/// What is admitted of the limit, and scripts run for a hundred decisions. The first replica is asked this share of all.
#[allow(clippy::disallowed_methods, reason = "it measures")]
fn run(
    server: &Server,
    replicas: u32,
    hot: f64,
    asked: f64,
    grants: Option<Grants>,
) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let limit = token_bucket::Limit::new(Rate::per(RATE, Unit::Second), RATE).with_grants(grants);
    let counts = Arc::new(Counts::default());
    let all = f64::from(RATE) * KEYS as f64 * asked;
    let mut redis = server.connect()?;
    let replicas: Vec<_> = (0..replicas)
        .map(|place| {
            let cold = (1.0 - hot) / f64::from(replicas - 1);
            let per_second = all * if place == 0 { hot } else { cold };
            let (url, counts) = (server.url(), Arc::clone(&counts));
            thread::spawn(move || replica(&url, limit, per_second, &counts))
        })
        .collect();
    thread::sleep(WARMED_UP);
    let look = |redis: &mut redis::Connection| -> redis::RedisResult<(u64, u64, u64)> {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(redis)?;
        let calls = field(&stats, "cmdstat_evalsha").split([',', '=']).nth(1);
        let calls = calls.and_then(|calls| calls.parse().ok()).unwrap_or_default();
        Ok((calls, counts.asked.load(Relaxed), counts.admitted.load(Relaxed)))
    };
    let (start, before) = (Instant::now(), look(&mut redis)?);
    thread::sleep(MEASURED);
    let (after, elapsed) = (look(&mut redis)?, start.elapsed().as_secs_f64());
    for replica in replicas {
        let _ = replica.join();
    }
    let (decided, admitted) = ((after.1 - before.1) as f64, (after.2 - before.2) as f64);
    let due = f64::from(RATE) * KEYS as f64 * elapsed;
    Ok((admitted / due, (after.0 - before.0) as f64 * 100.0 / decided))
}

/// Asks a store as often as that, each millisecond for what is due by then.
#[allow(clippy::disallowed_methods, reason = "it measures")]
fn replica(url: &str, limit: token_bucket::Limit, per_second: f64, counts: &Arc<Counts>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        let Ok(address) = Address::parse(url) else { return };
        let patience = Duration::from_secs(1);
        let Ok(store) = Redis::open(address, Certificates::default(), patience).await else {
            return;
        };
        let (store, start) = (Arc::new(store), Instant::now());
        let mut asked = 0_u64;
        while start.elapsed() < WARMED_UP + MEASURED + Duration::from_secs(1) {
            let due = (start.elapsed().as_secs_f64() * per_second) as u64;
            while asked < due {
                asked += 1;
                let (store, counts) = (Arc::clone(&store), Arc::clone(counts));
                let question = question(limit, asked as usize % KEYS);
                tokio::spawn(async move {
                    let now = store.clock().now();
                    let decided = store.decide(now, &question, Deadline::default()).await;
                    counts.asked.fetch_add(1, Relaxed);
                    let is_admitted = decided.is_ok_and(|verdict| verdict.refusal.is_none());
                    counts.admitted.fetch_add(u64::from(is_admitted), Relaxed);
                });
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        store.finish_grants().await;
    });
}

fn question(limit: token_bucket::Limit, place: usize) -> Question {
    let mut path = Path::of_domain(b"edge");
    path.push_value(b"tenant", format!("{place:04}").as_bytes());
    let check = Check::of(0, Limit::TokenBucket(limit), Cost::Take(1));
    Question::new(vec![Key::new("token_bucket", &path)], vec![check])
}
