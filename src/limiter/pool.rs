//! Pools: capacity that the limits of a domain share.

use crate::{lease::Term, worker::Settings};

/// How a rule file describes a pool.
pub const EXAMPLE: &str = "{capacity: 1000, reserved: 20%, lease_ttl: 60s}";

/// How it lists the classes of requests that are shed.
pub const SHED_EXAMPLE: &str = "[test, get, post]";

/// Capacity that requests of several descriptors share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name, by which limits mean it.
    pub name: String,
    /// How many slots it has.
    pub capacity: Capacity,
    /// The share of them that is kept for critical requests, in millionths.
    pub reserved_parts: u32,
    /// How long a lease on it lasts unless it is renewed.
    pub term: Term,
    /// How its workers' reports are taken; `None` where they report nothing.
    pub utilization: Option<Utilization>,
}

/// How many slots a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// So many.
    Slots(u32),
    /// As many as its workers report. Such a pool has a [`Pool::utilization`].
    Reported,
}

/// How the reports of a pool's workers are taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Utilization {
    /// When the pool is too busy.
    pub settings: Settings,
    /// The classes that are given up then, in this order. None twice.
    pub shed: Vec<String>,
}

/// What a utilization limit goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shedding {
    /// The classes of its pool that are given up, in this order; at least one.
    pub classes: Vec<String>,
    /// Which entry of a request is its class, the first being 0.
    pub class: usize,
    /// Which entries tell callers apart; none: every request is drawn for.
    pub callers: Vec<usize>,
}
