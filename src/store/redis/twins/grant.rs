//! Tokens handed out ahead of need, what is left of them given back, and charges given back after a timeout: in Lua as in
//! Rust.

use super::{
    World, for_all,
    history::{any_step, key},
    stored, told,
};
use crate::{
    clock::Timestamp,
    grant::{Ask, Change, grant},
    key::Key,
    limiter::{
        Cost, Limit, State,
        samples::SampledRate as _,
        token_bucket::{self, Ledger, Returned},
    },
    refund::{Refund, refund},
    store::redis::script::{self, Call, Reply},
    unit::Unit,
    verdict::{self, Check, Question, Write},
};
use proptest::prelude::*;
use redis::Commands as _;
use std::{collections::BTreeMap, num::NonZeroU64};

const NOW_US: i64 = 1_800_000_000_000_000;

/// How many buckets there are.
const NAMES: usize = 3;

/// What comes back: so many tokens, by one of the last claims on the bucket or by when they were charged, so long ago.
type Comes = (u64, Option<usize>, i64);

/// What is asked of a bucket, or what a request takes there.
#[derive(Debug, Clone)]
struct Asking {
    limit: token_bucket::Limit,
    returned: Vec<Comes>,
    wanted: u64,
    /// A request, which is decided first.
    cost: Option<Cost>,
}

fn any_asking(limits: Vec<token_bucket::Limit>) -> impl Strategy<Value = Asking> {
    let count = || prop_oneof![Just(0), 0..20_u64, 0..2000_u64, any::<u32>().prop_map(u64::from)];
    let claim = prop::option::weighted(0.7, 0..3_usize);
    let ago = prop_oneof![3 => 0..2000_i64, 1 => any_step()];
    let returned = prop::collection::vec((count(), claim, ago), 0..3);
    let cost = prop_oneof![
        count().prop_map(|count| Cost::Take(count.max(1))),
        count().prop_map(Cost::Refund)
    ];
    let cost = prop::option::weighted(0.4, cost);
    (prop::sample::select(limits), returned, count(), cost)
        .prop_map(|(limit, returned, wanted, cost)| Asking { limit, returned, wanted, cost })
}

/// Some of the buckets, and what is asked of each.
type Asks = BTreeMap<usize, Asking>;

fn any_asks() -> impl Strategy<Value = Vec<(i64, Asks)>> {
    // Few limits, so that a bucket is met by several of them, as when rules change.
    let limits = prop::collection::vec(token_bucket::Limit::any(), 1..3);
    limits.prop_flat_map(|limits| {
        let asks = prop::collection::btree_map(0..NAMES, any_asking(limits), 1..=NAMES);
        prop::collection::vec((any_step(), asks), 1..10)
    })
}

fn names() -> Vec<Key> {
    (0..NAMES).map(|name| key("token_bucket", name)).collect()
}

/// What is known of what the buckets have handed out: the last claims on each.
#[derive(Default)]
struct Claims(BTreeMap<usize, Vec<Ledger>>);

impl Claims {
    fn ask(&self, name: usize, asking: &Asking, drawn: u64) -> Ask {
        let known = self.0.get(&name).map_or(&[][..], Vec::as_slice);
        let returned = asking.returned.iter().filter_map(|(tokens, claim, _)| {
            let ledger = claim.and_then(|back| known.iter().rev().nth(back));
            Some(Returned { tokens: *tokens, ledger: *ledger? })
        });
        let drawn = NonZeroU64::new(drawn).unwrap();
        Ask { limit: asking.limit, returned: returned.collect(), wanted: asking.wanted, drawn }
    }
}

/// What is given back of what was charged without a claim, to the same buckets.
fn refunds(asks: &Asks, now_us: i64) -> Vec<Refund> {
    let refunds = asks.values().map(|Asking { limit, returned, .. }| {
        let charges = returned.iter().filter(|(_, claim, _)| claim.is_none());
        let charges = charges.map(|(tokens, _, ago_us)| {
            (*tokens, Timestamp::from_micros((now_us - ago_us).unsigned_abs()))
        });
        Refund { limit: Limit::TokenBucket(*limit), charges: charges.collect() }
    });
    refunds.collect()
}

impl World {
    /// Takes over what has become of buckets.
    pub(super) fn change(&mut self, keys: &[Key], changes: Vec<Option<Change>>, now: Timestamp) {
        for (slot, change) in changes.into_iter().enumerate() {
            match change {
                Some(Change::Written(kept)) => {
                    self.write(keys, [Write { slot, kept: Some(kept), is_extension: false }], now)
                }
                Some(Change::Credited(state)) => self.0.get_mut(&keys[slot]).unwrap().0 = state,
                Some(Change::Forgotten) => drop(self.0.remove(&keys[slot])),
                Some(Change::Extended(fresh_at)) => self.extend(&keys[slot], fresh_at, now),
                None => {}
            }
        }
    }
}

#[tokio::test]
async fn the_script_hands_out_and_takes_back_what_rust_does() {
    let first = token_bucket::Limit::any_state()
        .prop_map(|state| (key("token_bucket", 0), State::TokenBucket(state)));
    for_all(&(prop::option::of(first), any_asks()), |redis, scripts, (first, history)| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        let (mut world, mut claims, mut drawn) = (World::default(), Claims::default(), 0);
        if let Some((key, state)) = first {
            redis.set_ex::<_, _, ()>(key.as_str(), stored::write(state), 1).unwrap();
            world.0.insert(key.clone(), (state.clone(), 1000));
        }
        let mut now_us = NOW_US;
        for (step_us, asks) in history {
            now_us += step_us;
            let now = Timestamp::from_micros(now_us.unsigned_abs());
            let keys: Vec<Key> = asks.keys().map(|name| key("token_bucket", *name)).collect();
            let checks = asks.values().enumerate().filter_map(|(slot, asking)| {
                Some(Check::of(slot, Limit::TokenBucket(asking.limit), asking.cost?))
            });
            let question = Question::new(keys.clone(), checks.collect());
            let (answer, writes) = verdict::settle(&question, &world.stored(&keys), now);
            world.write(&keys, writes, now);
            let reply = told(&Call::request(&question), scripts, now).query(redis).unwrap();
            prop_assert_eq!(script::read_answer(&reply, &question), Some(Reply::Done(answer)));
            let refunds = refunds(asks, now_us);
            let asks: Vec<(usize, Ask)> = asks
                .iter()
                .map(|(name, asking)| {
                    drawn += 1;
                    (*name, claims.ask(*name, asking, drawn))
                })
                .collect();
            let (names_asked, asks): (Vec<usize>, Vec<Ask>) = asks.into_iter().unzip();
            let (granted, changes) = grant(&asks, &world.stored(&keys), now);
            world.change(&keys, changes, now);
            for (name, granted) in names_asked.iter().zip(&granted) {
                claims.0.entry(*name).or_default().extend(granted.ledger);
            }
            let call = Call::grant(keys.iter().collect(), &asks.iter().collect::<Vec<_>>());
            let reply = told(&call, scripts, now).query(redis).unwrap();
            let read = script::read_granted(&reply, asks.len());
            prop_assert_eq!(read, Some(Reply::Done(granted)));
            let (void, changes) = refund(&refunds, &world.stored(&keys), now);
            world.change(&keys, changes, now);
            let reply = told(&Call::refund(&keys, &refunds), scripts, now).query(redis).unwrap();
            prop_assert_eq!(script::read_refunded(&reply, keys.len()), Some(Reply::Done(void)));
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
    for_all(&token_bucket::Limit::any_broken(), |redis, scripts, bytes| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        let keys = names();
        redis.set::<_, _, ()>(keys[1].as_str(), bytes).unwrap();
        let limit = token_bucket::Limit::per_unit(5, Unit::Day);
        let ask = Ask { limit, returned: Vec::new(), wanted: 3, drawn: NonZeroU64::MIN };
        let mut answer = || {
            let now = Timestamp::from_micros(NOW_US.unsigned_abs());
            let call = Call::grant(keys.iter().collect(), &[&ask; NAMES]);
            script::read_granted(&told(&call, scripts, now).query(redis).unwrap(), NAMES)
        };
        prop_assert_eq!(answer(), Some(Reply::Deleted(1)));
        prop_assert!(matches!(answer(), Some(Reply::Done(granted)) if granted[0].remaining == 2));
        Ok(())
    })
    .await;
}
