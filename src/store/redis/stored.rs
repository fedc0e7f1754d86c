//! What stands under keys in Redis, as the files in `lua/` describe it: read for people, never to decide.

use crate::{
    clock::Timestamp,
    key::Key,
    lease::{Attempt, Entry, Fingerprint, Hold, Kind, Record, Slots, Term},
    limiter::{Numbers, State},
    worker::{self, Worker},
};
use redis::Value;

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
        "worker" => {
            let (since, deadline) = (numbers.instant()?, numbers.instant()?);
            let slots = numbers.count()?.try_into().ok()?;
            let utilization = numbers.count()?.try_into().ok()?;
            let measured = worker::Instant::of_micros(numbers.count()?);
            State::Worker(Worker::of_parts(since, deadline, (slots, utilization), measured)?)
        }
        limiter => State::read(limiter, &mut numbers)?,
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
    Numbers::of(&take::<8>(bytes)?)?.count()
}

fn take_instant(bytes: &mut &[u8]) -> Option<Timestamp> {
    take_count(bytes).map(Timestamp::from_micros)
}
