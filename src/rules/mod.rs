//! Rules: which limits apply to a request.

mod model;
pub mod pattern;

pub use model::{Descriptor, Domain, Kind, Label, OnStoreFailure, Rule};
