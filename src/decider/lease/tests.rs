use super::*;
use crate::decider::{
    Modes,
    tests::{fresh, support::LONG},
};

/// A key of which one may be in flight.
const ALONE: &[&str] = &["alone"];

/// What is left of a delay, and how much of it was waited for, by a caller who waits for so long.
async fn sit_out(wait_us: u64, mut delay_us: u64) -> (u64, u64) {
    let wait = Duration::from_micros(wait_us);
    let over = std::pin::pin!(time::sleep(wait));
    let until = Deadline::after(wait);
    let mut waiting = Waiting { until, over, is_over: false, place: None, listening: None };
    let before = Deadline::after(LONG);
    let waited_us = waiting.sit_out(&mut delay_us).await;
    let left = before.left().unwrap();
    assert_eq!((LONG - left).as_micros(), u128::from(waited_us));
    (delay_us, waited_us)
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_waited_for_as_long_as_the_wait_is_and_the_rest_is_told() {
    assert_eq!(sit_out(1_000_000, 250_000).await, (0, 250_000));
    assert_eq!(sit_out(1_000_000, 1_002_000).await, (2_000, 1_000_000));
    assert_eq!(sit_out(0, 250_000).await, (250_000, 0));
    assert_eq!(sit_out(1_000_000, 0).await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_delay_holds_up_nobody_in_line() {
    let test = fresh(Modes::default());
    let mut place = test.decider.store().queues().join().unwrap();
    place.stand(vec![Key::read("one")]);
    let over = std::pin::pin!(time::sleep(LONG));
    let until = Deadline::after(LONG);
    let mut waiting = Waiting { until, over, is_over: false, place: Some(place), listening: None };
    let mut delay_us = 1_000_000;
    let sitting = waiting.sit_out(&mut delay_us);
    tokio::pin!(sitting);
    assert!(crate::clock::at_once(sitting.as_mut()).await.is_none());
    assert_eq!(test.waiting(), 0);
    sitting.await;
}

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
