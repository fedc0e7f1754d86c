//! tollgate.

pub mod clock;
pub mod config;
pub mod decider;
pub mod decision;
pub mod grpc;
pub mod http;
pub mod key;
pub mod limiter;
pub mod request;
pub mod rules;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod unit;
pub mod verdict;
