//! Asks a running server, at its admin port.

use crate::arguments::Admin;
use axum::body::{self, Body};
use http::{HeaderValue, Method, Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use std::{
    io::{self, Write as _, stdout},
    net::IpAddr,
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpStream, task::JoinSet, time};
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;
use tollgate::http::InvalidToken;

/// How long all of it may take. The server waits for its store, for 10 ms unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// The largest answer that is read, in bytes.
const LARGEST_ANSWER: usize = 16 << 20;

/// The most characters of an answer that are shown where it is not what was asked for.
const MOST_SHOWN: usize = 300;

/// Whom to ask, and how to be let in.
pub(crate) struct Server {
    pub(crate) address: String,
    /// What brings the token.
    token: Option<HeaderValue>,
    tls: Option<TlsConnector>,
}

/// Why nobody can be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoServer {
    #[error(transparent)]
    Token(#[from] InvalidToken),
    #[error("{flag} {path}: {why}")]
    File { flag: &'static str, path: String, why: String },
    #[error("--admin-cert and --admin-key: {0}")]
    Certificate(rustls::Error),
    #[error(
        "a token is not sent to {address} as plain text, which others on the way can read: say with --admin-ca whom to trust there (where that port speaks TLS), or ask on the machine itself, as through `kubectl port-forward`"
    )]
    OpenToken { address: String },
}

impl Server {
    /// The server that the command line says.
    pub(crate) fn new(admin: &Admin) -> Result<Self, NoServer> {
        let token = admin.token.open()?.and_then(|token| token.header());
        let tls = match &admin.authority {
            Some(authority) => Some(connector(authority, admin)?),
            None => None,
        };
        let address = admin.address.clone();
        if token.is_some() && tls.is_none() && !is_loopback(&address) {
            return Err(NoServer::OpenToken { address });
        }
        Ok(Self { address, token, tls })
    }
}

/// Whether what is sent to an address stays on this machine.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let ip = host.parse::<IpAddr>().map(|ip| ip.to_canonical());
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

fn connector(authority: &Path, admin: &Admin) -> Result<TlsConnector, NoServer> {
    let mut roots = RootCertStore::empty();
    let all = certificates("--admin-ca", authority)?;
    roots.add_parsable_certificates(all);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(NoServer::Certificate)?
        .with_root_certificates(roots);
    let config = match admin.certificate.as_ref().zip(admin.key.as_ref()) {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates("--admin-cert", certificate)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|why| NoServer::File {
                flag: "--admin-key",
                path: key.display().to_string(),
                why: why.to_string(),
            })?;
            config.with_client_auth_cert(chain, key).map_err(NoServer::Certificate)?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(flag: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, NoServer> {
    let file = |why: String| NoServer::File { flag, path: path.display().to_string(), why };
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(read) if !read.is_empty() => Ok(read),
        Ok(_) => Err(file("it holds no certificates in PEM form".to_owned())),
        Err(error) => Err(file(error.to_string())),
    }
}

/// What to ask.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// How the answer is to be written.
    pub(crate) format: Format,
    /// What to send along, as JSON; empty for nothing.
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
        "what answers at {address} does not speak HTTP as tollgate does ({why}): is that the --admin-addr of a server? Where it speaks TLS, say with --admin-ca whom to trust"
    )]
    Unreadable { address: String, why: String },
    #[error(
        "there is no TLS with {address} ({why}): has --admin-ca signed its certificate, for the host of that address? And does that port speak TLS?"
    )]
    NoTls { address: String, why: io::Error },
    #[error(
        "what answers at {address} does not know {path}: is that the --admin-addr of a server, and the server as new as this command?"
    )]
    Unknown { address: String, path: String },
    #[error("the server at {address} answers {status}: {message}")]
    Refused { address: String, status: StatusCode, message: String },
}

/// Why an answer is not shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotShown {
    #[error(transparent)]
    NoServer(#[from] NoServer),
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Asks once, and shows the answer.
pub(crate) async fn show(admin: &Admin, question: &Question) -> Result<(), NotShown> {
    let answer = ask(&Server::new(admin)?, question).await?;
    match print(&with_newline(answer)) {
        // Whoever closed the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => Ok(shown?),
    }
}

pub(crate) fn with_newline(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Asks; what comes is the body of a success, in the format that was asked for.
pub(crate) async fn ask(server: &Server, question: &Question) -> Result<String, NoAnswer> {
    let answer = time::timeout(PATIENCE, exchange(server, question)).await;
    answer.unwrap_or_else(|_| Err(NoAnswer::Late { address: server.address.clone() }))
}

async fn exchange(server: &Server, question: &Question) -> Result<String, NoAnswer> {
    let Server { address, token, tls } = server;
    let Question { method, path, format, body } = question;
    let unreadable = |why: &dyn ToString| NoAnswer::Unreadable {
        address: address.clone(),
        why: why.to_string(),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, address)
        .header(header::ACCEPT, format.media_type())
        .body(Body::from(body.clone()))
        .map_err(|error| unreadable(&error))?;
    if let Some(token) = token {
        request.headers_mut().insert(header::AUTHORIZATION, token.clone());
    }
    if !body.is_empty() {
        let json = HeaderValue::from_static(Format::Json.media_type());
        request.headers_mut().insert(header::CONTENT_TYPE, json);
    }

    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|why| NoAnswer::Unreachable { address: address.clone(), why })?;
    let stream = match tls {
        None => Either::Left(stream),
        Some(tls) => Either::Right(
            shake_hands(tls, address, stream)
                .await
                .map_err(|why| NoAnswer::NoTls { address: address.clone(), why })?,
        ),
    };
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
            Err(NoAnswer::Unknown { address: address.clone(), path: path.clone() })
        }
        status => {
            let message = message(&body);
            Err(NoAnswer::Refused { address: address.clone(), status, message })
        }
    }
}

async fn shake_hands(
    tls: &TlsConnector,
    address: &str,
    stream: TcpStream,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
    tls.connect(name.map_err(io::Error::other)?, stream).await
}

/// What a refusal says: the `message` of JSON, or the text, on one line.
fn message(body: &str) -> String {
    let json = serde_json::from_str::<serde_json::Value>(body).ok();
    let message = json.as_ref().and_then(|json| json.get("message")?.as_str());
    let message = message.unwrap_or(body).trim();
    let message = if message.is_empty() { "without a word" } else { message };
    message.chars().take(MOST_SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
