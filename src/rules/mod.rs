//! Rules: which limits apply to a request. Pure: no clock, no store.

pub mod describe;
mod model;
pub mod pattern;
mod resolve;
mod tally;
mod tree;

pub use model::{
    Capacity, Descriptor, Domain, Kind, Label, OnStoreFailure, Pool, Rule, Shedding, Utilization,
};
pub use resolve::{ACQUIRE_KEY, Applied, Reporting, Resolution, pool_keys};
pub use tally::{Effect, Tally, Traffic};
pub use tree::{LEASE_KEY, PlacedRule, Rules};
