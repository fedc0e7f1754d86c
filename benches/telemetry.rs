//! What it costs that decisions are watched: CPU per request, answered by the service from the memory store, with
//! nobody looking on and with everything on, taking turns in one process.
//!
//! `cargo bench --bench telemetry [REQUESTS]`: everything is metrics, scraped now and then, traces for who keeps one
//! (these callers do not), export by OTLP to a collector that is not there, and a count by values.

mod support;

use http::{HeaderMap, HeaderValue};
use std::{env, error::Error, hint::black_box, sync::Arc};
use support::cpu_us;
use tokio::{runtime, sync::watch};
use tollgate::{
    budget::Budget,
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
    reload::Reload,
    rules::Rules,
    store::{Memory, Store},
    telemetry::{DoorView, Export, Method, Metrics, Sources},
};

const PLAIN: &str = "
domain: edge
descriptors:
  - key: plan
    value: free
    descriptors:
      - key: user
        limits:
          - token_bucket: {rate: 1/s, burst: 1000}
          - rate_limit: {unit: day, requests_per_unit: 100000}
";

/// How often both take turns.
const TURNS: usize = 21;

/// How many requests there are between two scrapes: at 1,000 requests per second, 15 seconds' worth.
const SCRAPE_EVERY: usize = 15_000;

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn main() -> Result<(), Box<dyn Error>> {
    let requests = env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(30_000);
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let (off, _) = service(PLAIN);
        let (on, on_metrics) = observed(PLAIN)?;
        let by_value =
            PLAIN.replace("- token_bucket", "- detailed_metric: true\n            token_bucket");
        let (valued, valued_metrics) = observed(&by_value)?;
        let mut costs = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            costs[0].push(ask(&off, None, requests).await?);
            costs[1].push(ask(&on, Some(&on_metrics), requests).await?);
            costs[2].push(ask(&valued, Some(&valued_metrics), requests).await?);
        }
        let [off, on, valued] = costs.map(median);
        let more = |cost: f64| (cost / off - 1.0) * 100.0;
        println!("nobody looks on:     {off:.2} us of CPU per request");
        println!("everything is on:    {on:.2} us, {:+.1} %", more(on));
        println!("and counts by value: {valued:.2} us, {:+.1} %", more(valued));
        Ok(())
    })
}

/// A service, and what decides in it.
fn service(rules: &str) -> (Service, Arc<Decider>) {
    let source = Source { name: "edge.yaml".to_owned(), text: rules.to_owned() };
    let loaded = config::parse(vec![source], &Options::default());
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    let store = Store::Memory(Memory::new(100_000));
    let rules = Rules::new(loaded.domains);
    let decider = Decider::new(rules, store, Clock::monotonic(), Modes::default());
    (Service::new(Arc::clone(&decider), Headers::default()), decider)
}

/// The same with everything on.
fn observed(rules: &str) -> Result<(Service, Metrics), Box<dyn Error>> {
    let (service, decider) = service(rules);
    let digest = config::read(&[]).digest();
    let reload = Reload::new(Vec::new(), Options::default(), digest, Arc::clone(&decider));
    let door = |name| {
        let counts = watch::channel(Default::default()).1;
        DoorView { name, counts, open: Arc::default() }
    };
    let sources = Sources {
        decider,
        reloads: reload.reloads(),
        pools: watch::channel(Vec::new()).1,
        doors: ["grpc", "http", "admin"].map(door),
        budget: Budget::default(),
    };
    let metrics = Metrics::new(sources, Export::open(Some("http://127.0.0.1:9"))?)?;
    Ok((service.observed(metrics.observer().clone()), metrics))
}

/// Has so many requests decided, and says what one costs, in microseconds of CPU.
async fn ask(
    service: &Service,
    metrics: Option<&Metrics>,
    requests: usize,
) -> Result<f64, Box<dyn Error>> {
    let mut headers = HeaderMap::new();
    let not_kept = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    headers.insert("traceparent", HeaderValue::from_static(not_kept));
    let before = cpu_us("self");
    for number in 0..requests {
        let underway = service.observer().begin(Method::ShouldRateLimit, &headers);
        let message = request(number % 5_000);
        black_box(service.answer(&underway, message, Deadline::default()).await?);
        drop(underway);
        if let Some(metrics) = metrics.filter(|_| number % SCRAPE_EVERY == 0) {
            black_box(metrics.text()?);
        }
    }
    Ok((cpu_us("self") - before) / requests as f64)
}

fn request(user: usize) -> RateLimitRequest {
    let entry = |key: &'static str, value: String| Entry { key: key.into(), value: value.into() };
    let entries = vec![entry("plan", "free".to_owned()), entry("user", format!("user-{user}"))];
    let descriptor = RateLimitDescriptor { entries, ..RateLimitDescriptor::default() };
    RateLimitRequest {
        domain: "edge".into(),
        descriptors: vec![descriptor],
        ..RateLimitRequest::default()
    }
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().unwrap_or_default()
}
