//! The answer: whether a request may pass, what became of each descriptor, and what a refused caller is
//! told.

use crate::{lease::LeaseId, limiter::Limit};
use bytes::Bytes;
use serde_json::{Map, Value};

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether it may pass.
    pub code: Code,
    /// Where it may, after how many microseconds it is to go on; 0 for at once.
    pub delay_us: u64,
    /// One status for each descriptor, in the request's order.
    pub statuses: Vec<Status>,
    /// The first limit that refuses by itself, being no quota; it may be another than its descriptor's
    /// status shows.
    pub enforced_over: Option<Status>,
    /// How it stands with each limit that callers may know of, in the order of the request; empty unless
    /// that is wanted.
    pub standings: Vec<Standing>,
    /// What to tell a refused caller; `None` where the request may pass.
    pub refused: Option<Refused>,
    /// What the request holds from now on.
    pub lease: Option<Lease>,
    /// Facts from the rules of the descriptors that are under their limits.
    pub metadata: Map<String, Value>,
    /// Whether it was made without the store, by what the rules want done then.
    pub degraded: bool,
    /// Whether at least one limit takes part in it.
    pub limit_matched: bool,
}

/// What a request holds while it is in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// By which it is renewed and released.
    pub id: LeaseId,
    /// The name that the request carries for it; the id's own text where it carries none.
    pub name: Bytes,
    /// What names are called in the request's domain.
    pub key: String,
    /// How long it is held unless it is renewed, in microseconds.
    pub left_us: u64,
    /// The request headers in which the upstream is told.
    pub headers: Vec<String>,
    /// The slots that it holds, limit by limit; filled in for callers of Acquire only.
    pub held: Vec<HeldSlots>,
}

/// Slots of one limit that a lease holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSlots {
    /// Which descriptor of the request reaches the limit; `None` where the rules have changed since.
    pub descriptor: Option<usize>,
    /// The name of the limit, or else the keys that lead to it; empty where the rules have changed since.
    pub limit: String,
    /// The name of its limiter.
    pub limiter: String,
    /// How many.
    pub slots: u64,
}

/// Under or over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Under the limit.
    Ok,
    /// Over it.
    OverLimit,
}

/// What became of one descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether its limit is over.
    pub code: Code,
    /// The limit it shows; `None` where nothing limits it.
    pub limit: Option<ShownLimit>,
    /// How much is left.
    pub remaining: u32,
    /// Over: seconds until the same cost would pass, `None` for never. Under: seconds until the limit
    /// is whole again.
    pub reset_s: Option<u64>,
}

/// A limit as a status shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownLimit {
    /// Its name.
    pub name: Option<String>,
    /// How much may pass at once.
    pub requests_per_unit: u32,
    /// What does the limiting.
    pub limit: Limit,
}

/// How it stands with one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What callers know it by: its name, or else the keys that it is for.
    pub name: String,
    /// What a descriptor would show that met this limit alone.
    pub status: Status,
}

/// What a refused caller is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Seconds until a retry makes sense, at least 1; `None` where none ever does.
    pub retry_after_s: Option<u64>,
    /// The text.
    pub message: String,
    /// The name of the first limit that refuses, where it has one.
    pub limit_name: Option<String>,
    /// The path of that limit, for the operator; `None` for one that came with the request.
    pub rule: Option<Box<str>>,
    /// Whether it is not this caller who asks for too much, but the service that is short of room, or of a
    /// store: that limit sheds load, or could not be asked.
    pub sheds_load: bool,
}
