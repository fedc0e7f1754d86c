//! The gRPC door: Envoy's `RateLimitService`, and `LeaseService` in `lease.rs`. Proto to domain in
//! `request.rs`, domain to proto in `response.rs` and `headers.rs`, and errors to status codes here; nothing is
//! decided in this folder. `deadline.rs` reads how long a caller waits, `disabled.rs` answers for what is switched off, and `told.rs` knows when an answer has gone out.

mod calls;
mod codec;
pub mod deadline;
mod disabled;
mod headers;
mod lease;
mod message;
mod request;
mod response;
mod shape;
mod told;
mod utilization;

pub use calls::{Answered, Calls};
pub use codec::Codec;
pub use disabled::Disabled;
pub use headers::{HeaderNames, Headers, RateLimitHeaders};
pub use lease::{Leases, SERVICE as LEASE_SERVICE, Server as LeaseServer};
pub use request::InvalidRequest;
pub use shape::{LARGEST_MESSAGE, LARGEST_OTHER_MESSAGE};
pub use told::{Told, keep_when_told, until_told};
pub use utilization::{Reports, SERVICE as UTILIZATION_SERVICE, Server as UtilizationServer};

use crate::{
    clock::Deadline,
    decider::{Decider, NotAcquired, NotReported, Taken},
    store::StoreError,
    telemetry::{Method, Observer, Underway},
};
use futures_util::{FutureExt as _, StreamExt as _, stream::Map};
use proto::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse, rate_limit_service_server,
};
use std::{panic::AssertUnwindSafe, sync::Arc};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};

/// Messages of a stream that were not sent yet. They are boxed: a channel has room for 32 of them from the start.
type Unsent<T> = Map<ReceiverStream<Box<T>>, fn(Box<T>) -> T>;

/// A channel for the messages of a stream, of which so many wait.
fn unsent<T>(most: usize) -> (mpsc::Sender<Box<T>>, Unsent<T>) {
    let (messages, sent) = mpsc::channel(most);
    let unbox: fn(Box<T>) -> T = |message| *message;
    (messages, ReceiverStream::new(sent).map(unbox))
}

/// The wire types, generated from `proto/`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod proto {
    pub mod envoy {
        pub mod config {
            pub mod core {
                pub mod v3 {
                    tonic::include_proto!("envoy.config.core.v3");
                }
            }
        }
        pub mod extensions {
            pub mod common {
                pub mod ratelimit {
                    pub mod v3 {
                        tonic::include_proto!("envoy.extensions.common.ratelimit.v3");
                    }
                }
            }
        }
        pub mod service {
            pub mod ratelimit {
                pub mod v3 {
                    tonic::include_proto!("envoy.service.ratelimit.v3");
                }
            }
        }
        pub mod r#type {
            pub mod v3 {
                tonic::include_proto!("envoy.r#type.v3");
            }
        }
    }
    pub mod xds {
        pub mod data {
            pub mod orca {
                pub mod v3 {
                    tonic::include_proto!("xds.data.orca.v3");
                }
            }
        }
    }
    pub mod tollgate {
        pub mod v1 {
            tonic::include_proto!("tollgate.v1");
        }
    }
}

/// The published form of the wire types, for reflection and JSON.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The full name of the service, as health checks ask for it.
pub const SERVICE: &str = rate_limit_service_server::SERVICE_NAME;

/// Where decisions are asked for.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The server of the service.
pub type Server = rate_limit_service_server::RateLimitServiceServer<Service>;

/// Answers `ShouldRateLimit`, from whatever door it came.
#[derive(Debug, Clone)]
pub struct Service {
    decider: Arc<Decider>,
    headers: Arc<Headers>,
    observer: Observer,
}

impl Service {
    /// A service that asks this decider, and adds these headers.
    pub fn new(decider: Arc<Decider>, headers: Headers) -> Self {
        Self { decider, headers: Arc::new(headers), observer: Observer::default() }
    }

    /// The same with somebody who looks on.
    #[must_use]
    pub fn observed(self, observer: Observer) -> Self {
        Self { observer, ..self }
    }

    /// Who looks on.
    pub const fn observer(&self) -> &Observer {
        &self.observer
    }

    /// The service for a gRPC server.
    pub fn into_server(self) -> Server {
        Server::new(self).max_decoding_message_size(LARGEST_MESSAGE)
    }

    /// Decides a request before the deadline.
    ///
    /// # Errors
    ///
    /// Where the request cannot be meant, or a bug of ours keeps it from being read or answered.
    pub async fn answer(
        &self,
        underway: &Underway<'_>,
        message: RateLimitRequest,
        deadline: Deadline,
    ) -> Result<Answer, Undecided> {
        // Otherwise it would end the connection, and with it everything else that is asked on it.
        let answering = underway.during(self.read_and_answer(underway, message, deadline));
        let answered = AssertUnwindSafe(answering).catch_unwind().await;
        let answered = answered.unwrap_or(Err(Undecided::Bug));
        answered.inspect_err(|error| underway.failed(error))
    }

    async fn read_and_answer(
        &self,
        underway: &Underway<'_>,
        message: RateLimitRequest,
        deadline: Deadline,
    ) -> Result<Answer, Undecided> {
        let request = request::read_request(message)?;
        let (decision, taken) = self.decider.decide(&request, deadline).await;
        underway.decided(&request.domain, &decision);
        let sheds_load = decision.refused.as_ref().is_some_and(|refused| refused.sheds_load);
        let echoes = self.decider.modes().metadata;
        let message = response::write_response(&request, decision, &self.headers, echoes);
        Ok(Answer { message, sheds_load, taken })
    }
}

/// An answer for the wire.
#[derive(Debug)]
pub struct Answer {
    /// The message.
    pub message: RateLimitResponse,
    /// Whether it is refused because the service is short of room.
    pub sheds_load: bool,
    /// What was taken for the request: given back unless it is kept, which is for whoever has answered.
    pub taken: Option<Taken>,
}

#[tonic::async_trait]
impl rate_limit_service_server::RateLimitService for Service {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let underway = self.observer.begin(Method::ShouldRateLimit, request.metadata().as_ref());
        let deadline = deadline::noted(request.extensions());
        let Answer { message, taken, .. } =
            self.answer(&underway, request.into_inner(), deadline).await?;
        Ok(until_told(message, taken))
    }
}

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
pub enum Undecided {
    /// The request cannot be meant, through a fault that only an operator can cause.
    #[error(transparent)]
    InvalidRequest(#[from] InvalidRequest),
    /// The store did not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no answer to an acquire.
    #[error(transparent)]
    NotAcquired(#[from] NotAcquired),
    /// A report does not count.
    #[error(transparent)]
    NotReported(#[from] NotReported),
    /// We have made a mistake.
    #[error("this is a bug of tollgate: its log says where")]
    Bug,
}

impl From<Undecided> for Status {
    fn from(error: Undecided) -> Self {
        let code = match &error {
            Undecided::InvalidRequest(_) => Code::InvalidArgument,
            Undecided::NotAcquired(NotAcquired::Conflict(_)) => Code::AlreadyExists,
            Undecided::NotAcquired(NotAcquired::UnknownDomain(_) | NotAcquired::NoLimit(_)) => {
                Code::NotFound
            }
            Undecided::NotReported(
                NotReported::UnknownDomain(_) | NotReported::UnknownPool { .. },
            ) => Code::NotFound,
            Undecided::NotReported(NotReported::NoReports(_)) => Code::FailedPrecondition,
            Undecided::Bug => Code::Internal,
            Undecided::NotReported(NotReported::NotNewer) => Code::Aborted,
            Undecided::NotReported(NotReported::TooManyWorkers(_)) => Code::ResourceExhausted,
            Undecided::Store(_)
            | Undecided::NotAcquired(NotAcquired::Store(_))
            | Undecided::NotReported(NotReported::Store(_)) => Code::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}

/// Mends a status of the transport's own before it goes out: it calls a message too large
/// OUT_OF_RANGE, which gRPC keeps for seeking past an end, and everyone else RESOURCE_EXHAUSTED.
pub fn name_too_large<B>(mut response: http::Response<B>) -> http::Response<B> {
    const STATUS: &str = "grpc-status";
    let code = response.headers().get(STATUS).map(|value| Code::from_bytes(value.as_bytes()));
    if code == Some(Code::OutOfRange) {
        response
            .headers_mut()
            .insert(STATUS, http::HeaderValue::from(Code::ResourceExhausted as i32));
    }
    response
}
