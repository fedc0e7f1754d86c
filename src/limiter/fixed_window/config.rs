//! `fixed_window` in a rule file: `{limit: 100000, per: day, align: utc}`.

use super::{Limit, Period};
use crate::{
    limiter::config::{Configuration, Configured, Context},
    unit::Unit,
    yaml::{Entry, Mapping, Report, Table, Value, duration, shown, value, words},
};

const TABLE: Table = Table {
    name: "`fixed_window`",
    place: "inside `fixed_window`",
    near: None,
    keys: &[&[
        ("limit", "How many may pass in each window."),
        ("per", "The window: a unit from `second` to `year`, or a duration."),
        ("align", "`utc` for the calendar, or `epoch` to count units from 1970."),
    ]],
};

const PER_HELP: &str =
    "write a unit from `second` to `year`, or a duration such as `10s`, `5m` or `12h`";

impl Configured for Limit {
    const EXAMPLE: &'static str = "{limit: 1000, per: day}";
    const TABLES: &'static [&'static Table] = &[&TABLE];

    fn read(context: &Context<'_>, report: &mut Report<'_>) -> Option<Configuration<Self>> {
        let mapping = value::table(context.entry, &TABLE, Self::EXAMPLE, report)?;
        let help = "say how many may pass: `fixed_window: {limit: 1000, per: day}`";
        let most = value::required(mapping, "limit", context.entry, help, report);
        let per = value::required(mapping, "per", context.entry, PER_HELP, report);
        let limit = most.and_then(|entry| value::whole(entry, report));
        let period = per.and_then(|entry| read_period(entry, mapping, report));
        let limit = Self::new(limit?, period?);
        let most = most.filter(|_| limit.limit == 0);
        let refuses =
            most.map(|most| value::refuses_everything(most, "`limit: 0` refuses everything"));
        Some(Configuration { refuses, ..Configuration::of(limit) })
    }
}

fn read_period(
    entry: &Entry<'_>,
    mapping: &Mapping<'_>,
    report: &mut Report<'_>,
) -> Option<Period> {
    let align = mapping.get("align");
    let is_epoch = match align {
        Some(align) => value::one_of(align, &["utc", "epoch"], report)? == "epoch",
        None => false,
    };
    let Value::Text(text) = &entry.node.value else {
        return duration::read(entry, duration::PERIOD, report).map(Period::Fixed);
    };
    if let Some(unit) = Unit::from_name(text) {
        return Some(if is_epoch { Period::Fixed(unit.micros()) } else { Period::Calendar(unit) });
    }
    if duration::micros(text).is_none() {
        let meant = words::closest(text, &Unit::ALL.map(Unit::name));
        let meant = meant.map(|name| format!("did you mean `{name}`?\n")).unwrap_or_default();
        let message = format!("{} is no window", shown(text));
        report.push(value::wrong(entry, message).help(format!("{meant}{PER_HELP}")));
        return None;
    }
    if let Some(align) = align {
        report.push(
            value::wrong(align, "`align` beside a `per` that is no unit of the calendar")
                .help("remove it: windows of a duration are counted from 1970")
                .related(entry.place(), "this is a duration"),
        );
    }
    duration::read(entry, duration::PERIOD, report).map(Period::Fixed)
}
