//! The last minute, hour and day of a limit in shadow, in slots of time.
//!
//! A window is six slots, the last of which has not ended. So it reaches back for five sixths of its time at
//! least: "the last hour" is 50 to 60 minutes. Slots are counted from the origin of the store's clock, so that
//! all processes that use it mean the same ones.

#[cfg(test)]
mod tests;

use super::{Counts, Seen};
use crate::clock::Timestamp;
use std::{cmp::Reverse, collections::HashMap};

/// How many slots a window has.
const SLOTS: u64 = 6;

/// How many slots of a limit there are: those of the minute, of the hour, and of the day.
pub const PLACES: usize = Window::ALL.len() * SLOTS as usize;

/// How far back a report looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// A minute, by ten seconds.
    Minute,
    /// An hour, by ten minutes.
    Hour,
    /// A day, by four hours.
    Day,
}

impl Window {
    /// All of them, the shortest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|window| window.name() == name)
    }

    /// How long one of its slots is, in microseconds.
    const fn slot_us(self) -> u64 {
        match self {
            Self::Minute => 10_000_000,
            Self::Hour => 600_000_000,
            Self::Day => 14_400_000_000,
        }
    }

    /// The number of the slot in which an instant lies.
    const fn slot(self, now: Timestamp) -> u64 {
        now.as_micros() / self.slot_us()
    }

    /// Where its slot of this number stands among all, the first place being 0. Those that are six slots apart
    /// share a place.
    const fn place(self, slot: u64) -> usize {
        self as usize * SLOTS as usize + (slot % SLOTS) as usize
    }

    /// All places, each by the name of its window and its number there.
    pub fn places() -> impl Iterator<Item = (&'static str, u64)> {
        Self::ALL.into_iter().flat_map(|window| (0..SLOTS).map(move |slot| (window.name(), slot)))
    }
}

/// What a limit did during one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Which it is.
    pub number: u64,
    /// What it did.
    pub seen: Seen,
}

/// What a limit did of late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots([Option<Slot>; PLACES]);

impl Default for Slots {
    fn default() -> Self {
        Self([const { None }; PLACES])
    }
}

impl Slots {
    /// These, each in its place.
    pub const fn of(slots: [Option<Slot>; PLACES]) -> Self {
        Self(slots)
    }

    /// Those in all places.
    pub const fn all(&self) -> &[Option<Slot>; PLACES] {
        &self.0
    }

    /// Adds what it did just now. `lua/shadow.lua` does the same.
    pub fn add(&mut self, seen: &Seen, now: Timestamp) {
        for window in Window::ALL {
            let number = window.slot(now);
            let Some(place) = self.0.get_mut(window.place(number)) else { continue };
            match place {
                Some(slot) if slot.number == number => slot.seen.add(seen),
                _ => *place = Some(Slot { number, seen: seen.clone() }),
            }
        }
    }

    /// What it did in a window: how many requests, and who would have been refused how often at least, the
    /// heaviest first.
    pub fn over(&self, window: Window, now: Timestamp) -> (Counts, Vec<(Box<str>, u64)>) {
        let (mut counts, mut keys) = (Counts::default(), HashMap::<&str, u64>::new());
        for slot in self.live(window, now) {
            counts += slot.seen.counts;
            for counter in slot.seen.top.counters() {
                let sum = keys.entry(&counter.key).or_default();
                *sum = sum.saturating_add(counter.at_least());
            }
        }
        let keys = keys.into_iter().filter(|(_, count)| *count > 0);
        let mut keys: Vec<(Box<str>, u64)> = keys.map(|(key, count)| (key.into(), count)).collect();
        keys.sort_by(|(key, count), (other, others)| {
            (Reverse(count), key).cmp(&(Reverse(others), other))
        });
        (counts, keys)
    }

    /// Whether all of it is older than a day.
    pub fn are_over(&self, now: Timestamp) -> bool {
        self.live(Window::Day, now).next().is_none()
    }

    /// The slots of a window that lie in it. Those to come were written by a clock that has been set back.
    fn live(&self, window: Window, now: Timestamp) -> impl Iterator<Item = &Slot> {
        let current = window.slot(now);
        let first = current.saturating_sub(SLOTS - 1);
        (first..=current).filter_map(move |number| {
            let slot = self.0.get(window.place(number))?.as_ref()?;
            (slot.number == number).then_some(slot)
        })
    }
}
