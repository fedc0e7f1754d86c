//! Rates: `100/s`, or `{tokens: 100, per: 30s}`.

use super::{
    diagnostic::{Diagnostic, shown},
    duration::{self, leading_number},
    node::{Entry, Mapping, Value},
    report::Report,
    table::Table,
    value, words,
};
use crate::unit::{Rate, Unit};

/// A rate that is not written as text.
pub const TABLE: Table = Table {
    name: "`rate`",
    place: "inside `rate`",
    near: None,
    keys: &[&[("tokens", "How many."), ("per", "In how much time.")]],
};

/// How to write a rate.
pub const HELP: &str = "write a rate such as `100/s`, `10/min`, `5/h` or `250/day`, \
                        or `{tokens: 100, per: 30s}`";

/// The fastest rate, in tokens per second.
const FASTEST: u128 = u32::MAX as u128;

/// Reads a rate: `100/s`, or `{tokens: 100, per: 30s}`.
pub fn read(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Rate> {
    let rate = match &entry.node.value {
        Value::Mapping(mapping) => Ok(rate_of_parts(entry, mapping, report)?),
        Value::Text(text) => rate_of_text(text),
        Value::Integer(_) => {
            let fix = shown(&format!("{}/s", entry.node.literal));
            let help = format!("write {fix} for a rate per second");
            Err(("`rate` has no unit of time".into(), help))
        }
        _ => Err((format!("`rate` is {}", entry.node.kind()), HELP.into())),
    };
    let wrong = |(message, help): (String, String)| value::wrong(entry, message).help(help);
    rate.and_then(within_bounds).map_err(|error| report.push(wrong(error))).ok()
}

/// A rate as a rule file writes it in a word: `100/s`.
///
/// # Errors
///
/// Where it is none, with what is wrong and what to write.
pub fn parse(text: &str) -> Result<Rate, String> {
    let rate = rate_of_text(text).and_then(within_bounds);
    rate.map_err(|(message, help)| format!("{message}: {help}"))
}

fn within_bounds(rate: Rate) -> Result<Rate, (String, String)> {
    if u128::from(rate.tokens) * 1_000_000 > FASTEST * u128::from(rate.period_us) {
        let help = "write a lower rate, or a longer period";
        return Err(("`rate` is above 4294967295 per second".into(), help.into()));
    }
    Ok(rate)
}

/// `{tokens: 100, per: 30s}`.
fn rate_of_parts(
    entry: &Entry<'_>,
    mapping: &Mapping<'_>,
    report: &mut Report<'_>,
) -> Option<Rate> {
    report.check_keys(mapping, &TABLE);
    let mut required = |key: &str| {
        let found = mapping.get(key);
        if found.is_none() {
            report.push(
                Diagnostic::error(entry.place(), format!("`{key}` is missing"))
                    .help("write both: `rate: {tokens: 100, per: 30s}`")
                    .key(key),
            );
        }
        found
    };
    let (tokens, per) = (required("tokens"), required("per"));
    let tokens = tokens.and_then(|entry| value::whole(entry, report));
    let period_us = per.and_then(|entry| duration::read(entry, duration::PERIOD, report));
    Some(Rate { tokens: tokens?, period_us: period_us? })
}

/// `100/s`. What is wrong and what to write, where it is no rate.
fn rate_of_text(text: &str) -> Result<Rate, (String, String)> {
    let no_rate = || (format!("{} is no rate", shown(text)), HELP.to_owned());
    let (tokens, unit) = text.split_once('/').ok_or_else(no_rate)?;
    let (tokens, unit) = (tokens.trim(), unit.trim());
    let Some((number, "")) = leading_number(tokens) else {
        let fraction = tokens.contains('.') && tokens.parse::<f64>().is_ok();
        return Err(match fraction {
            true => (
                format!("{} is no rate in whole tokens", shown(text)),
                "write whole tokens in a longer period: not `0.5/s` but `30/min`".into(),
            ),
            false => no_rate(),
        });
    };
    let Some(unit) = rate_unit(unit) else {
        let message = format!("{} is no unit of a rate", shown(unit));
        let help = match unit {
            "m" | "M" => format!("write `{number}/min` or `{number}/month`"),
            _ => format!("write one of {}", words::list(&RATE_UNITS).replace(" and ", " or ")),
        };
        return Err((message, help));
    };
    let Ok(tokens) = u32::try_from(number) else {
        let help = "write at most 4294967295 tokens";
        return Err((format!("{} is too many tokens", shown(tokens)), help.into()));
    };
    Ok(Rate::per(tokens, unit))
}

/// Units of a rate, as they are offered.
const RATE_UNITS: [&str; 11] =
    ["s", "min", "h", "d", "second", "minute", "hour", "day", "week", "month", "year"];

fn rate_unit(name: &str) -> Option<Unit> {
    match name.to_ascii_lowercase().as_str() {
        "s" => Some(Unit::Second),
        "min" => Some(Unit::Minute),
        "h" => Some(Unit::Hour),
        "d" => Some(Unit::Day),
        name => Unit::from_name(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_any_case_and_with_spaces() {
        for text in ["100/min", "100/MIN", "100 / minute", "100/Minute"] {
            assert_eq!(rate_of_text(text), Ok(Rate::per(100, Unit::Minute)), "{text}");
        }
        assert_eq!(rate_of_text("4294967295/s"), Ok(Rate::per(u32::MAX, Unit::Second)));
        assert_eq!(rate_of_text("0/year"), Ok(Rate::per(0, Unit::Year)));
    }

    #[test]
    fn every_unit_that_is_offered_is_read() {
        for unit in RATE_UNITS {
            assert!(rate_of_text(&format!("1/{unit}")).is_ok(), "{unit}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in ["", "/", "100", "/s", "100/", "-1/s", "+1/s", "1.5/s", "1/m", "1/2s", "1/s/s"]
        {
            assert!(rate_of_text(text).is_err(), "{text}");
        }
    }
}
