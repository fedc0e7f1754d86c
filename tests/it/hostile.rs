//! Callers who mean harm, or are broken: what they send, and how they behave. Whatever it is, the server
//! answers or refuses, others do not notice, and nothing of it stays.
//!
//! The tables are in `http1.rs`, `http2.rs` and `handshake.rs`; behaviour, which takes more than bytes, is in
//! `behaviour.rs`.

mod attacks;
mod behaviour;
mod handshake;
mod http1;
mod http2;

use crate::{
    grpc::Client,
    support::{self, Authority, PATIENCE, Server, TempDir, TlsClient, until},
};
use serde_json::json;
use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
    time,
};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 4000000000}
  - key: job
    concurrency: {max: 1000}
";

/// How many callers of a table are there at a time.
const AT_ONCE: usize = 16;

/// The most memory that the server may have come to hold when all of them have been there, in KiB, and the
/// most that it may hold while they are. Debug builds and allocators that give back late are generously
/// allowed for; a leak of a few kilobytes a caller, or messages kept, would show.
const MOST_KEPT_KIB: u64 = 256 << 10;
const MOST_AT_ONCE_KIB: u64 = 1024 << 10;

/// What one caller sends, and what is to come of it.
pub(crate) struct Case {
    name: String,
    sends: Vec<u8>,
    expects: Expected,
}

/// What a caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The status of an HTTP/1 response.
    Status(u16),
    /// A response, whatever it says.
    Answer,
    /// A stream reset, GOAWAY, or the end of the connection.
    Refusal,
    /// One of both.
    Either,
    /// Nothing: the server waits for more. So the caller hangs up, and the connection ends, perhaps with a word.
    Patience,
}

impl Case {
    fn new(name: impl Into<String>, sends: impl Into<Vec<u8>>, expects: Expected) -> Self {
        Self { name: name.into(), sends: sends.into(), expects }
    }
}

/// What a caller was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Status(u16),
    Answer,
    Refusal,
}

impl Expected {
    fn is(self, told: Told) -> bool {
        match (self, told) {
            (Self::Status(expected), Told::Status(status)) => expected == status,
            (Self::Answer | Self::Either, Told::Answer | Told::Status(_))
            | (Self::Refusal | Self::Either | Self::Patience, Told::Refusal)
            | (Self::Patience, Told::Status(400)) => true,
            _ => false,
        }
    }
}

/// What is spoken at a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoken {
    Http1,
    Http2,
    Tls,
}

impl Spoken {
    /// What the server tells, in the end.
    async fn hear(self, connection: &mut (impl tokio::io::AsyncRead + Unpin)) -> Told {
        match self {
            Self::Http1 => hear_http1(connection).await,
            Self::Http2 => hear_http2(connection).await,
            Self::Tls => {
                // An alert, and then the end.
                let _ = connection.read_to_end(&mut Vec::new()).await;
                Told::Refusal
            }
        }
    }
}

async fn hear_http1(connection: &mut (impl tokio::io::AsyncRead + Unpin)) -> Told {
    let mut line = Vec::new();
    while let Ok(byte) = connection.read_u8().await {
        line.push(byte);
        if byte == b'\n' {
            let line = String::from_utf8_lossy(&line);
            return Told::Status(line.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap());
        }
    }
    Told::Refusal
}

async fn hear_http2(connection: &mut (impl tokio::io::AsyncRead + Unpin)) -> Told {
    loop {
        let mut head = [0; 9];
        if connection.read_exact(&mut head).await.is_err() {
            return Told::Refusal;
        }
        match head[3] {
            http2::HEADERS => return Told::Answer,
            http2::RST_STREAM | http2::GOAWAY => return Told::Refusal,
            _ => {}
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        if connection.read_exact(&mut vec![0; length as usize]).await.is_err() {
            return Told::Refusal;
        }
    }
}

/// One caller comes, says what he has to say, and hears what he is told.
async fn call(door: SocketAddr, spoken: Spoken, case: &Case) -> Result<(), String> {
    let Case { name, sends, expects } = case;
    let calling = async {
        let (mut receiver, mut sender) = TcpStream::connect(door).await.unwrap().into_split();
        let sends = sends.clone();
        let hangs_up = *expects == Expected::Patience;
        // Whoever is refused is not listened to any more.
        let sending = tokio::spawn(async move {
            let _ = sender.write_all(&sends).await;
            if hangs_up {
                let _ = sender.shutdown().await;
            }
            sender
        });
        let told = spoken.hear(&mut receiver).await;
        sending.abort();
        told
    };
    match time::timeout(PATIENCE, calling).await {
        Ok(told) if expects.is(told) => Ok(()),
        Ok(told) => Err(format!("{spoken:?}: {name}: {told:?}, and not {expects:?}")),
        Err(_) => Err(format!("{spoken:?}: {name}: neither answer nor refusal")),
    }
}

/// All of them, a few at a time.
async fn call_all(door: SocketAddr, spoken: Spoken, cases: Vec<Case>) -> Vec<String> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut callers = JoinSet::new();
    for case in cases {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        callers.spawn(async move {
            let called = call(door, spoken, &case).await;
            drop(place);
            called.err()
        });
    }
    callers.join_all().await.into_iter().flatten().collect()
}

/// Callers who do nothing wrong while others do: over gRPC on one connection, with connections anew, over
/// `/json`, and the probes. None of them ever meets an error.
struct Others {
    is_over: Arc<AtomicBool>,
    answers: Arc<[AtomicUsize; 4]>,
    asking: JoinSet<()>,
}

impl Others {
    fn start(server: &Server) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let answers: Arc<[AtomicUsize; 4]> = Arc::default();
        let mut asking = JoinSet::new();
        let (grpc, http) = (server.grpc, server.http);
        let running = |which: usize| {
            let (is_over, answers) = (Arc::clone(&is_over), Arc::clone(&answers));
            move || {
                answers[which].fetch_add(1, Ordering::Relaxed);
                !is_over.load(Ordering::Relaxed)
            }
        };
        let more = running(0);
        asking.spawn(async move {
            let mut client = Client::connect(grpc).await;
            while more() {
                assert_eq!(client.ask(&request()).await.unwrap().overall_code, 1);
            }
        });
        let more = running(1);
        asking.spawn(async move {
            while more() {
                let mut client = Client::connect(grpc).await;
                assert_eq!(client.ask(&request()).await.unwrap().overall_code, 1);
            }
        });
        let more = running(2);
        asking.spawn(async move {
            while more() {
                let answer = support::post(http, "/json", http1::GOOD).await.unwrap();
                assert_eq!(answer.status, 200);
            }
        });
        let more = running(3);
        asking.spawn(async move {
            while more() {
                let answer = support::get(http, "/ready", &[]).await.unwrap();
                assert_eq!(answer.status, 200);
            }
        });
        Self { is_over, answers, asking }
    }

    /// Each of them has had answers, and no errors.
    async fn noticed_nothing(mut self) {
        let before: Vec<_> = self.answers.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        assert!(before.iter().all(|answers| *answers > 1), "{before:?}");
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.asking.join_next().await {
            ended.unwrap();
        }
    }
}

fn request() -> serde_json::Value {
    json!({ "domain": "shop", "descriptors": [{ "entries": [["user", "ada"]] }] })
}

/// What was there before the hostile came, and is to be there when they have gone.
struct Before {
    resident_kib: u64,
    files: usize,
}

impl Before {
    async fn of(server: &Server) -> Self {
        // What is set up once for all is there then.
        for _ in 0..20 {
            Client::connect(server.grpc).await.ask(&request()).await.unwrap();
            support::post(server.http, "/json", http1::GOOD).await.unwrap();
        }
        Self { resident_kib: server.memory_kib("VmRSS"), files: server.open_files() }
    }

    async fn is_so_again(&self, server: Server) {
        until("connections are gone", async || {
            (server.open_files() <= self.files + 4).then_some(())
        })
        .await;
        // An allocator gives back a little later, and when it is used.
        until("memory is given back", async || {
            Client::connect(server.grpc).await.ask(&request()).await.unwrap();
            let now = server.memory_kib("VmRSS");
            (now <= self.resident_kib + MOST_KEPT_KIB).then_some(())
        })
        .await;
        let peak = server.memory_kib("VmHWM");
        assert!(peak <= MOST_AT_ONCE_KIB, "{peak} KiB at most");
        let log = server.log();
        let lines = log.lines().count();
        assert!(!log.contains("panicked"), "{log}");
        assert!(lines < 40, "{lines} lines such as {:?}", log.lines().nth(lines / 2));
        server.signal("INT").await;
        assert!(server.ended().await.success());
    }
}

async fn start(environment: &[(&str, &str)]) -> (Server, TempDir) {
    let files = TempDir::new();
    (Server::start_with(&files.file("shop.yaml", RULES), environment).await, files)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_sent_is_answered_or_refused_and_harms_nobody() {
    let (authority, files) = (Authority::new("servers"), TempDir::new());
    let (certificate, key) = authority.issue("tollgate").written(&files, "tls");
    let tls = [("TOLLGATE_TLS_CERT", certificate.as_str()), ("TOLLGATE_TLS_KEY", &key)];
    let ((plain, _rules), (secure, _same)) = (start(&[]).await, start(&tls).await);

    let tables = [
        (plain.http, Spoken::Http1, http1::cases()),
        (plain.grpc, Spoken::Http2, http2::cases()),
        (secure.grpc, Spoken::Tls, handshake::cases()),
    ];
    let messages = http2::messages();
    let mut names: HashSet<_> =
        messages.iter().map(|(name, _)| format!("message {name}")).collect();
    assert_eq!(names.len(), messages.len());
    for (_, spoken, cases) in &tables {
        for case in cases {
            assert!(
                names.insert(format!("{spoken:?} {}", case.name)),
                "{} is there twice",
                case.name
            );
        }
    }
    assert!(names.len() >= 200, "there are {} cases", names.len());

    let before = Before::of(&plain).await;
    let others = Others::start(&plain);
    let mut failed = Vec::new();
    for (door, spoken, cases) in tables {
        failed.extend(call_all(door, spoken, cases).await);
    }
    failed.extend(behaviour::send_all(plain.grpc, messages).await);
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), names.len(), failed.join("\n"));
    others.noticed_nothing().await;
    before.is_so_again(plain).await;

    let client = TlsClient::new(&authority, None);
    assert_eq!(client.ask(secure.http, "/ready", "", "").await.unwrap().status, 200);
    assert!(!secure.log().contains("panicked"), "{}", secure.log());
    assert!(secure.log().lines().count() < 20, "{}", secure.log());
}
