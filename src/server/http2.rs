//! gRPC, which is HTTP/2, on the connections of a door.

use super::{ServeError, connection::Connection, door::Door, until_closed};
use crate::{
    grpc::{self, DESCRIPTORS, Leases, Reports, Service, deadline},
    http::Caller,
    intake::Intake,
};
use axum::http::Request;
use std::{convert::Infallible, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time,
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::body::Body;
use tonic_health::pb::health_server::{Health, HealthServer};
use tower::util::{MapRequestLayer, MapResponseLayer};

/// The most requests under way on one connection, and the most that may be cancelled before they were
/// looked at. Envoy cancels what is late, so after any pause many come at once; a server that ends the
/// connection over them lets all others on it pass. What is cancelled is bounded all the same: it keeps its
/// place among these until it was looked at.
const MOST_STREAMS: u32 = 4096;

/// The largest head of a request, in bytes, and the largest frame. A message is many frames.
const LARGEST_HEAD: u32 = 16 << 10;
const LARGEST_FRAME: u32 = 16 << 10;

/// How long a caller may take to say that it speaks HTTP/2.
const SLOWEST_PREFACE: Duration = Duration::from_secs(10);

/// How long a message may take to come, and be answered: longer than anybody may wait for a slot (a minute),
/// and so only for those who send theirs byte by byte. It does not end streams, which are answered at once.
const SLOWEST_CALL: Duration = Duration::from_secs(90);

/// How often a connection on which nothing comes is asked whether there is still somebody, and how long it
/// may take to say so.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Connections that have come in and were not yet looked at.
const WAITING: usize = 64;

/// What is served.
pub(super) struct Services<H: Health> {
    pub(super) decisions: Service,
    pub(super) leases: Leases,
    pub(super) reports: Reports,
    pub(super) health: HealthServer<H>,
    pub(super) intake: Intake,
}

/// Serves until the doors close, and what is under way is finished. Connections older than `longest_life`,
/// where that is given, are asked to be opened anew.
pub(super) async fn serve<H: Health>(
    door: Door,
    services: Services<H>,
    longest_life: Option<Duration>,
    closed: watch::Receiver<()>,
) -> Result<(), ServeError> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let mut server = tonic::transport::Server::builder();
    if let Some(life) = longest_life {
        server = server.max_connection_age(life);
    }
    let intake = services.intake;
    let count = move |request: Request<Body>| request.map(|body| Body::new(intake.count(body)));
    let (come_in, incoming) = mpsc::channel(WAITING);
    let incoming = ReceiverStream::new(incoming).map(Ok::<_, Infallible>);
    let server = server
        .max_concurrent_streams(MOST_STREAMS)
        .http2_max_pending_accept_reset_streams(Some(MOST_STREAMS as usize))
        .http2_max_header_list_size(LARGEST_HEAD)
        .max_frame_size(LARGEST_FRAME)
        // A worker whose machine is gone says nothing: what it holds is released.
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .timeout(SLOWEST_CALL)
        .layer(MapRequestLayer::new(deadline::note))
        .layer(MapRequestLayer::new(count))
        .layer(MapResponseLayer::new(grpc::name_too_large))
        .layer(MapResponseLayer::new(grpc::keep_when_told))
        .add_service(services.decisions.into_server())
        .add_service(services.leases.into_server())
        .add_service(services.reports.into_server())
        .add_service(services.health)
        .add_service(reflection().build_v1().map_err(|_| ServeError::Descriptors)?)
        .add_service(reflection().build_v1alpha().map_err(|_| ServeError::Descriptors)?)
        .serve_with_incoming_shutdown(incoming, until_closed(closed.clone()));
    let door = door
        .open(closed.clone(), move |connection| greet(connection, come_in.clone(), closed.clone()));
    let (served, ()) = tokio::join!(server, door);
    Ok(served?)
}

/// Hands over a connection once it speaks HTTP/2. The server itself would wait for that for ever.
async fn greet(
    mut connection: Connection,
    come_in: mpsc::Sender<Connection>,
    closed: watch::Receiver<()>,
) {
    let greeted = tokio::select! {
        greeted = time::timeout(SLOWEST_PREFACE, connection.speaks_http2()) => greeted,
        () = until_closed(closed) => return,
    };
    // A stranger would learn nothing more here: the log tells the operator.
    if matches!(greeted, Ok(Ok(()))) && connection.caller() != Caller::Stranger {
        // Where nobody takes it any more, the doors are closing.
        let _ = come_in.send(connection).await;
    }
}
