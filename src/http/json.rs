//! `POST /json`: the same question and the same answer as over gRPC, in the JSON form of their protos.

use super::JSON;
use crate::{
    budget::{self, Budget, Reservation, Revoked},
    clock::Deadline,
    grpc::{
        Answer, DESCRIPTORS, LARGEST_MESSAGE, Service, Undecided, deadline,
        proto::envoy::service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse, rate_limit_response::Code,
        },
    },
    telemetry::{Method, Underway},
};
use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use http_body::{Body as _, Frame};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use std::{error::Error, future::poll_fn, pin::Pin, time::Duration};
use tokio::{runtime::Handle, sync::Semaphore, time};
use tonic::Status;

/// How long a body may take to come.
const SLOWEST_BODY: Duration = Duration::from_secs(30);

/// The most objects, lists and members of both that are read: more than there are in 100 descriptors of 64 entries
/// with a key and a value each. Every one takes many times its length to read.
const MOST_VALUES: usize = 30_000;

/// The largest body that is read as soon as it has come, in bytes, and how many larger ones are read at a time.
const LARGEST_AT_ONCE: usize = 8 << 10;
const LARGE_AT_A_TIME: usize = 1;

/// Reads and writes the JSON form of the protos.
#[derive(Debug, Clone)]
pub struct Json {
    request: MessageDescriptor,
    response: MessageDescriptor,
    /// Where large bodies are read.
    elsewhere: Handle,
}

impl Json {
    /// Knows the messages of the service. Large bodies are read on this runtime. `None` where the messages are not
    /// among the generated descriptors, which is a fault of the build.
    pub fn new(elsewhere: Handle) -> Option<Self> {
        const PACKAGE: &str = "envoy.service.ratelimit.v3";
        let pool = DescriptorPool::decode(DESCRIPTORS).ok()?;
        let message = |name: &str| pool.get_message_by_name(&format!("{PACKAGE}.{name}"));
        Some(Self {
            request: message("RateLimitRequest")?,
            response: message("RateLimitResponse")?,
            elsewhere,
        })
    }

    /// Reads a request, a large one where that holds up nothing else, and not too many at a time.
    async fn read_any(&self, body: Gathered) -> Result<RateLimitRequest, Status> {
        static LARGE: Semaphore = Semaphore::const_new(LARGE_AT_A_TIME);
        let Gathered { bytes, reservation } = body;
        if bytes.len() <= LARGEST_AT_ONCE {
            return self.read(&bytes).map_err(Status::invalid_argument);
        }
        let _place = tokio::select! {
            place = LARGE.acquire() => place,
            revoked = reservation.revoked() => return Err(exhausted(revoked)),
        };
        let json = self.clone();
        let reading = self.elsewhere.spawn(async move { json.read(&bytes) }).await;
        let read = reading.map_err(|_| Status::from(Undecided::Bug))?;
        read.map_err(Status::invalid_argument)
    }

    /// Reads a request. Names may be spelled as in the proto or in lower camel case; a name that is in
    /// neither is an error.
    fn read(&self, body: &[u8]) -> Result<RateLimitRequest, String> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err("the body is empty: send a RateLimitRequest as JSON".to_owned());
        }
        if holds_too_much(body) {
            return Err(format!(
                "the body holds more than {MOST_VALUES} objects, lists and members, and so more descriptors or entries than a request may"
            ));
        }
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let message = DynamicMessage::deserialize(self.request.clone(), &mut deserializer)
            .and_then(|message| deserializer.end().map(|()| message))
            .map_err(|error| format!("the body is no RateLimitRequest as JSON: {error}"))?;
        RateLimitRequest::decode(message.encode_to_vec().as_slice())
            .map_err(|error| format!("the body cannot be read: {error}"))
    }

    fn write(&self, response: &RateLimitResponse) -> Result<Vec<u8>, Box<dyn Error>> {
        let bytes = response.encode_to_vec();
        let message = DynamicMessage::decode(self.response.clone(), bytes.as_slice())?;
        Ok(serde_json::to_vec(&message)?)
    }
}

/// Decides a request: 200 where it may pass, 429 where not, or 503 where load is shed or a rule denies what
/// the store cannot decide; 400 where it cannot be meant, 413 and 408 where it is too large or comes too
/// slowly.
pub(super) async fn should_rate_limit(
    State((service, json, budget)): State<(Service, Json, Budget)>,
    request: Request,
) -> Response {
    // The body may take a while to come.
    let deadline = deadline::of(request.headers());
    let (head, body) = request.into_parts();
    let headers = head.headers;
    let body = match time::timeout(SLOWEST_BODY, whole(body, &budget)).await {
        Ok(Ok(body)) => body,
        Ok(Err(refusal)) => return refusal,
        Err(_) => {
            let why = "the body did not come in time\n";
            return (StatusCode::REQUEST_TIMEOUT, why).into_response();
        }
    };
    let underway = service.observer().begin(Method::Json, &headers);
    match answer(&service, &json, (&underway, body), deadline).await {
        Ok(response) => response,
        Err(status) => refuse(&status),
    }
}

/// A body that has come as a whole, and its room in the budget.
struct Gathered {
    bytes: Vec<u8>,
    reservation: Reservation,
}

fn exhausted(revoked: Revoked) -> Status {
    Status::resource_exhausted(revoked.to_string())
}

/// Whether a body holds more values than any request does. It is a flat scan: what is no JSON is told by its reader.
fn holds_too_much(body: &[u8]) -> bool {
    let (mut values, mut is_text, mut is_escaped) = (0, false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' | b',' if !is_text => values += 1,
            _ => {}
        }
    }
    values > MOST_VALUES
}

/// All of a body, piece by piece into one place within the budget: a body of single bytes, kept as it came, would
/// take many times its length.
async fn whole(mut body: Body, budget: &Budget) -> Result<Gathered, Response> {
    let too_large = || StatusCode::PAYLOAD_TOO_LARGE.into_response();
    // What says beforehand that it is too large needs not come.
    if body.size_hint().lower() > LARGEST_MESSAGE as u64 {
        return Err(too_large());
    }
    let mut reservation = budget.reserve(budget::STREAM);
    let mut whole = Vec::new();
    loop {
        let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let frame = tokio::select! {
            frame = next => frame,
            revoked = reservation.revoked() => return Err(refuse(&exhausted(revoked))),
        };
        let Some(frame) = frame else {
            return Ok(Gathered { bytes: whole, reservation });
        };
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) if data.len() > LARGEST_MESSAGE - whole.len() => return Err(too_large()),
            Ok(Ok(data)) => {
                whole.extend_from_slice(&data);
                let room = budget::STREAM.max(whole.capacity());
                reservation.set(room).map_err(|revoked| refuse(&exhausted(revoked)))?;
            }
            // Trailers say nothing here.
            Ok(Err(_)) => {}
            Err(error) => {
                let why = format!("the body breaks off: {error}");
                return Err(refuse(&Status::invalid_argument(why)));
            }
        }
    }
}

async fn answer(
    service: &Service,
    json: &Json,
    (underway, body): (&Underway<'_>, Gathered),
    deadline: Deadline,
) -> Result<Response, Status> {
    let request = json.read_any(body).await?;
    let answer = service.answer(underway, request, deadline).await?;
    let Answer { message: answer, sheds_load, taken } = answer;
    if let Some(taken) = taken {
        taken.keep();
    }
    let status = match answer.overall_code() {
        Code::OverLimit if sheds_load => StatusCode::SERVICE_UNAVAILABLE,
        Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        Code::Ok | Code::Unknown => StatusCode::OK,
    };
    let body = json.write(&answer).map_err(|error| Status::internal(error.to_string()))?;
    let mut response = (status, [(header::CONTENT_TYPE, JSON)], body).into_response();
    for header in answer.response_headers_to_add {
        let name = HeaderName::try_from(header.key);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(header.value)) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

/// The JSON form of a gRPC status, as gateways write it.
pub(super) fn refuse(status: &Status) -> Response {
    let body = serde_json::json!({ "code": status.code() as i32, "message": status.message() });
    (http_code(status), axum::Json(body)).into_response()
}

/// The HTTP status for a gRPC status.
pub(super) fn http_code(status: &Status) -> StatusCode {
    match status.code() {
        tonic::Code::InvalidArgument => StatusCode::BAD_REQUEST,
        tonic::Code::NotFound => StatusCode::NOT_FOUND,
        tonic::Code::Unavailable | tonic::Code::ResourceExhausted => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
