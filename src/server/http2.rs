//! gRPC, which is HTTP/2, on the connections of a door.

use super::{
    connection::Connection,
    door::Door,
    frames::{Frames, LARGEST_HEAD},
    turn::Turn,
    until_closed,
};
use crate::{budget::Budget, grpc::Calls, http::Caller};
use futures_util::FutureExt as _;
use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{sync::watch, time};

/// The most requests under way on one connection, and the most that may be cancelled before they were
/// looked at. Envoy cancels what is late, so after any pause many come at once; a server that ends the
/// connection over them lets all others on it pass. What is cancelled is bounded all the same: it keeps its
/// place among these until it was looked at.
const MOST_STREAMS: u32 = 4096;

/// The largest frame, in bytes. A message is many frames.
const LARGEST_FRAME: u32 = 16 << 10;

/// How long a caller may take to say that it speaks HTTP/2.
const SLOWEST_PREFACE: Duration = Duration::from_secs(10);

/// How often a connection on which nothing comes is asked whether there is still somebody, and how long it
/// may take to say so.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// How long an idle connection has for closing as the protocol has it.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves until the doors close, and what is under way is finished. Connections older than `longest_life`,
/// where that is given, are asked to be opened anew.
pub(super) async fn serve(
    door: Door,
    calls: Calls,
    budget: Budget,
    longest_life: Option<Duration>,
    closed: watch::Receiver<()>,
) {
    let told = closed.clone();
    let serve = move |connection: Connection| {
        // A copy for each connection, so that requests on different cores do not count the same references.
        let calls = Arc::new(calls.clone().of_connection(connection.place().activity()));
        serve_connection(connection, calls, budget.clone(), longest_life, told.clone())
    };
    door.open(closed, serve).await;
}

async fn serve_connection(
    mut connection: Connection,
    calls: Arc<Calls>,
    budget: Budget,
    longest_life: Option<Duration>,
    closed: watch::Receiver<()>,
) {
    // The server itself would wait for that for ever.
    let greeted = tokio::select! {
        greeted = time::timeout(SLOWEST_PREFACE, connection.speaks_http2()) => greeted,
        () = until_closed(closed.clone()) => return,
    };
    // A stranger would learn nothing more here: the log tells the operator.
    if !matches!(greeted, Ok(Ok(()))) || connection.caller() == Caller::Stranger {
        return;
    }
    let answer = service_fn(move |request| calls.answer(request).map(Ok::<_, Infallible>));
    let turn = Turn::new(Arc::clone(connection.counts()));
    let is_idle = connection.place().leaves();
    let frames = Frames::new(connection, turn.clone(), budget);
    let connection = http2::Builder::new(turn.clone())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_pending_accept_reset_streams(MOST_STREAMS as usize)
        // Header lists of callers that are too large are reset by the library: they must not end the connection for
        // all others on it. What resets cost is bounded by turns.
        .max_local_error_reset_streams(None)
        .max_header_list_size(LARGEST_HEAD)
        .max_frame_size(LARGEST_FRAME)
        // A worker whose machine is gone says nothing: what it holds is released.
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        // Nobody who speaks gRPC reads it.
        .auto_date_header(false)
        .serve_connection(TokioIo::new(frames), answer);
    let mut connection = std::pin::pin!(connection);
    let leave = async {
        tokio::select! {
            () = until_closed(closed) => None,
            () = until_old(longest_life) => None,
            () = is_idle => Some(LAST_WORDS),
        }
    };
    // What goes wrong on a connection is its caller's to know.
    let last_words = tokio::select! {
        _ = turn.by_turn(connection.as_mut()) => return,
        last_words = leave => last_words,
    };
    connection.as_mut().graceful_shutdown();
    let ending = turn.by_turn(connection);
    match last_words {
        Some(longest) => drop(time::timeout(longest, ending).await),
        None => drop(ending.await),
    }
}

/// Completes when a connection has become as old as one may become, give or take a tenth: those that were opened
/// together, when a replica came, are not to be opened anew together.
async fn until_old(longest_life: Option<Duration>) {
    let Some(life) = longest_life else { return std::future::pending().await };
    let tenth = life / 10;
    // Without random numbers they are all alike.
    let drawn = getrandom::u32().unwrap_or(u32::MAX / 2);
    let more = tenth.mul_f64(2.0 * f64::from(drawn) / f64::from(u32::MAX));
    time::sleep(life - tenth + more).await;
}
