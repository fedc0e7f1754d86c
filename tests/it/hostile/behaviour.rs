//! Harm that is done by how somebody behaves, more than by the bytes he sends.

use super::{
    AT_ONCE, Before, Others, PATIENCE,
    http2::{self, begin, call_head, frame},
    start,
};
use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
    time,
};
use tokio_stream::StreamExt as _;
use tonic::{
    Code, Request, Status,
    body::Body,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};

/// How long answers are not read.
const HELD: Duration = Duration::from_secs(10);

/// Sends any bytes as a message, and takes any.
#[derive(Clone, Copy, Default)]
pub(super) struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::bytes::BufMut::put_slice(to, &bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        use prost::bytes::Buf as _;
        from.advance(from.remaining());
        Ok(Some(()))
    }
}

/// Sends messages as requests, each over a connection of its own. All are answered, be it that they are none.
pub(super) async fn send_all(to: SocketAddr, messages: Vec<(String, Vec<u8>)>) -> Vec<String> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut callers = JoinSet::new();
    for (name, bytes) in messages {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        callers.spawn(async move {
            let sent = time::timeout(PATIENCE, send(to, bytes)).await;
            drop(place);
            let told = sent.map_err(|_| format!("message {name}: no answer"));
            match told.map(|sent| sent.err().map(|status| (status.code(), status))) {
                Ok(
                    None
                    | Some((Code::InvalidArgument | Code::Internal | Code::ResourceExhausted, _)),
                ) => None,
                Ok(Some((_, status))) => Some(format!("message {name}: {status}")),
                Err(silence) => Some(silence),
            }
        });
    }
    callers.join_all().await.into_iter().flatten().collect()
}

pub(super) async fn send(to: SocketAddr, bytes: Vec<u8>) -> Result<(), Status> {
    let channel = Channel::from_shared(format!("http://{to}")).unwrap().connect().await.unwrap();
    let mut grpc = Grpc::new(channel).max_encoding_message_size(usize::MAX);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static(http2::PATH);
    grpc.unary(Request::new(bytes), path, Raw).await.map(|_| ())
}

/// So many connections on which this was said, and nothing more is.
pub(super) async fn connections(to: SocketAddr, count: usize, said: &[u8]) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    for _ in 0..count {
        let mut connection = TcpStream::connect(to).await.unwrap();
        let _ = connection.write_all(said).await;
        connections.push(connection);
    }
    connections
}

/// Waits for the end of all of them.
async fn ended(connections: Vec<TcpStream>) {
    let mut ending = JoinSet::new();
    for mut connection in connections {
        ending.spawn(async move {
            let _ = connection.read_to_end(&mut Vec::new()).await;
        });
    }
    time::timeout(3 * PATIENCE, ending.join_all()).await.expect("some are still open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_idle_or_slow_is_left_in_the_end_and_others_notice_nothing() {
    let (server, _files) = start(&[]).await;
    let before = Before::of(&server).await;
    let others = Others::start(&server);
    let mut all = Vec::new();
    // Idle on gRPC: those who do not even say what they speak, and those who answer no ping.
    all.extend(connections(server.grpc, 1000, b"").await);
    all.extend(connections(server.grpc, 1000, &begin()).await);
    all.extend(connections(server.grpc, 100, b"PRI * HTTP/2.0").await);
    // With calls under way that never end, in heads, in messages, in streams.
    let half_a_head = [begin(), frame(http2::HEADERS, 0, 1, &call_head())].concat();
    all.extend(connections(server.grpc, 100, &half_a_head).await);
    let no_message = [begin(), frame(http2::HEADERS, http2::END_HEADERS, 1, &call_head())].concat();
    all.extend(connections(server.grpc, 100, &no_message).await);
    // And the same over HTTP/1.
    all.extend(connections(server.http, 200, b"").await);
    all.extend(connections(server.http, 200, b"POST /json HTTP/1.1\r\nhost: x\r\n").await);
    let half_a_body = b"POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{";
    all.extend(connections(server.http, 200, half_a_body).await);
    all.extend(connections(server.http, 100, b"GET /ready HTTP/1.1\r\nhost: x\r\n\r\n").await);
    ended(all).await;
    others.noticed_nothing().await;
    before.is_so_again(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_what_he_asks_for_takes_no_room_for_it() {
    // Answers that are as large as what was asked.
    let (server, _files) = start(&[("TOLLGATE_RESPONSE_DYNAMIC_METADATA", "true")]).await;
    let before = Before::of(&server).await;
    let others = Others::start(&server);
    // Thousands of answers, of which the caller takes a byte.
    let request = http2::with_value(&vec![b'x'; 10_000]);
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let endpoint = Channel::from_shared(format!("http://{}", server.grpc)).unwrap();
        let channel = endpoint.initial_stream_window_size(1).connect().await.unwrap();
        for _ in 0..1_000 {
            let (channel, request) = (channel.clone(), request.clone());
            callers.spawn(async move {
                let mut grpc = Grpc::new(channel);
                grpc.ready().await.unwrap();
                let path = PathAndQuery::from_static(http2::PATH);
                let answer =
                    time::timeout(HELD, grpc.unary(Request::new(request), path, Raw)).await;
                assert!(answer.is_err(), "it was taken after all");
            });
        }
    }
    // Pipelined over HTTP/1, whose answers nobody reads either.
    let pipelined = "GET /ready HTTP/1.1\r\nhost: x\r\n\r\n".repeat(20_000);
    for _ in 0..20 {
        let (to, pipelined) = (server.http, pipelined.clone());
        callers.spawn(async move {
            let mut connection = TcpStream::connect(to).await.unwrap();
            // It is not listened to for ever.
            let _ = time::timeout(HELD, connection.write_all(pipelined.as_bytes())).await;
        });
    }
    while let Some(called) = callers.join_next().await {
        called.unwrap();
    }
    others.noticed_nothing().await;
    before.is_so_again(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_begun_and_not_ended_take_no_room_without_bound() {
    let (server, _files) = start(&[]).await;
    let before = Before::of(&server).await;
    let others = Others::start(&server);
    // Each comes nearly whole, and there it stays: three gigabytes, if all of it were kept.
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        let channel = Channel::from_shared(format!("http://{}", server.grpc)).unwrap();
        let channel = channel.connect().await.unwrap();
        for _ in 0..100 {
            calls.spawn(unended(channel.clone()));
        }
    }
    let refused = async { while !calls.join_next().await.unwrap().unwrap() {} };
    time::timeout(3 * PATIENCE, refused).await.expect("800 messages of 4 MB were kept");
    // Those that are still there go, and take with them what they hold.
    calls.shutdown().await;
    others.noticed_nothing().await;
    before.is_so_again(server).await;
}

/// Sends most of a message, and no more. Whether it was refused for want of room.
async fn unended(mut channel: Channel) -> bool {
    let length = 4_000_000_u32;
    let begun = [&[0][..], &length.to_be_bytes(), &vec![0; 3_900_000]].concat();
    let begun = tokio_stream::iter([Ok::<_, Infallible>(begun)]).chain(tokio_stream::pending());
    let request = axum::http::Request::post(format!("http://tollgate{}", http2::PATH))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(axum::body::Body::from_stream(begun)))
        .unwrap();
    let ready = tower::ServiceExt::ready(&mut channel).await.unwrap();
    // Where this machine is too busy to answer pings, the connection ends instead.
    let answer = tower::Service::call(ready, request).await;
    answer.is_ok_and(|answer| answer.headers()["grpc-status"] == "8")
}
