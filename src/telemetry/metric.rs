//! Metrics: what has been counted anyhow, under names, for whoever collects it.
//!
//! Nothing is reported to this module. Where things happen they are counted, each by one addition; when somebody
//! collects, the instruments listed in this folder read those counts. So a decision pays nothing for being
//! watched, and what is told cannot differ from what the log and `/pools` say. Only durations are recorded as
//! they come ([`Durations`]), for a distribution cannot be read afterwards.
//!
//! What can be higher or lower is told as an up-down counter, which Prometheus calls a gauge all the same: of a
//! gauge the library tells the last value for ever, also of a pool that is gone.

mod decision;
mod duration;
mod lease;
mod pool;
mod process;
mod server;
mod store;

pub use duration::Method;
pub(super) use duration::{Durations, Timed};

use super::{
    DoorView, Export, Observer,
    otlp::{finish, resource},
    trace::Traces,
};
use crate::{
    budget::Budget,
    decider::{Decider, PoolView},
    reload::Reloads,
    store::Store,
};
use opentelemetry::{
    KeyValue,
    metrics::{Meter, MeterProvider as _},
};
use opentelemetry_sdk::metrics::{Instrument, SdkMeterProvider, Stream};
use prometheus::{Registry, TextEncoder};
use std::{fmt, sync::Arc};
use tokio::sync::watch;

/// The most series of one metric. The library wants a bound, beyond which it adds everything up: this one is for
/// 100,000 limits, each with its four outcomes, and rules are the operator's own.
const MOST_SERIES: usize = 400_000;

/// The same of what has some series for each domain or pool: for 10,000 of them.
const MOST_SERIES_OF_DOMAINS: usize = 40_000;

/// The bound of a metric; `None` where the library's own will do.
fn most_series(name: &str) -> Option<usize> {
    let is_of_domains = || {
        let of_domains = ["tollgate.requests", "tollgate.rules", "tollgate.pool."];
        of_domains.iter().any(|start| name.starts_with(start))
    };
    match decision::NAMES.contains(&name) {
        true => Some(MOST_SERIES),
        false => is_of_domains().then_some(MOST_SERIES_OF_DOMAINS),
    }
}

/// What there is to tell of.
#[derive(Debug)]
pub struct Sources {
    /// What decides, its rules and its store.
    pub decider: Arc<Decider>,
    /// What became of changed rule files.
    pub reloads: Arc<Reloads>,
    /// How it stood with the pools when they were last looked at.
    pub pools: watch::Receiver<Vec<PoolView>>,
    /// All doors.
    pub doors: [DoorView; 3],
    /// The memory of requests that are not whole.
    pub budget: Budget,
}

/// Why metrics cannot be told.
#[derive(Debug, thiserror::Error)]
#[error("this build is broken: its metrics cannot be told ({0})")]
pub struct MetricsError(String);

/// All metrics.
pub struct Metrics {
    registry: Registry,
    observer: Observer,
    /// Reads for as long as it is there.
    provider: SdkMeterProvider,
}

impl Metrics {
    /// Tells of these, and exports what is told.
    ///
    /// # Errors
    ///
    /// Where a metric cannot be told, which is a fault of the build.
    pub fn new(sources: Sources, mut export: Export) -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let prometheus = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .without_target_info()
            .build()
            .map_err(|error| MetricsError(error.to_string()))?;
        let of_many = |instrument: &Instrument| {
            let most = most_series(instrument.name())?;
            Stream::builder().with_cardinality_limit(most).build().ok()
        };
        let mut provider = SdkMeterProvider::builder()
            .with_resource(resource())
            .with_reader(prometheus)
            .with_view(of_many);
        if let Some(reader) = export.reader() {
            provider = provider.with_reader(reader);
        }
        let provider = provider.build();
        let meter = provider.meter("tollgate");
        let is_called = matches!(sources.decider.store(), Store::Redis(_));
        let durations = Durations::new(&meter, is_called);
        let instruments = Instruments { meter, sources: Arc::new(sources) };
        decision::register(&instruments);
        store::register(&instruments);
        lease::register(&instruments);
        pool::register(&instruments);
        server::register(&instruments);
        process::register(&instruments);
        let observer = Observer { durations, traces: Traces::new(&mut export) };
        Ok(Self { registry, observer, provider })
    }

    /// What looks on at requests.
    pub const fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Exports what there is still to say, for a bounded time. Nothing is exported any more after that.
    pub async fn finish(&self) {
        finish(self.provider.clone(), self.observer.traces.provider()).await;
    }

    /// All of them, in Prometheus's text format. It takes time where there are many rules: some microseconds for
    /// each series.
    ///
    /// # Errors
    ///
    /// Where they cannot be written, which is a bug of ours.
    pub fn text(&self) -> Result<String, MetricsError> {
        let told = TextEncoder::new().encode_to_string(&self.registry.gather());
        told.map_err(|error| MetricsError(error.to_string()))
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Takes a value and its labels.
type Tell<'t, T> = &'t mut dyn FnMut(T, &[KeyValue]);

/// Reads the sources and tells every series of a metric.
type Read<T> = fn(&Sources, Tell<'_, T>);

/// What instruments are made with.
struct Instruments {
    meter: Meter,
    sources: Arc<Sources>,
}

impl Instruments {
    /// Something that only grows.
    fn counter(&self, name: &'static str, description: &'static str, read: Read<u64>) {
        let sources = Arc::clone(&self.sources);
        self.meter
            .u64_observable_counter(name)
            .with_description(description)
            .with_callback(move |observer| {
                read(&sources, &mut |value, labels| observer.observe(value, labels));
            })
            .build();
    }

    /// Seconds, which only grow.
    fn seconds(&self, name: &'static str, description: &'static str, read: Read<f64>) {
        let sources = Arc::clone(&self.sources);
        self.meter
            .f64_observable_counter(name)
            .with_unit("s")
            .with_description(description)
            .with_callback(move |observer| {
                read(&sources, &mut |value, labels| observer.observe(value, labels));
            })
            .build();
    }

    /// Something that can be higher or lower, in this unit: `s`, `By` for bytes, `1` for a share of which 1 is
    /// all, or none.
    fn gauge(
        &self,
        name: &'static str,
        unit: &'static str,
        description: &'static str,
        read: Read<f64>,
    ) {
        let sources = Arc::clone(&self.sources);
        self.meter
            .f64_observable_up_down_counter(name)
            .with_unit(unit)
            .with_description(description)
            .with_callback(move |observer| {
                read(&sources, &mut |value, labels| observer.observe(value, labels));
            })
            .build();
    }
}

/// A count as a gauge has it.
#[expect(clippy::cast_precision_loss, reason = "nothing that is counted here comes near 2^53")]
const fn number(count: u64) -> f64 {
    count as f64
}

/// Yes or no as a gauge has it.
const fn flag(is_so: bool) -> f64 {
    if is_so { 1.0 } else { 0.0 }
}
