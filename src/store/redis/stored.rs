//! What stands under keys in Redis, as the files in `lua/` describe it: read for people, never to decide.

use crate::{
    clock::Timestamp,
    key::Key,
    lease::{Bucket, InFlight, Slots},
    limiter::{
        State,
        token_bucket::{self, Ledger},
    },
    worker::{self, Counts, Worker, Workers},
};
use redis::Value;
use std::num::NonZeroU64;

/// The largest number that stands there.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// Reads the replies to TIME, and to a GET for each key. `None` where they are none.
pub(super) fn read_all(keys: &[Key], replies: &[Value]) -> Option<(Timestamp, Vec<Option<State>>)> {
    let (time, values) = replies.split_first()?;
    let states = keys.iter().zip(values).map(|(key, value)| match value {
        Value::BulkString(bytes) => read(key, bytes),
        _ => None,
    });
    Some((read_time(time)?, states.collect()))
}

/// Reads the reply to TIME.
pub(super) fn read_time(reply: &Value) -> Option<Timestamp> {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(reply.clone()).ok()?;
    Some(Timestamp::from_micros(seconds * 1_000_000 + micros))
}

/// Reads the state of a limit, or what a worker said, under a key of this name. `None` where it is none. What
/// leases hold is not read here.
pub fn read(key: &Key, stored: &[u8]) -> Option<State> {
    let mut numbers = Numbers::of(stored)?;
    let state = match key.limiter()? {
        "token_bucket" => State::TokenBucket(token_bucket::State {
            used: numbers.count()?,
            updated: numbers.instant()?,
            grains_per_token: numbers.count()?,
            ledger: match numbers.are_over() {
                true => None,
                false => Some(Ledger {
                    since: NonZeroU64::new(numbers.count()?)?,
                    charged: numbers.count()?,
                }),
            },
        }),
        "concurrency" | "fleet" => {
            let (since, mut buckets) = (numbers.instant()?, Vec::new());
            while !numbers.are_over() {
                let deadline = numbers.instant()?;
                let slots = Slots { critical: numbers.count()?, others: numbers.count()? };
                buckets.push(Bucket { deadline, slots });
            }
            State::InFlight(Box::new(InFlight { since, buckets }))
        }
        "utilization" => {
            let (since, updated) = (numbers.instant()?, numbers.instant()?);
            let (pressure, shed_all_after_us) = (numbers.whole()?, numbers.count()?);
            let (workers, slots, load) = (numbers.count()?, numbers.count()?, numbers.count()?);
            let (sum, first) = (Counts { workers, slots, load }, numbers.instant()?);
            let (held, held_until) = (numbers.count()?, numbers.instant()?);
            let mut buckets = Vec::new();
            while !numbers.are_over() {
                let deadline = numbers.instant()?;
                let (workers, slots, load) = (numbers.count()?, numbers.count()?, numbers.count()?);
                buckets.push(worker::Bucket { deadline, counts: Counts { workers, slots, load } });
            }
            let state =
                Workers { since, updated, pressure, shed_all_after_us, held, held_until, buckets };
            let is_first = state.buckets.first().is_some_and(|bucket| bucket.deadline == first);
            if !is_first || state.counts() != sum || !state.is_plausible() {
                return None;
            }
            State::Workers(Box::new(state))
        }
        "worker" => {
            let (since, deadline) = (numbers.instant()?, numbers.instant()?);
            let slots = numbers.count()?.try_into().ok()?;
            let utilization = numbers.count()?.try_into().ok()?;
            let measured = worker::Instant::of_micros(numbers.count()?);
            State::Worker(Worker::of_parts(since, deadline, (slots, utilization), measured)?)
        }
        _ => return None,
    };
    numbers.are_over().then_some(state)
}

/// Little-endian doubles, all of them whole.
pub(super) struct Numbers<'a>(std::slice::Iter<'a, [u8; 8]>);

impl<'a> Numbers<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks();
        rest.is_empty().then(|| Self(numbers.iter()))
    }

    fn are_over(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    fn whole(&mut self) -> Option<i64> {
        let number = f64::from_le_bytes(*self.0.next()?);
        #[expect(clippy::cast_possible_truncation, reason = "whole, and at most 2^53")]
        (number.fract() == 0.0 && number.abs() <= LARGEST).then_some(number as i64)
    }

    pub(super) fn count(&mut self) -> Option<u64> {
        self.whole()?.try_into().ok()
    }

    fn instant(&mut self) -> Option<Timestamp> {
        self.count().map(Timestamp::from_micros)
    }
}
