//! What rules in shadow did, as `lua/shadow.lua` keeps it: written by the script, read by GET.

use super::{Redis, script, script::Call, stored};
use crate::{
    clock::Timestamp,
    key::Key,
    limiter::Numbers,
    shadow::{Counter, Counts, PLACES, Seen, Slot, Slots, Top},
    store::StoreError,
};
use redis::Value;
use std::time::Duration;

/// How long it may take to tell it: nobody waits, and what was told in vain is lost.
const LONGEST_TOLD: Duration = Duration::from_secs(5);

/// How long it may take to read it: an operator waits, and no request.
const LONGEST_READ: Duration = Duration::from_secs(1);

/// The bytes of a counter, before its key.
const COUNTER: usize = 18;

impl Redis {
    /// Adds what a rule in shadow did.
    ///
    /// # Errors
    ///
    /// As for [`Redis::decide`], but it waits for longer.
    pub async fn tell_shadow(&self, rule: &str, seen: &Seen) -> Result<(), StoreError> {
        let keys = Key::of_shadow(rule);
        self.way.ask_patiently(&Call::shadow(&keys, seen), script::read_added, LONGEST_TOLD).await
    }

    /// What a rule in shadow did of late, and the time by Redis's clock. What is nothing of the kind counts as
    /// nothing.
    ///
    /// # Errors
    ///
    /// Where Redis cannot be asked.
    pub async fn shadow(&self, rule: &str) -> Result<(Timestamp, Slots), StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("TIME");
        for key in Key::of_shadow(rule) {
            pipe.cmd("GET").arg(key.as_str());
        }
        let replies = self.all_of(&pipe, LONGEST_READ.max(self.way.timeout())).await?;
        read_all(&replies)
            .ok_or_else(|| StoreError::Refused("the reply is not what was asked for".to_owned()))
    }
}

/// Reads the replies to TIME, and to a GET for each slot. `None` where they are none.
fn read_all(replies: &[Value]) -> Option<(Timestamp, Slots)> {
    let (time, values) = replies.split_first()?;
    let mut values = values.iter();
    let mut read_next = || match values.next() {
        Some(Value::BulkString(bytes)) => read(bytes),
        _ => None,
    };
    let slots = [(); PLACES].map(|()| read_next());
    Some((stored::read_time(time)?, Slots::of(slots)))
}

/// Reads a slot. `None` where it is none.
pub fn read(stored: &[u8]) -> Option<Slot> {
    let (counts, mut rest) = stored.split_at_checked(32)?;
    let mut numbers = Numbers::of(counts)?;
    let number = numbers.count()?;
    let (allowed, would_refuse, degraded) = (numbers.count()?, numbers.count()?, numbers.count()?);
    let mut top = Vec::new();
    while !rest.is_empty() {
        let (head, behind) = rest.split_at_checked(COUNTER)?;
        let (numbers, length) = head.split_at_checked(16)?;
        let mut numbers = Numbers::of(numbers)?;
        let length = u16::from_le_bytes(length.try_into().ok()?);
        let (key, behind) = behind.split_at_checked(length.into())?;
        let key = std::str::from_utf8(key).ok()?.into();
        top.push(Counter { key, count: numbers.count()?, error: numbers.count()? });
        rest = behind;
    }
    let counts = Counts { allowed, would_refuse, degraded };
    Some(Slot { number, seen: Seen { counts, top: Top::of(top)? } })
}

/// Writes what a rule did, as the script is told of it.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(super) fn write(seen: &Seen) -> Vec<u8> {
    let Counts { allowed, would_refuse, degraded } = seen.counts;
    let mut bytes = Vec::new();
    let push = |bytes: &mut Vec<u8>, number: u64| bytes.extend((number as f64).to_le_bytes());
    for count in [allowed, would_refuse, degraded] {
        push(&mut bytes, count);
    }
    for Counter { key, count, error } in seen.top.counters() {
        // No path of a state is longer, see `Key::new`.
        let Ok(length) = u16::try_from(key.len()) else { continue };
        push(&mut bytes, *count);
        push(&mut bytes, *error);
        bytes.extend(length.to_le_bytes());
        bytes.extend(key.as_bytes());
    }
    bytes
}
