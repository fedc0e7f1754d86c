//! `concurrency` in a rule file: `{max: 20, lease_ttl: 60s}`.

use super::Limit;
use crate::{
    limiter::config::{Configuration, Configured, Context},
    yaml::{Diagnostic, Entry, Report, Table, duration, value},
};

const TABLE: Table = Table {
    name: "`concurrency`",
    place: "inside `concurrency`",
    near: None,
    keys: &[&[
        ("max", "How many requests may be in flight."),
        ("lease_ttl", "How long a lease lasts unless it is renewed."),
    ]],
};

impl Configured for Limit {
    const SUMMARY: &'static str = "So many requests in flight.";
    const EXAMPLE: &'static str = "{max: 20, lease_ttl: 60s}";
    const TABLES: &'static [&'static Table] = &[&TABLE];

    fn read(
        entry: &Entry<'_>,
        context: &Context<'_>,
        report: &mut Report<'_>,
    ) -> Option<Configuration<Self>> {
        let mapping = value::table(entry, &TABLE, Self::EXAMPLE, report)?;
        let term = duration::lease_ttl(mapping, report);
        let Some(most) = mapping.get("max") else {
            report.push(
                Diagnostic::error(entry.key_place, "`max` is missing")
                    .help("say how many requests may be in flight: `concurrency: {max: 20}`")
                    .key("max"),
            );
            return None;
        };
        let max = value::whole(most, report)?;
        let refuses = (max == 0).then(|| {
            Diagnostic::warning(most.place(), "`max: 0` refuses everything")
                .help("leave it if nobody is to pass; otherwise write a number above 0")
                .key("max")
        });
        let limit = Self { max, term, weighs_hits: context.weighs_hits };
        Some(Configuration { refuses, ..Configuration::of(limit) })
    }
}
