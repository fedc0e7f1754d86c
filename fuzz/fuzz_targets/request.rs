//! Whatever bytes arrive as a request, they are refused as malformed or invalid, or decided: one status
//! for each descriptor, and never UNKNOWN, which Envoy takes for permission.

#![no_main]

mod support;

use axum::http::HeaderMap;
use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use support::{RUNTIME, new_decider, new_service};
use tollgate::{
    clock::Deadline,
    grpc::proto::envoy::service::ratelimit::v3::{RateLimitRequest, rate_limit_response::Code},
    telemetry::Method,
};

fuzz_target!(|message: &[u8]| {
    let Ok(request) = RateLimitRequest::decode(message) else { return };
    let service = new_service(new_decider());
    // Twice, so that a request meets the states that it made.
    for _ in 0..2 {
        let underway = service.observer().begin(Method::ShouldRateLimit, &HeaderMap::new());
        let answer = service.answer(&underway, request.clone(), Deadline::default());
        let Ok(answer) = RUNTIME.block_on(answer) else { return };
        let response = answer.message;
        assert_ne!(response.overall_code(), Code::Unknown);
        assert_eq!(response.statuses.len(), request.descriptors.len());
        let metadata = response.dynamic_metadata.unwrap_or_default();
        assert!(!metadata.fields.contains_key("degraded"), "a store in memory always decides");
        assert!(response.statuses.iter().all(|status| status.code() != Code::Unknown));
    }
});
