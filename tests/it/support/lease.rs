//! A caller of `LeaseService`.

use prost::bytes::Bytes;
use std::{net::SocketAddr, time::Duration};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tollgate::grpc::proto::{
    envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
    tollgate::v1::{
        AcquireRequest, AcquireResponse, HoldRequest, HoldResponse, LeaseState, ReleaseRequest,
        ReleaseResponse, RenewRequest, RenewResponse, acquire_response::Outcome,
        hold_response::Event,
    },
};
use tonic::{
    Request, Status, Streaming, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel,
};
use tonic_prost::ProstCodec;

/// A client of the service. Clones share a connection.
#[derive(Clone)]
pub(crate) struct Leases(Grpc<Channel>);

/// A request to acquire what these descriptors meet, each a path of keys and values. That no limit matches is an
/// error.
pub(crate) fn acquire(domain: &str, descriptors: &[&[[&str; 2]]]) -> AcquireRequest {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let entry = |[key, value]: &[&str; 2]| Entry { key: bytes(key), value: bytes(value) };
    let descriptor = |entries: &&[[&str; 2]]| RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    };
    AcquireRequest {
        domain: bytes(domain),
        descriptors: descriptors.iter().map(descriptor).collect(),
        require_limit: true,
        ..AcquireRequest::default()
    }
}

/// So much time, for the wire.
pub(crate) fn span(duration: Duration) -> Option<prost_types::Duration> {
    Some(duration.try_into().unwrap())
}

impl Leases {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        let channel = Channel::from_shared(format!("http://{to}")).unwrap();
        Self(Grpc::new(channel.connect().await.unwrap()))
    }

    async fn call<Q, A>(&self, method: &'static str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.0.clone();
        grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let path = PathAndQuery::from_static(method);
        let answer = grpc.unary(Request::new(request), path, ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }

    pub(crate) async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResponse, Status> {
        self.call("/tollgate.v1.LeaseService/Acquire", request).await
    }

    /// The same with a deadline, which the server is told.
    pub(crate) async fn acquire_within(
        &self,
        request: AcquireRequest,
        timeout: Duration,
    ) -> Result<AcquireResponse, Status> {
        let mut grpc = self.0.clone();
        grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let path = PathAndQuery::from_static("/tollgate.v1.LeaseService/Acquire");
        let mut request = Request::new(request);
        request.set_timeout(timeout);
        Ok(grpc.unary(request, path, ProstCodec::default()).await?.into_inner())
    }

    /// Acquires, and is not refused: the lease's id.
    pub(crate) async fn acquired(&self, request: AcquireRequest) -> String {
        let answer = self.acquire(request).await.unwrap();
        assert_eq!(answer.outcome(), Outcome::Acquired, "{answer:?}");
        assert!(!answer.degraded, "nobody holds it");
        answer.lease_id
    }

    /// Whether it may go ahead.
    pub(crate) async fn is_acquired(&self, request: AcquireRequest) -> bool {
        self.acquire(request).await.unwrap().outcome() == Outcome::Acquired
    }

    pub(crate) async fn renew(&self, request: RenewRequest) -> Result<RenewResponse, Status> {
        self.call("/tollgate.v1.LeaseService/Renew", request).await
    }

    /// Renews a lease as it is.
    pub(crate) async fn renewed(&self, id: &str) -> LeaseState {
        let request = RenewRequest { lease_id: id.to_owned(), ..RenewRequest::default() };
        self.renew(request).await.unwrap().state()
    }

    pub(crate) async fn release(&self, id: &str) -> Result<LeaseState, Status> {
        let request = ReleaseRequest { lease_id: id.to_owned() };
        let answer: Result<ReleaseResponse, _> =
            self.call("/tollgate.v1.LeaseService/Release", request).await;
        answer.map(|answer| answer.state())
    }

    /// Releases a lease, and is told what it was.
    pub(crate) async fn released(&self, id: &str) -> LeaseState {
        self.release(id).await.unwrap()
    }

    /// Opens a stream that is to hold what is acquired.
    pub(crate) async fn hold(&self, request: AcquireRequest) -> Hold {
        self.try_hold(request).await.unwrap()
    }

    /// The same where the server may not serve it.
    pub(crate) async fn try_hold(&self, request: AcquireRequest) -> Result<Hold, Status> {
        let (requests, sent) = mpsc::channel(1);
        requests.send(HoldRequest { acquire: Some(request) }).await.unwrap();
        let mut grpc = self.0.clone();
        grpc.ready().await.unwrap();
        let path = PathAndQuery::from_static("/tollgate.v1.LeaseService/Hold");
        let requests_stream = Request::new(ReceiverStream::new(sent));
        let answers = grpc.streaming(requests_stream, path, ProstCodec::default()).await;
        Ok(Hold { requests, answers: answers?.into_inner() })
    }
}

/// A stream that holds a lease.
pub(crate) struct Hold {
    /// Dropped, the caller has no more to say.
    pub(crate) requests: mpsc::Sender<HoldRequest>,
    pub(crate) answers: Streaming<HoldResponse>,
}

impl Hold {
    /// What comes next; `None` where the stream ends.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Status> {
        Ok(self.answers.message().await?.map(|response| response.event.unwrap()))
    }

    /// The first answer.
    pub(crate) async fn acquired(&mut self) -> AcquireResponse {
        match self.next().await.unwrap().unwrap() {
            Event::Acquired(acquired) => acquired,
            Event::Renewed(renewed) => panic!("{renewed:?} comes first"),
        }
    }

    /// What the next renewal found.
    pub(crate) async fn renewed(&mut self) -> LeaseState {
        match self.next().await.unwrap().unwrap() {
            Event::Acquired(acquired) => panic!("{acquired:?} comes again"),
            Event::Renewed(renewed) => renewed.state(),
        }
    }
}
