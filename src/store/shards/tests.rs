use super::*;
use crate::key::Path;
use std::{
    collections::BTreeSet,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

type Counts = Shards<u64>;

fn hashes<S>(shards: &Shards<S>, count: usize) -> Vec<u64> {
    let key = |index| Key::new("token_bucket", &Path::of_domain(format!("{index}").as_bytes()));
    (0..count).map(|index| shards.hash(&key(index))).collect()
}

#[test]
fn there_are_as_many_as_the_power_of_two_below_and_at_least_one() {
    let counts = [0, 1, 2, 3, 63, 64].map(|count| Counts::new(count).count());
    assert_eq!(counts, [1, 1, 2, 2, 32, 64]);
}

#[test]
fn keys_are_spread_evenly() {
    const EACH: usize = 200;
    let shards = Counts::new(MOST_SHARDS);
    for hash in hashes(&shards, EACH * MOST_SHARDS) {
        *shards.lock(hash).unwrap() += 1;
    }
    // Seven standard deviations to each side.
    let counts: Vec<u64> = shards.one_by_one().map(|count| *count).collect();
    assert!(counts.iter().all(|count| (100..300).contains(count)), "{counts:?}");
}

#[test]
fn keys_of_one_shard_differ_in_what_a_table_looks_at() {
    let shards = Counts::new(MOST_SHARDS);
    let hashes = hashes(&shards, 200 * MOST_SHARDS).into_iter();
    let low: BTreeSet<u64> =
        hashes.filter(|&hash| shards.place(hash) == 0).map(|hash| hash % 64).collect();
    assert!(low.len() > 32, "{low:?}");
}

#[test]
fn no_two_choose_the_same_shards_for_the_same_keys() {
    let (one, other) = (Counts::new(MOST_SHARDS), Counts::new(MOST_SHARDS));
    assert_ne!(hashes(&one, 8), hashes(&other, 8));
}

#[test]
fn several_are_locked_each_once_in_ascending_order() {
    let shards = Counts::new(MOST_SHARDS);
    let mut hashes = hashes(&shards, 20);
    hashes.extend_from_within(..);
    let mut locked = shards.lock_all(&hashes);
    assert!(locked.locked.is_sorted_by(|(one, _), (next, _)| one < next));
    for &hash in &hashes {
        *locked.of(hash).unwrap() += 1;
    }
    drop(locked);
    assert_eq!(shards.one_by_one().map(|count| *count).sum::<u64>(), 40);
}

#[test]
fn what_was_not_locked_is_not_there() {
    let shards = Counts::new(2);
    let hashes = hashes(&shards, 100);
    let here = *hashes.first().unwrap();
    let there = *hashes.iter().find(|&&hash| shards.place(hash) != shards.place(here)).unwrap();
    let mut locked = shards.lock_all(&[here]);
    assert!(locked.of(here).is_some());
    assert!(locked.of(there).is_none());
    assert!(shards.lock_all(&[]).of(here).is_none());
}

/// Those who lock in whatever order they name keys end up waiting for each other; nobody does here.
#[test]
fn many_keys_at_once_in_any_order_never_wait_for_each_other_in_a_circle() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 20_000;
    const KEYS: usize = 5;
    let shards = Arc::new(Counts::new(8));
    let (done, all_done) = mpsc::channel();
    for thread in 0..THREADS {
        let (shards, done) = (Arc::clone(&shards), done.clone());
        let mut hashes = hashes(&shards, 4 * KEYS);
        thread::spawn(move || {
            for round in 0..ROUNDS {
                hashes.rotate_left(1 + (thread + round) % KEYS);
                hashes.swap(thread, round % KEYS);
                let together = hashes.get(..KEYS).unwrap();
                let mut locked = shards.lock_all(together);
                together.iter().for_each(|&hash| *locked.of(hash).unwrap() += 1);
            }
            done.send(()).unwrap();
        });
    }
    for _ in 0..THREADS {
        all_done.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    let sum: u64 = shards.one_by_one().map(|count| *count).sum();
    assert_eq!(sum, (THREADS * ROUNDS * KEYS) as u64);
}

#[test]
fn a_lock_that_a_panic_left_behind_is_taken_all_the_same() {
    let shards = Arc::new(Counts::new(1));
    let panicking = Arc::clone(&shards);
    let panicked = thread::spawn(move || {
        *panicking.lock(0).unwrap() += 1;
        let _locked = panicking.lock(0);
        panic!("as it should");
    });
    assert!(panicked.join().is_err());
    assert_eq!(*shards.lock(0).unwrap(), 1);
    assert_eq!(shards.lock_all(&[0]).of(0), Some(&mut 1));
}
