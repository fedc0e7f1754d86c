//! States that an older tollgate wrote into Redis are read by today's, and mean what they meant.
//!
//! `states/4008541.json` holds what commit 4008541, the last before limiters became implementations of traits, left in a
//! Redis after `leave_states`, and what it told about that itself, started anew: the answers of `observe`. Redis's clock
//! stands still in both, so that all instants, waits and times to live are exact. To make the file again, build that
//! commit, and run the ignored test of this module on it:
//!
//! ```sh
//! git worktree add ../4008541 4008541 && cargo build --release --manifest-path ../4008541/Cargo.toml
//! TOLLGATE_TEST_PROGRAM=$PWD/../4008541/target/release/tollgate cargo test --test it states -- --ignored
//! ```

use crate::{
    grpc::Client,
    support::{
        self, Leases, Metrics, Redis, Reports, Server, TempDir, acquire, get, on, report, until,
    },
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::PathBuf};
use tollgate::{
    grpc::proto::tollgate::v1::{
        AcquireRequest, ReportUtilizationRequest, report_utilization_request::Load,
    },
    key::Key,
    store::redis::{shadow, stored},
};

/// When the states begin to be written, and when all are there.
const BEGIN: &str = "2030-01-01 00:00:00";
const END: &str = "2030-01-01 00:00:30";

const RULES: &str = "
domain: edge
pools:
  api:
    capacity: reported
    reserved: 20%
    lease_ttl: 1h
    utilization: {hold_off: 0s, shed_all_after: 60s, report_ttl: 10s, shed: [test, get]}
  fixed: {capacity: 10, reserved: 20%, lease_ttl: 1h}
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: fine, token_bucket: {rate: 7/h, burst: 3}}
  - {key: spent, token_bucket: {rate: 1/h, burst: 10}, overdraw: true}
  - {key: chunk, token_bucket: {rate: 1000/day, burst: 10000, grants: {max_age: 10s}}}
  - {key: dark, token_bucket: {rate: 1/year, burst: 2}, shadow_mode: true}
  - {key: off, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: raised, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: slots, concurrency: {max: 3, lease_ttl: 1h}}
  - {key: widened, concurrency: {max: 1, lease_ttl: 1h}}
  - {key: heavy, concurrency: {max: 10, lease_ttl: 1h}, weight: hits}
  - {key: fixed, fleet: {pool: fixed}}
  - {key: fixed, value: critical, fleet: {pool: fixed, critical: true}}
  - {key: reported, fleet: {pool: api}}
  - {key: class, utilization: {pool: api}}
";

/// Descriptors of which it is told what is left.
const COUNTERS: [[&str; 2]; 13] = [
    ["user", "ada"],
    ["fine", "ada"],
    ["spent", "ada"],
    ["chunk", "ada"],
    ["off", "ada"],
    ["raised", "ada"],
    ["slots", "ada"],
    ["widened", "ada"],
    ["heavy", "ada"],
    ["fixed", "plain"],
    ["reported", "plain"],
    ["class", "test"],
    ["class", "get"],
];

/// The leases that are held, each with what it is of.
const LEASES: [(&str, [&str; 2]); 6] = [
    ("of-slots", ["slots", "ada"]),
    ("of-slots-too", ["slots", "ada"]),
    ("of-widened", ["widened", "ada"]),
    ("of-fixed", ["fixed", "plain"]),
    ("of-critical", ["fixed", "critical"]),
    ("of-reported", ["reported", "plain"]),
];

async fn start(redis: &Redis) -> (Server, TempDir) {
    let files = TempDir::new();
    let server = Server::start_with(&files.file("edge.yaml", RULES), &on(redis)).await;
    (server, files)
}

/// A request that takes so many hits, and waits for its answer: its code, and what is left of the first limit.
async fn take(client: &mut Client, entry: [&str; 2], hits: i64) -> Value {
    let descriptor = json!({
        "entries": [entry],
        "hits_addend": hits.unsigned_abs(),
        "is_negative_hits": hits < 0,
    });
    let answer = client.ask(&json!({ "domain": "edge", "descriptors": [descriptor] })).await;
    let answer = answer.unwrap();
    let of_first = answer.statuses.first().map(|status| {
        let reset = status.duration_until_reset.map(|reset| (reset.seconds, reset.nanos));
        (status.limit_remaining, reset)
    });
    json!({ "code": answer.overall_code, "left": of_first })
}

/// A lease under an id that the caller chose.
fn lease(id: &str, entry: [&str; 2]) -> AcquireRequest {
    AcquireRequest { lease_id: id.to_owned(), ..acquire("edge", &[&[entry]]) }
}

async fn command(server: &Server, words: &str) -> String {
    let admin = server.admin.to_string();
    let mut arguments: Vec<&str> = words.split(' ').collect();
    arguments.extend(["--admin", &admin]);
    let output = support::run(&arguments, &[]).await;
    assert!(output.status.success(), "{words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

async fn shown(server: &Server, path: &str) -> Value {
    let accept = [("accept", &b"application/json"[..])];
    let answer = get(server.admin, path, &accept).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

/// What a rule in shadow did in the last day.
async fn shadow_sums(server: &Server) -> Value {
    let report = shown(server, "/shadow-report?rule=edge:dark&window=day&top=10").await;
    report["rules"][0]["windows"][0].clone()
}

/// Uses every kind of state, and stops at once.
async fn leave_states(redis: &Redis) {
    let (server, _files) = start(redis).await;
    let mut client = Client::connect(server.grpc).await;
    let (leases, reports) =
        (Leases::connect(server.grpc).await, Reports::connect(server.grpc).await);
    take(&mut client, ["user", "ada"], 3).await;
    take(&mut client, ["fine", "ada"], 2).await;
    take(&mut client, ["spent", "ada"], 15).await;
    take(&mut client, ["off", "ada"], 1).await;
    for user in ["ada", "ada", "ada", "bob", "bob", "bob", "bob"] {
        take(&mut client, ["dark", user], 1).await;
    }
    workers_are_busy(&reports, 0).await;
    for (id, entry) in LEASES {
        assert!(leases.is_acquired(lease(id, entry)).await, "{id}");
    }
    let mut heavy = lease("of-heavy", ["heavy", "ada"]);
    heavy.descriptors[0].hits_addend = Some(4);
    assert!(leases.is_acquired(heavy).await);
    command(&server, "rule off edge:off").await;
    command(&server, "limit set edge:raised raised=ada --rate 4/year --for 2h").await;
    command(&server, "limit set edge:widened widened=ada --max 2").await;
    take(&mut client, ["raised", "ada"], 2).await;
    for second in (3..30).step_by(3) {
        redis.set_clock(&format!("2030-01-01 00:00:{second:02}"));
        workers_are_busy(&reports, second).await;
    }
    redis.set_clock(END);
    // The workers were busy for half a minute, and one is less busy now. One lease is renewed.
    let less = said("one", 8, Load::Ratio(0.75), 30);
    assert!(reports.say(less).await.unwrap().counted);
    leases.renewed("of-slots-too").await;
    take(&mut client, ["fine", "ada"], 1).await;
    until("the sums of shadow are in the store", async || {
        let keys: Vec<String> = redis.ask(&["KEYS", "tg1:shadow:*"]).await;
        (!keys.is_empty()).then_some(())
    })
    .await;
    let in_hand =
        async || Metrics::of(server.admin).await.value("tollgate_grants_in_hand", &[]).unwrap();
    while in_hand().await < 100.0 {
        for _ in 0..20 {
            take(&mut client, ["chunk", "ada"], 1).await;
        }
    }
    server.signal("KILL").await;
    server.ended().await;
}

/// A report of a worker, measured in this second.
fn said(worker: &str, total_slots: u32, load: Load, second: i64) -> ReportUtilizationRequest {
    let measured_at = prost_types::Timestamp { seconds: 1_893_456_000 + second, nanos: 0 };
    let measured_at = Some(measured_at);
    ReportUtilizationRequest { total_slots, measured_at, ..report("edge", worker, load) }
}

/// Both workers report that they measured full load in this second.
async fn workers_are_busy(reports: &Reports, second: i64) {
    for (worker, slots, load) in [("one", 8, Load::Ratio(1.0)), ("two", 4, Load::BusySlots(4))] {
        assert!(reports.say(said(worker, slots, load, second)).await.unwrap().counted);
    }
}

/// What a server that is started on those states says of them, and does by them.
async fn observe(redis: &Redis) -> Value {
    let (server, _files) = start(redis).await;
    let mut client = Client::connect(server.grpc).await;
    let (leases, reports) =
        (Leases::connect(server.grpc).await, Reports::connect(server.grpc).await);
    until("what was set at run time is in force", async || {
        let passes = take(&mut client, ["off", "ada"], 0).await["code"] == json!(1);
        let list = command(&server, "limit list").await;
        (passes && list.contains("raised=ada") && list.contains("widened=ada")).then_some(())
    })
    .await;
    let mut seen = Vec::new();
    for entry in COUNTERS {
        seen.push(json!({ "peek": entry, "is": take(&mut client, entry, 0).await }));
    }
    for key in ["user", "fine", "spent", "chunk", "slots", "heavy"] {
        let words = format!("key show edge:{key} {key}=ada --json");
        let json: Value = serde_json::from_str(&command(&server, &words).await).unwrap();
        seen.push(json!({ "show": key, "left": json["remaining"], "unused": json["unused"] }));
    }
    let metrics = Metrics::of(server.admin).await;
    seen.push(json!({ "replicas": metrics.value("tollgate_replicas", &[]) }));
    let pool = reports.look("edge").await;
    seen.push(json!({
        "workers": pool.workers, "utilization": pool.utilization, "shedding": pool.shedding,
    }));
    let late = reports.say(said("one", 8, Load::Ratio(0.0), 20)).await;
    seen.push(json!({ "late report": late.map(|it| it.counted).map_err(|it| it.code() as i32) }));
    seen.push(json!({ "shadow": shadow_sums(&server).await }));

    for (id, entry) in LEASES {
        let again = leases.acquire(lease(id, entry)).await.unwrap();
        let expires_in = again.expires_in.map(|it| (it.seconds, it.nanos));
        seen.push(json!({ "acquire": id, "is": again.outcome().as_str_name(), "for": expires_in }));
        seen.push(json!({ "renew": id, "is": leases.renewed(id).await.as_str_name() }));
    }
    let ids = LEASES.iter().map(|(id, _)| *id).chain(["of-heavy", "of-slots"]);
    for id in ids {
        seen.push(json!({ "release": id, "is": leases.released(id).await.as_str_name() }));
    }
    for entry in COUNTERS {
        seen.push(json!({ "peek": entry, "is": take(&mut client, entry, 0).await }));
    }
    for (key, hits) in [("user", 2), ("user", 1), ("fine", 1), ("spent", -6), ("chunk", 1)] {
        let is = take(&mut client, [key, "ada"], hits).await;
        seen.push(json!({ "take": key, "hits": hits, "is": is }));
    }
    Value::Array(seen)
}

/// What stands under a key: a string, as hexadecimal digits, or a hash; and for how many milliseconds.
async fn dump(redis: &Redis, key: &str) -> Value {
    let ttl_ms: i64 = redis.ask(&["PTTL", key]).await;
    let kind: String = redis.ask(&["TYPE", key]).await;
    if kind == "hash" {
        let fields: BTreeMap<String, String> = redis.ask(&["HGETALL", key]).await;
        return json!({ "hash": fields, "ttl_ms": ttl_ms });
    }
    let bytes: Vec<u8> = redis.ask(&["GET", key]).await;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "string": hex, "ttl_ms": ttl_ms })
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let bytes = (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16));
    bytes.map(Result::unwrap).collect()
}

/// Writes into a Redis what [`dump`] found.
async fn restore(redis: &Redis, key: &str, state: &Value) {
    let mut connection = redis.connect().await;
    if let Some(fields) = state["hash"].as_object() {
        let mut command = redis::cmd("HSET");
        command.arg(key);
        for (field, text) in fields {
            command.arg(field).arg(text.as_str().unwrap());
        }
        command.exec_async(&mut connection).await.unwrap();
    } else {
        let bytes = bytes_of(state["string"].as_str().unwrap());
        redis::cmd("SET").arg(key).arg(bytes).exec_async(&mut connection).await.unwrap();
    }
    if let Some(ttl_ms @ 1..) = state["ttl_ms"].as_i64() {
        redis.ask::<()>(&["PEXPIRE", key, &ttl_ms.to_string()]).await;
    }
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/states/4008541.json")
}

#[tokio::test]
#[ignore = "makes the file that the other test reads, with the program that wrote those states"]
async fn the_states_are_written() {
    let redis = Redis::start_at(BEGIN).await;
    leave_states(&redis).await;
    let keys: Vec<String> = redis.ask(&["KEYS", "*"]).await;
    let mut states = BTreeMap::new();
    for key in keys {
        states.insert(key.clone(), dump(&redis, &key).await);
    }
    let observed = observe(&redis).await;
    let lines = |values: Vec<String>| values.join(",\n    ");
    let states = states.iter().map(|(key, state)| format!("{}: {state}", json!(key)));
    let observed = observed.as_array().unwrap().iter().map(Value::to_string);
    let text = format!(
        "{{\n  \"states\": {{\n    {}\n  }},\n  \"observed\": [\n    {}\n  ]\n}}\n",
        lines(states.collect()),
        lines(observed.collect()),
    );
    fs::write(file(), text).unwrap();
}

#[tokio::test]
async fn states_of_an_older_version_are_read_and_mean_the_same() {
    let known: Value = serde_json::from_str(&fs::read_to_string(file()).unwrap()).unwrap();
    let states = known["states"].as_object().unwrap();
    let redis = Redis::start_at(END).await;
    for (key, state) in states {
        restore(&redis, key, state).await;
        let Some(hex) = state["string"].as_str() else { continue };
        let bytes = bytes_of(hex);
        let is_read = match key.split(':').nth(1).unwrap() {
            "shadow" => shadow::read(&bytes).is_some(),
            // Only the script reads it.
            "replicas" => true,
            _ => stored::read(&Key::read(key), &bytes).is_some(),
        };
        assert!(is_read, "{key} holds no state");
    }
    let observed = observe(&redis).await;
    let (known, observed) = (known["observed"].as_array().unwrap(), observed.as_array().unwrap());
    for (known, observed) in known.iter().zip(observed) {
        assert_eq!(observed, known);
    }
    assert_eq!(observed.len(), known.len());
}

/// The file has a state of each limiter that there was, and of all else that is stored.
#[test]
fn the_file_has_states_of_every_kind() {
    let known: Value = serde_json::from_str(&fs::read_to_string(file()).unwrap()).unwrap();
    let mut kinds: Vec<_> = known["states"].as_object().unwrap().keys().collect();
    kinds.dedup_by_key(|key| key.split(':').nth(1));
    let kinds: Vec<_> = kinds.into_iter().map(|key| key.split(':').nth(1).unwrap()).collect();
    let all = [
        "concurrency",
        "fleet",
        "lease",
        "orders",
        "replicas",
        "shadow",
        "token_bucket",
        "utilization",
        "worker",
    ];
    assert_eq!(kinds, all);
}
