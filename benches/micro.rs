//! What the parts of a decision cost, each by itself: `cargo bench --bench micro [FILTER]`.
//!
//! They are small enough to fit into the caches of an idle machine, which a server's are not: compare one with another,
//! or with itself before a change.

use divan::{Bencher, black_box};
use prost::Message as _;
use std::fmt::Write as _;
use tollgate::{
    clock::Timestamp,
    config::{self, Options, Source},
    grpc::proto::envoy::{
        extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor},
        service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse,
            rate_limit_response::{Code, DescriptorStatus, RateLimit, rate_limit::Unit},
        },
    },
    limiter::{Cost, State},
    request::{Descriptor, Entry, Request},
    rules::Rules,
    store::Memory,
    verdict::{Check, Question, settle},
};

/// What the program allocates with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// The numbers of rules, and of descriptors, that are compared.
const RULES: [usize; 2] = [10, 10_000];
const DESCRIPTORS: [usize; 2] = [1, 5];

const NOW: Timestamp = Timestamp::from_micros(1_000_000);

/// A limit of each kind, by the key of its entry.
const LIMITERS: &str = "
domain: edge
pools:
  api: {capacity: 100, reserved: 20%, lease_ttl: 60s, utilization: {good_below: 0.7, bad_above: 0.8, shed: [get]}}
descriptors:
  - key: token_bucket
    token_bucket: {rate: 1000000/s}
  - key: concurrency
    concurrency: {max: 20, lease_ttl: 60s}
  - key: fleet
    fleet: {pool: api}
  - key: utilization
    utilization: {pool: api, class: utilization}
";

fn rules(text: &str) -> Rules {
    let source = Source { name: "edge.yaml".to_owned(), text: text.to_owned() };
    let loaded = config::parse(vec![source], &Options::default());
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    Rules::new(loaded.domains)
}

/// Rules for so many plans.
fn plans(count: usize) -> Rules {
    let mut text = "domain: edge\ndescriptors:\n".to_owned();
    for plan in 0..count {
        let _ = write!(
            text,
            "  - key: plan\n    value: plan-{plan}\n    descriptors:\n      - key: user\n        token_bucket: {{rate: 1000000/s}}\n"
        );
    }
    rules(&text)
}

fn descriptor(entries: &[(&str, &str)]) -> Descriptor {
    let entry = |(key, value): &(&str, &str)| Entry {
        key: key.as_bytes().to_vec().into(),
        value: value.as_bytes().to_vec().into(),
    };
    let entries = entries.iter().map(entry).collect();
    Descriptor { entries, limit: None, hits_addend: None, is_negative_hits: false }
}

/// A request of so many descriptors of two entries.
fn request(descriptors: usize) -> Request {
    let descriptors = (0..descriptors)
        .map(|user| descriptor(&[("plan", "plan-5"), ("user", &format!("user-{user:06}"))]));
    Request { domain: "edge".into(), descriptors: descriptors.collect(), hits_addend: 0 }
}

fn question(descriptors: usize) -> Question {
    plans(10).resolve(&request(descriptors), false).question
}

/// From a request to keys and checks.
#[divan::bench(args = RULES)]
fn matching(bencher: Bencher<'_, '_>, count: usize) {
    let (rules, request) = (plans(count), request(1));
    assert_eq!(rules.resolve(&request, false).question.checks.len(), 1);
    bencher.bench(|| rules.resolve(black_box(&request), false));
}

/// The same for a value of 50 KB, which a caller may send: of text, of bytes that are none, and of both in turns.
#[divan::bench(args = ["ascii", "0xff", "mixed"])]
fn matching_long(bencher: Bencher<'_, '_>, what: &str) {
    let value = (0..50_000).map(|at| match what {
        "ascii" => b'a',
        "mixed" if at % 2 == 0 => b'a',
        _ => 0xff,
    });
    let rules = plans(10);
    let entries = [("plan", b"plan-5".to_vec()), ("user", value.collect())];
    let entries = entries.map(|(key, value)| Entry { key: key.into(), value: value.into() });
    let descriptor = Descriptor { entries: entries.into(), ..descriptor(&[]) };
    let request = Request { domain: "edge".into(), descriptors: vec![descriptor], hits_addend: 0 };
    bencher.bench(|| rules.resolve(black_box(&request), false));
}

/// The algorithm of each limiter, on a state that is in use where it keeps one.
#[divan::bench(args = ["token_bucket", "concurrency", "fleet", "utilization"])]
fn limiter(bencher: Bencher<'_, '_>, name: &str) {
    let rules = rules(LIMITERS);
    let descriptor = descriptor(&[(name, "get")]);
    let request = Request { domain: "edge".into(), descriptors: vec![descriptor], hits_addend: 0 };
    let question = rules.resolve(&request, false).question;
    let Some(Check { limit, .. }) = question.checks.first() else { return };
    let state: Option<State> = limit.check(None, NOW, Cost::Take(1)).state;
    assert_eq!(state.is_some(), name != "utilization");
    let later = NOW + 10;
    bencher.bench(|| limit.check(black_box(state.as_ref()), later, Cost::Take(1)));
}

/// The rule by which checks become a verdict and writes.
#[divan::bench(args = DESCRIPTORS)]
fn verdict(bencher: Bencher<'_, '_>, descriptors: usize) {
    let question = question(descriptors);
    let stored: Vec<Option<State>> = vec![None; question.keys.len()];
    bencher.bench(|| settle(black_box(&question), &stored, NOW));
}

/// The same in a store that has the states already: locks, look-ups and all.
#[divan::bench(args = DESCRIPTORS)]
fn memory(bencher: Bencher<'_, '_>, descriptors: usize) {
    let (store, question) = (Memory::new(10_000), question(descriptors));
    assert!(store.decide(NOW, &question).refusal.is_none());
    let mut micros = NOW.as_micros();
    bencher.bench_local(|| {
        micros += 10;
        store.decide(Timestamp::from_micros(micros), black_box(&question))
    });
}

/// Bytes to message.
#[divan::bench(args = DESCRIPTORS)]
fn decode(bencher: Bencher<'_, '_>, descriptors: usize) {
    let entry = |entry: Entry| rate_limit_descriptor::Entry { key: entry.key, value: entry.value };
    let descriptors = request(descriptors).descriptors.into_iter().map(|it| RateLimitDescriptor {
        entries: it.entries.into_iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    });
    let message = RateLimitRequest {
        domain: "edge".into(),
        descriptors: descriptors.collect(),
        hits_addend: 0,
    };
    let bytes = bytes::Bytes::from(message.encode_to_vec());
    bencher.bench(|| RateLimitRequest::decode(black_box(&bytes).clone()));
}

/// Message to bytes.
#[divan::bench(args = DESCRIPTORS)]
fn encode(bencher: Bencher<'_, '_>, descriptors: usize) {
    let current_limit = RateLimit {
        name: "standard".to_owned(),
        requests_per_unit: 1000,
        unit: Unit::Second.into(),
    };
    let status = DescriptorStatus {
        code: Code::Ok.into(),
        current_limit: Some(current_limit),
        limit_remaining: 999,
        ..DescriptorStatus::default()
    };
    let message = RateLimitResponse {
        overall_code: Code::Ok.into(),
        statuses: vec![status; descriptors],
        ..RateLimitResponse::default()
    };
    bencher.bench(|| black_box(&message).encode_to_vec());
}
