//! Rules: which limits apply to a request.

mod model;

pub use model::{Descriptor, Domain, Kind, Label, OnStoreFailure, Rule};
