//! A worker that reports to `UtilizationService`.

use prost::bytes::Bytes;
use std::net::SocketAddr;
use tollgate::grpc::proto::tollgate::v1::{
    ReportUtilizationRequest, ReportUtilizationResponse, report_utilization_request::Load,
};
use tonic::{Request, Status, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};
use tonic_prost::ProstCodec;

/// A client of the service. Clones share a connection.
#[derive(Clone)]
pub(crate) struct Reports(Grpc<Channel>);

/// The report of a worker of which so many slots are busy.
pub(crate) fn busy(
    [domain, pool, worker]: [&str; 3],
    busy_slots: u32,
    total_slots: u32,
) -> ReportUtilizationRequest {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    ReportUtilizationRequest {
        domain: bytes(domain),
        pool: bytes(pool),
        worker_id: bytes(worker),
        total_slots,
        load: Some(Load::BusySlots(busy_slots)),
        ..ReportUtilizationRequest::default()
    }
}

impl Reports {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        let channel = Channel::from_shared(format!("http://{to}")).unwrap();
        Self(Grpc::new(channel.connect().await.unwrap()))
    }

    pub(crate) async fn report(
        &self,
        report: ReportUtilizationRequest,
    ) -> Result<ReportUtilizationResponse, Status> {
        let mut grpc = self.0.clone();
        grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let path = PathAndQuery::from_static("/tollgate.v1.UtilizationService/ReportUtilization");
        let answer = grpc.unary(Request::new(report), path, ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }

    /// Reports, and it counts.
    pub(crate) async fn reported(
        &self,
        report: ReportUtilizationRequest,
    ) -> ReportUtilizationResponse {
        let answer = self.report(report).await.unwrap();
        assert!(answer.counted, "{answer:?}");
        answer
    }
}
