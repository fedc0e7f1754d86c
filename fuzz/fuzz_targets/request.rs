//! Whatever bytes arrive as a request, they are refused as malformed or invalid, or decided: one status
//! for each descriptor, and never UNKNOWN, which Envoy takes for permission.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use support::{RUNTIME, new_decider};
use tollgate::{
    clock::Deadline,
    grpc::{
        Headers, RateLimitHeaders, Service,
        proto::envoy::service::ratelimit::v3::{RateLimitRequest, rate_limit_response::Code},
    },
};

fn new_service() -> Service {
    let name = |end| format!("x-ratelimit-{end}");
    let (limit, remaining, reset) = (name("limit"), name("remaining"), name("reset"));
    let rate_limit = Some(RateLimitHeaders { limit, remaining, reset });
    Service::new(new_decider(), Headers { rate_limit, degraded: None })
}

fuzz_target!(|message: &[u8]| {
    let Ok(request) = RateLimitRequest::decode(message) else { return };
    let service = new_service();
    // Twice, so that a request meets the states that it made.
    for _ in 0..2 {
        let answer = service.answer(request.clone(), Deadline::default());
        let Ok(answer) = RUNTIME.block_on(answer) else { return };
        let response = answer.message;
        assert_ne!(response.overall_code(), Code::Unknown);
        assert_eq!(response.statuses.len(), request.descriptors.len());
        assert!(response.statuses.iter().all(|status| status.code() != Code::Unknown));
    }
});
