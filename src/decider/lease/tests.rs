use super::*;
use crate::decider::{
    Modes,
    tests::{fresh, support::LONG},
};

/// A key of which one may be in flight.
const ALONE: &[&str] = &["alone"];

#[tokio::test]
async fn who_waits_longest_is_served_first() {
    let test = fresh(Modes::default());
    let mut id = test.hold(ALONE).await;
    let mut line = Vec::new();
    for _ in 0..5 {
        line.push(test.waiter(ALONE).await);
    }
    for waiter in line {
        test.decider.release(&id).await.unwrap();
        let (decision, taken) = waiter.await.unwrap().unwrap();
        taken.unwrap().keep();
        id = decision.lease.unwrap().id;
    }
    assert_eq!(test.waiting(), 0);
}

/// Otherwise it would be charged each time that the line moves.
#[tokio::test]
async fn who_spends_what_is_known_afterwards_does_not_wait() {
    let test = fresh(Modes::default());
    test.hold(ALONE).await;
    let (refused, _) = test.acquire(&["alone", "spent"], LONG).await;
    assert_eq!(refused.code, Code::OverLimit);
    assert_eq!(refused.statuses[1].remaining, 999);
}

#[tokio::test]
async fn what_nobody_keeps_is_given_back() {
    let test = fresh(Modes::default());
    for _ in 0..3 {
        let (decision, taken) = test.acquire(ALONE, Duration::ZERO).await;
        assert_eq!(decision.code, Code::Ok);
        drop(taken);
        test.decider.finish_releases(LONG).await;
    }
}

#[tokio::test]
async fn who_waits_is_admitted_by_the_rules_in_force_then() {
    let test = fresh(Modes::default());
    test.hold(ALONE).await;
    let waiter = test.waiter(ALONE).await;
    test.reload("max: 1,", "max: 2,");
    let (decision, taken) = waiter.await.unwrap().unwrap();
    taken.unwrap().keep();
    assert_eq!((decision.code, decision.statuses[0].remaining), (Code::Ok, 0));
}

#[tokio::test]
async fn who_waits_is_not_admitted_by_rules_that_are_gone() {
    let test = fresh(Modes::default());
    test.reload("max: 1,", "max: 2,");
    let held = [test.hold(ALONE).await, test.hold(ALONE).await];
    let waiter = test.waiter(ALONE).await;
    test.reload("max: 1,", "max: 1, ");
    // After the first there is room for him where two may be in flight, after the second where one may.
    for id in held {
        test.decider.release(&id).await.unwrap();
        tokio::task::yield_now().await;
    }
    let (decision, taken) = waiter.await.unwrap().unwrap();
    taken.unwrap().keep();
    assert_eq!(decision.statuses[0].limit.as_ref().unwrap().requests_per_unit, 1);
}

#[tokio::test]
async fn who_waits_in_a_domain_that_goes_is_told_so() {
    let test = fresh(Modes::default());
    test.hold(ALONE).await;
    let waiter = test.waiter(ALONE).await;
    test.reload("domain: test", "domain: other");
    assert!(matches!(waiter.await.unwrap(), Err(NotAcquired::UnknownDomain(_))));
    assert_eq!(test.waiting(), 0);
}

#[tokio::test]
async fn nobody_who_waits_keeps_rules_that_are_gone() {
    let test = fresh(Modes::default());
    test.hold(ALONE).await;
    let _line = [test.waiter(ALONE).await, test.waiter(ALONE).await, test.waiter(ALONE).await];
    let replaced = test.reload("max: 1,", "max: 1, ");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(test.waiting(), 3);
    assert_eq!(Arc::strong_count(&replaced), 1);
}
