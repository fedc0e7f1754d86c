//! The program as an operator starts it.

use crate::support::{self, Server};
use std::path::Path;
use tokio::net::TcpStream;

#[tokio::test]
async fn answers_at_the_addresses_on_its_screen() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let server = Server::start(&samples).await;

    assert_eq!(support::get(server.http, "/ready", &[]).await.unwrap().status, 200);
    assert_eq!(support::get(server.admin, "/rlconfig", &[]).await.unwrap().status, 200);
    TcpStream::connect(server.grpc).await.unwrap();
}
