//! Many reloads under load: no request fails, none sees half of one set of rules and half of another, and no
//! counter forgets or gives too much.
//!
//! A thousand of them go straight to the decider, with rules that were loaded from files; some dozens through
//! the built program, which waits each time until the files stand still.

use crate::{
    grpc::Client,
    reload::{ConfigMap, in_force, reloaded, replace},
    support::{PATIENCE, Redis, Server, Store, TempDir, on_every_store},
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response;
use serde_json::json;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};
use tokio::task::{self, JoinSet};
use tollgate::{
    clock::{Clock, Deadline},
    config,
    decider::{Decider, Modes},
    decision::Code,
    request::{Descriptor, Entry, Request},
    rules::{Domain, Rules},
    store::{
        self, Memory,
        redis::{Address, Certificates},
    },
};

/// Requests at a time.
const CALLERS: usize = 8;

/// How often each counter is asked, and how often it admits.
const ASKED: u64 = 50;
const ADMITTED: u64 = 40;

/// Reloads through the program.
const RELOADS: u32 = 25;

/// Two limits that change together. No request may meet one of one version and one of another.
const LIMITS: [[u32; 2]; 2] = [[1_000_000_001, 1_000_000_002], [3_000_000_003, 3_000_000_004]];

const MERGE: config::Options = config::Options { merge_domains: true };

fn limits_of(version: u32) -> [u32; 2] {
    LIMITS[version as usize % 2]
}

/// A file with one of the limits, and a counter that is the same in every version.
fn left(version: u32) -> String {
    let [left, _] = limits_of(version);
    format!(
        "domain: shop\ndescriptors:\n  - {{key: left, rate_limit: {{unit: year, requests_per_unit: {left}}}}}\n  - {{key: counter, rate_limit: {{unit: year, requests_per_unit: {ADMITTED}}}}}\n"
    )
}

/// A file with the other.
fn right(version: u32) -> String {
    let [_, right] = limits_of(version);
    format!(
        "domain: shop\ndescriptors:\n  - {{key: right, rate_limit: {{unit: year, requests_per_unit: {right}}}}}\n"
    )
}

/// Both in one file.
fn both(version: u32) -> String {
    let right = right(version);
    left(version) + right.strip_prefix("domain: shop\ndescriptors:\n").unwrap()
}

/// What callers were told.
#[derive(Default)]
struct Told {
    is_over: AtomicBool,
    asked: AtomicU64,
    /// How many were admitted by each counter.
    admitted: Mutex<HashMap<u64, u64>>,
    /// How many met each version.
    met: [AtomicU64; 2],
}

impl Told {
    /// Which counter to ask next; `None` where it is over.
    fn next(&self) -> Option<u64> {
        (!self.is_over.load(SeqCst)).then(|| self.asked.fetch_add(1, SeqCst) / ASKED)
    }

    /// That a request was decided, by which limits, and whether it was admitted.
    fn hear(&self, counter: u64, limits: [u32; 2], is_admitted: bool) {
        let version = LIMITS.iter().position(|version| *version == limits);
        let version = version.unwrap_or_else(|| panic!("{limits:?} are of no version"));
        self.met[version].fetch_add(1, SeqCst);
        if is_admitted {
            *self.admitted.lock().unwrap().entry(counter).or_default() += 1;
        }
    }

    /// That every counter admitted what it has, and that both versions were met.
    #[allow(clippy::print_stdout, reason = "how much was asked is for whoever wants to know")]
    fn hold(&self) {
        let asked = self.asked.load(SeqCst);
        let admitted = self.admitted.lock().unwrap();
        for counter in 0..asked / ASKED {
            assert_eq!(admitted.get(&counter), Some(&ADMITTED), "counter {counter}");
        }
        assert!(admitted.values().all(|admitted| *admitted <= ADMITTED));
        let met = self.met.each_ref().map(|met| met.load(SeqCst));
        println!("{asked} requests, {met:?} of them by each version");
        assert!(met.iter().all(|met| *met > 0), "{met:?}");
    }
}

fn request(counter: &str) -> Request {
    let descriptor = |key: &'static str, value: &str| Descriptor {
        entries: vec![Entry { key: key.as_bytes().into(), value: value.to_owned().into() }],
        ..Descriptor::default()
    };
    let descriptors =
        vec![descriptor("left", "x"), descriptor("counter", counter), descriptor("right", "x")];
    Request { domain: "shop".into(), descriptors, hits_addend: 0 }
}

/// Loads rules that are valid.
fn load(path: &PathBuf) -> Vec<Domain> {
    let loaded = config::load(std::slice::from_ref(path), &MERGE);
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    loaded.domains
}

async fn a_thousand_reloads(store: store::Store) {
    let (files, told) = (TempDir::new(), Arc::new(Told::default()));
    let mut map = ConfigMap::new(&files, &[("left.yaml", &left(0)), ("right.yaml", &right(0))]);
    let file = files.file("both.yaml", &both(0));
    let rules = Rules::new(load(&map.mount));
    let decider = Decider::new(rules, store, Clock::monotonic(), Modes::default());
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (decider, told) = (Arc::clone(&decider), Arc::clone(&told));
        callers.spawn(async move {
            while let Some(counter) = told.next() {
                let request = request(&counter.to_string());
                let (decision, _) = decider.decide(&request, Deadline::default()).await;
                assert!(!decision.degraded, "it was not decided by the store");
                let limit = |place: usize| {
                    let limit = decision.statuses[place].limit.as_ref();
                    limit.expect("a limit").requests_per_unit
                };
                told.hear(counter, [limit(0), limit(2)], decision.code == Code::Ok);
            }
        });
    }
    let reloading = task::spawn_blocking(move || {
        let mut replaced = Vec::new();
        for version in 1..=1000 {
            let rules = if version % 4 < 2 {
                map.replace(&[("left.yaml", &left(version)), ("right.yaml", &right(version))]);
                load(&map.mount)
            } else {
                replace(&file, &both(version));
                load(&file)
            };
            replaced.push(decider.replace_rules(rules));
        }
        replaced
    });
    let replaced = reloading.await.unwrap();
    told.is_over.store(true, SeqCst);
    callers.join_all().await;
    told.hold();
    assert_eq!(replaced.len(), 1000);
    assert!(replaced.iter().all(|rules| Arc::strong_count(rules) == 1), "nobody keeps old rules");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_reloads_under_load_harm_no_request_in_memory() {
    a_thousand_reloads(store::Store::Memory(Memory::new(1_000_000))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_reloads_under_load_harm_no_request_in_redis() {
    let redis = Redis::start().await;
    let address = Address::parse(redis.url()).unwrap();
    let opened = store::Redis::open(address, Certificates::default(), PATIENCE).await;
    a_thousand_reloads(store::Store::Redis(Box::new(opened.unwrap()))).await;
}

on_every_store! {
    reloads_of_a_config_map_under_load_harm_no_request,
    reloads_of_a_file_under_load_harm_no_request,
}

async fn reloads_of_a_config_map_under_load_harm_no_request(store: &Store) {
    let files = TempDir::new();
    let mut map = ConfigMap::new(&files, &[("left.yaml", &left(0)), ("right.yaml", &right(0))]);
    let mount = map.mount.clone();
    reloads_through_the_program(store, mount, |version| {
        map.replace(&[("left.yaml", &left(version)), ("right.yaml", &right(version))]);
    })
    .await;
}

async fn reloads_of_a_file_under_load_harm_no_request(store: &Store) {
    let files = TempDir::new();
    let file = files.file("both.yaml", &both(0));
    let path = file.clone();
    reloads_through_the_program(store, path, |version| replace(&file, &both(version))).await;
}

async fn reloads_through_the_program(store: &Store, rules: PathBuf, mut change: impl FnMut(u32)) {
    let merged = [("MERGE_DOMAIN_CONFIG", "true")];
    let server = Server::start_with(&rules, &[&store.environment()[..], &merged].concat()).await;
    let told = Arc::new(Told::default());
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (mut client, told) = (Client::connect(server.grpc).await, Arc::clone(&told));
        callers.spawn(async move {
            while let Some(counter) = told.next() {
                let name = counter.to_string();
                let entries = [["left", "x"], ["counter", &name], ["right", "x"]];
                let descriptors = entries.map(|entry| json!({ "entries": [entry] }));
                let request = json!({ "domain": "shop", "descriptors": descriptors });
                let answer = client.ask(&request).await.unwrap();
                let limit = |place: usize| {
                    let limit = answer.statuses[place].current_limit.as_ref();
                    limit.expect("a limit").requests_per_unit
                };
                let is_admitted = answer.overall_code() == rate_limit_response::Code::Ok;
                told.hear(counter, [limit(0), limit(2)], is_admitted);
            }
        });
    }
    for version in 1..=RELOADS {
        change(version);
        in_force(&server, &format!("{} per year", limits_of(version)[0])).await;
    }
    told.is_over.store(true, SeqCst);
    while let Some(asked) = callers.join_next().await {
        asked.unwrap();
    }
    told.hold();
    reloaded(&server, RELOADS as usize).await;
}
