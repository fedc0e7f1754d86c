//! What comes in over HTTP/2: `ShouldRateLimit` as fast as it goes, everything else by tonic's routes.
//!
//! Nearly every call is one small message that has come as a whole, and asks for a decision. It is decoded where it
//! lies, and answered in one frame, without what a call of any kind has to be wrapped in. A message that comes in
//! parts is gathered first, and a large one is decided on another runtime, one at a time, so that the calls beside
//! it do not wait. A call that is unusual otherwise, compressed or unreadable, goes through the routes like all other
//! calls: so every error text stands in one place.

use super::{
    SHOULD_RATE_LIMIT, Service, Told, Undecided, deadline, keep_when_told,
    message::{LARGEST_ON_CORE, Messages, PREFIX, invalid},
    name_too_large, proto,
    shape::{DECISION, Shape},
};
use crate::{
    activity::Activity,
    budget::Budget,
    clock::{self, Deadline},
    telemetry::{Method, TRACE_HEADERS},
};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, Uri,
    header::{CONTENT_TYPE, TE},
    request,
};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use prost::Message as _;
use proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{runtime::Handle, sync::Semaphore};
use tokio_util::{either::Either, task::AbortOnDropHandle};
use tonic::{Status, service::Routes};
use tower::Service as _;

/// How long a message may take to come, and be answered: longer than anybody may wait for a slot (a minute),
/// and so only for those who send theirs byte by byte. It does not end streams, which are answered at once.
const SLOWEST_CALL: Duration = Duration::from_secs(90);

/// The largest message that is decoded as soon as it has come in one piece, in bytes.
const SMALL: usize = 4 << 10;

/// The largest message that is decoded without counting what it holds first, in bytes: 512 empty descriptors, which
/// are counted when they are decoded.
const TOO_SMALL_FOR_MUCH: usize = 1 << 10;

/// How many messages above [`LARGEST_ON_CORE`] are decided at a time.
const LARGE_AT_A_TIME: usize = 1;

/// Room for calls that may last, in KiB: leases that are held or waited for, workers that report, health that is
/// watched. There is room for 20,000 with short messages.
const LASTING_KIB: usize = 80 << 10;

/// The same for health checks and reflection, which must not take the room of leases. There is room for 341.
const OTHER_LASTING_KIB: usize = 8 << 10;

/// Header fields of a call that mean something here, besides those of traces.
const USED: [HeaderName; 6] = [
    CONTENT_TYPE,
    TE,
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-accept-encoding"),
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms"),
];

/// Header fields that are kept as they are, where they are so few and so short; a call of Envoy's has about ten.
const FEW_FIELDS: usize = 20;
const SHORT_FIELDS: usize = 2 << 10;

/// The longest value of a field that is kept of others, in bytes: what the specification of `tracestate` asks to
/// pass on, which is the longest that means something here.
const LONGEST_VALUE: usize = 512;

/// Answers calls. Clones share what they ask.
#[derive(Debug, Clone)]
pub struct Calls {
    decisions: Service,
    routes: Routes,
    budget: Budget,
    /// Where large messages are decided, and places for those that are.
    elsewhere: Handle,
    large: Arc<Semaphore>,
    /// Room for calls that may last, in KiB.
    lasting: Arc<Semaphore>,
    other_lasting: Arc<Semaphore>,
    /// What goes on on the connection of these calls.
    activity: Arc<Activity>,
}

impl Calls {
    /// Answers decisions by this service, and everything else by these routes, to which that service belongs as
    /// well. What is not whole takes room of the budget; what is large is decided on this runtime.
    pub fn new(decisions: Service, routes: Routes, budget: Budget, elsewhere: Handle) -> Self {
        let large = Arc::new(Semaphore::new(LARGE_AT_A_TIME));
        let lasting = Arc::new(Semaphore::new(LASTING_KIB));
        let other_lasting = Arc::new(Semaphore::new(OTHER_LASTING_KIB));
        let activity = Arc::default();
        Self { decisions, routes, budget, elsewhere, large, lasting, other_lasting, activity }
    }

    /// The same for one connection, where it is noted what goes on.
    #[must_use]
    pub fn of_connection(self, activity: &Arc<Activity>) -> Self {
        Self { activity: Arc::clone(activity), ..self }
    }

    /// Answers a call. The usual one is read here and now, so that all that has to be kept while it is decided is
    /// what it asks: every call is moved, and many wait at a time.
    pub fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Told<Answered>>> + Send + use<> {
        let calls = Arc::clone(self);
        let deadline = deadline::of(request.headers());
        match self.look_at(request) {
            Looked::Usual { headers, message } => {
                // It is not counted as under way, which would cost each call: it takes no longer than its store.
                self.activity.note();
                Either::Left(async move { calls.decide(&headers, message, deadline).await })
            }
            Looked::Unusual(request) => {
                Either::Right(Box::pin(async move { calls.go_on(*request, deadline).await }))
            }
        }
    }

    /// Looks for a message that has come as a whole. Of the head, only what is used later is kept.
    fn look_at(&self, request: Request<Incoming>) -> Looked {
        let (mut head, mut body) = request.into_parts();
        let mut first = None;
        // What goes on with the call waits for what has not come.
        let mut unheard = Context::from_waker(Waker::noop());
        if is_decision(&head)
            && let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut unheard)
        {
            let data = frame.data_ref().filter(|_| body.is_end_stream());
            if let Some(message) = data.and_then(small) {
                let is_traced = self.decisions.observer.is_tracing();
                let headers = if is_traced { used(head.headers) } else { HeaderMap::new() };
                return Looked::Usual { headers, message };
            }
            first = Some(frame);
        }
        head.headers = used(head.headers);
        let path = head.uri.path();
        let mut messages = Messages::new(body, Shape::of(path), self.budget.clone());
        first.into_iter().for_each(|frame| messages.put(frame));
        // A long authority or query would be kept with it.
        head.uri = Uri::try_from(path).unwrap_or_default();
        Looked::Unusual(Request::from_parts(head, messages).into())
    }

    /// Answers a call about which something is unusual, or of which not all has come.
    async fn go_on(
        self: &Arc<Self>,
        request: Request<Messages<Incoming>>,
        deadline: Deadline,
    ) -> Response<Told<Answered>> {
        let patience =
            deadline::said(request.headers()).map_or(SLOWEST_CALL, |it| it.min(SLOWEST_CALL));
        // What comes later than its head needs a timer, and is bounded as a whole.
        let answered = clock::within(patience, async {
            let (head, mut messages) = request.into_parts();
            if is_decision(&head) {
                match messages.only().await {
                    Ok(Some(frame)) => {
                        let _call = self.activity.begin();
                        return self.decide_gathered((head, messages, frame), deadline).await;
                    }
                    Ok(None) => {}
                    Err(status) => return refused(&status),
                }
            } else if !Shape::of(head.uri.path()).is_stream
                && let Err(status) = messages.first().await
            {
                return refused(&status);
            }
            let is_ours = Shape::of(head.uri.path()).is_ours;
            let room = if is_ours { &self.lasting } else { &self.other_lasting };
            if let Err(status) = messages.keep(room) {
                return refused(&status);
            }
            let _call = self.activity.begin();
            self.route(Request::from_parts(head, messages), deadline).await
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

    /// Decides by a message that was gathered.
    async fn decide_gathered(
        self: &Arc<Self>,
        (head, mut messages, frame): (request::Parts, Messages<Incoming>, Bytes),
        deadline: Deadline,
    ) -> Response<Told<Answered>> {
        if frame.len() <= LARGEST_ON_CORE || frame.first() != Some(&PLAIN) {
            let Some(message) = read(&frame) else {
                messages.put(Frame::data(frame));
                return self.route(Request::from_parts(head, messages), deadline).await;
            };
            drop((frame, messages));
            return self.decide(&head.headers, message, deadline).await;
        }
        let place = tokio::select! {
            place = Arc::clone(&self.large).acquire_owned() => place,
            status = messages.revoked() => return refused(&status),
        };
        drop(messages);
        let calls = Arc::clone(self);
        let deciding = self.elsewhere.spawn(async move {
            let _place = place;
            let message = frame.slice(PREFIX..);
            drop(frame);
            if let Err(error) = DECISION.check(&message) {
                return refused(&invalid(error));
            }
            let Ok(message) = RateLimitRequest::decode(message) else {
                return refused(&Status::invalid_argument("the message is no RateLimitRequest"));
            };
            calls.decide(&head.headers, message, deadline).await
        });
        // A call that its caller cancels is dropped there, too.
        let decided = AbortOnDropHandle::new(deciding).await;
        decided.unwrap_or_else(|_| refused(&Undecided::Bug.into()))
    }

    async fn route(
        &self,
        mut request: Request<Messages<Incoming>>,
        deadline: Deadline,
    ) -> Response<Told<Answered>> {
        request.extensions_mut().insert(deadline);
        let mut routes = self.routes.clone();
        match routes.call(request).await {
            Ok(response) => keep_when_told(name_too_large(response).map(Answered::Routed)),
            Err(never) => match never {},
        }
    }
}

const TOO_SLOW: &str = "the call took longer than it may";

/// What a message begins with that is not compressed.
const PLAIN: u8 = 0;

/// A call, once its first frame has been looked for.
enum Looked {
    /// It asks for a decision, and all of it has come, with nothing unusual about it.
    Usual { headers: HeaderMap, message: RateLimitRequest },
    /// Any other.
    Unusual(Box<Request<Messages<Incoming>>>),
}

fn is_decision(head: &request::Parts) -> bool {
    head.uri.path() == SHOULD_RATE_LIMIT && head.method == http::Method::POST
}

/// The header fields of a call, less those that mean nothing here where they are many or long: a call that waits
/// keeps them.
fn used(headers: HeaderMap) -> HeaderMap {
    let length: usize = headers.values().map(HeaderValue::len).sum();
    if headers.len() <= FEW_FIELDS && length <= SHORT_FIELDS {
        return headers;
    }
    let kept = USED.into_iter().chain(TRACE_HEADERS.map(HeaderName::from_static));
    let kept = kept.filter_map(|name| {
        let value = headers.get(&name).filter(|value| value.len() <= LONGEST_VALUE)?;
        // A copy: the value may be a part of something larger.
        Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    });
    kept.collect()
}

/// The message of a frame that is all of a small call, where nothing is unusual about it.
fn small(frame: &Bytes) -> Option<RateLimitRequest> {
    if frame.len() <= SMALL { read(frame) } else { None }
}

/// The message of a frame, where it is whole and nothing is unusual about it.
fn read(frame: &Bytes) -> Option<RateLimitRequest> {
    let (&[compressed, a, b, c, d], message) = frame.split_first_chunk::<PREFIX>()?;
    let is_whole = u32::from_be_bytes([a, b, c, d]) as usize == message.len();
    let holds_few = message.len() <= TOO_SMALL_FOR_MUCH || DECISION.check(message).is_ok();
    (compressed == PLAIN && is_whole && holds_few)
        .then(|| RateLimitRequest::decode(frame.slice(PREFIX..)).ok())?
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::SERVICE;
    use std::future::poll_fn;

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
        assert_eq!(small(&frame(0, bytes.len(), &bytes)), Some(message));
        assert_eq!(read(&frame(1, bytes.len(), &bytes)), None, "compressed");
        assert_eq!(read(&frame(0, bytes.len() + 1, &bytes)), None, "not whole");
        assert_eq!(read(&frame(0, bytes.len() - 1, &bytes)), None, "and more");
        assert_eq!(read(&frame(0, 2, &[0xff, 0xff])), None, "unreadable");
        assert_eq!(read(&Bytes::from_static(&[0, 0, 0, 0])), None, "no prefix");
        let domain = vec![b'x'; SMALL].into();
        let large = RateLimitRequest { domain, ..RateLimitRequest::default() }.encode_to_vec();
        assert_eq!(small(&frame(0, large.len(), &large)), None, "large");
        let many =
            RateLimitRequest { descriptors: vec![Default::default(); 600], ..Default::default() };
        let many = many.encode_to_vec();
        assert_eq!(small(&frame(0, many.len(), &many)), None, "too many descriptors");
    }
}
