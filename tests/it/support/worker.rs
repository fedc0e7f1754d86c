//! Workers that report to `UtilizationService`.

use super::until;
use prost::bytes::Bytes;
use std::net::SocketAddr;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tollgate::grpc::proto::{
    tollgate::v1::{
        ReportUtilizationRequest, ReportUtilizationResponse, report_utilization_request::Load,
    },
    xds::data::orca::v3::OrcaLoadReport,
};
use tonic::{
    Request, Status, Streaming, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel,
};
use tonic_prost::ProstCodec;

/// A client of the service. Clones share a connection.
#[derive(Clone)]
pub(crate) struct Reports(Grpc<Channel>);

/// What a worker of the pool `api` says.
pub(crate) fn report(domain: &str, worker: &str, load: Load) -> ReportUtilizationRequest {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    ReportUtilizationRequest {
        domain: bytes(domain),
        pool: bytes("api"),
        worker_id: bytes(worker),
        load: Some(load),
        ..ReportUtilizationRequest::default()
    }
}

/// Where reports go, and where their answers come from.
pub(crate) type Stream =
    (mpsc::Sender<ReportUtilizationRequest>, Streaming<ReportUtilizationResponse>);

impl Reports {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        let channel = Channel::from_shared(format!("http://{to}")).unwrap();
        Self(Grpc::new(channel.connect().await.unwrap()))
    }

    pub(crate) async fn say(
        &self,
        request: ReportUtilizationRequest,
    ) -> Result<ReportUtilizationResponse, Status> {
        let mut grpc = self.0.clone();
        grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let path = PathAndQuery::from_static("/tollgate.v1.UtilizationService/ReportUtilization");
        let answer = grpc.unary(Request::new(request), path, ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }

    /// Opens a stream of reports.
    pub(crate) async fn stream(&self) -> Stream {
        self.try_stream().await.unwrap()
    }

    /// The same where the server may not serve it.
    pub(crate) async fn try_stream(&self) -> Result<Stream, Status> {
        let (reports, sent) = mpsc::channel(1);
        let mut grpc = self.0.clone();
        grpc.ready().await.unwrap();
        let path = PathAndQuery::from_static("/tollgate.v1.UtilizationService/StreamUtilization");
        let sent = Request::new(ReceiverStream::new(sent));
        let answers = grpc.streaming(sent, path, ProstCodec::default()).await;
        Ok((reports, answers?.into_inner()))
    }

    /// How it stands with the pool, by somebody who has nothing to say.
    pub(crate) async fn look(&self, domain: &str) -> ReportUtilizationResponse {
        let nothing = report(domain, "nobody", Load::Orca(OrcaLoadReport::default()));
        self.say(nothing).await.unwrap()
    }

    /// Has one worker press on the pool, or not, until so much is shed, and then leave it there.
    pub(crate) async fn shed(&self, domain: &str, amount: f64) -> f64 {
        let say = async |ratio| self.say(report(domain, "one", Load::Ratio(ratio))).await.unwrap();
        until("so much is shed", async || {
            while say(1.0).await.shedding < amount {}
            while say(0.0).await.shedding > amount + 0.02 {}
            let left = say(0.75).await.shedding;
            ((amount - 0.02..=amount + 0.02).contains(&left)).then_some(left)
        })
        .await
    }
}
