//! `token_bucket` in a rule file: `{rate: 100/s, burst: 500, grants: {share: 5%}}`.

use super::{Grants, Limit};
use crate::{
    limiter::config::{Configuration, Configured, Context},
    unit::Rate,
    yaml::{Diagnostic, Entry, Mapping, Report, Table, duration, rate, share, shown, value},
};

const TABLE: Table = Table {
    name: "`token_bucket`",
    place: "inside `token_bucket`",
    near: None,
    keys: &[&[
        ("rate", "How fast it refills."),
        ("burst", "How many tokens it holds; as many as come in a period unless it is given."),
        ("grants", "What replicas may take ahead of need."),
    ]],
};

const GRANTS: Table = Table {
    name: "`grants`",
    place: "inside `grants`, in a `token_bucket`",
    near: None,
    keys: &[&[
        ("share", "The most that a replica may have in hand, of the burst."),
        ("max_age", "How long it may keep that."),
    ]],
};

/// The smallest and the largest share, in millionths, and how to write them.
const LEAST_SHARE: (u32, &str) = (1_000, "0.1%");
const MOST_SHARE: (u32, &str) = (500_000, "50%");

impl Configured for Limit {
    const EXAMPLE: &'static str = "{rate: 100/s, burst: 500}";
    const TABLES: &'static [&'static Table] = &[&TABLE, &GRANTS];

    fn read(context: &Context<'_>, report: &mut Report<'_>) -> Option<Configuration<Self>> {
        let mapping = value::table(context.entry, &TABLE, Self::EXAMPLE, report)?;
        let burst = mapping.read_or("burst", None, |entry| value::whole(entry, report).map(Some));
        let rate = value::required(mapping, "rate", context.entry, rate::HELP, report);
        let grants = mapping.get("grants").map(|entry| read_grants(entry, report));
        let (rate, burst) = (rate::read(rate?, report)?, burst?);
        let refuses = refuses(mapping, rate, burst);
        let grants = grants.flatten();
        if grants.is_some() {
            check_overdraw(context, mapping, report);
        }
        let limit = Self::new(rate, burst.unwrap_or(rate.tokens)).with_grants(grants);
        Some(Configuration { refuses, ..Configuration::of(limit) })
    }
}

/// Warns of a bucket that nothing can be taken from.
fn refuses(mapping: &Mapping<'_>, rate: Rate, burst: Option<u32>) -> Option<Diagnostic> {
    let (entry, message) = match (rate.tokens, burst) {
        (0, Some(1..)) => {
            (mapping.get("burst")?, "`burst` does nothing: at a rate of 0 everything is refused")
        }
        (0, _) => (mapping.get("rate")?, "a rate of 0 refuses everything"),
        (_, Some(0)) => (mapping.get("burst")?, "`burst: 0` refuses everything"),
        _ => return None,
    };
    Some(value::refuses_everything(entry, message))
}

fn read_grants(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Grants> {
    let mapping = value::table(entry, &GRANTS, "{share: 5%, max_age: 100ms}", report)?;
    let Grants { share_parts, max_age_us } = Grants::DEFAULT;
    let share_parts = mapping.read_or("share", share_parts, |entry| read_share(entry, report));
    let max_age_us = mapping.read_or("max_age", max_age_us.into(), |entry| {
        duration::read(entry, duration::GRANT, report)
    });
    Some(Grants { share_parts: share_parts?, max_age_us: max_age_us?.try_into().ok()? })
}

fn read_share(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<u32> {
    let parts = share::read(entry, report)?;
    let (message, text) = if parts < LEAST_SHARE.0 {
        ("`share` is below a thousandth", format!("write at least {}", shown(LEAST_SHARE.1)))
    } else if parts > MOST_SHARE.0 {
        let help = "a replica that has more in hand would leave too little for the others";
        ("`share` is above a half", format!("write at most {}: {help}", shown(MOST_SHARE.1)))
    } else {
        return Some(parts);
    };
    report.reject(value::wrong(entry, message).help(text))
}

/// Reports `overdraw` beside a bucket with grants.
fn check_overdraw(context: &Context<'_>, mapping: &Mapping<'_>, report: &mut Report<'_>) {
    if let (Some(overdraw), Some(grants)) = (context.overdraw, mapping.get("grants")) {
        report.push(
            Diagnostic::error(
                overdraw.place(),
                "`overdraw` beside `grants`: what was spent before anybody asks is not taken ahead of need",
            )
            .help("remove one of the two")
            .key("overdraw")
            .related(grants.key_place, "and here"),
        );
    }
}
