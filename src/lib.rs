//! tollgate: a rate limit service for Envoy.
//!
//! The command is in `main.rs`; this is what it is made of. A request runs straight through:
//!
//! ```text
//! grpc, http ─▶ request ─▶ rules ─▶ store ─▶ decision ─▶ grpc, http
//! ```
//!
//! [`decider`] is that line. [`limiter`] is the list of limiters, pure functions of state, time and
//! cost; [`verdict`] says when a request that meets several of them passes; [`store`] keeps their
//! states and runs the verdict as one atomic step. [`config`] turns what people type into [`rules`], and
//! [`reload`] does it again when they type something else.
//!
//! Nothing but [`clock`] reads a clock, nothing that decides holds a lock while it waits, and no input leads
//! to a panic. `ARCHITECTURE.md` has the map and the other invariants.

pub mod activity;
pub mod budget;
pub mod clock;
pub mod config;
pub mod decider;
pub mod decision;
pub mod grant;
pub mod grpc;
pub mod http;
pub mod key;
pub mod lease;
pub mod limiter;
pub mod order;
pub mod refund;
pub mod release;
pub mod reload;
pub mod renew;
pub mod report;
pub mod request;
pub mod rules;
pub mod server;
pub mod services;
pub mod shadow;
pub mod store;
pub mod task;
pub mod telemetry;
pub mod unit;
pub mod verdict;
pub mod worker;
pub mod yaml;
