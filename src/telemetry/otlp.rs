//! Export by OTLP, to whoever collects metrics and traces: only where an endpoint is named, on threads of their own,
//! and never so that a request waits for it. What cannot be exported is dropped; the log says when that begins and
//! when it ends.

use opentelemetry::KeyValue;
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    metrics::{
        PeriodicReader, SdkMeterProvider, Temporality, data::ResourceMetrics,
        exporter::PushMetricExporter,
    },
    trace::{Sampler, SdkTracerProvider, SpanData},
};
use std::{
    env, fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::{task, time};

/// How long the last metrics and spans may take on their way out.
const LAST_EXPORT: Duration = Duration::from_secs(2);

/// Where each kind goes that does not go where all of it does.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";

/// Says which spans are made, where the default is not wanted.
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";

/// What is exported. The default is nothing.
#[derive(Debug, Default)]
pub struct Export {
    metrics: Option<MetricExporter>,
    spans: Option<SpanExporter>,
}

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The endpoint is none.
    #[error("{0:?} is no OTLP endpoint: name it with its scheme, such as http://localhost:4317")]
    NoScheme(String),
    /// It cannot be used.
    #[error("the OTLP endpoint cannot be used: {0}")]
    Unfit(#[from] ExporterBuildError),
}

impl Export {
    /// Export to this endpoint, and to those that the environment names for metrics or traces alone. Further
    /// variables of OpenTelemetry's are heeded: headers, timeouts, intervals. It wants a runtime, and connects
    /// when there is something to say.
    ///
    /// # Errors
    ///
    /// Where an endpoint is none.
    pub fn open(endpoint: Option<&str>) -> Result<Self, ExportError> {
        let spans = endpoint_for(TRACES_ENDPOINT, endpoint)?;
        let metrics = endpoint_for(METRICS_ENDPOINT, endpoint)?;
        let spans = spans
            .map(|endpoint| SpanExporter::builder().with_tonic().with_endpoint(endpoint).build());
        let metrics = metrics
            .map(|endpoint| MetricExporter::builder().with_tonic().with_endpoint(endpoint).build());
        Ok(Self { metrics: metrics.transpose()?, spans: spans.transpose()? })
    }

    /// What reads the metrics now and then.
    pub(super) fn reader(&mut self) -> Option<PeriodicReader<Watched<MetricExporter>>> {
        let exporter = Watched::new("metrics", self.metrics.take()?);
        Some(PeriodicReader::builder(exporter).build())
    }

    /// What makes spans, and whether only for requests whose callers make some.
    pub(super) fn tracer(&mut self) -> Option<(SdkTracerProvider, bool)> {
        let exporter = Watched::new("traces", self.spans.take()?);
        let provider =
            SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter);
        let follows = env::var_os(SAMPLER).is_none();
        let provider = if follows {
            // A trace of a question about a limit, and of nothing else, is seldom wanted.
            provider.with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)))
        } else {
            provider
        };
        Some((provider.build(), follows))
    }
}

fn endpoint_for(variable: &str, other: Option<&str>) -> Result<Option<String>, ExportError> {
    let own = env::var(variable).ok().filter(|endpoint| !endpoint.is_empty());
    let endpoint = own.or_else(|| other.map(str::to_owned)).filter(|it| !it.is_empty());
    match endpoint {
        Some(endpoint) if !endpoint.contains("://") => Err(ExportError::NoScheme(endpoint)),
        endpoint => Ok(endpoint),
    }
}

/// What the process is called where others are too: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say more.
pub(super) fn resource() -> Resource {
    let attributes = env::var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let is_named =
        env::var_os("OTEL_SERVICE_NAME").is_some() || attributes.contains("service.name=");
    let resource = Resource::builder()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if is_named { resource.build() } else { resource.with_service_name("tollgate").build() }
}

/// Exports what there is still to say, but waits for it no longer than is bearable.
pub(super) async fn finish(metrics: SdkMeterProvider, traces: Option<SdkTracerProvider>) {
    let last = task::spawn_blocking(move || {
        // Whoever does not take it has been told of.
        let _ = traces.map(|traces| traces.shutdown_with_timeout(LAST_EXPORT));
        let _ = metrics.shutdown_with_timeout(LAST_EXPORT);
    });
    let _ = time::timeout(LAST_EXPORT, last).await;
}

/// An exporter of which the log says when it begins to fail, and when it ends.
pub(super) struct Watched<E> {
    what: &'static str,
    exporter: E,
    is_failing: AtomicBool,
}

impl<E> Watched<E> {
    const fn new(what: &'static str, exporter: E) -> Self {
        Self { what, exporter, is_failing: AtomicBool::new(false) }
    }

    fn watch(&self, exported: OTelSdkResult) -> OTelSdkResult {
        let what = self.what;
        let was_failing = self.is_failing.swap(exported.is_err(), Ordering::Relaxed);
        match &exported {
            Err(error) if !was_failing => {
                tracing::warn!(
                    "{what} cannot be exported by OTLP, and are lost meanwhile: {error}"
                );
            }
            Ok(()) if was_failing => tracing::info!("{what} are exported again"),
            _ => {}
        }
        exported
    }
}

impl<E> fmt::Debug for Watched<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("what", &self.what).finish_non_exhaustive()
    }
}

impl PushMetricExporter for Watched<MetricExporter> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.watch(self.exporter.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}

impl opentelemetry_sdk::trace::SpanExporter for Watched<SpanExporter> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.watch(self.exporter.export(batch).await)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
