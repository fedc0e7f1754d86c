//! A connection to the server, and one request on it. This is HTTP/2 itself, without a gRPC client's layers: who
//! measures shares the machine with who is measured, so each request is to cost little here.

use super::{message::overall_code, tally::Outcome};
use bytes::{Bytes, BytesMut};
use h2::{Reason, RecvStream, client::SendRequest};
use http::{HeaderMap, HeaderValue, Method, Request, header};
use std::{future::poll_fn, io, time::Duration};
use tokio::{net::TcpStream, time};
use tollgate::grpc::{LARGEST_MESSAGE, SERVICE};

/// How much of answers may be under way, in bytes: more than comes.
const WINDOW: u32 = 8 << 20;

/// How long it may take to connect.
const LONGEST_CONNECT: Duration = Duration::from_secs(5);

/// The number by which a status says that all is well, and the header that says it.
const OK: usize = 0;
const STATUS: &str = "grpc-status";

/// What every request begins with.
#[derive(Debug, Clone)]
pub(super) struct Head {
    request: Request<()>,
    patience: Option<Duration>,
}

impl Head {
    /// Requests to this target, each to be answered so soon.
    pub(super) fn new(target: &str, patience: Option<Duration>) -> Result<Self, http::Error> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{target}/{SERVICE}/ShouldRateLimit"))
            .header(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"))
            .header(header::TE, HeaderValue::from_static("trailers"));
        if let Some(patience) = patience {
            request = request.header("grpc-timeout", format!("{}m", patience.as_millis()));
        }
        Ok(Self { request: request.body(())?, patience })
    }
}

/// A connection. It goes on while it is waited for, and ends when it is dropped.
pub(super) struct Connection {
    line: Line,
    running: h2::client::Connection<TcpStream>,
}

/// A stream of a connection.
#[derive(Clone)]
pub(super) struct Line {
    sender: SendRequest<Bytes>,
    head: Head,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    ///
    /// Where nobody is there, or hangs up at once, or says nothing.
    pub(super) async fn open(target: &str, head: Head) -> io::Result<Self> {
        let connecting = time::timeout(LONGEST_CONNECT, TcpStream::connect(target)).await;
        let stream = connecting.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        stream.set_nodelay(true)?;
        let mut builder = h2::client::Builder::new();
        builder.enable_push(false);
        builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let (sender, running) = builder.handshake(stream).await.map_err(into_io)?;
        Ok(Self { line: Line { sender, head }, running })
    }

    /// A stream on it.
    pub(super) fn line(&self) -> Line {
        self.line.clone()
    }

    /// Sends and receives for all of its streams, until it has ended. How, is seen by whoever waits for an answer.
    pub(super) async fn run(self) {
        drop(self.line);
        let _ = self.running.await;
    }
}

impl Line {
    /// Waits until another request may be sent; whether the connection is still there.
    pub(super) async fn is_ready(&mut self) -> bool {
        poll_fn(|context| self.sender.poll_ready(context)).await.is_ok()
    }

    /// Asks, and says what became of it; `None` where the server has not looked at it, so that it may be asked again.
    pub(super) async fn ask(&mut self, message: Bytes) -> Option<Outcome> {
        let exchange = exchange(&mut self.sender, self.head.request.clone(), message);
        let exchanged = match self.head.patience {
            None => exchange.await,
            Some(patience) => match time::timeout(patience, exchange).await {
                Ok(exchanged) => exchanged,
                Err(_) => return Some(Outcome::LATE),
            },
        };
        exchanged.map_or_else(|unanswered| unanswered.outcome(), Some)
    }
}

/// Why there is no answer.
enum Unanswered {
    /// It could not be sent.
    Unsent,
    /// It was sent.
    Sent(h2::Error),
}

impl From<h2::Error> for Unanswered {
    fn from(error: h2::Error) -> Self {
        Self::Sent(error)
    }
}

impl Unanswered {
    /// What became of a request; `None` where nobody has looked at it.
    fn outcome(&self) -> Option<Outcome> {
        let Self::Sent(error) = self else { return None };
        let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        // A connection that goes away tells so only those whom it will not look at.
        if error.is_remote() && (error.is_go_away() || refused) {
            None
        } else if error.is_reset() {
            Some(Outcome::RESET)
        } else {
            Some(Outcome::DISCONNECTED)
        }
    }
}

fn into_io(error: h2::Error) -> io::Error {
    if error.is_io() {
        error.into_io().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())
    } else {
        io::Error::other(error)
    }
}

async fn exchange(
    sender: &mut SendRequest<Bytes>,
    head: Request<()>,
    message: Bytes,
) -> Result<Outcome, Unanswered> {
    let sent = sender.send_request(head, false);
    let (answer, mut body) = sent.map_err(|_| Unanswered::Unsent)?;
    body.send_data(message, true)?;
    let (head, mut body) = answer.await?.into_parts();
    if !head.status.is_success() {
        return Ok(Outcome::UNREADABLE);
    }
    let message = read(&mut body).await?;
    let trailers = body.trailers().await?;
    Ok(match (status(trailers.as_ref()).or_else(|| status(Some(&head.headers))), message) {
        (Some(OK), Some(message)) => match overall_code(&message) {
            Some(1) => Outcome::Ok,
            Some(2) => Outcome::OverLimit,
            _ => Outcome::UNREADABLE,
        },
        (Some(OK) | None, _) => Outcome::UNREADABLE,
        (Some(number), _) => Outcome::status(number),
    })
}

/// The message of an answer, which mostly comes in one piece; `None` where it is too large to be one. What it takes of
/// the window is given back with the stream: it is less than the window has.
async fn read(body: &mut RecvStream) -> Result<Option<Bytes>, h2::Error> {
    let mut message = Bytes::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        if message.is_empty() {
            message = piece;
        } else if message.len() + piece.len() <= LARGEST_MESSAGE {
            let mut both = BytesMut::from(message);
            both.extend_from_slice(&piece);
            message = both.freeze();
        } else {
            return Ok(None);
        }
    }
    Ok(Some(message))
}

fn status(headers: Option<&HeaderMap>) -> Option<usize> {
    headers?.get(STATUS)?.to_str().ok()?.parse().ok()
}
