//! tollgate.

pub mod clock;
pub mod config;
pub mod key;
pub mod limiter;
pub mod rules;
pub mod unit;
