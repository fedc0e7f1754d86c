//! Tokens handed out ahead of need, and given back: in Lua as in Rust.

use super::{
    World, for_all,
    history::{any_rate, any_state, any_step, key},
    stored, told,
};
use proptest::prelude::*;
use redis::Commands as _;
use std::collections::BTreeMap;
use tollgate::{
    clock::Timestamp,
    grant::{Ask, grant},
    key::Key,
    limiter::{Limit, token_bucket},
    store::redis::script::{self, Call, Reply},
};

const NOW_US: i64 = 1_800_000_000_000_000;

/// How many buckets there are.
const NAMES: usize = 3;

/// What is asked of a bucket; `since` is so long ago.
fn any_ask() -> impl Strategy<Value = (token_bucket::Limit, u64, i64, u64)> {
    let count = || prop_oneof![Just(0), 0..20_u64, 0..2000_u64, any::<u32>().prop_map(u64::from)];
    let limit = any_rate().prop_map(|limit| match limit {
        Limit::TokenBucket(limit) => token_bucket::Limit::new(limit.rate(), limit.burst()),
        other => panic!("{other:?}"),
    });
    (limit, count(), any_step(), count())
}

/// Some of the buckets, and what is asked of each.
type Asks = BTreeMap<usize, (token_bucket::Limit, u64, i64, u64)>;

fn any_asks() -> impl Strategy<Value = Vec<(i64, Asks)>> {
    let asks = prop::collection::btree_map(0..NAMES, any_ask(), 1..=NAMES);
    prop::collection::vec((any_step(), asks), 1..10)
}

fn names() -> Vec<Key> {
    (0..NAMES).map(|name| key("token_bucket", name)).collect()
}

#[tokio::test]
async fn the_script_hands_out_and_takes_back_what_rust_does() {
    let first = any_state().prop_filter("a bucket", |(key, _)| names().contains(key));
    for_all(&(prop::option::of(first), any_asks()), |redis, scripts, (first, history)| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        let mut world = World::default();
        if let Some((key, state)) = first {
            redis.set_ex::<_, _, ()>(key.as_str(), stored::write(state), 1).unwrap();
            world.0.insert(key.clone(), (state.clone(), 1000));
        }
        let mut now_us = NOW_US;
        for (step_us, asks) in history {
            now_us += step_us;
            let now = Timestamp::from_micros(now_us.unsigned_abs());
            let keys: Vec<Key> = asks.keys().map(|name| key("token_bucket", *name)).collect();
            let asks = asks.values().map(|(limit, returned, ago_us, wanted)| {
                let since = Timestamp::from_micros((now_us - ago_us).unsigned_abs());
                Ask { limit: *limit, returned: *returned, since, wanted: *wanted }
            });
            let asks: Vec<Ask> = asks.collect();
            let (granted, writes) = grant(&asks, &world.stored(&keys), now);
            world.write(&keys, writes, now);
            let call = Call::grant(keys.iter().collect(), &asks);
            let reply = told(&call, scripts, now).query(redis).unwrap();
            let read = script::read_granted(&reply, asks.len());
            prop_assert_eq!(read, Some(Reply::Done((now, granted))));
            for key in names() {
                let (there, ttl_ms): (Option<Vec<u8>>, i64) =
                    redis::pipe().get(key.as_str()).pttl(key.as_str()).query(redis).unwrap();
                let there = there.map(|bytes| (stored::read(&key, &bytes), ttl_ms.unsigned_abs()));
                prop_assert_eq!(there.as_ref(), world.0.get(&key), "{}", key.as_str());
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn what_is_no_bucket_is_deleted_and_nothing_else_is_done() {
    for_all(&super::any_bytes(), |redis, scripts, bytes| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        let keys = names();
        redis.set::<_, _, ()>(keys[1].as_str(), bytes).unwrap();
        let limit = token_bucket::Limit::per_unit(5, tollgate::unit::Unit::Day);
        let ask = Ask { limit, returned: 0, since: Timestamp::default(), wanted: 3 };
        let mut answer = || {
            let now = Timestamp::from_micros(NOW_US.unsigned_abs());
            let call = Call::grant(keys.iter().collect(), &[ask; NAMES]);
            script::read_granted(&told(&call, scripts, now).query(redis).unwrap(), NAMES)
        };
        prop_assert_eq!(answer(), Some(Reply::Deleted(1)));
        prop_assert!(
            matches!(answer(), Some(Reply::Done((_, granted))) if granted[0].remaining == 2)
        );
        Ok(())
    })
    .await;
}
