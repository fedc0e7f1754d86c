//! Durations: `250ms`, `60s`, `5m`, `1h`, `7d`.

use super::{
    diagnostic::shown,
    node::{Entry, Mapping, Value},
    report::Report,
    value,
};
use crate::{
    lease::{LONGEST_TERM_US, Term},
    unit::Unit,
    worker::{LONGEST_REPORT_TTL_US, LONGEST_SHEDDING_US},
};

/// How to write a duration.
pub const HELP: &str = "write a duration such as `250ms`, `60s`, `5m` or `1h`";

/// The shortest or the longest that a duration may be.
#[derive(Debug, Clone, Copy)]
struct Bound {
    micros: u64,
    in_words: &'static str,
    /// How to write it.
    text: &'static str,
}

/// How short and how long a duration may be.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    least: Bound,
    most: Bound,
}

/// No time at all.
const NOTHING: Bound = Bound { micros: 0, in_words: "nothing", text: "0s" };

/// The shortest that can be written, but for nothing.
const INSTANT: Bound = Bound { micros: 1_000, in_words: "a millisecond", text: "1ms" };

const HUNDREDTH: Bound = Bound { micros: 10_000, in_words: "ten milliseconds", text: "10ms" };

const TEN_SECONDS: Bound =
    Bound { micros: 10 * Unit::Second.micros(), in_words: "ten seconds", text: "10s" };

const SECOND: Bound = Bound { micros: Unit::Second.micros(), in_words: "a second", text: "1s" };

const HALF_AN_HOUR: Bound =
    Bound { micros: LONGEST_SHEDDING_US, in_words: "half an hour", text: "30m" };

const TEN_MINUTES: Bound =
    Bound { micros: LONGEST_REPORT_TTL_US, in_words: "ten minutes", text: "10m" };

const DAY: Bound = Bound { micros: LONGEST_TERM_US, in_words: "a day", text: "24h" };

const YEAR: Bound = Bound { micros: Unit::Year.micros(), in_words: "a year", text: "365d" };

/// The period of a rate.
pub const PERIOD: Bounds = Bounds { least: INSTANT, most: YEAR };

/// The time for which a replica keeps what it took ahead of need.
pub const GRANT: Bounds = Bounds { least: HUNDREDTH, most: TEN_SECONDS };

/// A lease.
pub const LEASE: Bounds = Bounds { least: INSTANT, most: DAY };

/// The time until shedding begins.
pub const HOLD_OFF: Bounds = Bounds { least: NOTHING, most: HALF_AN_HOUR };

/// The time until all is shed.
pub const SHEDDING: Bounds = Bounds { least: INSTANT, most: HALF_AN_HOUR };

/// The time for which a report is fresh.
pub const REPORT: Bounds = Bounds { least: SECOND, most: TEN_MINUTES };

/// Reads a duration, in microseconds.
pub fn read(entry: &Entry<'_>, bounds: Bounds, report: &mut Report<'_>) -> Option<u64> {
    let Bounds { least, most } = bounds;
    let key = &entry.key;
    let (message, help) = match &entry.node.value {
        Value::Text(text) => match micros(text) {
            Some(0) if least.micros > 0 => (format!("`{key}` is 0"), HELP.into()),
            Some(micros) if micros < least.micros => (
                format!("`{key}` is shorter than {}", least.in_words),
                format!("write at least `{}`", least.text),
            ),
            Some(micros) if micros > most.micros => (
                format!("`{key}` is longer than {}", most.in_words),
                format!("write at most `{}`", most.text),
            ),
            Some(micros) => return Some(micros),
            None => (format!("{} is no duration", shown(text)), HELP.into()),
        },
        Value::Integer(_) => {
            let fix = format!("{key}: {}s", entry.node.literal);
            (format!("`{key}` has no unit of time"), format!("write {} for seconds", shown(&fix)))
        }
        _ => (format!("`{key}` is {}", entry.node.kind()), HELP.into()),
    };
    report.reject(value::wrong(entry, message).help(help))
}

/// Reads how long leases last, from `lease_ttl`.
pub fn lease_ttl(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Term {
    let entry = mapping.get("lease_ttl");
    let micros = entry.and_then(|entry| read(entry, LEASE, report));
    micros.map(Term::of_micros).unwrap_or_default()
}

/// A duration as a rule file writes it, in microseconds: `250ms`, `60s`, `5m`, `1h` or `7d`.
///
/// # Errors
///
/// Where it is none, with what to write.
pub fn parse(text: &str) -> Result<u64, String> {
    micros(text).ok_or_else(|| format!("{} is no duration: {HELP}", shown(text)))
}

/// A duration in microseconds; `None` where the text is none.
pub fn micros(text: &str) -> Option<u64> {
    let (number, unit) = leading_number(text)?;
    let unit = match unit {
        "ms" => 1_000,
        "s" => Unit::Second.micros(),
        "m" => Unit::Minute.micros(),
        "h" => Unit::Hour.micros(),
        "d" => Unit::Day.micros(),
        _ => return None,
    };
    Some(number.saturating_mul(unit))
}

/// Splits text that begins with digits into their number and the rest. Too large a number becomes the
/// largest there is.
pub fn leading_number(text: &str) -> Option<(u64, &str)> {
    let rest = text.trim_start_matches(|it: char| it.is_ascii_digit());
    let digits = text.strip_suffix(rest).filter(|digits| !digits.is_empty())?;
    Some((digits.parse().unwrap_or(u64::MAX), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(micros("250ms"), Some(250_000));
        assert_eq!(micros("60s"), micros("1m"));
        assert_eq!(micros("24h"), micros("1d"));
        assert_eq!(micros("99999999999999999999d"), Some(u64::MAX));
        for text in ["", "s", "5", "5 m", "5min", "1.5h", "-1s", "5us"] {
            assert_eq!(micros(text), None, "{text}");
        }
    }
}
