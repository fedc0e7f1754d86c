//! Asks a running server, at its admin port.

use axum::body::{self, Body};
use http::{Method, Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::{io, time::Duration};
use tokio::{net::TcpStream, task::JoinSet, time};

/// How long all of it may take. The server waits for its store, for 10 ms unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// The largest answer that is read, in bytes.
const LARGEST_ANSWER: usize = 16 << 20;

/// The most characters of an answer that are shown where it is not what was asked for.
const MOST_SHOWN: usize = 300;

/// What to ask.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// How the answer is to be written.
    pub(crate) format: Format,
    /// What to send along; empty for nothing.
    pub(crate) body: String,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Format {
    const fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::Json => "application/json",
        }
    }
}

/// Why there is no answer, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error(
        "nobody answers at {address} ({why}): does the server run, and is that its --admin-addr? Say where it is with --admin HOST:PORT, or in TOLLGATE_ADMIN_ADDR"
    )]
    Unreachable { address: String, why: io::Error },
    #[error(
        "no answer came from {address} within {} seconds: is that the --admin-addr of a server, and the way there open?",
        PATIENCE.as_secs()
    )]
    Late { address: String },
    #[error(
        "what answers at {address} does not speak HTTP as tollgate does ({why}): is that the --admin-addr of a server?"
    )]
    Unreadable { address: String, why: String },
    #[error(
        "what answers at {address} does not know {path}: is that the --admin-addr of a server, and the server as new as this command?"
    )]
    Unknown { address: String, path: String },
    #[error("the server at {address} answers {status}: {message}")]
    Refused { address: String, status: StatusCode, message: String },
}

/// Asks; what comes is the body of a success, in the format that was asked for.
pub(crate) async fn ask(address: &str, question: &Question) -> Result<String, NoAnswer> {
    let answer = time::timeout(PATIENCE, exchange(address, question)).await;
    answer.unwrap_or_else(|_| Err(NoAnswer::Late { address: address.to_owned() }))
}

async fn exchange(address: &str, question: &Question) -> Result<String, NoAnswer> {
    let Question { method, path, format, body } = question;
    let unreadable = |why: &dyn ToString| NoAnswer::Unreadable {
        address: address.to_owned(),
        why: why.to_string(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, address)
        .header(header::ACCEPT, format.media_type())
        .body(Body::from(body.clone()))
        .map_err(|error| unreadable(&error))?;

    let stream = TcpStream::connect(address).await;
    let stream =
        stream.map_err(|why| NoAnswer::Unreachable { address: address.to_owned(), why })?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreadable(&error))?;
    // Dropped, the set ends what it runs: a connection outlives no question.
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let answer = sender.send_request(request).await.map_err(|error| unreadable(&error))?;

    let (head, body) = answer.into_parts();
    let body = body::to_bytes(Body::new(body), LARGEST_ANSWER).await;
    let body = body.map_err(|error| unreadable(&error))?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let media_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_as_asked = media_type.is_some_and(|it| it.starts_with(format.media_type()));
    match head.status {
        status if status.is_success() && is_as_asked => Ok(body),
        // Whoever knows the path says what is wrong.
        status if status.is_success() || (status == StatusCode::NOT_FOUND && body.is_empty()) => {
            Err(NoAnswer::Unknown { address: address.to_owned(), path: path.clone() })
        }
        status => {
            let message = message(&body);
            Err(NoAnswer::Refused { address: address.to_owned(), status, message })
        }
    }
}

/// What a refusal says: the `message` of JSON, or the text, on one line.
fn message(body: &str) -> String {
    let json = serde_json::from_str::<serde_json::Value>(body).ok();
    let message = json.as_ref().and_then(|json| json.get("message")?.as_str());
    let message = message.unwrap_or(body).trim();
    let message = if message.is_empty() { "without a word" } else { message };
    message.chars().take(MOST_SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
