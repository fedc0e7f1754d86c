//! What comes in over HTTP/2: `ShouldRateLimit` as fast as it goes, everything else by tonic's routes.
//!
//! Nearly every call is one small message that has come as a whole, and asks for a decision. It is decoded where it
//! lies, and answered in one frame, without what a call of any kind has to be wrapped in. Whatever is unusual about a
//! call, one that is compressed, large, cut into pieces or unreadable, goes through the routes like all others: so
//! what is said of it is said in one place.

use super::{Service, Told, deadline, keep_when_told, name_too_large, proto};
use crate::{
    clock::{self, Deadline},
    intake::{self, Intake},
    telemetry::Method,
};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE, request};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use prost::Message as _;
use proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio_util::either::Either;
use tonic::{Status, service::Routes};
use tower::Service as _;

/// Where decisions are asked for.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// How long a message may take to come, and be answered: longer than anybody may wait for a slot (a minute),
/// and so only for those who send theirs byte by byte. It does not end streams, which are answered at once.
const SLOWEST_CALL: Duration = Duration::from_secs(90);

/// What stands before a message: whether it is compressed, in a byte, and its length, in four.
const PREFIX: usize = 5;

/// Answers calls. Clones share what they ask.
#[derive(Debug, Clone)]
pub struct Calls {
    decisions: Service,
    routes: Routes,
    intake: Intake,
}

impl Calls {
    /// Answers decisions by this service, and everything else by these routes, to which that service belongs as
    /// well; large messages take room in `intake`.
    pub fn new(decisions: Service, routes: Routes, intake: Intake) -> Self {
        Self { decisions, routes, intake }
    }

    /// Answers a call. The usual one is read here and now, so that all that has to be kept while it is decided is
    /// what it asks: every call is moved, and many wait at a time.
    pub fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Told<Answered>>> + Send + use<> {
        let calls = Arc::clone(self);
        let deadline = deadline::of(request.headers());
        match Looked::at(request) {
            Looked::Usual { headers, message } => {
                Either::Left(async move { calls.decide(&headers, message, deadline).await })
            }
            Looked::Unusual(request) => {
                Either::Right(Box::pin(async move { calls.go_on(*request, deadline).await }))
            }
        }
    }

    /// Answers a call about which something is unusual, or of which not all has come.
    async fn go_on(
        &self,
        request: Request<Resumed>,
        deadline: Deadline,
    ) -> Response<Told<Answered>> {
        let patience =
            deadline::said(request.headers()).map_or(SLOWEST_CALL, |it| it.min(SLOWEST_CALL));
        // What comes later than its head needs a timer, and is bounded as a whole.
        let answered = clock::within(patience, async {
            let (head, mut body) = request.into_parts();
            if body.first.is_none() && is_decision(&head) {
                body.first = next(&mut body.rest).await;
            }
            match body.message() {
                Some(message) => self.decide(&head.headers, message, deadline).await,
                None => self.route(Request::from_parts(head, body), deadline).await,
            }
        });
        answered.await.unwrap_or_else(|| refused(&Status::deadline_exceeded(TOO_SLOW)))
    }

    async fn decide(
        &self,
        headers: &HeaderMap,
        message: RateLimitRequest,
        deadline: Deadline,
    ) -> Response<Told<Answered>> {
        let underway = self.decisions.observer.begin(Method::ShouldRateLimit, headers);
        match self.decisions.answer(&underway, message, deadline).await {
            Ok(answer) => decided(&answer.message).map(|body| Told::new(body, answer.taken)),
            Err(error) => refused(&error.into()),
        }
    }

    async fn route(
        &self,
        mut request: Request<Resumed>,
        deadline: Deadline,
    ) -> Response<Told<Answered>> {
        request.extensions_mut().insert(deadline);
        let request = request.map(|body| self.intake.count(body));
        let mut routes = self.routes.clone();
        match routes.call(request).await {
            Ok(response) => keep_when_told(name_too_large(response).map(Answered::Routed)),
            Err(never) => match never {},
        }
    }
}

const TOO_SLOW: &str = "the call took longer than it may";

/// A call, once its first frame has been looked for.
enum Looked {
    /// It asks for a decision, and all of it has come, with nothing unusual about it.
    Usual { headers: HeaderMap, message: RateLimitRequest },
    /// Any other.
    Unusual(Box<Request<Resumed>>),
}

impl Looked {
    fn at(request: Request<Incoming>) -> Self {
        let (head, mut rest) = request.into_parts();
        let mut first = None;
        // Whoever goes on with it waits for what has not come.
        let mut unheard = Context::from_waker(Waker::noop());
        if is_decision(&head)
            && let Poll::Ready(frame) = Pin::new(&mut rest).poll_frame(&mut unheard)
        {
            first = frame;
        }
        let body = Resumed { first, rest };
        match body.message() {
            Some(message) => Self::Usual { headers: head.headers, message },
            None => Self::Unusual(Request::from_parts(head, body).into()),
        }
    }
}

fn is_decision(head: &request::Parts) -> bool {
    head.uri.path() == SHOULD_RATE_LIMIT && head.method == http::Method::POST
}

/// The next frame of a body.
async fn next(body: &mut Incoming) -> Option<Result<Frame<Bytes>, hyper::Error>> {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

/// The message of a frame that is all of a small call, where nothing is unusual about it.
fn read(frame: &Bytes) -> Option<RateLimitRequest> {
    let (&[compressed, a, b, c, d], message) = frame.split_first_chunk::<PREFIX>()?;
    let is_whole = u32::from_be_bytes([a, b, c, d]) as usize == message.len();
    let is_usual = compressed == 0 && is_whole && frame.len() <= intake::FREE;
    is_usual.then(|| RateLimitRequest::decode(frame.slice(PREFIX..)).ok())?
}

/// An answer in one frame.
fn decided(message: &RateLimitResponse) -> Response<Answered> {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    frame.put_u8(0);
    // No answer is nearly as long as that.
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut frame);
    let body = Decided { message: Some(frame.freeze()), is_over: false };
    let mut response = Response::new(Answered::Decided(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn refused(status: &Status) -> Response<Told<Answered>> {
    let response = status.clone().into_http::<tonic::body::Body>();
    response.map(|body| Told::new(Answered::Routed(body), None))
}

/// The body of an answer.
#[derive(Debug)]
pub enum Answered {
    /// Of a decision.
    Decided(Decided),
    /// Of any other call.
    Routed(tonic::body::Body),
}

/// A message and what follows it.
#[derive(Debug)]
pub struct Decided {
    message: Option<Bytes>,
    is_over: bool,
}

impl Decided {
    fn next(&mut self) -> Option<Frame<Bytes>> {
        if let Some(message) = self.message.take() {
            return Some(Frame::data(message));
        }
        if self.is_over {
            return None;
        }
        self.is_over = true;
        let mut trailers = HeaderMap::with_capacity(1);
        trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
        Some(Frame::trailers(trailers))
    }
}

impl Body for Answered {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.get_mut() {
            Self::Decided(decided) => Poll::Ready(decided.next().map(Ok)),
            Self::Routed(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Decided(decided) => decided.is_over,
            Self::Routed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Decided(_) => SizeHint::default(),
            Self::Routed(body) => body.size_hint(),
        }
    }
}

/// A body of which the first frame has been looked at, where a decision is asked for.
struct Resumed {
    first: Option<Result<Frame<Bytes>, hyper::Error>>,
    rest: Incoming,
}

impl Resumed {
    /// The message, where it is the first frame and all of a small call.
    fn message(&self) -> Option<RateLimitRequest> {
        match &self.first {
            Some(Ok(frame)) if self.rest.is_end_stream() => frame.data_ref().and_then(read),
            _ => None,
        }
    }
}

impl Body for Resumed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.first {
            Some(_) => SizeHint::default(),
            None => self.rest.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::SERVICE;

    fn frame(compressed: u8, length: usize, message: &[u8]) -> Bytes {
        let length = u32::try_from(length).unwrap().to_be_bytes();
        [&[compressed][..], &length, message].concat().into()
    }

    #[test]
    fn the_path_is_that_of_the_service() {
        assert_eq!(SHOULD_RATE_LIMIT, format!("/{SERVICE}/ShouldRateLimit"));
    }

    #[tokio::test]
    async fn what_is_decided_is_one_frame_and_a_status() {
        let message = RateLimitResponse { overall_code: 2, ..RateLimitResponse::default() };
        let response = decided(&message);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/grpc");
        let mut body = response.into_body();
        let mut next = async || poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let bytes = message.encode_to_vec();
        let first = next().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first, frame(0, bytes.len(), &bytes));
        let last = next().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(last[Status::GRPC_STATUS], "0");
        assert!(next().await.is_none());
        assert!(body.is_end_stream());
    }

    #[test]
    fn only_a_small_whole_plain_message_is_read_at_once() {
        let message = RateLimitRequest { domain: "edge".into(), ..RateLimitRequest::default() };
        let bytes = message.encode_to_vec();
        assert_eq!(read(&frame(0, bytes.len(), &bytes)), Some(message));
        assert_eq!(read(&frame(1, bytes.len(), &bytes)), None, "compressed");
        assert_eq!(read(&frame(0, bytes.len() + 1, &bytes)), None, "not whole");
        assert_eq!(read(&frame(0, bytes.len() - 1, &bytes)), None, "and more");
        assert_eq!(read(&frame(0, 2, &[0xff, 0xff])), None, "unreadable");
        assert_eq!(read(&Bytes::from_static(&[0, 0, 0, 0])), None, "no prefix");
        let domain = vec![b'x'; intake::FREE].into();
        let large = RateLimitRequest { domain, ..RateLimitRequest::default() }.encode_to_vec();
        assert_eq!(read(&frame(0, large.len(), &large)), None, "large");
    }
}
