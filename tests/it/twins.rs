//! Rust and Lua are twins: for random histories the script gives the same answers as `verdict::settle`,
//! and leaves the same states for the same time. On a real Redis, whose own clock stands still so that
//! nothing expires; the script is joined with a clock that is told the time.

use crate::support::Redis;
use proptest::{
    prelude::*,
    test_runner::{FileFailurePersistence, TestRunner},
};
use redis::{Commands as _, Connection};
use std::{cell::RefCell, collections::BTreeMap, fmt::Debug};
use tollgate::{
    clock::Timestamp,
    key::{Key, Path},
    limiter::{Cost, Limit, State, token_bucket},
    store::redis::script::{self, Answer},
    unit::Unit,
    verdict::{self, Check, Write},
};

/// The clock of this test.
const TOLD: &str = "local function now_us() return tonumber(ARGV[2]) end";

const SECOND: i64 = 1_000_000;
const YEAR: i64 = 365 * 86_400 * SECOND;

/// How much longer a key is kept than its state means anything, in milliseconds.
const MARGIN_MS: u64 = 1000;

/// A request, and how much time has passed before it.
#[derive(Debug, Clone)]
struct Asked {
    step_us: i64,
    checks: Vec<Asking>,
}

/// A check of one of a few keys.
#[derive(Debug, Clone)]
struct Asking {
    key: usize,
    limit: token_bucket::Limit,
    cost: Cost,
    shadow_mode: bool,
    quota_mode: bool,
}

fn any_limit() -> impl Strategy<Value = token_bucket::Limit> {
    let tokens = prop_oneof![0_u32..=10, 1_u32..=100_000, any::<u32>(), Just(u32::MAX)];
    let burst = prop_oneof![Just(1_u32), 0_u32..=10, 1_u32..=1000, any::<u32>(), Just(u32::MAX)];
    let unit = prop::sample::select(Unit::ALL.to_vec());
    (tokens, unit, burst, any::<bool>()).prop_map(|(tokens, unit, burst, overdraw)| {
        let limit = token_bucket::Limit::new(token_bucket::Rate::per(tokens, unit), burst);
        if overdraw { limit.with_overdraw() } else { limit }
    })
}

/// Costs from nothing to far above what a limit holds.
fn any_cost(burst: u32) -> impl Strategy<Value = Cost> {
    let burst = u64::from(burst).max(1);
    let amount = prop_oneof![
        4 => 1..=3_u64,
        4 => 1..=burst,
        1 => burst..=burst.saturating_mul(3),
        1 => 1..=u64::MAX,
    ];
    (amount, 0..10_u8).prop_map(|(amount, kind)| match kind {
        0 => Cost::Peek,
        1 | 2 => Cost::Refund(amount),
        _ => Cost::Take(amount),
    })
}

fn any_check(limits: Vec<token_bucket::Limit>) -> impl Strategy<Value = Asking> {
    let limit = prop::sample::select(limits);
    limit.prop_flat_map(|limit| {
        let modes = (prop::bool::weighted(0.2), prop::bool::weighted(0.3));
        (0..3_usize, any_cost(limit.burst()), modes).prop_map(move |(key, cost, modes)| Asking {
            key,
            limit,
            cost,
            shadow_mode: modes.0,
            quota_mode: modes.1,
        })
    })
}

/// Mostly short times and a few long ones, and now and then a clock that is set back.
fn any_step() -> impl Strategy<Value = i64> {
    prop_oneof![
        2 => Just(0),
        2 => 0..=2000_i64,
        4 => 0..=SECOND,
        4 => 0..=100 * SECOND,
        2 => 0..=YEAR,
        1 => -59 * SECOND..=0,
        1 => -3600 * SECOND..=-60 * SECOND,
        1 => -YEAR..=0,
    ]
}

fn any_history() -> impl Strategy<Value = Vec<Asked>> {
    // Few limits, so that a key is met by several of them, as when rules change.
    prop::collection::vec(any_limit(), 1..4).prop_flat_map(|limits| {
        let request = (any_step(), prop::collection::vec(any_check(limits), 1..5))
            .prop_map(|(step_us, checks)| Asked { step_us, checks });
        prop::collection::vec(request, 1..30)
    })
}

/// Any state that may stand under a key, whoever put it there.
fn any_state() -> impl Strategy<Value = token_bucket::State> {
    let count = || prop_oneof![0..=10_u64, 0..=1_u64 << 32, 0..=1_u64 << 53, Just(1_u64 << 53)];
    let updated = prop_oneof![count(), 1_799_999_000_000_000..=1_800_000_100_000_000_u64];
    (count(), updated, count()).prop_map(|(used, updated, grains_per_token)| token_bucket::State {
        used,
        updated: Timestamp::from_micros(updated),
        grains_per_token: grains_per_token.max(1),
    })
}

/// Bytes that are no state, most of them nearly one.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let good = || (1..=1_u64 << 53).prop_map(|count| count as f64);
    let bad = prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(-1.0),
        Just(0.5),
        Just(2.0_f64.powi(53) + 2.0),
        any::<f64>().prop_filter("a count", |it| it.fract() != 0.0 || *it < 0.0 || *it > 1e16),
    ];
    let nearly = (good(), good(), bad, 0..3_usize).prop_map(|(a, b, bad, place)| {
        let mut numbers = vec![a, b];
        // A token of no grains is none.
        let bad = if place == 2 && bad == 0.5 { 0.0 } else { bad };
        numbers.insert(place, bad);
        numbers.into_iter().flat_map(f64::to_le_bytes).collect()
    });
    let other = prop::collection::vec(any::<u8>(), 0..40)
        .prop_filter("the length of a state", |bytes| bytes.len() != 24);
    prop_oneof![nearly, other]
}

fn key(name: usize) -> Key {
    let mut path = Path::of_domain(b"twins");
    path.push_value(b"key", name.to_string().as_bytes());
    Key::new("token_bucket", &path)
}

/// What is known of each key: its state, and its time to live in milliseconds when it was written.
type Kept = BTreeMap<usize, (State, u64)>;

/// A key's name for each slot, and the checks on them.
fn compiled(asked: &Asked) -> (Vec<usize>, Vec<Check>) {
    let mut slots = Vec::new();
    let checks = asked.checks.iter().map(|asking| {
        let found = slots.iter().position(|&key| key == asking.key);
        let slot = found.unwrap_or_else(|| {
            slots.push(asking.key);
            slots.len() - 1
        });
        let Asking { limit, cost, shadow_mode, quota_mode, .. } = *asking;
        Check { slot, limit: Limit::TokenBucket(limit), cost, shadow_mode, quota_mode }
    });
    let checks = checks.collect();
    (slots, checks)
}

/// The state under a key, as `lua/token_bucket/limit.lua` describes it.
fn read_state(stored: &[u8]) -> State {
    let mut numbers =
        stored.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()));
    let mut number = || {
        let number = numbers.next().unwrap();
        assert!(number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number));
        number as u64
    };
    let (used, updated, grains_per_token) = (number(), number(), number());
    assert_eq!(stored.len(), 24);
    let updated = Timestamp::from_micros(updated);
    State::TokenBucket(token_bucket::State { used, updated, grains_per_token })
}

/// Runs a history in Rust and on a Redis that holds the same, and compares what both say and keep.
fn run(
    mut kept: Kept,
    redis: &mut Connection,
    sha: &str,
    history: &[Asked],
) -> Result<(), TestCaseError> {
    let mut now_us = 1_800_000_000 * SECOND;
    for asked in history {
        now_us = (now_us + asked.step_us).clamp(0, 130 * YEAR);
        let now = Timestamp::from_micros(now_us.unsigned_abs());
        let (names, checks) = compiled(asked);
        let stored: Vec<_> =
            names.iter().map(|name| kept.get(name).map(|(state, _)| *state)).collect();

        let (outcomes, writes) = verdict::settle(&checks, &stored, now);
        for Write { slot, kept: write } in writes {
            match write {
                Some(write) => {
                    let ttl_ms = (write.fresh_at - now).div_ceil(1000) + MARGIN_MS;
                    kept.insert(names[slot], (write.state, ttl_ms));
                }
                None => {
                    kept.remove(&names[slot]);
                }
            }
        }

        let keys: Vec<Key> = names.iter().map(|&name| key(name)).collect();
        let mut call = script::call(sha, &keys, &checks);
        let reply = call.arg(now.as_micros()).query(redis).unwrap();
        prop_assert_eq!(script::answer(&reply, &checks), Some(Answer::Decided(outcomes)));
        for name in 0..3 {
            let (stored, ttl_ms): (Option<Vec<u8>>, i64) = redis::pipe()
                .get(key(name).as_str())
                .pttl(key(name).as_str())
                .query(redis)
                .unwrap();
            let there = stored.map(|stored| (read_state(&stored), ttl_ms.unsigned_abs()));
            prop_assert_eq!(there.as_ref(), kept.get(&name), "key {}", name);
        }
    }
    prop_assert_eq!(redis.keys::<_, Vec<String>>("*").unwrap().len(), kept.len());
    Ok(())
}

#[tokio::test]
async fn the_script_answers_and_stores_what_rust_does() {
    for_all(&any_history(), |redis, sha, history| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        run(Kept::new(), redis, sha, history)
    })
    .await;
}

#[tokio::test]
async fn the_script_makes_of_any_state_what_rust_does() {
    for_all(&(any_state(), any_history()), |redis, sha, (state, history)| {
        let planted = [state.used, state.updated.as_micros(), state.grains_per_token];
        let planted: Vec<u8> = planted.iter().flat_map(|&it| (it as f64).to_le_bytes()).collect();
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        redis.set_ex::<_, _, ()>(key(0).as_str(), planted, 1).unwrap();
        let kept = Kept::from([(0, (State::TokenBucket(*state), 1000))]);
        run(kept, redis, sha, history)
    })
    .await;
}

#[tokio::test]
async fn the_script_deletes_what_is_no_state_and_decides_from_then_on() {
    let found = (any_bytes(), any_check(vec![token_bucket::Limit::per_unit(5, Unit::Day)]));
    for_all(&found, |redis, sha, (bytes, asking)| {
        redis.set::<_, _, ()>(key(0).as_str(), bytes).unwrap();
        let asked = Asked { step_us: 0, checks: vec![Asking { key: 0, ..asking.clone() }] };
        let (_, checks) = compiled(&asked);
        let mut answer = || {
            let mut call = script::call(sha, &[key(0)], &checks);
            script::answer(&call.arg(1_800_000_000 * SECOND).query(redis).unwrap(), &checks)
        };
        prop_assert_eq!(answer(), Some(Answer::Deleted(0)));
        prop_assert!(matches!(answer(), Some(Answer::Decided(_))));
        Ok(())
    })
    .await;
}

/// Holds a property for random values, on a Redis that has the script.
async fn for_all<T: Debug>(
    values: &impl Strategy<Value = T>,
    holds: impl Fn(&mut Connection, &str, &T) -> Result<(), TestCaseError>,
) {
    let server = Redis::start_at("2030-01-01 00:00:00").await;
    let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let load = script::join(TOLD);
    let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(load).query(&mut redis).unwrap();
    let usual = ProptestConfig::default();
    let mut runner = TestRunner::new(ProptestConfig {
        // More with PROPTEST_CASES.
        cases: usual.cases.max(1000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        source_file: Some(file!()),
        ..usual
    });
    let redis = RefCell::new(redis);
    runner
        .run(values, |value| holds(&mut redis.borrow_mut(), &sha, &value))
        .unwrap_or_else(|failure| panic!("{failure}"));
}
