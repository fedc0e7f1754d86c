//! Shares of a whole: `20%` or `0.2`.

use super::{
    diagnostic::shown,
    node::{Entry, Value},
    report::Report,
    value,
};
use crate::unit::WHOLE_PARTS;

/// How to write a share.
const HELP: &str = "write a share such as `20%` or `0.2`";

/// How many digits a share has behind its point, at most: it is kept in millionths.
const DIGITS: usize = 6;

/// Why a text is no share.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    NoShare,
    Negative,
    TooLarge,
    TooFine,
}

/// Reads a share, in millionths.
pub fn read(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<u32> {
    let Entry { key, node, .. } = entry;
    let text = match &node.value {
        Value::Text(text) => text.trim(),
        Value::Integer(_) | Value::Float(_) => node.literal.trim_matches(['"', '\'']),
        _ => {
            let message = format!("`{key}` is {}, not a share", node.kind());
            return report.reject(value::wrong(entry, message).help(HELP));
        }
    };
    let wrong = match parts(text) {
        Ok(parts) => return Some(parts),
        Err(wrong) => wrong,
    };
    let is_percent = text.parse::<u32>().is_ok_and(|number| number <= 100);
    let (message, help) = match wrong {
        Wrong::NoShare => (format!("{} is no share", shown(text)), HELP.into()),
        Wrong::Negative => (format!("`{key}` is negative"), HELP.into()),
        Wrong::TooLarge if is_percent => (
            format!("`{key}` is {} times the whole", shown(text)),
            format!("write {}", shown(&format!("{key}: {text}%"))),
        ),
        Wrong::TooLarge => (format!("`{key}` is above 100 %"), HELP.into()),
        Wrong::TooFine => (
            format!("`{key}` is finer than a millionth"),
            "write at most four digits behind the point of a percentage, or six without `%`".into(),
        ),
    };
    report.reject(value::wrong(entry, message).help(help))
}

/// A share as a text says it: `80 %`.
pub fn in_words(parts: u32) -> String {
    format!("{} %", f64::from(parts) / f64::from(WHOLE_PARTS / 100))
}

/// A share as a file writes it: `80%`.
pub fn as_written(parts: u32) -> String {
    in_words(parts).replace(' ', "")
}

/// A decimal number, with or without a percent sign, in millionths.
fn parts(text: &str) -> Result<u32, Wrong> {
    let (number, digits) = match text.strip_suffix('%') {
        Some(percentage) => (percentage.trim_end(), DIGITS - 2),
        None => (text, DIGITS),
    };
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return Err(Wrong::NoShare);
    }
    if is_negative {
        return Err(Wrong::Negative);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > digits {
        return Err(Wrong::TooFine);
    }
    // Filled up to as many digits, the fraction is whole.
    let parts = format!("{whole}{fraction:0<digits$}").parse().map_err(|_| Wrong::TooLarge)?;
    if parts > WHOLE_PARTS { Err(Wrong::TooLarge) } else { Ok(parts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_exactly() {
        for (text, expected) in [
            ("0", 0),
            ("1", 1_000_000),
            ("0.2", 200_000),
            (".2", 200_000),
            ("1.", 1_000_000),
            ("0.000001", 1),
            ("0.10000000000", 100_000),
            ("20%", 200_000),
            ("20 %", 200_000),
            ("12.5%", 125_000),
            ("0.0001%", 1),
            ("100%", 1_000_000),
            ("000%", 0),
        ] {
            assert_eq!(parts(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn shares_are_written_as_they_are_read() {
        for text in ["20%", "12.5%", "0.0001%", "99.9999%", "100%", "0%"] {
            assert_eq!(as_written(parts(text).unwrap()), text);
        }
    }

    #[test]
    fn what_is_no_share_is_told_apart() {
        for text in
            ["", "%", ".", ".%", "x", "0x1", "1e-1", ".inf", "5%%", "+1", "1_0", "--1", "1 0"]
        {
            assert_eq!(parts(text), Err(Wrong::NoShare), "{text}");
        }
        for text in ["-1", "-0.5%", "-1000"] {
            assert_eq!(parts(text), Err(Wrong::Negative), "{text}");
        }
        for text in ["1.000001", "100.0001%", "2", "99999999999999999999"] {
            assert_eq!(parts(text), Err(Wrong::TooLarge), "{text}");
        }
        for text in ["0.0000001", "12.34567%"] {
            assert_eq!(parts(text), Err(Wrong::TooFine), "{text}");
        }
    }
}
