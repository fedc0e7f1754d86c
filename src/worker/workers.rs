//! The workers of a pool, all together: what stands in a store under one key.
//!
//! Reports are counted by the instant until which they are fresh, on steps of time, as slots are (see
//! [`crate::lease::InFlight`]): a few numbers however many workers there are.
//!
//! ```text
//!     updated     now            deadlines
//!   ─────┼─────────┼──────┬───────────┬──────▶
//!        │                2           48          workers whose reports are fresh until there
//! ```
//!
//! Only reports change it, so whoever decides reads it and writes nothing. What has happened since is worked
//! out from it: until the first deadline the pool was as busy as all reports say, from there on as the others
//! say, and from the last one on nobody knows.

use super::{
    LONGEST_REPORT_TTL_US, LONGEST_SHEDDING_US, Load, MOST_SLOTS, MOST_UTILIZATION_PARTS, Settings,
};
use crate::{clock::Timestamp, unit::WHOLE_PARTS};

/// The most workers of a pool: whoever makes up names by mistake is stopped there.
pub const MOST_WORKERS: u64 = 5_000;

/// No report is fresh for longer after the last one came, in microseconds, with room for steps and clocks.
pub(super) const LONGEST_FRESH_US: u64 = 2 * LONGEST_REPORT_TTL_US;

/// How far ahead of the clock a state may have been updated, in microseconds, before that is taken for a
/// mistake.
const MOST_AHEAD_US: u64 = 60_000_000;

/// No interval is counted as longer, in microseconds: longer than all shedding takes to come and go.
const LONGEST_US: u64 = 1 << 32;

/// As many slots as this stand for any number: nobody knows how many there are.
pub const NOBODY_KNOWS: u64 = 1 << 53;

/// The workers of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    /// When it began: when the first worker reported since there was none.
    pub since: Timestamp,
    /// When the last report came.
    pub updated: Timestamp,
    /// How hard the pool was pressed up to then, in millionths of microseconds at the greatest slope. It
    /// lies between the two of [`Settings::bounds`]: shedding begins above 0, and is complete at the upper.
    pub pressure: i64,
    /// The `shed_all_after` by which that was counted, in microseconds.
    pub shed_all_after_us: u64,
    /// How many slots there were before reports stopped for a while; [`NOBODY_KNOWS`] where there were none before.
    pub held: u64,
    /// Until when there are held to be as many: until everybody who is there has had his turn to report.
    pub held_until: Timestamp,
    /// Deadlines ascending, none twice, none without workers.
    pub buckets: Vec<Bucket>,
}

/// Reports that are fresh until one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// When.
    pub deadline: Timestamp,
    /// Of what.
    pub counts: Counts,
}

/// So many workers, and what they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// How many they are.
    pub workers: u64,
    /// Their slots.
    pub slots: u64,
    /// Their utilizations in millionths, each times its slots.
    pub load: u64,
}

impl Counts {
    /// Those of one worker.
    pub fn of(load: Load) -> Self {
        let slots = u64::from(load.slots());
        Self { workers: 1, slots, load: slots * u64::from(load.utilization_parts()) }
    }

    /// The mean utilization in millionths, by slots; `None` where nobody has any.
    pub const fn utilization(self) -> Option<u64> {
        self.load.checked_div(self.slots)
    }

    const fn plus(self, more: Self) -> Self {
        Self {
            workers: self.workers.saturating_add(more.workers),
            slots: self.slots.saturating_add(more.slots),
            load: self.load.saturating_add(more.load),
        }
    }

    const fn minus(self, fewer: Self) -> Self {
        Self {
            workers: self.workers.saturating_sub(fewer.workers),
            slots: self.slots.saturating_sub(fewer.slots),
            load: self.load.saturating_sub(fewer.load),
        }
    }

    const fn has(self, fewer: Self) -> bool {
        self.workers >= fewer.workers && self.slots >= fewer.slots && self.load >= fewer.load
    }
}

impl Workers {
    /// A state as it is now: what happened since it was updated has pressed on it, and reports that are not
    /// fresh any more are gone. `None`: nobody ever reported.
    #[must_use]
    pub fn at(state: Option<&Self>, settings: &Settings, now: Timestamp) -> Self {
        let (rest, _) = settings.bounds();
        let shed_all_after_us = settings.shed_all_after_us;
        let Some(state) = state else {
            return Self {
                since: now,
                updated: now,
                pressure: rest,
                shed_all_after_us,
                held: 0,
                held_until: Timestamp::default(),
                buckets: Vec::new(),
            };
        };
        let state = state.pulled_back(now);
        let mut pressure = state.rescaled(settings);
        let mut counts = state.counts();
        let mut from = state.updated;
        let mut buckets = state.buckets.iter();
        let live = loop {
            let Some(bucket) = buckets.next() else {
                // Silence: nobody is known to be busy.
                pressure = press(pressure, settings, None, now - from);
                break Vec::new();
            };
            let until = bucket.deadline.min(now);
            pressure = press(pressure, settings, counts.utilization(), until - from);
            if bucket.deadline > now {
                let live = std::iter::once(bucket).chain(buckets);
                break live.copied().collect();
            }
            counts = counts.minus(bucket.counts);
            from = from.max(until);
        };
        let since = if live.is_empty() { now } else { state.since };
        let updated = state.updated.max(now);
        Self { since, updated, pressure, shed_all_after_us, buckets: live, ..state }
    }

    /// The same of a state that a report is about to change. Where none has come for so long that everybody
    /// must have been kept from it, who is not heard at once is not gone.
    #[must_use]
    pub fn at_report(state: Option<&Self>, settings: &Settings, now: Timestamp) -> Self {
        let mut workers = Self::at(state, settings, now);
        let half_us = settings.report_ttl.as_micros() / 2;
        let held = match state.map(|state| state.pulled_back(now)) {
            None => NOBODY_KNOWS,
            Some(state) if now - state.updated > half_us => state.slots(state.updated),
            Some(_) => return workers,
        };
        workers.held = held;
        workers.held_until = now + half_us;
        workers
    }

    /// How many slots there are, or are held to be, at a time; [`NOBODY_KNOWS`] where that is so.
    fn slots(&self, now: Timestamp) -> u64 {
        let held = if now < self.held_until { self.held } else { 0 };
        self.counts().slots.max(held)
    }

    /// Whether all numbers are as small as they may be, as the scripts hold them to be: whoever put a state into a
    /// store may have been somebody else.
    pub fn is_plausible(&self) -> bool {
        let longest = LONGEST_SHEDDING_US;
        let Counts { workers, slots, load } = self.counts();
        let most_slots = workers.saturating_mul(MOST_SLOTS.into());
        let most_load = slots.saturating_mul(MOST_UTILIZATION_PARTS.into());
        let is_bucket = |bucket: &Bucket| {
            bucket.counts.workers > 0 && bucket.counts.slots >= bucket.counts.workers
        };
        (1..=longest).contains(&self.shed_all_after_us)
            && self.buckets.iter().all(is_bucket)
            && self.buckets.is_sorted_by(|a, b| a.deadline < b.deadline)
            && self
                .buckets
                .last()
                .is_none_or(|last| last.deadline - self.updated <= LONGEST_FRESH_US)
            && workers <= MOST_WORKERS
            && slots <= most_slots
            && load <= most_load
    }

    /// All workers that it counts.
    pub fn counts(&self) -> Counts {
        self.buckets.iter().fold(Counts::default(), |sum, bucket| sum.plus(bucket.counts))
    }

    /// The amount of shedding, in millionths: from −`hold_off` ÷ `shed_all_after`, at rest, over 0, where it
    /// begins, to 1, where all is shed that may be.
    pub fn amount(&self) -> i64 {
        // Rounded down on both sides of 0.
        self.pressure.div_euclid(self.shed_all_after_us.max(1).cast_signed())
    }

    /// How many slots the workers have; `None` where nobody knows. What those have stopped saying who all stopped
    /// is held true until their reports are not fresh any more, and for as long as one is fresh beyond that.
    /// `state` is as it is stored: as long as nobody reports, nobody is known to be gone.
    pub fn capacity(state: Option<&Self>, report_ttl_us: u64, now: Timestamp) -> Option<u64> {
        let state = state?.pulled_back(now);
        let last = state.buckets.last()?.deadline;
        let slots = state.slots(now);
        (slots != NOBODY_KNOWS && now < last + report_ttl_us).then_some(slots)
    }

    /// Until when it is worth keeping: pressure is at rest again, and nobody counts on its capacity.
    pub fn fresh_at(&self, settings: &Settings) -> Option<Timestamp> {
        let last = self.buckets.last()?.deadline;
        let quiet_us = settings.hold_off_us + settings.shed_all_after_us;
        Some(last + quiet_us.max(settings.report_ttl.as_micros()))
    }

    /// Counts a worker until a deadline.
    pub fn add(&mut self, deadline: Timestamp, counts: Counts) {
        match self.buckets.binary_search_by_key(&deadline, |bucket| bucket.deadline) {
            Ok(place) => {
                if let Some(bucket) = self.buckets.get_mut(place) {
                    bucket.counts = bucket.counts.plus(counts);
                }
            }
            Err(place) => self.buckets.insert(place, Bucket { deadline, counts }),
        }
    }

    /// Counts a worker no more that is counted until a deadline. Whether it was there.
    pub fn remove(&mut self, deadline: Timestamp, counts: Counts) -> bool {
        let found = self.buckets.binary_search_by_key(&deadline, |bucket| bucket.deadline);
        let Ok(place) = found else { return false };
        let Some(bucket) = self.buckets.get_mut(place) else { return false };
        if !bucket.counts.has(counts) {
            return false;
        }
        bucket.counts = bucket.counts.minus(counts);
        if bucket.counts.workers == 0 {
            self.buckets.remove(place);
        }
        true
    }

    /// How far ahead of the clock it lies, in microseconds, where that is too far to be true; 0 where it is not.
    pub fn ahead_us(state: Option<&Self>, now: Timestamp) -> u64 {
        let ahead_us = state.map_or(0, |state| state.updated - now);
        if ahead_us > MOST_AHEAD_US { ahead_us } else { 0 }
    }

    /// The same state, moved to the present as a whole where it lies too far ahead to be true.
    fn pulled_back(&self, now: Timestamp) -> Self {
        let mut state = self.clone();
        let ahead_us = Self::ahead_us(Some(self), now);
        if ahead_us > 0 {
            state.updated = now;
            state.held_until = earlier(state.held_until, ahead_us);
            for bucket in &mut state.buckets {
                bucket.deadline = earlier(bucket.deadline, ahead_us);
            }
        }
        state
    }

    /// Its pressure as other settings count it: the same share of all shedding. Before any, it is the time that
    /// is left, which has nothing to do with that.
    fn rescaled(&self, settings: &Settings) -> i64 {
        let (old, new) = (self.shed_all_after_us, settings.shed_all_after_us);
        if old == new || old == 0 || self.pressure <= 0 {
            return self.pressure;
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "in doubles, as in Lua: all are below 2^53"
        )]
        let rescaled = (self.pressure as f64 / old as f64 * new as f64).floor() as i64;
        rescaled
    }
}

fn earlier(instant: Timestamp, micros: u64) -> Timestamp {
    Timestamp::from_micros(instant - Timestamp::from_micros(micros))
}

/// The pressure after so many microseconds at a utilization; `None` where nobody reports.
fn press(pressure: i64, settings: &Settings, utilization: Option<u64>, for_us: u64) -> i64 {
    let slope = utilization.map_or(-i64::from(WHOLE_PARTS), |parts| settings.slope(parts));
    let (least, most) = settings.bounds();
    let changed = pressure.saturating_add(for_us.min(LONGEST_US).cast_signed() * slope);
    changed.clamp(least, most)
}
