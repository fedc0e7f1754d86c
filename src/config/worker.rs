//! `utilization` in a pool: when its workers are too busy, and what is given up then.

use crate::{
    lease::Term,
    limiter::pool::{SHED_EXAMPLE, Utilization},
    unit::WHOLE_PARTS,
    worker::Settings,
    yaml::{Diagnostic, Entry, Mapping, Report, Table, Value, duration, names, share, value},
};

pub(super) const TABLE: Table = Table {
    name: "the `utilization` of a pool",
    place: "in the `utilization` of the pool, under `pools`",
    near: Some("`utilization`"),
    keys: &[&[
        ("good_below", "The utilization below which pressure falls."),
        ("bad_above", "The utilization above which it rises."),
        ("hold_off", "How long the pool may be too busy before anything is shed."),
        ("shed_all_after", "How long it takes from there until all is shed that may be."),
        ("report_ttl", "How long a report is fresh."),
        ("shed", "The classes that are shed, in this order."),
    ]],
};

/// The most classes of a pool.
const MOST_CLASSES: usize = 32;

/// Reads how the reports of a pool's workers are taken. All of it has defaults.
pub(super) fn read(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Utilization> {
    if matches!(entry.node.value, Value::Null) {
        return Some(Utilization::default());
    }
    let mapping = value::mapping(entry, "{good_below: 70%, bad_above: 80%}", report)?;
    let is_known = report.check_keys(mapping, &TABLE);
    let default = Settings::default();
    let thresholds = thresholds(mapping, &default, report);
    let mut time = |key: &str, bounds, default: u64| {
        mapping.read_or(key, default, |entry| duration::read(entry, bounds, report))
    };
    let hold_off_us = time("hold_off", duration::HOLD_OFF, default.hold_off_us);
    let shed_all_after_us = time("shed_all_after", duration::SHEDDING, default.shed_all_after_us);
    let report_ttl_us = time("report_ttl", duration::REPORT, default.report_ttl.as_micros());
    let shed = mapping.read_or("shed", Vec::new(), |entry| classes(entry, report));
    let (good_below_parts, bad_above_parts) = thresholds?;
    let settings = Settings {
        good_below_parts,
        bad_above_parts,
        hold_off_us: hold_off_us?,
        shed_all_after_us: shed_all_after_us?,
        report_ttl: Term::of_micros(report_ttl_us?),
    };
    let utilization = Utilization { settings, shed: shed? };
    // A key that is not known may have been meant as `shed`, so that nothing is said of what is missing.
    is_known.then_some(utilization)
}

/// Reads below what a pool has time to spare, and above what it is too busy.
fn thresholds(
    mapping: &Mapping<'_>,
    default: &Settings,
    report: &mut Report<'_>,
) -> Option<(u32, u32)> {
    let (good, bad) = (mapping.get("good_below"), mapping.get("bad_above"));
    let mut read = |entry: Option<&Entry<'_>>, default: u32| match entry {
        Some(entry) => threshold(entry, report),
        None => Some(default),
    };
    let good_parts = read(good, default.good_below_parts);
    let bad_parts = read(bad, default.bad_above_parts);
    let (good_parts, bad_parts) = (good_parts?, bad_parts?);
    if let Some(wrong) = crossed((good, good_parts), (bad, bad_parts)) {
        return report.reject(wrong);
    }
    Some((good_parts, bad_parts))
}

fn threshold(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<u32> {
    let (is, why) = match share::read(entry, report)? {
        0 => ("0", "no pool is less busy than that"),
        WHOLE_PARTS => ("100 %", "pressure on the pool grows from there up to 100 %"),
        parts => return Some(parts),
    };
    report.reject(
        value::wrong(entry, format!("`{}` is {is}", entry.key))
            .help(format!("write a share above 0 and below 100 %, such as `80%`: {why}")),
    )
}

/// What is wrong with thresholds of which the lower is above the upper, if it is: each with the entry that
/// says it, if one does.
fn crossed(
    (good, good_parts): (Option<&Entry<'_>>, u32),
    (bad, bad_parts): (Option<&Entry<'_>>, u32),
) -> Option<Diagnostic> {
    let fix = |key: &str, parts| format!("`{key}: {}`", share::as_written(parts));
    let diagnostic = match (good, bad) {
        _ if good_parts <= bad_parts => return None,
        (Some(good), Some(bad)) => value::wrong(good, "`good_below` is above `bad_above`")
            .help(format!(
                "write at most {}, or raise `bad_above`: between the two nothing changes",
                fix("good_below", bad_parts)
            ))
            .related(bad.place(), "that is less"),
        (Some(good), None) => value::wrong(
            good,
            format!(
                "`good_below` is above `bad_above`, which is {} unless it is given",
                share::in_words(bad_parts)
            ),
        )
        .help(format!("give both: add {} or more", fix("bad_above", good_parts))),
        (None, bad) => value::wrong(
            bad?,
            format!(
                "`bad_above` is below `good_below`, which is {} unless it is given",
                share::in_words(good_parts)
            ),
        )
        .help(format!("give both: add {} or less", fix("good_below", bad_parts))),
    };
    Some(diagnostic)
}

/// Reads which classes are given up, in this order.
fn classes(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Vec<String>> {
    let classes = names::read(entry, SHED_EXAMPLE, report)?;
    if classes.len() > MOST_CLASSES {
        report
            .push(value::wrong(entry, format!("`shed` has {} classes", classes.len())).help(
                format!("write at most {MOST_CLASSES}: what is given up last needs no line"),
            ));
        return None;
    }
    Some(classes)
}
