//! Whatever bytes come on a stream of Hold, framed as gRPC frames messages or not, it ends when they do, and then nothing is
//! held.

#![no_main]

mod support;

use axum::{body::Bytes, http::Request};
use http_body_util::{BodyExt as _, channel::Channel};
use libfuzzer_sys::fuzz_target;
use support::{RUNTIME, new_decider};
use tokio::{sync::watch, task};
use tollgate::grpc::{LEASE_SERVICE, Leases};
use tonic::body::Body;
use tower::ServiceExt as _;

/// More turns than any task needs to give back what it holds.
const TURNS: usize = 1000;

fuzz_target!(|input: &[u8]| {
    // A first byte that is even says that one message follows, which is put in a frame.
    let Some((form, bytes)) = input.split_first() else { return };
    let mut body = Vec::new();
    if form % 2 == 0 {
        body.push(0);
        body.extend(u32::try_from(bytes.len()).expect("a short input").to_be_bytes());
    }
    body.extend(bytes);
    RUNTIME.block_on(async {
        let decider = new_decider();
        // The doors stay open.
        let (_doors, closed) = watch::channel(());
        let service = Leases::new(decider.clone(), closed).into_server();
        let (mut sender, channel) = Channel::<Bytes>::new(1);
        sender.send_data(body.into()).await.expect("somebody listens");
        let request = Request::post(format!("/{LEASE_SERVICE}/Hold"))
            .header("content-type", "application/grpc")
            .body(Body::new(channel));
        let answer = service.oneshot(request.expect("a request")).await.expect("an answer");
        // Who has been told that he holds something, or not, has no more to say.
        let mut answer = answer.into_body();
        let _ = answer.frame().await;
        drop(sender);
        // That an answer breaks off is for its reader.
        let _ = answer.collect().await;
        for _ in 0..TURNS {
            let pools = decider.pools().await.expect("a store in memory");
            if pools.iter().all(|pool| pool.in_flight.critical + pool.in_flight.others == 0) {
                return;
            }
            task::yield_now().await;
        }
        panic!("its stream has ended, and it holds a slot");
    });
});
