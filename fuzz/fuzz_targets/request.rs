//! Whatever bytes arrive as a request, they are refused as malformed or invalid, or decided: one status
//! for each descriptor, and never UNKNOWN, which Envoy takes for permission.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use std::sync::LazyLock;
use tokio::runtime::{Builder, Runtime};
use tollgate::{
    clock::{Clock, ManualClock},
    config::{self, Options, Source},
    decider::{Decider, Modes},
    grpc::{
        Headers, Service,
        proto::envoy::service::ratelimit::v3::{RateLimitRequest, rate_limit_response::Code},
    },
    rules::{Domain, Rules},
    store::{Memory, Store},
};

/// The seeds of the other target name the same rules.
const RULES: &str = include_str!("../seeds/rules/every-form.yaml");

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime"));

static DOMAINS: LazyLock<Vec<Domain>> = LazyLock::new(|| {
    let source = Source { name: "rules.yaml".to_owned(), text: RULES.to_owned() };
    let loaded = config::parse(vec![source], &Options::default());
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    loaded.domains
});

/// A service that has seen nothing yet and whose time stands still: an input that fails once fails
/// always.
fn new_service() -> Service {
    let rules = Rules::new(DOMAINS.clone());
    let store = Store::Memory(Memory::new(1000));
    let modes = Modes { metadata: true, ..Modes::default() };
    let name = |end| format!("x-ratelimit-{end}");
    let headers =
        Headers { limit: name("limit"), remaining: name("remaining"), reset: name("reset") };
    let decider = Decider::new(rules, store, Clock::Manual(ManualClock::default()), modes);
    Service::new(decider, Some(headers))
}

fuzz_target!(|message: &[u8]| {
    let Ok(request) = RateLimitRequest::decode(message) else { return };
    let service = new_service();
    // Twice, so that a request meets the states that it made.
    for _ in 0..2 {
        let Ok(answer) = RUNTIME.block_on(service.answer(request.clone())) else { return };
        let response = answer.message;
        assert_ne!(response.overall_code(), Code::Unknown);
        assert_eq!(response.statuses.len(), request.descriptors.len());
        assert!(response.statuses.iter().all(|status| status.code() != Code::Unknown));
    }
});
