//! Whatever stands in the body of `POST /json`, it is refused as malformed or invalid, or decided: in JSON, with a status
//! that fits, and by the store, which is always there.

#![no_main]

mod support;

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use support::{RUNTIME, new_public};
use tower::ServiceExt as _;

fuzz_target!(|body: &[u8]| {
    let public = new_public();
    RUNTIME.block_on(async {
        // Twice, so that a request meets the states that it made.
        for _ in 0..2 {
            let request = Request::post("/json").body(Body::from(body.to_vec()));
            let answer =
                public.clone().oneshot(request.expect("a request")).await.expect("an answer");
            let status = answer.status();
            let body = to_bytes(answer.into_body(), usize::MAX).await.expect("a whole answer");
            let answer: Value = serde_json::from_slice(&body).expect("an answer in JSON");
            if status == StatusCode::BAD_REQUEST {
                assert!(answer["message"].as_str().is_some_and(|message| !message.is_empty()));
                return;
            }
            let code = if status == StatusCode::OK { "OK" } else { "OVER_LIMIT" };
            assert_eq!(answer["overallCode"], code);
            assert!(
                answer["dynamicMetadata"].get("degraded").is_none(),
                "a store in memory decides"
            );
            let denials = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
            assert!(status == StatusCode::OK || denials.contains(&status), "{status}");
        }
    });
});
