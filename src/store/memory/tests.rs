use super::*;
use crate::{
    key::Path,
    lease::{Attempt, By},
    limiter::{Cost, Limit, concurrency, token_bucket},
    unit::Unit,
    verdict::Check,
};
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

const SECOND: u64 = 1_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn key(name: &str) -> Key {
    let mut path = Path::of_domain(b"test");
    path.push_value(b"user", name.as_bytes());
    Key::new("token_bucket", &path)
}

fn take(amount: u32, unit: Unit, tokens: u64) -> Check {
    let limit = Limit::TokenBucket(token_bucket::Limit::per_unit(amount, unit));
    Check::of(0, limit, Cost::Take(tokens))
}

fn decide(store: &Memory, now: Timestamp, keys: &[Key], checks: &[Check]) -> Verdict {
    store.decide(now, &Question::new(keys.to_vec(), checks.to_vec()))
}

fn admits(store: &Memory, now: Timestamp, name: &str, check: Check) -> bool {
    decide(store, now, &[key(name)], &[check]).refusal.is_none()
}

#[test]
fn forgets_what_equals_a_fresh_state() {
    let store = Memory::new(1000);
    for user in 0..100 {
        assert!(admits(&store, at(0), &user.to_string(), take(10, Unit::Second, 10)));
    }
    assert_eq!(store.len(), 100);
    // Each visit sweeps two, and leaves one of its own.
    for visit in 0..100 {
        assert!(
            admits(&store, at(2 * SECOND + visit), "other", take(10, Unit::Hour, 1)) || visit >= 10
        );
    }
    assert_eq!(store.len(), 1);
    assert_eq!(store.forgotten_live(), 0);
}

#[test]
fn gives_memory_back_when_a_crowd_has_gone() {
    let store = Memory::new(1000);
    for user in 0..1000 {
        admits(&store, at(0), &user.to_string(), take(10, Unit::Second, 1));
    }
    for visit in 0..1000 {
        admits(&store, at(2 * SECOND + visit), "other", take(10, Unit::Hour, 1));
    }
    let shard = store.shards.one_by_one().next().unwrap();
    assert_eq!(shard.entries.len(), 1);
    assert!(shard.entries.capacity() <= LEAST_ROOM);
    assert!(shard.places.capacity() <= 2 * LEAST_ROOM, "a table has powers of two");
}

#[test]
fn one_request_for_many_new_keys_sweeps_as_many_old_ones() {
    let store = Memory::new(10_000);
    let keys_of = |prefix: &str| (0..100).map(|key_of| key(&format!("{prefix}{key_of}"))).collect();
    let checks: Vec<Check> =
        (0..100).map(|slot| Check { slot, ..take(10, Unit::Second, 1) }).collect();
    let (old, new): (Vec<Key>, Vec<Key>) = (keys_of("old"), keys_of("new"));
    decide(&store, at(0), &old, &checks);
    decide(&store, at(SECOND), &new, &checks);
    assert!(store.len() < 120, "{}", store.len());
}

#[test]
fn a_peek_and_a_refusal_leave_no_key() {
    let store = Memory::new(1000);
    assert!(admits(&store, at(0), "a", Check { cost: Cost::Peek, ..take(1, Unit::Day, 1) }));
    assert!(!admits(&store, at(0), "b", take(1, Unit::Day, 2)));
    assert!(admits(&store, at(0), "c", Check { cost: Cost::Refund(3), ..take(1, Unit::Day, 1) }));
    assert!(store.is_empty());
}

#[test]
fn a_refund_to_the_full_forgets_the_key() {
    let store = Memory::new(1000);
    assert!(admits(&store, at(0), "a", take(5, Unit::Day, 3)));
    assert_eq!(store.len(), 1);
    admits(&store, at(0), "a", Check { cost: Cost::Refund(3), ..take(5, Unit::Day, 1) });
    assert!(store.is_empty());
}

#[test]
fn never_holds_more_keys_than_it_may() {
    for most in [1, 2, 7, 5000] {
        let store = Memory::new(most);
        for user in 0..3 * most {
            assert!(admits(&store, at(0), &user.to_string(), take(5, Unit::Day, 1)));
            assert!(store.len() <= most);
        }
        assert!(store.len() > most / 2);
        assert!(store.forgotten_live() >= 2 * most as u64, "forgetting live keys is counted");
    }
}

#[test]
fn full_it_forgets_expired_keys_before_live_ones() {
    let store = Memory::new(10);
    for user in 0..9 {
        admits(&store, at(0), &user.to_string(), take(10, Unit::Second, 1));
    }
    assert!(admits(&store, at(0), "heavy", take(1, Unit::Day, 1)));
    for user in 10..19 {
        assert!(admits(&store, at(SECOND), &user.to_string(), take(10, Unit::Hour, 1)));
    }
    assert!(!admits(&store, at(SECOND), "heavy", take(1, Unit::Day, 1)));
    assert_eq!(store.forgotten_live(), 0);
}

#[test]
fn full_it_forgets_the_one_with_least_to_lose() {
    let store = Memory::new(10);
    assert!(admits(&store, at(0), "heavy", take(1000, Unit::Day, 1000)));
    for user in 0..1000 {
        assert!(admits(&store, at(0), &user.to_string(), take(1000, Unit::Day, 1)));
    }
    assert!(store.forgotten_live() > 900);
    assert!(!admits(&store, at(0), "heavy", take(1000, Unit::Day, 1)), "a flood does not free it");
}

#[test]
fn full_it_keeps_who_is_at_his_limit_however_soon_that_is_over() {
    let store = Memory::new(1000);
    for _ in 0..5 {
        assert!(admits(&store, at(0), "guesses passwords", take(5, Unit::Minute, 1)));
    }
    // Each of these takes hours to be fresh again, but has used only a fifth.
    for name in 0..3000 {
        assert!(admits(&store, at(0), &name.to_string(), take(5, Unit::Day, 1)));
    }
    assert!(!admits(&store, at(0), "guesses passwords", take(5, Unit::Minute, 1)));
}

#[test]
fn a_request_with_more_keys_than_there_is_room_for_is_decided() {
    let store = Memory::new(1);
    let keys = ["a", "b", "c"].map(key);
    let checks = [0, 1, 2].map(|slot| Check { slot, ..take(5, Unit::Day, 1) });
    for _ in 0..3 {
        assert!(decide(&store, at(0), &keys, &checks).refusal.is_none());
        assert_eq!(store.len(), 1);
    }
}

#[test]
fn threads_on_one_bucket_get_the_burst_and_not_one_more() {
    let store = Arc::new(Memory::new(1000));
    let (threads, asks, burst) = (8, 2000, 5000);
    let start = Arc::new(Barrier::new(threads));
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (store, start) = (Arc::clone(&store), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                (0..asks)
                    .filter(|_| admits(&store, at(0), "hot", take(burst, Unit::Day, 1)))
                    .count()
            })
        })
        .collect();
    let admitted: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    assert_eq!(admitted, burst as usize);
}

#[test]
fn threads_that_want_several_keys_in_any_order_neither_deadlock_nor_overspend() {
    let store = Arc::new(Memory::new(100_000));
    let burst = 3000_u32;
    let workers: Vec<_> = (0..8)
        .map(|thread| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                let mut names: Vec<String> = (0..8).map(|name| format!("key {name}")).collect();
                names.rotate_left(thread);
                if thread % 2 == 1 {
                    names.reverse();
                }
                let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
                let checks: Vec<Check> =
                    (0..8).map(|slot| Check { slot, ..take(burst, Unit::Day, 1) }).collect();
                (0..1000)
                    .filter(|_| decide(&store, at(0), &keys, &checks).refusal.is_none())
                    .count()
            })
        })
        .collect();
    let admitted: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    assert_eq!(admitted, burst as usize, "all or nothing: every key gave to the same requests");
}

/// Otherwise whoever is refused often enough is admitted in the end.
#[test]
fn forgets_marks_before_it_forgets_what_is_in_flight() {
    let store = Memory::new(1000);
    let term = Term::of_micros(60 * SECOND);
    let limit = concurrency::Limit { max: 10, term, weighs_hits: true };
    let admits = |number: u64| {
        let check = Check { limit: Limit::Concurrency(limit), ..take(1, Unit::Day, 4) };
        let mut question = Question::new(vec![key("all")], vec![check]);
        let id = LeaseId::of_request(b"test", number.to_string().as_bytes());
        question.take_under(&id, (By::Request, Attempt::of(number << 11)), None, None);
        store.decide(at(number), &question).refusal.is_none()
    };
    assert!(admits(1) && admits(2), "eight of ten");
    assert!(!(3..3000).any(admits));
    assert!(store.forgotten_live() > 1000);
}

#[test]
fn threads_on_the_real_clock_get_nearly_all_of_the_rate_and_never_more() {
    let clock = crate::clock::Clock::monotonic();
    let store = Memory::new(1000);
    // Once empty it takes ten seconds to fill, so that no pause of the machine lets it overflow.
    let (rate, burst) = (20_000, 200_000);
    let rate_limit = token_bucket::Limit::new(token_bucket::Rate::per(rate, Unit::Second), burst);
    let check = Check { limit: Limit::TokenBucket(rate_limit), ..take(1, Unit::Day, 1) };
    let begun = clock.now();
    let is_over = AtomicBool::new(false);
    let hammer = || {
        let (mut admitted, mut refused) = (0, 0);
        // Until one of them has found it empty, and half a second of the bucket's own time is over. A thread that begins
        // later than that ends at once.
        while !is_over.load(Ordering::Relaxed) {
            let was_admitted = admits(&store, clock.now(), "hot", check);
            admitted += u64::from(was_admitted);
            refused += u64::from(!was_admitted);
            if refused > 0 && clock.now() - begun > SECOND / 2 {
                is_over.store(true, Ordering::Relaxed);
            }
        }
        admitted
    };
    let admitted: u64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(hammer)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let end = clock.now();
    let left = decide(&store, end, &[key("hot")], &[Check { cost: Cost::Peek, ..check }]);
    let admitted = admitted + left.outcomes[0].remaining;
    let due = u64::from(burst) + u64::from(rate) * (end - begun) / SECOND;
    assert!(admitted <= due, "{admitted} of {due}");
    assert!(admitted * 100 >= due * 99, "{admitted} of {due}");
}

#[test]
fn a_refusal_or_a_peek_keeps_a_state_for_as_long_as_its_own_limit_needs() {
    let slow = |cost| Check { cost, ..take(10, Unit::Hour, 1) };
    for cost in [Cost::Take(1), Cost::Peek] {
        let store = Memory::new(1000);
        assert!(admits(&store, at(0), "user", take(500, Unit::Second, 500)));
        assert!(!admits(&store, at(1000), "user", slow(cost)));
        // By the limit that stored it, it is over after a second.
        for visit in 0..10 {
            admits(&store, at(5 * SECOND + visit), "other", take(10, Unit::Hour, 1));
        }
        assert_eq!(store.len(), 2);
        assert!(!admits(&store, at(6 * SECOND), "user", slow(cost)));
        // And one that needs less shortens nothing.
        assert!(admits(
            &store,
            at(6 * SECOND),
            "user",
            Check { cost: Cost::Peek, ..take(500, Unit::Second, 1) }
        ));
        assert!(!admits(&store, at(30 * SECOND), "user", slow(cost)));
    }
}
