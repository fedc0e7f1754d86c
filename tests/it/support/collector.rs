//! Somebody who collects by OTLP what servers and Envoys export.

use super::{free_port, until};
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::{
            ExportMetricsServiceRequest, ExportMetricsServiceResponse,
            metrics_service_server::{MetricsService, MetricsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    metrics::v1::Metric,
    resource::v1::Resource,
    trace::v1::Span,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

/// A collector, until it is dropped.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    got: Got,
    serving: JoinHandle<()>,
}

/// What it has got.
#[derive(Clone, Default)]
struct Got(Arc<Mutex<Exported>>);

/// Spans and metrics, each with the service that it is from.
#[derive(Default)]
struct Exported {
    spans: Vec<(String, Span)>,
    metrics: Vec<(String, Metric)>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, free_port()).into()).await
    }

    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let got = Got::default();
        let listener =
            until("the collector's port is free", async || TcpListener::bind(address).await.ok())
                .await;
        let server = Server::builder()
            .add_service(TraceServiceServer::new(got.clone()))
            .add_service(MetricsServiceServer::new(got.clone()));
        let serving = tokio::spawn(async move {
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Self { address, got, serving }
    }

    /// Where it is, as `--otlp-endpoint` takes it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans that this service has exported.
    pub(crate) fn spans(&self, service: &str) -> Vec<Span> {
        let got = self.got.0.lock().unwrap();
        got.spans.iter().filter(|(of, _)| of == service).map(|(_, span)| span.clone()).collect()
    }

    /// The names of the metrics that this service has exported.
    pub(crate) fn metrics(&self, service: &str) -> Vec<String> {
        let got = self.got.0.lock().unwrap();
        got.metrics.iter().filter(|(of, _)| of == service).map(|(_, it)| it.name.clone()).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The name of a service.
fn name(resource: Option<Resource>) -> String {
    let attributes = resource.unwrap_or_default().attributes;
    let name = attributes.into_iter().find(|attribute| attribute.key == "service.name");
    text(name.and_then(|name| name.value))
}

/// A text among attributes' values.
pub(crate) fn text(value: Option<opentelemetry_proto::tonic::common::v1::AnyValue>) -> String {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        other => format!("{other:?}"),
    }
}

#[tonic::async_trait]
impl TraceService for Got {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_resource in request.into_inner().resource_spans {
            let name = name(of_resource.resource);
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().spans.extend(spans.map(|span| (name.clone(), span)));
        }
        Ok(Response::new(Default::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Got {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        for of_resource in request.into_inner().resource_metrics {
            let name = name(of_resource.resource);
            let metrics = of_resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
            self.0.lock().unwrap().metrics.extend(metrics.map(|metric| (name.clone(), metric)));
        }
        Ok(Response::new(Default::default()))
    }
}
