//! What callers may do slowly. Time is paused: it moves on by itself when nobody has anything to do.

use super::{DoorView, DoorWatch, connection::Connection, door::Door, http1, watch_store};
use crate::{
    clock::Clock,
    decider::{Decider, Modes},
    rules::Rules,
    store::{Memory, Store},
    task::{Task, faulty_log::FaultyLog},
    telemetry::DoorCounts,
};
use axum::{Router, routing};
use std::{future, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    time,
};

/// A door with room for so many, and what was let in.
async fn door(most: usize) -> (SocketAddr, mpsc::UnboundedReceiver<Connection>, watch::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (doors, closed) = watch::channel(());
    let (come_in, connections) = mpsc::unbounded_channel();
    let serve = move |connection| {
        come_in.send(connection).unwrap();
        future::ready(())
    };
    tokio::spawn(Door::new(listener, most).open(closed, serve));
    (address, connections, doors)
}

/// What a caller hears until the connection ends.
async fn last_words(caller: &mut TcpStream) -> String {
    let mut heard = Vec::new();
    // Whether it ends with a reset is no matter.
    let _ = caller.read_to_end(&mut heard).await;
    String::from_utf8(heard).unwrap()
}

async fn served(connection: Connection, closed: watch::Receiver<()>) {
    let large = "x".repeat(64 << 20);
    let router = Router::new()
        .route("/", routing::get(|| async { "here" }))
        .route("/large", routing::get(move || async move { large }));
    http1::serve(connection, router, closed).await;
}

#[tokio::test]
async fn where_calls_are_under_way_on_all_connections_a_new_one_is_closed_at_once() {
    let (address, mut connections, _doors) = door(2).await;
    let (mut callers, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        callers.push(TcpStream::connect(address).await.unwrap());
        let connection = connections.recv().await.unwrap();
        calls.push((connection.place().activity().begin(), connection));
    }
    let mut third = TcpStream::connect(address).await.unwrap();
    assert_eq!(last_words(&mut third).await, "");
    drop(calls.remove(0));
    let _fourth = TcpStream::connect(address).await.unwrap();
    assert!(connections.recv().await.is_some());
}

#[tokio::test]
async fn where_a_connection_is_idle_a_new_one_gets_its_place() {
    let (address, mut connections, _doors) = door(2).await;
    let mut callers = Vec::new();
    for _ in 0..5 {
        callers.push(TcpStream::connect(address).await.unwrap());
        assert!(connections.recv().await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_too_slowly_is_not_waited_for_nor_is_a_next_one() {
    for said in
        ["", "GET / HT", "GET / HTTP/1.1\r\nhost: x\r\n", "GET / HTTP/1.1\r\nhost: x\r\n\r\n"]
    {
        let (address, mut connections, doors) = door(1).await;
        let mut caller = TcpStream::connect(address).await.unwrap();
        caller.write_all(said.as_bytes()).await.unwrap();
        let connection = connections.recv().await.unwrap();
        tokio::spawn(served(connection, doors.subscribe()));
        let heard = last_words(&mut caller).await;
        assert_eq!(heard.contains("200 OK"), said.ends_with("\r\n\r\n"), "{said}: {heard}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_left() {
    let (address, mut connections, doors) = door(1).await;
    let mut caller = TcpStream::connect(address).await.unwrap();
    caller.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    served(connections.recv().await.unwrap(), doors.subscribe()).await;
    drop(caller);
}

#[tokio::test]
async fn what_was_read_to_know_the_protocol_is_read_again() {
    let (address, mut connections, _doors) = door(2).await;
    let mut caller = TcpStream::connect(address).await.unwrap();
    caller.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand more").await.unwrap();
    caller.shutdown().await.unwrap();
    let mut connection = connections.recv().await.unwrap();
    connection.speaks_http2().await.unwrap();
    let mut said = String::new();
    // In pieces, too.
    let mut some = [0; 7];
    while let Ok(read @ 1..) = connection.read(&mut some).await {
        said += std::str::from_utf8(&some[..read]).unwrap();
    }
    assert_eq!(said, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand more");

    let mut caller = TcpStream::connect(address).await.unwrap();
    caller.write_all(b"GET / HTTP/1.1\r\nhost: somebody\r\n\r\n").await.unwrap();
    connections.recv().await.unwrap().speaks_http2().await.unwrap_err();
}

/// Time is paused, so that a wait costs none.
#[tokio::test(start_paused = true)]
async fn the_watch_goes_on_after_a_panic_and_remembers_what_it_has_logged() {
    let log = FaultyLog::panics_at("first door");
    let store = Store::Memory(Memory::new(10));
    let decider = Decider::new(Rules::default(), store, Clock::monotonic(), Modes::default());
    let counts =
        ["first door", "second door", "third door"].map(|name| (name, watch::Sender::default()));
    let doors = counts.each_ref().map(|(name, counts): &(_, watch::Sender<DoorCounts>)| {
        let view = DoorView { name, counts: counts.subscribe(), open: Arc::default() };
        (DoorWatch::new(name), view)
    });
    let (over, told) = watch::channel(());
    let before = Task::Log.restarts();
    let watching = tokio::spawn(watch_store(decider, doors, told));
    let refuse = |door: usize| counts[door].1.send_modify(|counts| counts.full += 1);
    refuse(0);
    time::sleep(Duration::from_secs(10)).await;
    refuse(1);
    time::sleep(Duration::from_secs(10)).await;
    assert_eq!(log.count("task=\"log\""), 1, "the panic is logged");
    assert!(Task::Log.restarts() > before, "and counted");
    assert_eq!((log.count("first door"), log.count("second door")), (1, 1));
    drop(over);
    time::timeout(Duration::from_secs(10), watching).await.expect("it ends").unwrap();
}
