//! The Redis that the tests of the server have as well.

#![allow(dead_code, unused_imports, reason = "they need more of it")]

#[path = "../../../../tests/it/support/files.rs"]
mod files;
#[path = "../../../../tests/it/support/redis.rs"]
mod redis;
#[path = "../../../../tests/it/support/wait.rs"]
mod wait;

pub(crate) use files::TempDir;
pub(super) use redis::Redis;
pub(crate) use wait::{PATIENCE, until};
