//! What a server says that it has not looked at is asked again, and nothing is lost when it asks to connect anew.

use super::{RULES, load, load_of, number};
use crate::support::{Server, TempDir};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use serde_json::Value;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// In an open loop most streams wait for what is due next when their connection says that it will go away.
#[tokio::test]
async fn a_connection_that_the_server_asks_to_open_anew_costs_no_request() {
    let files = TempDir::new();
    let aging = [("TOLLGATE_MAX_CONNECTION_AGE", "1s")];
    let server = Server::start_with(&files.file("edge.yaml", RULES), &aging).await;
    let few = ["--duration", "3s", "--connections", "2", "--streams", "4"];
    for (rate, least) in [(Some("500"), 1500), (None, 1)] {
        let rate = rate.map_or(vec![], |rate| vec!["--rate", rate]);
        let said = load(&server, &[&few[..], &rate].concat()).await;
        assert_eq!(said["errors"], Value::Object(Default::default()), "{said:#}");
        assert_eq!(said["ok"], said["requests"], "{said:#}");
        assert!(number(&said["requests"]) >= least, "{said:#}");
    }
}

/// A server that refuses every fifth request of a connection, goes away after twenty, and answers the others; and how
/// many it has refused.
async fn start_refusing() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, refused) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&refused);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let refused = Arc::clone(&refused);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let mut requests = 0;
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    requests += 1;
                    if requests % 5 == 0 {
                        respond.send_reset(h2::Reason::REFUSED_STREAM);
                        refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    if requests == 20 {
                        connection.graceful_shutdown();
                    }
                    tokio::spawn(async move {
                        let mut body = request.into_body();
                        while let Some(Ok(_)) = body.data().await {}
                        let mut answer =
                            respond.send_response(http::Response::new(()), false).unwrap();
                        answer
                            .send_data(Bytes::from_static(b"\0\0\0\0\x02\x08\x01"), false)
                            .unwrap();
                        let status =
                            ("grpc-status".parse().unwrap(), HeaderValue::from_static("0"));
                        answer.send_trailers(HeaderMap::from_iter([status])).unwrap();
                    });
                }
            });
        }
    });
    (address, counted)
}

#[tokio::test]
async fn what_the_server_has_not_looked_at_is_asked_again() {
    let (address, refused) = start_refusing().await;
    let few = ["--connections", "2", "--streams", "8"];
    let said =
        load_of(address, &[&few[..], &["--rate", "400", "--duration", "500ms"]].concat()).await;
    assert_eq!((number(&said["requests"]), number(&said["ok"])), (200, 200), "{said:#}");
    let refused_at_first = refused.load(Ordering::Relaxed);
    assert!(refused_at_first >= 40, "{refused_at_first}");
    let said = load_of(address, &[&few[..], &["--duration", "200ms"]].concat()).await;
    assert_eq!(said["ok"], said["requests"], "{said:#}");
    assert!(refused.load(Ordering::Relaxed) > refused_at_first);
}
