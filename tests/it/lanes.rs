//! Many runtimes, each with its own way to Redis, and many requests in one call there.

use crate::support::{PATIENCE, Redis, a_second, until};
use std::{
    sync::{Arc, LazyLock},
    thread,
    time::Duration,
};
use tokio::{task::JoinSet, time};
use tollgate::{
    clock::{Clock, Deadline, Timestamp},
    key::{Key, Path},
    limiter::{Cost, Limit, token_bucket},
    store::{
        StoreError,
        redis::{Address, Certificates, Redis as Store},
    },
    unit::Unit,
    verdict::{Check, Question, Verdict},
};

/// No test is done that waits for this.
const NEVER: Duration = Duration::from_secs(60);

async fn open(redis: &Redis, timeout: Duration) -> Arc<Store> {
    let address = Address::parse(redis.url()).unwrap();
    Arc::new(Store::open(address, Certificates::default(), timeout).await.unwrap())
}

fn question(user: &str, limit: u32, cost: Cost) -> Question {
    let mut path = Path::of_domain(b"lanes");
    path.push_value(b"user", user.as_bytes());
    let limit = Limit::TokenBucket(token_bucket::Limit::per_unit(limit, Unit::Year));
    Question::new(vec![Key::new("token_bucket", &path)], vec![Check::of(0, limit, cost)])
}

/// The time, as a server tells it to the store.
fn now() -> Timestamp {
    static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::monotonic);
    CLOCK.now()
}

/// Whether one more is admitted.
async fn takes(store: &Store, user: &str, limit: u32) -> Result<bool, StoreError> {
    let question = question(user, limit, Cost::Take(1));
    let verdict = store.decide(now(), &question, Deadline::default()).await?;
    Ok(verdict.refusal.is_none())
}

/// The same on a machine that may be too busy.
async fn takes_in_the_end(store: &Store, user: &str, limit: u32) -> bool {
    decided_in_the_end(store, user, limit, Cost::Take(1)).await.refusal.is_none()
}

/// How many are left. Redis may have been stopped for so long that it is held to be gone, and found again a little
/// later.
async fn left(store: &Store, user: &str, limit: u32) -> u64 {
    decided_in_the_end(store, user, limit, Cost::Peek).await.outcomes[0].remaining
}

/// A verdict: a request that Redis was not asked for is repeated.
async fn decided_in_the_end(store: &Store, user: &str, limit: u32, cost: Cost) -> Verdict {
    let question = question(user, limit, cost);
    let deciding = async {
        loop {
            match store.decide(now(), &question, Deadline::default()).await {
                Err(error) if error.is_uncalled() => time::sleep(Duration::from_millis(10)).await,
                decided => return decided.unwrap(),
            }
        }
    };
    time::timeout(PATIENCE, deciding).await.expect("Redis is asked")
}

/// How often a script was called.
async fn calls(redis: &Redis) -> u32 {
    let stats: String = redis.ask(&["INFO", "commandstats"]).await;
    let calls = stats.split_once("cmdstat_evalsha:calls=").unwrap().1;
    calls.split_once(',').unwrap().0.parse().unwrap()
}

#[tokio::test]
async fn many_runtimes_together_admit_as_many_as_the_limit_and_no_more() {
    const RUNTIMES: u32 = 8;
    const EACH: u32 = 100;
    const LIMIT: u32 = RUNTIMES * EACH / 2;
    let redis = Redis::start().await;
    let store = open(&redis, NEVER).await;
    let runtimes = [(); RUNTIMES as usize].map(|()| {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                // At first the way is another's, then its own.
                let mut admitted = 0;
                for _ in 0..4 {
                    let mut asking = JoinSet::new();
                    for _ in 0..EACH / 4 {
                        let store = Arc::clone(&store);
                        asking.spawn(async move { takes_in_the_end(&store, "all", LIMIT).await });
                    }
                    let answers = asking.join_all().await;
                    admitted += answers.into_iter().filter(|is_admitted| *is_admitted).count();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                admitted
            })
        })
    });
    let joined = tokio::task::spawn_blocking(|| runtimes.map(|runtime| runtime.join().unwrap()));
    assert_eq!(joined.await.unwrap().iter().sum::<usize>(), LIMIT as usize);
    assert_eq!(left(&store, "all", LIMIT).await, 0);
}

#[tokio::test]
async fn each_runtime_gets_a_connection_of_its_own() {
    let redis = Redis::start().await;
    let store = open(&redis, NEVER).await;
    assert!(takes(&store, "ada", 5).await.unwrap());
    let connections = async || {
        let clients: String = redis.ask(&["CLIENT", "LIST"]).await;
        clients.lines().count()
    };
    let before = connections().await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let its = Arc::clone(&store);
    let runtime = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            assert!(takes(&its, "bob", 5).await.unwrap(), "by the way of another, at first");
            stopped.await.unwrap_err();
            assert!(takes(&its, "bob", 5).await.unwrap());
        });
    });
    until("there is one more", async || (connections().await > before).then_some(())).await;
    drop(stop);
    tokio::task::spawn_blocking(|| runtime.join().unwrap()).await.unwrap();
    // The runtime is gone, and its way with it.
    until("it is gone", async || (connections().await == before).then_some(())).await;
    assert_eq!(left(&store, "bob", 5).await, 3);
}

#[tokio::test]
async fn requests_that_come_together_go_together() {
    let redis = Redis::start().await;
    let store = open(&redis, NEVER).await;
    assert_eq!(left(&store, "all", 1000).await, 1000);
    let before = calls(&redis).await;
    let mut asking = JoinSet::new();
    for _ in 0..640 {
        let store = Arc::clone(&store);
        asking.spawn(async move { takes(&store, "all", 1000).await.unwrap() });
    }
    assert!(asking.join_all().await.into_iter().all(|is_admitted| is_admitted));
    // Ten of 64 each, and perhaps the heartbeat's.
    let calls = calls(&redis).await - before;
    assert!((10..=20).contains(&calls), "{calls}");
    assert_eq!(left(&store, "all", 1000).await, 360);
}

#[tokio::test]
async fn who_leaves_while_his_batch_is_under_way_is_given_back_what_the_others_are_not() {
    let redis = Redis::start().await;
    let store = open(&redis, NEVER).await;
    assert_eq!(left(&store, "all", 10).await, 10);
    redis.signal("STOP").await;
    let callers = [(); 3].map(|()| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { takes(&store, "all", 10).await })
    });
    // They have to be under way to be left.
    a_second().await;
    callers[1].abort();
    a_second().await;
    redis.signal("CONT").await;
    let given_back = async || (store.condition().late_charges.given_back == 1).then_some(());
    until("one was given back", given_back).await;
    let [first, _, third] = callers;
    assert_eq!(first.await.unwrap(), Ok(true));
    assert_eq!(third.await.unwrap(), Ok(true));
    assert_eq!(left(&store, "all", 10).await, 8);
}

#[tokio::test]
async fn who_leaves_before_he_is_sent_is_charged_nothing_and_too_many_are_turned_away() {
    let redis = Redis::start().await;
    let store = open(&redis, NEVER).await;
    assert_eq!(left(&store, "all", 5000).await, 5000);
    redis.signal("STOP").await;
    let mut asking = JoinSet::new();
    for _ in 0..3000 {
        let store = Arc::clone(&store);
        asking.spawn(async move { takes(&store, "all", 5000).await });
    }
    // Four batches of 64 are under way, and sixteen wait.
    for _ in 0..3000 - 20 * 64 {
        assert_eq!(asking.join_next().await.unwrap().unwrap(), Err(StoreError::Busy));
    }
    asking.shutdown().await;
    redis.signal("CONT").await;
    let all_are_there = async || (left(&store, "all", 5000).await == 5000).then_some(());
    until("those that were sent were given back", all_are_there).await;
    let given_back = store.condition().late_charges.given_back;
    assert!((1..=4 * 64).contains(&given_back), "{given_back} were sent");
}

#[tokio::test]
async fn when_this_process_stood_still_it_hears_what_redis_said_meanwhile() {
    let redis = Redis::start().await;
    let store = open(&redis, Duration::from_millis(100)).await;
    assert_eq!(left(&store, "all", 1000).await, 1000);
    for turns in [0, 1, 2, 3, 5, 20] {
        let asking: Vec<_> = (0..30)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { takes(&store, "all", 1000).await })
            })
            .collect();
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        // Longer than anybody waits.
        #[expect(clippy::disallowed_methods, reason = "to stand still is to block")]
        thread::sleep(Duration::from_millis(300));
        for one in asking {
            assert_eq!(one.await.unwrap(), Ok(true), "after {turns} turns");
        }
    }
    let condition = store.condition();
    assert_eq!((condition.openings, condition.late_charges.given_back), (0, 0));
}
