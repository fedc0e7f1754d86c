//! Windows of time: where the one of an instant begins and ends.

use crate::{clock::Timestamp, unit::Unit};
use std::fmt;

const DAY_US: u64 = Unit::Day.micros();

/// From the Monday before it to 1 January 1970, which was a Thursday.
const MONDAY_US: u64 = 3 * DAY_US;

/// How time is cut into windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// Units of the calendar, in UTC. Weeks begin on Monday.
    Calendar(Unit),
    /// So many microseconds, counted from 1970. Never 0.
    Fixed(u64),
}

/// A window: from its start, up to its end and without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its first instant.
    pub start: Timestamp,
    /// The first instant of the next one.
    pub end: Timestamp,
}

/// How a script is told of a period: windows of a length, the first of which began so long before 1970; or, by a length
/// below 0, so many months.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Length { length_us: u64, before_us: u64 },
    Months(u64),
}

impl Period {
    /// The length, in microseconds; of months and years the longest.
    pub const fn longest_us(self) -> u64 {
        match self {
            Self::Fixed(micros) => micros,
            Self::Calendar(Unit::Month) => 31 * DAY_US,
            Self::Calendar(Unit::Year) => 366 * DAY_US,
            Self::Calendar(unit) => unit.micros(),
        }
    }

    /// The unit whose length it has, if there is one; a month has 30 days here, and a year 365.
    pub fn unit(self) -> Option<Unit> {
        match self {
            Self::Calendar(unit) => Some(unit),
            Self::Fixed(micros) => Unit::ALL.into_iter().find(|unit| unit.micros() == micros),
        }
    }

    /// What it is aligned to, as a rule file says it; `None` where it needs not.
    pub const fn align(self) -> Option<&'static str> {
        match self {
            Self::Calendar(_) => Some("utc"),
            Self::Fixed(_) => None,
        }
    }

    /// The window of an instant.
    pub fn window(self, at: Timestamp) -> Window {
        let at = at.as_micros();
        let (start, end) = match self.cut() {
            Cut::Length { length_us, before_us } => {
                // What lies before 1970 of the first window is cut off.
                let end = (at.saturating_add(before_us) / length_us + 1).saturating_mul(length_us);
                let end = end.saturating_sub(before_us);
                (end.saturating_sub(length_us), end)
            }
            Cut::Months(months) => {
                let first = month_of(at / DAY_US) / months * months;
                let day_us = |month| day_of(month).saturating_mul(DAY_US);
                (day_us(first), day_us(first + months))
            }
        };
        Window { start: Timestamp::from_micros(start), end: Timestamp::from_micros(end) }
    }

    pub(super) const fn cut(self) -> Cut {
        match self {
            Self::Fixed(length_us) => Cut::Length { length_us, before_us: 0 },
            Self::Calendar(Unit::Month) => Cut::Months(1),
            Self::Calendar(Unit::Year) => Cut::Months(12),
            Self::Calendar(Unit::Week) => {
                Cut::Length { length_us: Unit::Week.micros(), before_us: MONDAY_US }
            }
            Self::Calendar(unit) => Cut::Length { length_us: unit.micros(), before_us: 0 },
        }
    }
}

/// As a rule file writes it: `day`, or `10s`.
impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = match self {
            Self::Calendar(unit) => return unit.fmt(f),
            Self::Fixed(micros) => *micros,
        };
        let units = [(Unit::Day, "d"), (Unit::Hour, "h"), (Unit::Minute, "m"), (Unit::Second, "s")];
        let unit = units.into_iter().find(|(unit, _)| micros.is_multiple_of(unit.micros()));
        match unit {
            Some((unit, suffix)) => write!(f, "{}{suffix}", micros / unit.micros()),
            None => write!(f, "{}ms", micros / 1000),
        }
    }
}

/// Days from 1 March of the year 0 to 1970. Years are counted from March, so that a leap day is the last of its year.
const EPOCH: u64 = 719_468;

/// Days in 400 years, after which the calendar repeats.
const ERA: u64 = 146_097;

/// The month, counted from January of the year 0, of a day that is counted from 1970. The method is Howard Hinnant's,
/// "chrono-Compatible Low-Level Date Algorithms".
const fn month_of(day: u64) -> u64 {
    let day = day + EPOCH;
    let (era, day) = (day / ERA, day % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    12 * (400 * era + year) + month + 2
}

/// The first day of such a month, counted from 1970.
const fn day_of(month: u64) -> u64 {
    let (year, month) = ((month - 2) / 12, (month - 2) % 12);
    let days = 365 * year + year / 4 - year / 100 + year / 400;
    days + (153 * month + 2) / 5 - EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since 1970, as `date -u -d @…` says them.
    fn bounds(period: Period, at_s: u64) -> (u64, u64) {
        let Window { start, end } = period.window(Timestamp::from_micros(at_s * 1_000_000));
        (start.as_micros() / 1_000_000, end.as_micros() / 1_000_000)
    }

    #[test]
    fn the_calendar_is_that_of_utc() {
        // 2024-02-29 12:00:00, a Thursday of a leap year.
        let leap = 1_709_208_000;
        let calendar = Period::Calendar;
        assert_eq!(bounds(calendar(Unit::Second), leap), (leap, leap + 1));
        assert_eq!(bounds(calendar(Unit::Day), leap), (1_709_164_800, 1_709_251_200));
        assert_eq!(bounds(calendar(Unit::Week), leap), (1_708_905_600, 1_709_510_400), "Monday");
        assert_eq!(bounds(calendar(Unit::Month), leap), (1_706_745_600, 1_709_251_200));
        assert_eq!(bounds(calendar(Unit::Year), leap), (1_704_067_200, 1_735_689_600));
        // The last second of 2023, and the first of 2024.
        assert_eq!(bounds(calendar(Unit::Year), 1_704_067_199).1, 1_704_067_200);
        assert_eq!(bounds(calendar(Unit::Month), 1_704_067_199), (1_701_388_800, 1_704_067_200));
        assert_eq!(bounds(calendar(Unit::Month), 1_704_067_200).0, 1_704_067_200);
        // 2100 is no leap year: 28 February is followed by 1 March.
        assert_eq!(bounds(calendar(Unit::Month), 4_107_456_000), (4_105_123_200, 4_107_542_400));
        // 1 January 1970 was a Thursday.
        assert_eq!(bounds(calendar(Unit::Week), 0), (0, 4 * 86_400));
        assert_eq!(bounds(calendar(Unit::Month), 0), (0, 31 * 86_400));
    }

    #[test]
    fn a_fixed_period_is_counted_from_1970() {
        assert_eq!(
            bounds(Period::Fixed(30_000_000), 1_709_208_017),
            (1_709_208_000, 1_709_208_030)
        );
        let week = Period::Fixed(Unit::Week.micros());
        assert_eq!(bounds(week, 1_709_208_000).0 % (7 * 86_400), 0, "Thursday");
    }

    #[test]
    fn windows_follow_each_other_without_a_gap() {
        for period in Unit::ALL.map(Period::Calendar).into_iter().chain([Period::Fixed(7)]) {
            let mut window = period.window(Timestamp::from_micros(1_000_000_000_000_000));
            for _ in 0..5000 {
                let next = period.window(window.end);
                assert_eq!(next.start, window.end, "{period:?}");
                assert_eq!(period.window(Timestamp::from_micros(next.end.as_micros() - 1)), next);
                assert!(next.end - next.start <= period.longest_us(), "{period:?}");
                window = next;
            }
        }
    }
}
