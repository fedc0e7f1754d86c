//! `concurrency`: so many requests in flight.

use super::{
    Diagnostic,
    diagnostic::Report,
    lease,
    limit::Limiter,
    node::Entry,
    value,
    vocabulary::{self, Home},
};
use crate::{
    limiter::{Limit, concurrency},
    rules::Kind,
};

/// Reads a limit that takes as many slots as a request has hits, or one.
pub(super) fn read(
    entry: &Entry<'_>,
    weighs_hits: bool,
    report: &mut Report<'_>,
) -> Option<Limiter> {
    let mapping = value::mapping(entry, "{max: 20, lease_ttl: 60s}", report)?;
    vocabulary::check(mapping, Home::Concurrency, report);
    let term = lease::term(mapping, report);
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
    let limit = concurrency::Limit { max, term, weighs_hits };
    let kind = Kind::Limit(Limit::Concurrency(limit));
    Some(Limiter { refuses, ..Limiter::of(kind) })
}
