//! The question: what is known of a request, and what it costs.

use crate::{limiter::Cost, unit::Unit};
use bytes::Bytes;

/// A request, as the wire described it. Names and values are bytes: whatever a caller sent is limited,
/// text or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which rules apply. Not empty.
    pub domain: Bytes,
    /// What is known of it, each descriptor a path into the rules. At least one.
    pub descriptors: Vec<Descriptor>,
    /// The cost for descriptors that name none; 0 means 1.
    pub hits_addend: u32,
}

/// One path into the rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// Its entries, from the general to the particular.
    pub entries: Vec<Entry>,
    /// A limit that takes the place of the one in the rules.
    pub limit: Option<Override>,
    /// Its own cost; 0 is a peek. Below 2^63.
    pub hits_addend: Option<u64>,
    /// Whether the cost is given back.
    pub is_negative_hits: bool,
}

/// One property of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub key: Bytes,
    /// What it is for this request.
    pub value: Bytes,
}

/// A limit that came with the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override {
    /// How much may pass in one unit.
    pub requests_per_unit: u32,
    /// The unit.
    pub unit: Unit,
}

impl Request {
    /// What a descriptor of this request costs.
    pub fn cost_of(&self, descriptor: &Descriptor) -> Cost {
        let hits = descriptor.hits_addend.unwrap_or_else(|| self.hits_addend.max(1).into());
        match (descriptor.is_negative_hits, hits) {
            (true, hits) => Cost::Refund(hits),
            (false, 0) => Cost::Peek,
            (false, hits) => Cost::Take(hits),
        }
    }
}
