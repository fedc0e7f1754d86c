//! Rules: which limits apply to a request. Pure: no clock, no store.

pub mod describe;
mod model;
pub mod pattern;
mod resolve;
mod tree;

pub use model::{Descriptor, Domain, Kind, Label, OnStoreFailure, Pool, Rule};
pub use resolve::{ACQUIRE_KEY, Applied, Resolution};
pub use tree::{LEASE_KEY, PlacedRule, Rules};
