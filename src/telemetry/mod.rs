//! What the process says of itself: `watch.rs` what is worth a line in the log, `metric.rs` what can be counted,
//! `trace.rs` what became of single requests; `otlp.rs` sends both to whoever collects them.

mod metric;
mod observer;
mod otlp;
mod trace;
mod watch;

pub use metric::{Method, Metrics, MetricsError, Sources};
pub use observer::{Observer, Underway};
pub use otlp::{Export, ExportError};
pub use trace::TRACE_HEADERS;
pub use watch::{CostWatch, DoorCounts, DoorView, DoorWatch, PoolWatch, RefusalWatch, Watch};

use metric::{Durations, Timed};
use std::{
    io::{IsTerminal as _, stderr},
    panic,
    sync::atomic::{AtomicU64, Ordering},
};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// Has a panic, which is a bug of ours, say in the log where it was, and nothing of what was asked. Of many
/// ever fewer are told: the first, the second, the fourth.
pub fn log_panics() {
    static PANICS: AtomicU64 = AtomicU64::new(0);
    panic::set_hook(Box::new(|panic| {
        let number = PANICS.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if number.is_power_of_two() {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            tracing::error!(number, "this is a bug of tollgate at {place}: please report it");
        }
    }));
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// As text, for people.
    Text,
    /// As a JSON object a line, for programs.
    Json,
}

/// Sends events to stderr, in this format. `filter` is a level, or `target=level`, separated by commas.
///
/// # Errors
///
/// Where the filter cannot be read, with the reason.
pub fn init(filter: &str, format: LogFormat) -> Result<(), String> {
    // A word that is no level would be taken for a target, and nothing be logged at all.
    let is_level = |word: &str| word.contains('=') || word.parse::<LevelFilter>().is_ok();
    if let Some(word) = filter.split(',').map(str::trim).find(|word| !is_level(word)) {
        return Err(format!(
            "`{word}` is no level: write error, warn, info, debug, trace or off, or `target=level`"
        ));
    }
    // A library that warns of each frame that a caller sends lets callers write the log. Whoever wants to
    // read that says so.
    let quiet = if filter.contains("h2=") { "" } else { ",h2=error" };
    let filter =
        EnvFilter::try_new(format!("{filter}{quiet}")).map_err(|error| error.to_string())?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        // It would say on stderr that stderr is gone, and panic over it.
        .log_internal_errors(false);
    let begun = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .try_init(),
    };
    begun.map_err(|error| error.to_string())
}
