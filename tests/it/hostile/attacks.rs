//! Attacks that were seen to work, each by itself and all at once, beside callers who do nothing wrong: these are
//! answered, and the process stays below the memory limit of the manifest. docs/security.md has what was measured
//! with a release build (`make attacks`).

use super::{
    PATIENCE, behaviour,
    http2::{self, HEADERS, begin, call, call_head, field, frame, message},
    request, start,
};
use crate::{
    grpc::Client,
    support::{self, Server, until},
};
use axum::body::{Bytes, HttpBody as _};
use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::Builder,
    sync::oneshot,
    task::JoinSet,
    time,
};
use tokio_stream::StreamExt as _;
use tonic::{
    Request, body::Body, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel,
};

/// The memory limit of deploy/kubernetes/deployment.yaml, in KiB.
const MEMORY_LIMIT_KIB: u64 = 512 << 10;

/// How long an attack goes on.
const LONG: Duration = Duration::from_secs(5);

/// How long Envoy waits.
const ENVOY_WAITS: Duration = Duration::from_millis(20);

/// What an attacker does, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    /// 4,000 streams without a message on each of eight connections, with 460 header fields each.
    Heads,
    /// A message of two million empty descriptors.
    Descriptors,
    /// The same as JSON.
    Json,
    /// 86 streams of leases with a first message of nearly 4 MiB.
    Holds,
    /// A thousand idle connections at the HTTP port.
    Idle,
    /// 300 calls of 100 descriptors each, without waiting for answers.
    Pipeline,
}

impl Attack {
    const ALL: [Self; 6] =
        [Self::Heads, Self::Descriptors, Self::Json, Self::Holds, Self::Idle, Self::Pipeline];

    /// Does it until it is told to stop, or the server ends it.
    async fn run(self, grpc: SocketAddr, http: SocketAddr) {
        loop {
            match self {
                Self::Heads => heads(grpc).await,
                Self::Descriptors => {
                    let message = [field(1, b"shop"), field(2, &[]).repeat(2_000_000)].concat();
                    let _ = behaviour::send(grpc, message).await;
                }
                Self::Json => {
                    let body = format!(
                        "{{\"domain\":\"shop\",\"descriptors\":[{}{{}}]}}",
                        "{},".repeat(1_300_000)
                    );
                    let _ = support::post(http, "/json", &body).await;
                }
                Self::Holds => holds(grpc).await,
                Self::Idle => {
                    let _idle = behaviour::connections(http, 1_000, b"").await;
                    time::sleep(Duration::from_secs(1)).await;
                }
                Self::Pipeline => pipeline(grpc).await,
            }
        }
    }
}

async fn heads(grpc: SocketAddr) {
    // A field that the table of the connection remembers, and references to it.
    let remember = [&[0x40, 1][..], b"a", &[1], b"b"].concat();
    let first = frame(HEADERS, http2::END_HEADERS, 1, &[call_head(), remember].concat());
    let fields = [call_head(), vec![0xbe; 460]].concat();
    let streams: Vec<u8> = (1..4_000)
        .flat_map(|stream| frame(HEADERS, http2::END_HEADERS, 2 * stream + 1, &fields))
        .collect();
    let sends: Arc<[u8]> = [begin(), first, streams].concat().into();
    let mut connections = JoinSet::new();
    for _ in 0..8 {
        let sends = Arc::clone(&sends);
        connections.spawn(async move {
            let (mut receiver, mut sender) = TcpStream::connect(grpc).await.unwrap().into_split();
            let _ = sender.write_all(&sends).await;
            // What the server says is read, so that it is not that which keeps it.
            let _ = time::timeout(2 * LONG, receiver.read_to_end(&mut Vec::new())).await;
        });
    }
    connections.join_all().await;
}

async fn holds(grpc: SocketAddr) {
    let _open = open_holds(grpc, 3_800_000).await;
    time::sleep(LONG).await;
}

/// 86 streams, each of which holds a lease or was refused one; dropped, they end. A field that means nothing makes the
/// first message large.
async fn open_holds(grpc: SocketAddr, length: usize) -> Vec<axum::http::Response<Body>> {
    let acquire =
        [field(1, b"shop"), http2::descriptor(b"job", b"x"), field(15, &vec![0; length])].concat();
    let bytes = Bytes::from(message(&field(1, &acquire)));
    let mut opening = JoinSet::new();
    for _ in 0..4 {
        let channel = Channel::from_shared(format!("http://{grpc}")).unwrap().connect().await;
        for _ in 0..22 {
            let (channel, bytes) = (channel.as_ref().ok().cloned(), bytes.clone());
            opening.spawn(async move {
                let mut channel = channel?;
                let sends =
                    tokio_stream::iter([Ok::<_, Infallible>(bytes)]).chain(tokio_stream::pending());
                let request = axum::http::Request::post("http://x/tollgate.v1.LeaseService/Hold")
                    .header("content-type", "application/grpc")
                    .header("te", "trailers")
                    .body(Body::new(axum::body::Body::from_stream(sends)))
                    .unwrap();
                let ready = tower::ServiceExt::ready(&mut channel).await.ok()?;
                let mut answer = tower::Service::call(ready, request).await.ok()?;
                let body = answer.body_mut();
                let event = poll_fn(|context| std::pin::Pin::new(&mut *body).poll_frame(context));
                let _ = time::timeout(PATIENCE, event).await;
                Some(answer)
            });
        }
    }
    opening.join_all().await.into_iter().flatten().collect()
}

async fn pipeline(grpc: SocketAddr) {
    const CALLS: u32 = 300;
    let descriptors = http2::descriptor(b"user", b"somebody").repeat(100);
    let body = message(&[field(1, b"shop"), descriptors].concat());
    let (mut receiver, mut sender) = TcpStream::connect(grpc).await.unwrap().into_split();
    let reading = tokio::spawn(async move {
        let _ = receiver.read_to_end(&mut Vec::new()).await;
    });
    let _ = sender.write_all(&begin()).await;
    for round in 0..20 {
        let calls: Vec<u8> = (0..CALLS)
            .flat_map(|call_| call(2 * (round * CALLS + call_) + 1, &call_head(), &body))
            .collect();
        if sender.write_all(&calls).await.is_err() {
            break;
        }
    }
    drop(sender);
    let _ = time::timeout(LONG, reading).await;
}

/// Callers who do nothing wrong, and how long each of their calls took.
struct Callers {
    is_over: Arc<AtomicBool>,
    calling: JoinSet<()>,
    took: Arc<Mutex<Vec<Duration>>>,
}

impl Callers {
    fn start(server: &Server) -> Self {
        let (is_over, took) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<_>>>::default());
        let mut calling = JoinSet::new();
        let (grpc, http) = (server.grpc, server.http);
        let goes_on = {
            let is_over = Arc::clone(&is_over);
            move || !is_over.load(Ordering::Relaxed)
        };
        for _ in 0..4 {
            let (goes_on, took) = (goes_on.clone(), Arc::clone(&took));
            calling.spawn(async move {
                let mut client = Client::connect(grpc).await;
                while goes_on() {
                    let began = now();
                    assert_eq!(client.ask(&request()).await.unwrap().overall_code, 1);
                    took.lock().unwrap().push(now() - began);
                    time::sleep(Duration::from_millis(2)).await;
                }
            });
        }
        // A value of 5 KB, so not all of the call comes at once.
        let long = serde_json::json!({
            "domain": "shop", "descriptors": [{ "entries": [["user", "x".repeat(5_000)]] }],
        });
        let running = goes_on.clone();
        calling.spawn(async move {
            let mut client = Client::connect(grpc).await;
            while running() {
                assert_eq!(client.ask(&long).await.unwrap().overall_code, 1);
                time::sleep(Duration::from_millis(5)).await;
            }
        });
        calling.spawn(async move {
            while goes_on() {
                for probe in ["/healthcheck", "/ready"] {
                    assert_eq!(support::get(http, probe, &[]).await.unwrap().status, 200);
                }
                time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { is_over, calling, took }
    }

    /// All of their calls were answered. Says how long they took.
    async fn end(mut self) -> String {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.calling.join_next().await {
            ended.unwrap();
        }
        let mut took = std::mem::take(&mut *self.took.lock().unwrap());
        took.sort_unstable();
        assert!(took.len() > 20, "{} calls were answered", took.len());
        let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        let late = took.iter().filter(|took| **took > ENVOY_WAITS).count();
        format!(
            "| {} | {:.2} | {:.2} | {:.2} % |",
            took.len(),
            at(0.5),
            at(0.99),
            100.0 * late as f64 / took.len() as f64
        )
    }
}

#[expect(clippy::disallowed_methods, reason = "it is told, and nothing depends on it")]
fn now() -> Instant {
    Instant::now()
}

/// A thread that attacks until this is dropped. It has the lowest priority: attackers have machines of their own, and
/// here share the cores of the server and of the callers whose calls are timed.
struct Attackers {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Attackers {
    fn start(server: &Server, attacks: &[Attack]) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (attacks, grpc, http) = (attacks.to_vec(), server.grpc, server.http);
        let thread = thread::spawn(move || {
            rustix::process::nice(19).unwrap();
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut attacking = JoinSet::new();
                for attack in attacks {
                    attacking.spawn(attack.run(grpc, http));
                }
                let _ = stopped.await;
                attacking.shutdown().await;
            });
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// Lets attacks run for a while beside callers who do nothing wrong.
#[expect(clippy::print_stdout, reason = "it is what `make attacks` is for")]
async fn withstand(attacks: &[Attack]) {
    let (server, _files) = start(&[]).await;
    Client::connect(server.grpc).await.ask(&request()).await.unwrap();
    let callers = Callers::start(&server);
    let cpu = server.cpu();
    let began = now();
    let attackers = Attackers::start(&server, attacks);
    time::sleep(LONG).await;
    let cores = (server.cpu() - cpu).as_secs_f64() / (now() - began).as_secs_f64();
    let took = callers.end().await;
    let peak = server.memory_kib("VmHWM");
    drop(attackers);
    println!("| {attacks:?} | {} MiB | {cores:.2} {took}", peak >> 10);
    assert!(peak < MEMORY_LIMIT_KIB, "{attacks:?}: {peak} KiB");
    // Afterwards it serves as before.
    until("it serves", async || {
        Client::connect(server.grpc).await.ask(&request()).await.ok().map(|_| ())
    })
    .await;
    assert!(!server.log().contains("panicked"), "{}", server.log());
    assert!(server.log().lines().count() < 40, "{}", server.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_attacks_at_once_leave_others_unharmed_and_memory_within_its_limit() {
    withstand(&Attack::ALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_attack_by_itself_leaves_others_unharmed_and_memory_within_its_limit() {
    for attack in Attack::ALL {
        withstand(&[attack]).await;
    }
}

/// While streams of leases with large first messages are open, messages of others are taken in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_open_take_no_room_from_messages() {
    let (server, _files) = start(&[]).await;
    let _large = open_holds(server.grpc, 3_800_000).await;
    // And what is left of the room, if any of it was taken for as long as the streams are open.
    let _others = open_holds(server.grpc, 60_000).await;
    let long = serde_json::json!({
        "domain": "shop", "descriptors": [{ "entries": [["user", "x".repeat(60_000)]] }],
    });
    let mut client = Client::connect(server.grpc).await;
    for _ in 0..100 {
        assert_eq!(client.ask(&long).await.unwrap().overall_code, 1);
    }
}

/// A header list is accepted up to 256 KiB. What is larger is counted and told.
#[tokio::test]
async fn header_lists_are_accepted_as_large_as_envoy_makes_them() {
    let (server, _files) = start(&[]).await;
    for length in [20_000, 60_000, 255_000] {
        call_with_tracestate(&server, length).await.unwrap();
    }
    for _ in 0..3 {
        call_with_tracestate(&server, 300_000).await.unwrap_err();
    }
    // The answer may arrive before the refusal is counted.
    until("the metric counts them", async || {
        let metrics = support::get(server.http, "/metrics", &[]).await.unwrap().body;
        metrics.contains("tollgate_requests_oversized_total{door=\"grpc\"} 3").then_some(())
    })
    .await;
    until("the log tells it", async || server.log().contains("larger than 256 KiB").then_some(()))
        .await;
    assert!(server.log().matches("larger than 256 KiB").count() <= 2, "{}", server.log());
}

/// A connection goes on when one of its calls had too many headers, however often.
#[tokio::test]
async fn calls_with_too_large_header_lists_do_not_end_the_connection() {
    let (server, _files) = start(&[]).await;
    let mut connection = TcpStream::connect(server.grpc).await.unwrap();
    connection.write_all(&begin()).await.unwrap();
    let large = http2::literal(b"x", &vec![b'y'; 280_000]);
    let mut stream = 1;
    // More than the library would take from one connection.
    for _ in 0..1_100 {
        let block = [call_head(), large.clone()].concat();
        let mut pieces = block.chunks(16 << 10).peekable();
        let mut kind = HEADERS;
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() { http2::END_HEADERS } else { 0 };
            bytes.extend(frame(kind, flags, stream, piece));
            kind = http2::CONTINUATION;
        }
        connection.write_all(&bytes).await.unwrap();
        stream += 2;
    }
    let good = http2::good();
    connection.write_all(&call(stream, &call_head(), &message(&good))).await.unwrap();
    let answered = async {
        loop {
            let mut head = [0; 9];
            connection.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            connection.read_exact(&mut vec![0; length as usize]).await.unwrap();
            assert_ne!(head[3], http2::GOAWAY, "the connection was ended");
            let at = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if head[3] == http2::DATA && at == stream {
                return;
            }
        }
    };
    time::timeout(3 * PATIENCE, answered).await.expect("the last call is answered");
}

async fn call_with_tracestate(server: &Server, length: usize) -> Result<(), tonic::Status> {
    let channel = Channel::from_shared(format!("http://{}", server.grpc)).unwrap();
    let mut grpc = Grpc::new(channel.connect().await.unwrap());
    grpc.ready().await.unwrap();
    let mut request = Request::new(http2::good());
    request.metadata_mut().insert("tracestate", "x".repeat(length).parse().unwrap());
    let path = PathAndQuery::from_static(http2::PATH);
    grpc.unary(request, path, behaviour::Raw).await.map(|_| ())
}
