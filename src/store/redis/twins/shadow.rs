//! What rules in shadow did: added up in Lua as in Rust, and kept for as long.

use super::{MARGIN_MS, for_all, told};
use crate::{
    clock::Timestamp,
    key::Key,
    shadow::{Counter, Counts, PLACES, Seen, Slots, Top},
    store::redis::{
        script::{self, Call, Reply},
        shadow,
    },
};
use proptest::prelude::*;
use redis::{Commands as _, Connection};
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000;

/// How long a slot is: those of the minute, the hour and the day.
const SLOTS_US: [u64; 3] = [10_000_000, 600_000_000, 14_400_000_000];

/// What a rule did, of some of so many keys that not all find a place.
fn any_seen() -> impl Strategy<Value = Seen> {
    let counter = (1..50_u64, 0..50_u64).prop_map(|(count, error)| (count, error.min(count)));
    let counters = prop_oneof![
        prop::collection::btree_map(0..200_u16, counter.clone(), 0..8),
        prop::collection::btree_map(0..200_u16, counter, 0..=128),
    ];
    (counters, 0..100_u64, 0..100_u64, 0..3_u64).prop_map(
        |(counters, allowed, would_refuse, degraded)| Seen {
            counts: Counts { allowed, would_refuse, degraded },
            top: top(counters),
        },
    )
}

fn top(counters: BTreeMap<u16, (u64, u64)>) -> Top {
    let counter = |(key, (count, error)): (u16, _)| Counter {
        key: format!("edge:user={key}").into(),
        count,
        error,
    };
    Top::of(counters.into_iter().map(counter).collect()).unwrap()
}

/// How much time passes, forwards mostly.
fn any_step() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0..5 * SECOND,
        2 => 0..60 * SECOND,
        1 => 0..3 * 3600 * SECOND,
        1 => -3600 * SECOND..0,
    ]
}

fn stored(redis: &mut Connection, keys: &[Key]) -> Slots {
    let mut pipe = redis::pipe();
    keys.iter().for_each(|key| {
        pipe.get(key.as_str());
    });
    let values: Vec<Option<Vec<u8>>> = pipe.query(redis).unwrap();
    let mut values = values.into_iter();
    Slots::of([(); PLACES].map(|()| values.next()?.map(|bytes| shadow::read(&bytes).unwrap())))
}

#[tokio::test]
async fn the_script_adds_up_what_rules_did_as_rust_does() {
    let history = prop::collection::vec((any_step(), any_seen()), 1..8);
    for_all(&history, |redis, names, history| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        let (mut slots, mut now_us) = (Slots::default(), 1_800_000_000 * SECOND);
        let keys = Key::of_shadow("edge:user");
        for (step_us, seen) in history {
            now_us += step_us;
            let now = Timestamp::from_micros(now_us.unsigned_abs());
            slots.add(seen, now);
            let reply = told(&Call::shadow(&keys, seen), names, now).query(redis).unwrap();
            prop_assert_eq!(script::read_added(&reply), Some(Reply::Done(())));
            prop_assert_eq!(&stored(redis, &keys), &slots);
            for (window, slot_us) in SLOTS_US.iter().enumerate() {
                let number = now.as_micros() / slot_us;
                let key = &keys[window * 6 + number as usize % 6];
                let over_us = (number + 6) * slot_us - now.as_micros();
                let ttl_ms: i64 = redis.pttl(key.as_str()).unwrap();
                prop_assert_eq!(ttl_ms.unsigned_abs(), over_us.div_ceil(1000) + MARGIN_MS);
            }
        }
        Ok(())
    })
    .await;
}

/// A slot that is none: cut off, or with a number that is none, or more errors than counts.
fn any_bytes_of_a_slot() -> impl Strategy<Value = Vec<u8>> {
    let numbers = [7.0, 1.0, 2.0, 3.0, 5.0, 4.0];
    let good = move |numbers: [f64; 6]| {
        let bytes = numbers.into_iter().flat_map(f64::to_le_bytes);
        bytes.chain(3_u16.to_le_bytes()).chain(*b"a:b").collect::<Vec<u8>>()
    };
    let bad = prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(0.5), Just(1e17)];
    let one_bad = (bad, 1..6_usize).prop_map(move |(bad, place)| {
        let mut numbers = numbers;
        numbers[place] = bad;
        good(numbers)
    });
    let whole = good(numbers);
    // Cut off before its counters, it is a slot without any.
    let cut_off = (0..whole.len()).prop_filter("none", |length| *length != 32);
    let cut_off = cut_off.prop_map(move |length| whole[..length].to_vec());
    prop_oneof![2 => one_bad, 1 => cut_off]
}

#[tokio::test]
async fn what_is_no_slot_is_deleted_and_counted_as_nothing() {
    for_all(&any_bytes_of_a_slot(), |redis, names, bytes| {
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let keys = Key::of_shadow("edge:user");
        let place = 6 + (now.as_micros() / SLOTS_US[1]) as usize % 6;
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        redis.set::<_, _, ()>(keys[place].as_str(), bytes).unwrap();
        prop_assert_eq!(shadow::read(bytes), None);
        let mut tell = || {
            let reply = told(&Call::shadow(&keys, &Seen::default()), names, now).query(redis);
            script::read_added(&reply.unwrap())
        };
        prop_assert_eq!(tell(), Some(Reply::Deleted(place)));
        prop_assert_eq!(tell(), Some(Reply::Done(())));
        Ok(())
    })
    .await;
}
