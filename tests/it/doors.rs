//! The ports: how many may come in, and how the server leaves.

use crate::{
    grpc::Client,
    support::{self, Server, Store, TempDir, until},
};
use serde_json::json;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
};
use tokio_stream::StreamExt as _;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 3000}
";

async fn start(environment: &[(&str, &str)]) -> (Server, TempDir) {
    let files = TempDir::new();
    (Server::start_with(&files.file("shop.yaml", RULES), environment).await, files)
}

fn request() -> serde_json::Value {
    json!({ "domain": "shop", "descriptors": [{ "entries": [["user", "ada"]] }] })
}

/// What a client says first over HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// So many connections that say this much, and then nothing.
async fn idle(port: SocketAddr, count: usize, said: &[u8]) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    for _ in 0..count {
        let mut connection = TcpStream::connect(port).await.unwrap();
        let _ = connection.write_all(said).await;
        connections.push(connection);
    }
    connections
}

#[tokio::test]
async fn a_flood_of_connections_keeps_nobody_out() {
    let (server, _files) = start(&[("TOLLGATE_MAX_CONNECTIONS", "5")]).await;
    let mut first = Client::connect(server.grpc).await;
    first.ask(&request()).await.unwrap();
    let _flood = idle(server.grpc, 20, PREFACE).await;
    // A connection that had a call goes last, and a new one gets in.
    Client::connect(server.grpc).await.ask(&request()).await.unwrap();
    first.ask(&request()).await.unwrap();
    assert_eq!(support::get(server.http, "/ready", &[]).await.unwrap().status, 200);
    until("the log tells it", async || {
        server.log().contains("idle connections were closed to make room").then_some(())
    })
    .await;
    assert!(server.log().matches("gRPC port: ").count() <= 2, "{}", server.log());
    let metrics = support::get(server.http, "/metrics", &[]).await.unwrap().body;
    let open = metrics.lines().find(|line| line.starts_with("tollgate_connections{door=\"grpc\""));
    let open: f64 = open.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(open <= 5.0, "{open} are open");
}

#[tokio::test]
async fn probes_get_in_however_many_connections_are_idle() {
    let (server, _files) = start(&[]).await;
    // As many as there are places, and more; some of them have begun a request.
    let mut flood = idle(server.http, 600, b"").await;
    flood.extend(idle(server.http, 300, b"GET /ready HTTP/1.1\r\nhost: x\r\n").await);
    let half = b"POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
    flood.extend(idle(server.http, 300, half).await);
    for probe in ["/healthcheck", "/ready"] {
        assert_eq!(support::get(server.http, probe, &[]).await.unwrap().status, 200, "{probe}");
    }
}

#[tokio::test]
async fn connections_of_a_certain_age_are_asked_to_be_opened_anew() {
    let (server, _files) = start(&[("TOLLGATE_MAX_CONNECTION_AGE", "1s")]).await;
    let mut caller = TcpStream::connect(server.grpc).await.unwrap();
    caller.write_all(PREFACE).await.unwrap();
    let going_away = async {
        let mut head = [0; 9];
        loop {
            caller.read_exact(&mut head).await.unwrap();
            if head[3] == 7 {
                return;
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            caller.read_exact(&mut vec![0; length as usize]).await.unwrap();
        }
    };
    tokio::time::timeout(support::PATIENCE, going_away).await.expect("no GOAWAY came");
}

#[tokio::test]
async fn who_watches_its_health_hears_that_it_leaves_and_does_not_hold_it_up() {
    let (server, _files) = start(&[("TOLLGATE_DRAIN", "100ms")]).await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", server.grpc));
    let mut client = HealthClient::new(channel.unwrap().connect().await.unwrap());
    let watching = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    server.signal("TERM").await;
    let heard: Vec<_> = watching.map(|answer| answer.unwrap().status).collect().await;
    assert_eq!(heard, [1, 2], "SERVING, NOT_SERVING, and the end");
    let log = server.last_log().await;
    assert!(!log.contains("cut off"), "{log}");
}

#[tokio::test]
async fn who_is_slow_or_says_nothing_does_not_hold_up_the_end() {
    let (server, _files) = start(&[("TOLLGATE_DRAIN", "0")]).await;
    let cases: [(SocketAddr, &[u8]); 6] = [
        (server.grpc, b""),
        (server.grpc, b"PRI * HT"),
        // It speaks HTTP/2, and does not hear that the server goes.
        (server.grpc, PREFACE),
        (server.http, b""),
        (server.http, b"GET / HT"),
        (server.http, b"POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"),
    ];
    let mut callers = Vec::new();
    for (door, said) in cases {
        let mut caller = TcpStream::connect(door).await.unwrap();
        caller.write_all(said).await.unwrap();
        callers.push(caller);
    }
    // What came after them was answered, so they are in.
    Client::connect(server.grpc).await.ask(&request()).await.unwrap();
    assert_eq!(support::get(server.http, "/ready", &[]).await.unwrap().status, 200);
    server.signal("TERM").await;
    let log = server.last_log().await;
    assert!(log.contains("2.01s after the doors had closed"), "{log}");
}

#[tokio::test]
async fn signals_after_the_doors_are_closed_cut_off_what_is_in_flight() {
    let (server, _files) =
        start(&[("TOLLGATE_DRAIN", "1h"), ("TOLLGATE_STORE_TIMEOUT", "60s")]).await;
    let mut caller = TcpStream::connect(server.http).await.unwrap();
    caller
        .write_all(b"POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        .await
        .unwrap();
    assert_eq!(support::get(server.http, "/ready", &[]).await.unwrap().status, 200);
    server.signal("TERM").await;
    until("it leaves", async || server.log().contains("leaving").then_some(())).await;
    server.signal("TERM").await;
    until("the doors are closed", async || {
        TcpStream::connect(server.http).await.is_err().then_some(())
    })
    .await;
    server.signal("TERM").await;
    assert_eq!(server.ended().await.code(), Some(1));
}

/// Two replicas count together, so whatever is decided and not told to the caller is missed in the end.
#[tokio::test]
async fn no_request_is_lost_when_a_replica_leaves_under_load() {
    let store = Store::redis().await;
    let files = TempDir::new();
    let rules = files.file("shop.yaml", RULES);
    let environment = [store.environment(), vec![("TOLLGATE_DRAIN", "1h")]].concat();
    let leaving = Server::start_with(&rules, &environment).await;
    let staying = Server::start_with(&rules, &environment).await;
    let (grpc, other) = (leaving.grpc, staying.grpc);
    let (left, told) = watch::channel(());
    let passed = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (passed, told) = (Arc::clone(&passed), told.clone());
            tokio::spawn(async move {
                let mut client = Client::connect(grpc).await;
                let mut turns = 0;
                loop {
                    match client.ask(&request()).await {
                        Ok(answer) if answer.overall_code == 1 => {
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(_) => return turns,
                        Err(error) => {
                            assert!(
                                told.has_changed().is_err(),
                                "an error while draining: {error}"
                            );
                            turns += 1;
                            assert_eq!(turns, 1, "{error}");
                            client = Client::connect(other).await;
                        }
                    }
                }
            })
        })
        .collect();
    let more_than = async |number| {
        let there_are = async || (passed.load(Ordering::Relaxed) > number).then_some(());
        until("there is load", there_are).await;
    };
    more_than(300).await;
    leaving.signal("TERM").await;
    until("it leaves", async || leaving.log().contains("leaving").then_some(())).await;
    more_than(passed.load(Ordering::Relaxed) + 300).await;
    drop(left);
    leaving.signal("TERM").await;
    assert!(leaving.ended().await.success());
    let mut turns = 0;
    for caller in callers {
        turns += caller.await.unwrap();
    }
    assert_eq!(passed.load(Ordering::Relaxed), 3000);
    assert!(turns > 0, "nobody was there when it left");
}
