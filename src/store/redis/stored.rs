//! What stands under keys in Redis, as the files in `lua/` describe it: read for people, never to decide.

use crate::{
    clock::Timestamp,
    key::Key,
    lease::{Attempt, Bucket, Entry, Fingerprint, Hold, InFlight, Kind, Record, Slots, Term},
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

/// Reads the state of a limit, what a worker said, or the record of a lease, under a key of this name. `None` where
/// it is none.
pub fn read(key: &Key, stored: &[u8]) -> Option<State> {
    if key.lease().is_some() {
        return Some(State::Lease(Box::new(read_record(stored)?)));
    }
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

/// Reads the record of a lease, as `lua/lease/record.lua` describes it.
fn read_record(mut stored: &[u8]) -> Option<Record> {
    let mut entries = Vec::new();
    while !stored.is_empty() {
        entries.push(read_entry(&mut stored)?);
    }
    (!entries.is_empty()).then_some(Record { entries })
}

fn read_entry(bytes: &mut &[u8]) -> Option<Entry> {
    let [kind, repeated] = take(bytes)?;
    let deadline = take_instant(bytes)?;
    let (term_us, attempt) = (take_count(bytes)?, take_count(bytes)?);
    let fingerprint = match take(bytes)? {
        [0] => None,
        [16] => Some(Fingerprint(take(bytes)?)),
        _ => return None,
    };
    let count = u16::from_le_bytes(take(bytes)?);
    let holds = (0..count).map(|_| read_hold(bytes)).collect::<Option<Vec<Hold>>>()?;
    Some(Entry {
        kind: Kind::of_number(kind)?,
        deadline,
        attempt: Attempt::read(attempt),
        is_repeated: match repeated {
            0 => false,
            1 => true,
            _ => return None,
        },
        term: (term_us > 0).then(|| Term::of_micros(term_us))?,
        fingerprint,
        holds,
    })
}

fn read_hold(bytes: &mut &[u8]) -> Option<Hold> {
    let since = take_instant(bytes)?;
    let slots = Slots { critical: take_count(bytes)?, others: take_count(bytes)? };
    let length = u16::from_le_bytes(take(bytes)?);
    let (key, rest) = bytes.split_at_checked(length.into())?;
    *bytes = rest;
    Some(Hold { key: Key::read(str::from_utf8(key).ok()?), since, slots })
}

fn take<const COUNT: usize>(bytes: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// Takes one double that is a count.
fn take_count(bytes: &mut &[u8]) -> Option<u64> {
    Numbers([take(bytes)?].iter()).count()
}

fn take_instant(bytes: &mut &[u8]) -> Option<Timestamp> {
    take_count(bytes).map(Timestamp::from_micros)
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
