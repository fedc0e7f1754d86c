//! HTTP/1.1 on a connection, within bounds: `axum::serve` sets none.

use super::{connection::Connection, until_closed};
use axum::{Router, http::Request};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use tower::ServiceExt as _;

/// How long a head may take, from when the last answer has gone: so also how long a connection may idle.
const SLOWEST_HEAD: Duration = Duration::from_secs(30);

/// The largest head, in bytes; and the most that is read ahead, of a head or of what comes behind it.
const LARGEST_HEAD: usize = 32 << 10;
const MOST_READ_AHEAD: usize = 32 << 10;

/// Serves a connection to its end; once the doors close, to the end of the answer that is under way.
pub(super) async fn serve(connection: Connection, router: Router, closed: watch::Receiver<()>) {
    let caller = connection.caller();
    let activity = Arc::clone(connection.place().activity());
    let is_idle = connection.place().leaves();
    let service = router
        .map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(caller);
            request
        })
        // A request that never becomes whole does not count.
        .map_response(move |response| {
            drop(activity.begin());
            response
        });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SLOWEST_HEAD)
        .max_header_size(LARGEST_HEAD)
        .max_buf_size(MOST_READ_AHEAD)
        .serve_connection(TokioIo::new(connection), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let leave = async {
        tokio::select! {
            () = until_closed(closed) => {}
            () = is_idle => {}
        }
    };
    // What goes wrong on a connection is its caller's to know.
    tokio::select! {
        _ = &mut connection => {}
        () = leave => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
