//! What a rule did, told apart by the values that led to it: only where the rule asks for it, and only for so many
//! values. What callers make up is theirs, but what is kept of it is bounded: beyond that, it counts as others.
//!
//! To count is to look up a table that is replaced as a whole when a value is new to it, which happens as often as
//! there is room for values. Nobody waits for anybody.

#[cfg(test)]
mod tests;

use super::{tally::Tally, tree::Step};
use crate::request::Entry;
use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The most values that are told apart of one rule.
pub const MOST_VALUES: usize = 1_000;

/// The most of all rules of the process together.
pub const MOST_VALUES_OF_ALL: usize = 10_000;

/// What stands for all others.
pub const OTHERS: &str = "(other)";

/// The longest value that is told as it is, in bytes. Of a longer one this much is told, and then a digest.
const LONGEST_VALUE: usize = 64;

/// How many values all rules together tell apart.
pub(super) type Room = Arc<AtomicUsize>;

/// What a rule did, by values.
#[derive(Debug)]
pub struct ByValue {
    known: ArcSwap<HashMap<Box<str>, Arc<Tally>>>,
    others: Arc<Tally>,
    room: Room,
}

impl ByValue {
    pub(super) fn new(room: &Room) -> Self {
        let (known, others) = (ArcSwap::default(), Arc::default());
        Self { known, others, room: Arc::clone(room) }
    }

    /// The tally of these values, see [`Values::text`].
    pub(super) fn tally(&self, values: &str) -> Arc<Tally> {
        let known = self.known.load();
        if let Some(tally) = known.get(values) {
            return Arc::clone(tally);
        }
        if known.len() >= MOST_VALUES || !self.has_taken_room() {
            return Arc::clone(&self.others);
        }
        let tally = Arc::new(Tally::default());
        let before = self.known.rcu(|known| {
            let mut known = HashMap::clone(known);
            known.entry(values.into()).or_insert_with(|| Arc::clone(&tally));
            known
        });
        if let Some(tally) = before.get(values) {
            // Somebody else was faster.
            self.room.fetch_sub(1, Ordering::Relaxed);
            return Arc::clone(tally);
        }
        tally
    }

    fn has_taken_room(&self) -> bool {
        let taken = self.room.fetch_add(1, Ordering::Relaxed);
        if taken >= MOST_VALUES_OF_ALL {
            self.room.fetch_sub(1, Ordering::Relaxed);
        }
        taken < MOST_VALUES_OF_ALL
    }

    /// Calls this with the values and the tally of each that is known, and of all others.
    pub fn each(&self, mut tell: impl FnMut(&str, &Tally)) {
        self.known.load().iter().for_each(|(values, tally)| tell(values, tally));
        tell(OTHERS, &self.others);
    }
}

impl Drop for ByValue {
    fn drop(&mut self) {
        self.room.fetch_sub(self.known.load().len(), Ordering::Relaxed);
    }
}

/// Which values of a request are told of a rule.
#[derive(Debug)]
pub(super) struct Values {
    /// Of each entry that leads to it.
    columns: Box<[Column]>,
}

/// What is told of one entry.
#[derive(Debug)]
struct Column {
    /// Its key, escaped, where anything is.
    key: Option<Box<str>>,
    /// What stands for its value, where not the value itself: the wildcard whose matches share one counter.
    shared: Option<Box<str>>,
}

impl Values {
    /// Those of a rule that these steps lead to: all where it is `detailed`, else those whose descriptors want it.
    /// `None` where nothing is told.
    pub(super) fn of(steps: &[Step], is_detailed: bool) -> Option<Self> {
        let columns = steps.iter().map(|step| Column {
            key: (is_detailed || step.value_to_metric).then(|| escaped(step.key.as_bytes()).into()),
            shared: step.value.as_deref().filter(|_| step.is_shared).map(|pattern| {
                let mut parts = pattern.split('*').map(|part| escaped(part.as_bytes()));
                let first = parts.next().unwrap_or_default();
                parts.fold(first, |text, part| format!("{text}*{part}")).into()
            }),
        });
        let columns: Box<[Column]> = columns.collect();
        columns.iter().any(|column| column.key.is_some()).then_some(Self { columns })
    }

    /// Those of a request, such as `plan=free,user=alice`: printable ASCII, of which two different ones differ.
    pub(super) fn text(&self, entries: &[Entry]) -> String {
        let mut text = String::new();
        for (column, entry) in self.columns.iter().zip(entries) {
            let Some(key) = &column.key else { continue };
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(key);
            text.push('=');
            match &column.shared {
                Some(pattern) => text.push_str(pattern),
                None => push_value(&entry.value, &mut text),
            }
        }
        text
    }
}

fn push_value(value: &[u8], text: &mut String) {
    match value.get(..LONGEST_VALUE) {
        Some(beginning) if value.len() > LONGEST_VALUE => {
            escape(beginning, text);
            text.push('~');
            for byte in Sha256::digest(value).iter().take(8) {
                let _ = write!(text, "{byte:02x}");
            }
        }
        _ => escape(value, text),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    escape(bytes, &mut text);
    text
}

/// Writes what is not printable ASCII, and what means something here, as in keys of states.
fn escape(bytes: &[u8], text: &mut String) {
    for &byte in bytes {
        let is_special = matches!(byte, b'%' | b',' | b'=' | b'~' | b'*' | b'"' | b'\\');
        if byte.is_ascii_graphic() && !is_special {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
}
