//! `fleet`: a pool that many requests share, with a part of it kept for critical ones.

use super::{
    diagnostic::Report,
    limit::Limiter,
    node::Entry,
    pool::Located,
    scope::Scope,
    value,
    vocabulary::{self, Home},
};
use crate::{
    limiter::{Limit, fleet},
    rules::{Capacity, Kind, Pool},
};

/// Reads a limit that takes as many slots as a request has hits, or one.
pub(super) fn read(
    entry: &Entry<'_>,
    weighs_hits: bool,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> Option<Limiter> {
    let mapping = value::mapping(entry, "{pool: api}", report)?;
    vocabulary::check(mapping, Home::Fleet, report);
    let critical = value::flag_or(mapping, "critical", false, report);
    let help = "say of which pool the requests take slots: `fleet: {pool: api}`";
    let (_, Located { pool, .. }) = scope.pool(entry, mapping, help, report)?;
    let Pool { name, capacity, reserved_parts, term, utilization } = pool.clone();
    let capacity = match capacity {
        Capacity::Slots(slots) => fleet::Capacity::Slots(slots),
        Capacity::Reported => {
            let report_ttl = utilization.unwrap_or_default().settings.report_ttl;
            fleet::Capacity::Reported { report_ttl, slots: None }
        }
    };
    let limit = fleet::Limit { capacity, reserved_parts, critical, term, weighs_hits };
    Some(Limiter { pool: Some(name), ..Limiter::of(Kind::Limit(Limit::Fleet(limit))) })
}
