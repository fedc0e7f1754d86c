use super::*;
use crate::{
    grant::{Ask, grant},
    limiter::{
        Cost,
        token_bucket::{self, Grants, Rate},
    },
    unit::Unit,
    verdict::Kept,
};
use proptest::prelude::*;
use std::{num::NonZeroU64, slice};

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const SECOND: u64 = 1_000_000;

fn per(tokens: u32, unit: Unit, burst: u32) -> token_bucket::Limit {
    token_bucket::Limit::new(Rate::per(tokens, unit), burst)
}

/// A state where it is shared.
#[derive(Default, Clone)]
struct Bucket(Option<State>);

impl Bucket {
    fn take(&mut self, limit: token_bucket::Limit, tokens: u64, now: Timestamp) -> bool {
        let checked = Limit::TokenBucket(limit).check(self.0.as_ref(), now, Cost::Take(tokens));
        self.0 = checked.state.or(self.0.take());
        checked.over.is_none()
    }

    fn change(&mut self, change: Option<Change>) {
        match change {
            Some(Change::Written(Kept { state, .. }) | Change::Credited(state)) => {
                self.0 = Some(state);
            }
            Some(Change::Forgotten) => self.0 = None,
            Some(Change::Extended(_)) | None => {}
        }
    }

    /// Gives back a charge. Whether it is given back.
    fn refund(
        &mut self,
        limit: token_bucket::Limit,
        charge: (u64, Timestamp),
        now: Timestamp,
    ) -> bool {
        let refunds = [Refund { limit: Limit::TokenBucket(limit), charges: vec![charge] }];
        let (void, mut changes) = refund(&refunds, slice::from_ref(&self.0), now);
        self.change(changes.remove(0));
        void == [0]
    }
}

/// It waits for up to half a minute until it is made, and meanwhile the bucket refills.
#[test]
fn a_late_refund_brings_nothing_back_twice_however_late_it_is() {
    let limit = per(9, Unit::Second, 10);
    let mut bucket = Bucket::default();
    assert!(bucket.take(limit, 9, NOW));
    let later = NOW + SECOND;
    assert!(bucket.take(limit, 10, later));
    bucket.refund(limit, (9, NOW), later);
    assert!(!bucket.take(limit, 1, later), "19 of 10");
    // What is refilled is rounded up to the finest unit.
    let (limit, mut bucket) = (per(3, Unit::Second, 10), Bucket::default());
    assert!(bucket.take(limit, 10, NOW));
    bucket.refund(limit, (10, NOW), NOW + 1);
    assert!(!bucket.take(limit, 10, NOW), "one microsecond of refill was not credited");
    assert!(bucket.take(limit, 9, NOW));
}

#[test]
fn a_late_refund_is_void_where_anything_has_changed_since() {
    let limit = per(10, Unit::Day, 10);
    let mut bucket = Bucket::default();
    assert!(bucket.take(limit, 3, NOW));
    let is_void = |bucket: &Bucket, limit, charge, now| !bucket.clone().refund(limit, charge, now);
    assert!(!is_void(&bucket, limit, (3, NOW), NOW));
    assert!(is_void(&bucket, limit, (4, NOW), NOW), "less is used than it was charged");
    assert!(is_void(&bucket, per(10, Unit::Hour, 10), (3, NOW), NOW), "another unit");
    assert!(is_void(&bucket, limit.with_overdraw(), (3, NOW), NOW));
    let before = Timestamp::from_micros(NOW.as_micros() - 1);
    assert!(is_void(&bucket, limit, (3, NOW), before), "the clock was set back");
    assert!(is_void(&bucket, limit, (3, before), before), "the state is ahead of it");
    assert!(is_void(&Bucket::default(), limit, (3, NOW), NOW), "it is gone");
    // A ledger that began after the charge.
    let limit = limit.with_grants(Some(Grants::DEFAULT));
    let ask = Ask { limit, returned: Vec::new(), wanted: 2, drawn: NonZeroU64::MIN };
    let (_, mut changes) = grant(&[ask], slice::from_ref(&bucket.0), NOW);
    bucket.change(changes.remove(0));
    assert!(is_void(&bucket, limit, (3, NOW), NOW));
    assert!(!is_void(&bucket, limit, (2, NOW), NOW));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Of requests that were charged and refused, each is given back what it was charged, whenever.
    #[test]
    fn however_late_refunds_are_no_more_is_admitted_than_the_bound(
        (rate, burst) in (1..10_u32, 1..12_u32),
        steps in prop::collection::vec((0..400_000_u64, 1..12_u64, 0..4_u8), 1..60),
    ) {
        let limit = per(rate, Unit::Second, burst);
        let (mut bucket, mut now) = (Bucket::default(), NOW);
        let mut late = std::collections::VecDeque::new();
        // What any stretch of time that ends now has had above what arrived in it.
        let mut above = 0;
        for (wait_us, tokens, what) in steps {
            now = now + wait_us;
            above = u64::saturating_sub(above, wait_us * u64::from(rate));
            match what {
                0 if bucket.take(limit, tokens, now) => late.push_back((tokens, now)),
                1 => {
                    if let Some((tokens, at)) = late.pop_front() {
                        bucket.refund(limit, (tokens, at), now);
                    }
                }
                _ if bucket.take(limit, tokens, now) => above += tokens * SECOND,
                _ => {}
            }
            prop_assert!(above <= u64::from(burst) * SECOND, "{above}");
        }
    }
}
