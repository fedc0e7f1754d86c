use super::*;
use futures_util::FutureExt as _;

fn free(budget: &Budget) -> usize {
    budget.ledger().room
}

#[test]
fn what_is_dropped_is_free_again() {
    let budget = Budget::of(100);
    let (mut first, second) = (budget.reserve(10), budget.reserve(20));
    assert_eq!(free(&budget), 70);
    first.set(40).unwrap();
    assert_eq!(free(&budget), 40);
    first.set(5).unwrap();
    drop(second);
    assert_eq!(free(&budget), 95);
    drop(first);
    assert_eq!(free(&budget), 100);
    assert_eq!(budget.revoked(), 0);
}

#[test]
fn the_oldest_reservations_make_room_and_their_owners_hear_of_it() {
    let budget = Budget::of(100);
    let mut reservations: Vec<_> = (0..10).map(|_| budget.reserve(10)).collect();
    let told = reservations[1].revoked();
    assert!(told.now_or_never().is_none());
    let newest = budget.reserve(25);
    assert_eq!(budget.revoked(), 3);
    for (place, reservation) in reservations.iter_mut().enumerate() {
        let is_revoked = reservation.revoked().now_or_never().is_some();
        assert_eq!(is_revoked, place < 3, "{place}");
        assert_eq!(reservation.set(10).is_err(), place < 3, "{place}");
    }
    assert_eq!(free(&budget), 5);
    // What was revoked counted as free before: it is not counted twice.
    drop(reservations);
    assert_eq!(free(&budget), 75);
    drop(newest);
    assert_eq!(free(&budget), 100);
}

#[test]
fn the_oldest_gives_way_itself_where_it_wants_more_than_there_is() {
    let budget = Budget::of(100);
    let (mut oldest, mut other) = (budget.reserve(50), budget.reserve(50));
    assert_eq!(oldest.set(60), Err(Revoked));
    other.set(100).unwrap();
    assert_eq!(other.set(101), Err(Revoked), "more than there is at all");
    assert_eq!(free(&budget), 100);
}

#[tokio::test]
async fn an_owner_that_waits_is_woken() {
    let budget = Budget::of(10);
    let oldest = budget.reserve(10);
    let waiting = tokio::spawn(async move { oldest.revoked().await });
    // It waits before the reservation is revoked.
    tokio::task::yield_now().await;
    let _newest = budget.reserve(1);
    assert_eq!(waiting.await.unwrap(), Revoked);
}
