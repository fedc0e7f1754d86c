//! `grants`: slices of a bucket that replicas take ahead of need.

use super::{
    Diagnostic,
    diagnostic::{Report, shown},
    duration,
    node::{Entry, Mapping, Value},
    share, value,
    vocabulary::{self, Home},
};
use crate::limiter::{Limit, token_bucket::Grants};

/// The smallest and the largest share, in millionths, and how to write them.
const LEAST_SHARE: (u32, &str) = (1_000, "0.1%");
const MOST_SHARE: (u32, &str) = (500_000, "50%");

pub(super) fn read(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Grants> {
    let mapping = value::mapping(entry, "{share: 5%, max_age: 100ms}", report)?;
    vocabulary::check(mapping, Home::Grants, report);
    let share_parts = match mapping.get("share") {
        Some(entry) => read_share(entry, report),
        None => Some(Grants::DEFAULT.share_parts),
    };
    let max_age_us = match mapping.get("max_age") {
        Some(entry) => duration::read(entry, duration::GRANT, report),
        None => Some(Grants::DEFAULT.max_age_us.into()),
    };
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
    report.push(value::wrong(entry, message).help(text));
    None
}

/// Reports grants of a limit whose costs are known only afterwards.
pub(super) fn check(
    mapping: &Mapping<'_>,
    limiter: &Entry<'_>,
    limit: &Limit,
    report: &mut Report<'_>,
) {
    let grants = match (&limiter.node.value, limit) {
        (Value::Mapping(inside), Limit::TokenBucket(limit)) if limit.grants().is_some() => {
            inside.get("grants")
        }
        _ => None,
    };
    if let (Some(overdraw), Some(grants)) = (mapping.get("overdraw"), grants) {
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
