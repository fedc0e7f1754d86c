//! Proto to domain. What can be wrong with a request ends here.
//!
//! Envoy lets a request pass when it gets an error, so nothing that a caller of the mesh controls may
//! cause one: names and values are bytes of any kind and length. What is refused here only an operator
//! can have written into a configuration.

use super::proto::envoy::{
    extensions::common::ratelimit::v3::{
        RateLimitDescriptor, rate_limit_descriptor::RateLimitOverride,
    },
    service::ratelimit::v3::RateLimitRequest,
    r#type::v3::RateLimitUnit,
};
use crate::{
    lease::UnusableId,
    request::{Descriptor, Entry, Override, Request},
    unit::Unit,
    worker::InvalidLoad,
};
use bytes::Bytes;

/// The most descriptors in a request.
pub(super) const MOST_DESCRIPTORS: usize = 100;

/// The most entries in a descriptor.
pub(super) const MOST_ENTRIES: usize = 64;

/// The costs that are refused: a signed 64-bit number cannot hold them.
const TOO_COSTLY: u64 = 1 << 63;

/// A request that cannot be meant.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum InvalidRequest {
    #[error(
        "`domain` is empty: set it to the domain of a rule file (in Envoy: `domain` of the ratelimit filter)"
    )]
    EmptyDomain,
    #[error(
        "`descriptors` is empty: send at least one descriptor (in Envoy: `rate_limits` of the route)"
    )]
    NoDescriptors,
    #[error("{0} descriptors: a request may hold {MOST_DESCRIPTORS}")]
    TooManyDescriptors(usize),
    #[error("descriptors[{descriptor}] has {entries} entries: it may hold {MOST_ENTRIES}")]
    TooManyEntries { descriptor: usize, entries: usize },
    #[error("{count} times `{field}`: a message may hold {most}")]
    TooMany { field: &'static str, count: usize, most: usize },
    #[error(
        "descriptors[{descriptor}].limit.unit is {unit}: use one of SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR"
    )]
    UndefinedUnit { descriptor: usize, unit: i32 },
    #[error(
        "descriptors[{descriptor}].hits_addend is {hits}: it must be below 2^63 (to give back, set is_negative_hits)"
    )]
    TooCostly { descriptor: usize, hits: u64 },
    #[error("`lease_id` is empty: give the id that Acquire answered")]
    NoLeaseId,
    #[error(transparent)]
    UnusableId(#[from] UnusableId),
    #[error("`{field}` is no span of time: it must be above 0")]
    NoTime { field: &'static str },
    #[error("nothing to hold: begin the stream with a HoldRequest that has `acquire`")]
    NothingToHold,
    #[error("`{field}` is empty: a report says which worker of which pool it is about")]
    Empty { field: &'static str },
    #[error("`worker_id` has {length} bytes: at most 256, such as the name of a pod")]
    LongName { length: usize },
    #[error("no load: set one of `busy_slots` (with `total_slots`), `ratio` and `orca`")]
    NoLoad,
    #[error(transparent)]
    InvalidLoad(#[from] InvalidLoad),
    #[error("`measured_at` is no time after 1970 and before 2255: leave it out, or set it")]
    NoInstant,
}

/// Reads a request off the wire.
pub(super) fn read_request(message: RateLimitRequest) -> Result<Request, InvalidRequest> {
    read_parts(message.domain, message.descriptors, message.hits_addend)
}

/// Reads what makes a request, in whatever message it came.
pub(super) fn read_parts(
    domain: Bytes,
    descriptors: Vec<RateLimitDescriptor>,
    hits_addend: u32,
) -> Result<Request, InvalidRequest> {
    if domain.is_empty() {
        return Err(InvalidRequest::EmptyDomain);
    }
    match descriptors.len() {
        0 => return Err(InvalidRequest::NoDescriptors),
        many if many > MOST_DESCRIPTORS => return Err(InvalidRequest::TooManyDescriptors(many)),
        _ => {}
    }
    let descriptors = descriptors.into_iter().enumerate();
    let descriptors = descriptors.map(read_descriptor).collect::<Result<_, _>>()?;
    Ok(Request { domain, descriptors, hits_addend })
}

fn read_descriptor(
    (place, message): (usize, RateLimitDescriptor),
) -> Result<Descriptor, InvalidRequest> {
    let entries = message.entries.len();
    if entries > MOST_ENTRIES {
        return Err(InvalidRequest::TooManyEntries { descriptor: place, entries });
    }
    if let Some(hits) = message.hits_addend.filter(|&hits| hits >= TOO_COSTLY) {
        return Err(InvalidRequest::TooCostly { descriptor: place, hits });
    }
    let entries = message.entries.into_iter();
    Ok(Descriptor {
        entries: entries.map(|entry| Entry { key: entry.key, value: entry.value }).collect(),
        limit: message.limit.map(|limit| read_override(place, limit)).transpose()?,
        hits_addend: message.hits_addend,
        is_negative_hits: message.is_negative_hits,
    })
}

fn read_override(place: usize, limit: RateLimitOverride) -> Result<Override, InvalidRequest> {
    let unit = RateLimitUnit::try_from(limit.unit).ok().and_then(read_unit);
    let unit = unit.ok_or(InvalidRequest::UndefinedUnit { descriptor: place, unit: limit.unit })?;
    Ok(Override { requests_per_unit: limit.requests_per_unit, unit })
}

const fn read_unit(unit: RateLimitUnit) -> Option<Unit> {
    Some(match unit {
        RateLimitUnit::Unknown => return None,
        RateLimitUnit::Second => Unit::Second,
        RateLimitUnit::Minute => Unit::Minute,
        RateLimitUnit::Hour => Unit::Hour,
        RateLimitUnit::Day => Unit::Day,
        RateLimitUnit::Week => Unit::Week,
        RateLimitUnit::Month => Unit::Month,
        RateLimitUnit::Year => Unit::Year,
    })
}
