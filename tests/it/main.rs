//! The whole of tollgate, tested from outside. One binary, one file per feature.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "clippy knows test functions, but not what they share; a test fails by panicking"
)]

mod admin;
mod allocations;
mod clients;
mod command;
mod config;
mod conformance;
mod connect;
mod costs;
mod delays;
mod denials;
mod deploy;
mod differences;
mod doors;
mod envoy;
mod envoy_leases;
mod envoy_shedding;
mod failover;
mod failure;
mod faults;
mod grants;
mod grpc;
mod hostile;
mod http;
mod lanes;
mod lease;
mod lease_outage;
mod limiters;
mod load;
mod orders;
mod outage;
mod packaging;
mod pools;
mod readme;
mod reload;
mod reload_storm;
mod replicas;
mod serve;
mod services;
mod shadow_report;
mod shedding;
mod slots;
mod states;
mod storage;
mod support;
mod tasks;
mod telemetry;
mod tidy;
mod tls;
mod utilization;
