//! The whole of tollgate, tested through its doors. One binary, one file per feature.

mod config;
