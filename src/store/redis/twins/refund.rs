//! Charges that are given back after a timeout, to a limit on a rate: in Lua as in Rust.

use super::{
    World, for_all,
    history::{Asking, What, any_check, any_step, key},
    is_in, stored, told,
};
use crate::{
    clock::Timestamp,
    key::Key,
    limiter::{Limit, samples::Samples},
    refund::{Refund, refund},
    store::redis::script::{self, Call, Reply},
    verdict,
};
use proptest::prelude::*;
use redis::Commands as _;

const NOW_US: i64 = 1_800_000_000_000_000;

/// What was charged, and how long ago.
type Charge = (u64, i64);

/// A request, how much time passes before it, and what is given back after it to which state.
type Event = (i64, Asking, (usize, Vec<Charge>));

fn any_history(limits: &BoxedStrategy<Limit>) -> impl Strategy<Value = Vec<Event>> + use<> {
    // Few limits, so that a state is met by several of them, as when rules change.
    prop::collection::vec(limits.clone(), 1..3).prop_flat_map(|limits| {
        let amount = prop_oneof![1..20_u64, 1..2000_u64, any::<u32>().prop_map(u64::from)];
        let ago = prop_oneof![3 => 0..2000_i64, 1 => any_step()];
        let charges = prop::collection::vec((amount, ago), 0..3);
        let asking = any_check(prop::sample::select(limits));
        prop::collection::vec((any_step(), asking, (0..2_usize, charges)), 1..10)
    })
}

#[tokio::test]
async fn the_script_gives_back_what_rust_does() {
    for Samples { name: limiter, limits, states, .. } in Samples::of_rates() {
        let begun = prop::option::of(states);
        for_all(&(begun, any_history(&limits)), |redis, names, (begun, history)| {
            redis::cmd("FLUSHALL").exec(redis).unwrap();
            let mut world = World::default();
            if let Some(state) = begun {
                let key = key(limiter, 0);
                redis.set_ex::<_, _, ()>(key.as_str(), stored::write(state), 1).unwrap();
                world.0.insert(key, (state.clone(), 1000));
            }
            let mut now_us = NOW_US;
            for (step_us, asking, (name, charges)) in history {
                now_us += step_us;
                let now = Timestamp::from_micros(now_us.unsigned_abs());
                let question = What::Ask(vec![asking.clone()], None).question().unwrap();
                let stored = world.stored(&question.keys);
                let (answer, writes) = verdict::settle(&question, &stored, now);
                world.write(&question.keys, writes, now);
                let reply = told(&Call::request(&question), names, now).query(redis).unwrap();
                prop_assert_eq!(script::read_answer(&reply, &question), Some(Reply::Done(answer)));

                let charges = charges.iter().map(|(amount, ago_us)| {
                    (*amount, Timestamp::from_micros((now_us - ago_us).unsigned_abs()))
                });
                let refunds =
                    [Refund { limit: question.checks[0].limit, charges: charges.collect() }];
                let keys = [key(limiter, *name)];
                let (void, changes) = refund(&refunds, &world.stored(&keys), now);
                world.change(&keys, changes, now);
                let reply = told(&Call::refund(&keys, &refunds), names, now).query(redis).unwrap();
                prop_assert_eq!(script::read_refunded(&reply, 1), Some(Reply::Done(void)));
                is_in(redis, &world)?;
            }
            Ok(())
        })
        .await;
    }
}

#[tokio::test]
async fn what_is_no_state_of_a_rate_is_deleted_and_nothing_is_given_back() {
    for Samples { name: limiter, limits, broken, .. } in Samples::of_rates() {
        for_all(&(limits, broken), |redis, names, (limit, bytes)| {
            redis::cmd("FLUSHALL").exec(redis).unwrap();
            let keys: Vec<Key> = (0..2).map(|name| key(limiter, name)).collect();
            redis.set::<_, _, ()>(keys[1].as_str(), bytes).unwrap();
            let now = Timestamp::from_micros(NOW_US.unsigned_abs());
            let refund = Refund { limit: *limit, charges: vec![(1, now)] };
            let refunds = [refund.clone(), refund];
            let mut answer = || {
                let call = Call::refund(&keys, &refunds);
                script::read_refunded(&told(&call, names, now).query(redis).unwrap(), 2)
            };
            prop_assert_eq!(answer(), Some(Reply::Deleted(1)), "{}", limiter);
            prop_assert_eq!(answer(), Some(Reply::Done(vec![1, 1])));
            Ok(())
        })
        .await;
    }
}
