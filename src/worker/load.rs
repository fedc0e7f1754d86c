//! What one worker says.

use super::{Settings, workers::LONGEST_FRESH_US};
use crate::{clock::Timestamp, unit::WHOLE_PARTS};

/// The most slots that a worker may have.
pub const MOST_SLOTS: u32 = 100_000;

/// The highest utilization that is believed, in millionths: ten times the whole. What is beyond is a mistake
/// of units, percent for shares.
pub const MOST_UTILIZATION_PARTS: u32 = 10 * WHOLE_PARTS;

/// How busy a worker is, and how much it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    slots: u32,
    utilization_parts: u32,
}

/// Why a load is none.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum InvalidLoad {
    #[error("`total_slots` is 0: say how many requests the worker takes at once")]
    NoSlots,
    #[error("`total_slots` is {0}: a worker has at most {MOST_SLOTS}")]
    TooManySlots(u32),
    #[error(
        "`busy_slots` is {busy}, more than ten times the {total} of `total_slots`: nothing is as busy"
    )]
    TooBusy { busy: u32, total: u32 },
    #[error("`{0}` is not a number")]
    NotANumber(&'static str),
    #[error("`{0}` is negative")]
    Negative(&'static str),
    #[error(
        "`{field}` is {value}: at most 10 is believed, where 1 is wholly busy (80 % is 0.8, not 80)"
    )]
    TooHigh { field: &'static str, value: f64 },
}

impl Load {
    /// So many of the worker's slots are busy.
    ///
    /// # Errors
    ///
    /// Where there are no slots, or too many, or too many of them are busy.
    pub fn of_slots(busy: u32, total: u32) -> Result<Self, InvalidLoad> {
        let slots = checked(total)?;
        let parts = u64::from(busy) * u64::from(WHOLE_PARTS) / u64::from(slots);
        match u32::try_from(parts) {
            Ok(utilization_parts) if u64::from(busy) <= 10 * u64::from(slots) => {
                Ok(Self { slots, utilization_parts })
            }
            _ => Err(InvalidLoad::TooBusy { busy, total }),
        }
    }

    /// The worker is so busy, 1 being wholly. It counts as so many slots. `field` is where that was written.
    ///
    /// # Errors
    ///
    /// Where it is no number, or negative, or too high, or there are no slots or too many.
    pub fn of_ratio(
        utilization: f64,
        slots: u32,
        field: &'static str,
    ) -> Result<Self, InvalidLoad> {
        let slots = checked(slots)?;
        if utilization.is_nan() {
            return Err(InvalidLoad::NotANumber(field));
        }
        if utilization < 0.0 {
            return Err(InvalidLoad::Negative(field));
        }
        if utilization > 10.0 {
            return Err(InvalidLoad::TooHigh { field, value: utilization });
        }
        let parts = (utilization * f64::from(WHOLE_PARTS)).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10^7")]
        let utilization_parts = parts as u32;
        Ok(Self { slots, utilization_parts })
    }

    /// The same in permille, as a report's hits are; the worker counts as one slot. `None` where it is too
    /// high.
    pub fn of_permille(permille: u64) -> Option<Self> {
        let parts = permille.checked_mul(u64::from(WHOLE_PARTS) / 1000)?;
        let utilization_parts = u32::try_from(parts).ok()?;
        (utilization_parts <= MOST_UTILIZATION_PARTS)
            .then_some(Self { slots: 1, utilization_parts })
    }

    /// How many slots it has.
    pub const fn slots(self) -> u32 {
        self.slots
    }

    /// How busy it is, in millionths.
    pub const fn utilization_parts(self) -> u32 {
        self.utilization_parts
    }
}

fn checked(slots: u32) -> Result<u32, InvalidLoad> {
    match slots {
        0 => Err(InvalidLoad::NoSlots),
        slots if slots > MOST_SLOTS => Err(InvalidLoad::TooManySlots(slots)),
        slots => Ok(slots),
    }
}

/// An instant by a worker's own clock, in microseconds since 1970. It is compared with that worker's other
/// instants alone; 0 is before all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Instant(u64);

impl Instant {
    /// So many microseconds after 1970; up to 2^53, which is in the year 2255.
    pub fn of_micros(micros: u64) -> Self {
        Self(micros.min(1 << 53))
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }
}

/// A report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// How the pool takes it.
    pub settings: Settings,
    /// What the worker says; `None` where it says nothing, and only wants to know of the pool.
    pub load: Option<Load>,
    /// When it was measured, where the worker says that.
    pub measured: Option<Instant>,
}

/// What became of a report, and how it stands with the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// What became of it.
    pub outcome: Outcome,
    /// How busy the pool is, in millionths; `None` where no report is fresh.
    pub utilization_parts: Option<u32>,
    /// The amount of shedding, in millionths: see [`super::Workers::amount`].
    pub amount_parts: i64,
    /// How many workers have reported of late.
    pub workers: u64,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It counts.
    Counted,
    /// There was nothing in it.
    Absent,
    /// It was measured before another that counts, or is that one.
    NotNewer,
    /// There are so many workers that there is no room for a further one.
    TooManyWorkers,
}

/// What is kept of a worker: its part of [`super::Workers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    /// When the state began that it is a part of.
    pub since: Timestamp,
    /// Until when its report is fresh.
    pub deadline: Timestamp,
    /// What it said.
    pub load: Load,
    /// When that was measured, by its own clock.
    pub measured: Instant,
}

impl Worker {
    /// What is still fresh of it, where its pool's state lies so far ahead of the clock; `None` where it is not, or
    /// cannot be.
    pub fn live(&self, ahead_us: u64, now: Timestamp) -> Option<Self> {
        let deadline = Timestamp::from_micros(self.deadline - Timestamp::from_micros(ahead_us));
        let is_fresh = deadline > now && deadline - now <= LONGEST_FRESH_US;
        is_fresh.then_some(Self { deadline, ..*self })
    }

    /// A worker as a store wrote it down; `None` where it cannot have.
    pub fn of_parts(
        since: Timestamp,
        deadline: Timestamp,
        (slots, utilization_parts): (u32, u32),
        measured: Instant,
    ) -> Option<Self> {
        let slots = checked(slots).ok()?;
        let load = Load { slots, utilization_parts };
        (utilization_parts <= MOST_UTILIZATION_PARTS).then_some(Self {
            since,
            deadline,
            load,
            measured,
        })
    }
}
