//! Limits that space requests, and limits of the calendar, through the served process.

use crate::{
    grpc::{Client, struct_to_json},
    support::{Leases, Server, Store, TempDir, acquire, on_every_store, span},
};
use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitResponse, rate_limit_response::Code,
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;
use tollgate::{
    clock::Clock,
    grpc::proto::tollgate::v1::{AcquireRequest, acquire_response::Outcome},
};

const RULES: &str = "
domain: edge
descriptors:
  - {key: slow, leaky_bucket: {rate: 1/min, queue: 2}}
  - {key: fast, leaky_bucket: {rate: 5/s, queue: 9}}
  - {key: dark, leaky_bucket: {rate: 1/min, queue: 2}, shadow_mode: true}
  - {key: daily, fixed_window: {limit: 2, per: day}}
";

on_every_store! {
    envoy_is_told_the_delay_of_each_request,
    a_caller_of_acquire_is_told_the_delay_or_waits_for_it,
    a_window_of_the_calendar_ends_at_midnight,
}

struct Mesh {
    client: Client,
    leases: Leases,
    _server: Server,
    _files: TempDir,
}

impl Mesh {
    async fn open(store: &Store) -> Self {
        let files = TempDir::new();
        files.file("edge.yaml", RULES);
        let server = Server::start_with(files.path(), &store.environment()).await;
        let client = Client::connect(server.grpc).await;
        let leases = Leases::connect(server.grpc).await;
        Self { client, leases, _server: server, _files: files }
    }

    async fn ask(&mut self, key: &str) -> RateLimitResponse {
        let descriptors = json!([{ "entries": [[key, "ada"]] }]);
        let request = json!({ "domain": "edge", "descriptors": descriptors });
        self.client.ask(&request).await.unwrap()
    }
}

/// The delay in the metadata of an answer, in seconds.
fn delay(answer: &RateLimitResponse) -> Option<f64> {
    let metadata = struct_to_json(answer.dynamic_metadata.as_ref()?);
    Some(metadata["delay"].as_str()?.parse().unwrap())
}

/// A request for a key that may wait so long.
fn patient(key: &str, wait: Duration) -> AcquireRequest {
    AcquireRequest { wait: span(wait), ..acquire("edge", &[&[[key, "ada"]]]) }
}

async fn envoy_is_told_the_delay_of_each_request(store: &Store) {
    let mut mesh = Mesh::open(store).await;
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(mesh.ask("slow").await);
    }
    let delays: Vec<_> = answers.iter().map(delay).collect();
    let is_about = |delay: Option<f64>, seconds: f64| {
        delay.is_some_and(|delay| delay > seconds - 30.0 && delay <= seconds)
    };
    assert_eq!(delays[0], None);
    assert!(is_about(delays[1], 60.0) && is_about(delays[2], 120.0), "{delays:?}");
    assert_eq!((answers[3].overall_code(), delays[3]), (Code::OverLimit, None));
    // A limit in shadow mode delays nothing.
    for _ in 0..2 {
        assert_eq!(delay(&mesh.ask("dark").await), None);
    }
}

async fn a_caller_of_acquire_is_told_the_delay_or_waits_for_it(store: &Store) {
    let mesh = Mesh::open(store).await;
    let delay = async |request| {
        let answer = mesh.leases.acquire(request).await.unwrap();
        (answer.outcome(), answer.delay.map(|delay| delay.seconds))
    };
    assert_eq!(delay(patient("slow", Duration::ZERO)).await, (Outcome::Acquired, None));
    let (outcome, told) = delay(patient("slow", Duration::ZERO)).await;
    assert!(outcome == Outcome::Acquired && told.is_some_and(|seconds| seconds > 30), "{told:?}");
    // A wait that is too short is refused, and takes no place in the queue.
    for _ in 0..3 {
        let (outcome, told) = delay(patient("slow", Duration::from_secs(1))).await;
        assert_eq!((outcome, told), (Outcome::Refused, None));
    }
    let (outcome, told) = delay(patient("slow", Duration::ZERO)).await;
    assert!(outcome == Outcome::Acquired && told.is_some_and(|seconds| seconds > 90), "{told:?}");
    // Four requests at 5 a second, each of which waits: the last goes on 600 ms after the first at the earliest.
    #[expect(clippy::disallowed_methods, reason = "how long it took is no part of a decision")]
    let now = Instant::now;
    let begun = now();
    for _ in 0..4 {
        let answer = delay(patient("fast", Duration::from_secs(30))).await;
        assert_eq!(answer, (Outcome::Acquired, None));
    }
    assert!(begun.elapsed() >= Duration::from_millis(600), "{:?}", begun.elapsed());
}

async fn a_window_of_the_calendar_ends_at_midnight(store: &Store) {
    const DAY: u64 = 86_400;
    let seconds = || Clock::monotonic().now().as_micros() / 1_000_000;
    let mut mesh = Mesh::open(store).await;
    let before = seconds();
    let answer = mesh.ask("daily").await;
    let after = seconds();
    if before / DAY != after / DAY {
        // It is midnight just now.
        return;
    }
    let status = &answer.statuses[0];
    assert_eq!((answer.overall_code(), status.limit_remaining), (Code::Ok, 1));
    let reset = status.duration_until_reset.as_ref().unwrap().seconds.unsigned_abs();
    let ends_in = |now: u64| DAY - now % DAY;
    assert!((ends_in(after)..=ends_in(before)).contains(&reset), "{reset}");
}
