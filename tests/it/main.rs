//! The whole of tollgate, tested through its doors. One binary, one file per feature.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "clippy.toml allows them in tests, but does not know the helpers of tests as such"
)]

mod config;
