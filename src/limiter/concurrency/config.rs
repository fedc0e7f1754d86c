//! `concurrency` in a rule file: `{max: 20, lease_ttl: 60s}`.

use super::Limit;
use crate::{
    limiter::config::{Configuration, Configured, Context},
    yaml::{Report, Table, duration, value},
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
    const EXAMPLE: &'static str = "{max: 20, lease_ttl: 60s}";
    const TABLES: &'static [&'static Table] = &[&TABLE];

    fn read(context: &Context<'_>, report: &mut Report<'_>) -> Option<Configuration<Self>> {
        let mapping = value::table(context.entry, &TABLE, Self::EXAMPLE, report)?;
        let term = duration::lease_ttl(mapping, report);
        let help = "say how many requests may be in flight: `concurrency: {max: 20}`";
        let most = value::required(mapping, "max", context.entry, help, report)?;
        let max = value::whole(most, report)?;
        let refuses =
            (max == 0).then(|| value::refuses_everything(most, "`max: 0` refuses everything"));
        let limit = Self { max, term, weighs_hits: context.weighs_hits };
        Some(Configuration { refuses, ..Configuration::of(limit) })
    }
}
