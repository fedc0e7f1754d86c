//! What the process says of itself.

use std::io::{IsTerminal as _, stderr};
use tracing_subscriber::EnvFilter;

/// Sends events to stderr, as text. `filter` is a level or what `RUST_LOG` takes.
///
/// # Errors
///
/// Where the filter cannot be read, with the reason.
pub fn init(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        .try_init()
        .map_err(|error| error.to_string())
}
