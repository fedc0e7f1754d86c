//! `fleet` in a rule file: `{pool: api, critical: true}`.

use super::{Capacity, Limit};
use crate::{
    limiter::{
        config::{Configuration, Configured, Context},
        pool::{self, Pool},
        scope::Located,
    },
    yaml::{Report, Table, value},
};

const TABLE: Table = Table {
    name: "`fleet`",
    place: "inside `fleet`",
    near: Some("a pool"),
    keys: &[&[
        ("pool", "The pool of which requests take slots."),
        ("critical", "Whether the requests are critical, for which the reserve is kept."),
    ]],
};

impl Configured for Limit {
    const EXAMPLE: &'static str = "{pool: api}";
    const TABLES: &'static [&'static Table] = &[&TABLE];

    fn read(context: &Context<'_>, report: &mut Report<'_>) -> Option<Configuration<Self>> {
        let mapping = value::table(context.entry, &TABLE, Self::EXAMPLE, report)?;
        let critical = value::flag_or(mapping, "critical", false, report);
        let help = "say of which pool the requests take slots: `fleet: {pool: api}`";
        let (_, Located { pool, .. }) = context.scope.pool(context.entry, mapping, help, report)?;
        let Pool { name, capacity, reserved_parts, term, utilization } = pool.clone();
        let capacity = match capacity {
            pool::Capacity::Slots(slots) => Capacity::Slots(slots),
            pool::Capacity::Reported => {
                let report_ttl = utilization.unwrap_or_default().settings.report_ttl;
                Capacity::Reported { report_ttl, slots: None }
            }
        };
        let weighs_hits = context.weighs_hits;
        let limit = Self { capacity, reserved_parts, critical, term, weighs_hits };
        Some(Configuration { pool: Some(name), ..Configuration::of(limit) })
    }
}
