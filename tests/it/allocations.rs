//! How many allocations a decision takes, from the bytes that come to those that go: so that they do not creep back.
//! Each of those that are left is one that somebody waits for: a message's lists, keys, checks, statuses.

use bytes::Bytes;
use futures_util::FutureExt as _;
use prost::Message as _;
use std::{fmt::Write as _, hint::black_box};
use tollgate::{
    clock::{Clock, Deadline},
    config::{self, Options, Source},
    decider::{Decider, Modes},
    grpc::{
        Headers, Service,
        proto::envoy::{
            extensions::common::ratelimit::v3::{
                RateLimitDescriptor, rate_limit_descriptor::Entry,
            },
            service::ratelimit::v3::RateLimitRequest,
        },
    },
    rules::Rules,
    store::{Memory, Store},
    telemetry::{Method, Observer},
};

/// The most for a request with one descriptor of two entries, and with five of them.
const MOST_OF_ONE: u64 = 14;
const MOST_OF_FIVE: u64 = 43;

/// A service with so many rules, one of them for the users of each plan.
fn service(rules: usize) -> Service {
    let mut text = "domain: edge\ndescriptors:\n".to_owned();
    for plan in 0..rules {
        let _ = write!(
            text,
            "  - key: plan\n    value: plan-{plan}\n    descriptors:\n      - key: user\n        \
             token_bucket: {{rate: 1000000/s, burst: 1000000}}\n"
        );
    }
    let loaded =
        config::parse(vec![Source { name: "edge.yaml".to_owned(), text }], &Options::default());
    assert!(!loaded.has_errors());
    let store = Store::Memory(Memory::new(100_000));
    let rules = Rules::new(loaded.domains);
    let decider = Decider::new(rules, store, Clock::monotonic(), Modes::default());
    Service::new(decider, Headers::default())
}

fn message(descriptors: usize) -> Bytes {
    let entry =
        |key: &str, value: String| Entry { key: key.to_owned().into(), value: value.into() };
    let descriptors = (0..descriptors).map(|user| RateLimitDescriptor {
        entries: vec![
            entry("plan", "plan-7".to_owned()),
            entry("user", format!("somebody-{user:04}")),
        ],
        ..RateLimitDescriptor::default()
    });
    let descriptors = descriptors.collect();
    let message = RateLimitRequest { domain: "edge".into(), descriptors, hits_addend: 0 };
    message.encode_to_vec().into()
}

fn answer(service: &Service, observer: &Observer, message: &Bytes) -> Bytes {
    let message = RateLimitRequest::decode(message.clone()).unwrap();
    let underway = observer.begin(Method::ShouldRateLimit, &http::HeaderMap::new());
    let answered = service.answer(&underway, message, Deadline::default());
    // Nothing is waited for.
    let answer = answered.now_or_never().unwrap().unwrap();
    answer.message.encode_to_vec().into()
}

/// Allocations of a decision, when there have been some like it.
fn allocations(service: &Service, descriptors: usize) -> u64 {
    let (observer, message) = (Observer::default(), message(descriptors));
    for _ in 0..100 {
        black_box(answer(service, &observer, &message));
    }
    const DECISIONS: u64 = 1000;
    let counted = allocation_counter::measure(|| {
        for _ in 0..DECISIONS {
            black_box(answer(service, &observer, &message));
        }
    });
    counted.count_total.div_ceil(DECISIONS)
}

#[test]
fn a_decision_in_memory_takes_no_more_allocations_than_it_ever_did() {
    let service = service(10);
    let (one, five) = (allocations(&service, 1), allocations(&service, 5));
    assert!(one <= MOST_OF_ONE, "{one} allocations");
    assert!(five <= MOST_OF_FIVE, "{five} allocations for five descriptors");
}

#[test]
fn ten_thousand_rules_take_no_more_allocations_than_ten() {
    let (few, many) = (allocations(&service(10), 1), allocations(&service(10_000), 1));
    assert_eq!(many, few);
}
