//! Rules: which limits apply to a request, as files and operators say. Pure: no clock, no store.

mod address;
mod by_value;
pub mod describe;
mod model;
pub mod pattern;
mod resolve;
mod tally;
mod tree;
mod unmatched;

pub use address::{Counter, NotMeant, Scope};
pub use by_value::{ByValue, MOST_VALUES, MOST_VALUES_OF_ALL, OTHERS};
pub use model::{
    Capacity, Descriptor, Domain, Kind, Label, OnStoreFailure, Pool, Rule, Shedding, Utilization,
};
pub use resolve::{ACQUIRE_KEY, Applied, Reporting, Resolution, pool_keys};
pub use tally::{Effect, Tally, Traffic};
pub use tree::{LEASE_KEY, PlacedRule, Rules};
