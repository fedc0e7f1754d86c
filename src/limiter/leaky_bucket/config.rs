//! `leaky_bucket` in a rule file: `{rate: 10/s, queue: 20}`.

use super::Limit;
use crate::{
    limiter::config::{Configuration, Configured, Context},
    yaml::{Report, Table, rate, value},
};

const TABLE: Table = Table {
    name: "`leaky_bucket`",
    place: "inside `leaky_bucket`",
    near: None,
    keys: &[&[
        ("rate", "How fast hits go on."),
        ("queue", "How many hits may wait; none unless it is given."),
    ]],
};

impl Configured for Limit {
    const EXAMPLE: &'static str = "{rate: 10/s, queue: 20}";
    const TABLES: &'static [&'static Table] = &[&TABLE];

    fn read(context: &Context<'_>, report: &mut Report<'_>) -> Option<Configuration<Self>> {
        let mapping = value::table(context.entry, &TABLE, Self::EXAMPLE, report)?;
        let queue = match mapping.get("queue") {
            Some(entry) => value::whole(entry, report).and_then(|queue| {
                // With the hit that goes on at once it must be a number of 32 bits.
                let error = value::wrong(entry, "`queue` is too large");
                let error = error.help("write a whole number from 0 to 4294967294");
                if queue == u32::MAX { report.reject(error) } else { Some(queue) }
            }),
            None => Some(0),
        };
        let speed = value::required(mapping, "rate", context.entry, rate::HELP, report)?;
        let (rate, queue) = (rate::read(speed, report)?, queue?);
        let is_closed = rate.tokens == 0;
        let refuses =
            is_closed.then(|| value::refuses_everything(speed, "a rate of 0 refuses everything"));
        Some(Configuration { refuses, ..Configuration::of(Self::new(rate, queue)) })
    }
}
