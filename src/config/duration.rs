//! Durations: `250ms`, `60s`, `5m`, `1h`, `7d`.

use super::{
    diagnostic::{Report, shown},
    node::{Entry, Value},
    value,
};
use crate::{lease::LONGEST_TERM_US, unit::Unit};

/// How to write a duration.
const HELP: &str = "write a duration such as `250ms`, `60s`, `5m` or `1h`";

/// The longest that a duration may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Longest {
    micros: u64,
    in_words: &'static str,
    /// How to write it.
    text: &'static str,
}

/// The longest period of a rate.
pub(super) const YEAR: Longest =
    Longest { micros: Unit::Year.micros(), in_words: "a year", text: "365d" };

/// The longest lease.
pub(super) const DAY: Longest = Longest { micros: LONGEST_TERM_US, in_words: "a day", text: "24h" };

/// Reads a duration above 0, in microseconds.
pub(super) fn read(entry: &Entry<'_>, longest: Longest, report: &mut Report<'_>) -> Option<u64> {
    let key = &entry.key;
    let (message, help) = match &entry.node.value {
        Value::Text(text) => match micros(text) {
            Some(0) => (format!("`{key}` is 0"), HELP.into()),
            Some(micros) if micros > longest.micros => (
                format!("`{key}` is longer than {}", longest.in_words),
                format!("write at most `{}`", longest.text),
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
    report.push(value::wrong(entry, message).help(help));
    None
}

fn micros(text: &str) -> Option<u64> {
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
pub(super) fn leading_number(text: &str) -> Option<(u64, &str)> {
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
