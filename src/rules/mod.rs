//! Rules: which limits apply to a request. Pure: no clock, no store.

pub mod describe;
mod model;
pub mod pattern;
mod resolve;
mod tree;

pub use model::{
    Capacity, Descriptor, Domain, Kind, Label, OnStoreFailure, Pool, Rule, Shedding, Utilization,
};
pub use resolve::{ACQUIRE_KEY, Applied, Reporting, Resolution, pool_keys};
pub use tree::{LEASE_KEY, PlacedRule, Rules};
