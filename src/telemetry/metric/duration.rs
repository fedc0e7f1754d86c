//! How long things took. A distribution cannot be read afterwards, so it is recorded as it comes, in buckets
//! whose labels are settled beforehand: to record is to find the bucket and add, under a lock that is held for
//! no longer than that.

use crate::{
    clock::{Clock, Timestamp},
    store::Operation,
};
use opentelemetry::{
    KeyValue,
    metrics::{BoundHistogram, Meter},
};
use std::{fmt, sync::Arc};

/// The upper bounds of the buckets, in seconds. A decision takes some hundred microseconds, Envoy waits 20 ms for
/// it, and who acquires a lease may wait a minute for slots.
const BUCKETS: [f64; 15] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0,
    10.0, 60.0,
];

/// What callers ask for, by whatever door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `ShouldRateLimit` over gRPC.
    ShouldRateLimit,
    /// The same as JSON.
    Json,
    /// `Acquire`.
    Acquire,
    /// `Renew`.
    Renew,
    /// `Release`.
    Release,
    /// `ReportUtilization`, and each report of a stream.
    Report,
}

impl Method {
    /// All of them.
    const ALL: [Self; 6] = [
        Self::ShouldRateLimit,
        Self::Json,
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::Report,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::ShouldRateLimit => "ShouldRateLimit",
            Self::Json => "json",
            Self::Acquire => "Acquire",
            Self::Renew => "Renew",
            Self::Release => "Release",
            Self::Report => "Report",
        }
    }
}

/// Takes in durations. The default keeps none.
#[derive(Clone, Default)]
pub(in crate::telemetry) struct Durations(Option<Arc<Kept>>);

struct Kept {
    clock: Clock,
    requests: [BoundHistogram<f64>; Method::ALL.len()],
    /// None where there is nobody to call.
    store_calls: Option<[BoundHistogram<f64>; Operation::ALL.len()]>,
}

impl Durations {
    /// Where the store `is_called`, also of its calls.
    pub(super) fn new(meter: &Meter, is_called: bool) -> Self {
        let histogram = |name, description| {
            let histogram = meter.f64_histogram(name).with_unit("s");
            histogram.with_description(description).with_boundaries(BUCKETS.to_vec()).build()
        };
        let requests = histogram(
            "tollgate.request.duration",
            "From when a request was read until its answer was made",
        );
        let store_calls = histogram(
            "tollgate.store.call.duration",
            "From when Redis was asked until there was an answer or an error",
        );
        Self(Some(Arc::new(Kept {
            clock: Clock::monotonic(),
            requests: Method::ALL
                .map(|method| requests.bind(&[KeyValue::new("method", method.name())])),
            store_calls: is_called.then(|| {
                Operation::ALL.map(|it| store_calls.bind(&[KeyValue::new("operation", it.name())]))
            }),
        })))
    }

    /// A request was read. It takes until what this returns is dropped.
    pub(in crate::telemetry) fn begin(&self, method: Method) -> Timed<'_> {
        Timed(self.0.as_deref().map(|kept| (kept, method, kept.clock.now())))
    }
}

impl Durations {
    /// A call of the store took so many microseconds.
    pub(in crate::telemetry) fn store_call(&self, operation: Operation, micros: u64) {
        let histograms = self.0.as_ref().and_then(|kept| kept.store_calls.as_ref());
        if let Some(histogram) = histograms.and_then(|all| all.get(operation as usize)) {
            histogram.record(seconds(micros));
        }
    }
}

impl fmt::Debug for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durations").finish_non_exhaustive()
    }
}

/// A request that is not answered yet.
#[must_use = "it ends when it is dropped"]
pub(in crate::telemetry) struct Timed<'d>(Option<(&'d Kept, Method, Timestamp)>);

impl fmt::Debug for Timed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timed").finish_non_exhaustive()
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let Some((kept, method, began)) = self.0.take() else { return };
        if let Some(histogram) = kept.requests.get(method as usize) {
            histogram.record(seconds(kept.clock.now() - began));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 microseconds are 285 years")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1_000_000.0
}
