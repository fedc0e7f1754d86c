//! The units in which limits are written, of time and of shares; and what was counted and measured, in words.

use std::fmt;

/// All of it, in parts: shares and utilizations are counted in millionths.
pub const WHOLE_PARTS: u32 = 1_000_000;

/// A unit of time with a name of its own.
///
/// Months count 30 days and years 365, as of a rate. Windows of the calendar have its lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// One second.
    Second,
    /// One minute.
    Minute,
    /// One hour.
    Hour,
    /// One day of 24 hours.
    Day,
    /// One week of 7 days.
    Week,
    /// One month of 30 days.
    Month,
    /// One year of 365 days.
    Year,
}

impl Unit {
    /// Every unit, the shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// Its length in microseconds.
    pub const fn micros(self) -> u64 {
        const SECOND: u64 = 1_000_000;
        const DAY: u64 = 24 * 3600 * SECOND;
        match self {
            Self::Second => SECOND,
            Self::Minute => 60 * SECOND,
            Self::Hour => 3600 * SECOND,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        }
    }

    /// Its name in lower case, as rule files spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The unit of this name, in whatever case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// So many tokens in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Tokens per period. 0 never refills.
    pub tokens: u32,
    /// The period, in microseconds. Never 0.
    pub period_us: u64,
}

impl Rate {
    /// So many tokens in one unit.
    pub const fn per(tokens: u32, unit: Unit) -> Self {
        Self { tokens, period_us: unit.micros() }
    }

    /// In how many seconds so many tokens arrive, rounded up; `None` where none ever do.
    pub fn seconds_for(self, tokens: u32) -> Option<u64> {
        let micros = u128::from(tokens) * u128::from(self.period_us);
        let per_second = u128::from(self.tokens) * 1_000_000;
        let seconds = (per_second > 0).then(|| micros.div_ceil(per_second))?;
        Some(u64::try_from(seconds).unwrap_or(u64::MAX))
    }

    /// The unit in which exactly `amount` tokens arrive, if there is one; its own first.
    pub fn unit_of(self, amount: u32) -> Option<Unit> {
        let arrives_in = |unit: &Unit| {
            u128::from(self.tokens) * u128::from(unit.micros())
                == u128::from(amount) * u128::from(self.period_us)
        };
        self.unit().filter(arrives_in).or_else(|| Unit::ALL.into_iter().find(arrives_in))
    }

    /// For people: `100 per second`, or `100 per 30s`.
    pub fn in_words(self) -> String {
        let period = self.unit().map_or_else(|| self.period(), |unit| unit.to_string());
        format!("{} per {period}", self.tokens)
    }

    /// The period as a rule file writes it: `30s`, or `250ms`.
    pub fn period(self) -> String {
        if self.period_us.is_multiple_of(1_000_000) {
            format!("{}s", self.period_us / 1_000_000)
        } else {
            format!("{}ms", self.period_us / 1_000)
        }
    }

    /// The unit that is its period, if one is.
    fn unit(self) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.micros() == self.period_us)
    }
}

/// A time that was measured, in microseconds, rounded for people: `0.8 s`, `45 s`, `12 min`.
pub fn span(micros: u64) -> String {
    let tenths = micros.saturating_add(50_000) / 100_000;
    match tenths {
        0..100 => format!("{}.{} s", tenths / 10, tenths % 10),
        100..1200 => format!("{} s", (tenths + 5) / 10),
        _ => format!("{} min", (tenths + 300) / 600),
    }
}

/// So many of a thing: `1 limit`, `2 limits`.
pub fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A share that was measured, rounded: `82.4 %`. What is little is not shown as nothing.
pub fn percent(share: f64) -> String {
    match (share * 1000.0).round() / 10.0 {
        percent if percent == 0.0 && share > 0.0 => "under 0.1 %".to_owned(),
        percent => format!("{percent} %"),
    }
}
