//! `tollgate load`: what it sends, what it counts, and how long it says that it took.

mod again;
mod terminal;

use crate::support::{Metrics, PATIENCE, Server, TempDir, free_port, program, run, until};
use serde_json::Value;
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    process::{Output, Stdio},
    time::Duration,
};
use tokio::{process::Command, time};

/// Nobody is refused but who comes once more where one may come once.
const RULES: &str = "
domain: edge
descriptors:
  - key: user
    detailed_metric: true
    rate_limit: {unit: year, requests_per_unit: 100000}
  - key: once
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: plan
    value: standard
    descriptors:
      - key: user
        rate_limit: {unit: year, requests_per_unit: 100000}
";

async fn server() -> (Server, TempDir) {
    let files = TempDir::new();
    let server = Server::start(&files.file("edge.yaml", RULES)).await;
    (server, files)
}

/// What a load of this server says of itself as JSON, when it ends as it should.
async fn load(server: &Server, arguments: &[&str]) -> Value {
    load_of(server.grpc, arguments).await
}

async fn load_of(target: SocketAddr, arguments: &[&str]) -> Value {
    let output = run_load(target, arguments).await;
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error), (Some(0), ""), "{arguments:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn run_load(target: SocketAddr, arguments: &[&str]) -> Output {
    let target = target.to_string();
    let all = ["load", "--json", "--target", &target, "--warmup", "0"];
    run(&[&all, arguments].concat(), &[]).await
}

/// The same of a server that does nothing meanwhile.
async fn load_while_it_stands_still(server: &Server, arguments: &[&str]) -> Output {
    server.signal("STOP").await;
    let output = run_load(server.grpc, arguments).await;
    server.signal("CONT").await;
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

fn real(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What the server has counted of a rule: how many requests it allowed, and how many it refused.
async fn counted(server: &Server, rule: &str) -> [u64; 2] {
    let metrics = Metrics::of(server.http).await;
    ["allowed", "refused"].map(|outcome| {
        let labels = [("rule", rule), ("outcome", outcome)];
        metrics.value("tollgate_decisions_total", &labels).unwrap() as u64
    })
}

#[tokio::test]
async fn counts_what_the_server_has_counted() {
    let (server, _files) = server().await;
    let arguments =
        ["--duration", "500ms", "--keys", "50", "--descriptor", "once={key}", "--threads", "2"];
    let said = load(&server, &arguments).await;
    let (ok, over_limit) = (number(&said["ok"]), number(&said["over_limit"]));
    assert_eq!(counted(&server, "edge:once").await, [ok, over_limit]);
    assert_eq!(ok, 50, "each key may once");
    assert_eq!(ok + over_limit, number(&said["requests"]));
    assert_eq!(said["answered"], said["requests"]);
    assert_eq!(said["errors"], Value::Object(Default::default()));
}

#[tokio::test]
async fn its_json_has_what_programs_look_for() {
    let (server, _files) = server().await;
    let id = server.id().to_string();
    let other = format!("test={}", std::process::id());
    let said = load(&server, &["--duration", "300ms", "--pid", &id, "--pid", &other]).await;
    let latency = ["p50", "p90", "p99", "p99_9", "max"].map(|it| number(&said["latency_us"][it]));
    assert!(latency.is_sorted() && latency[0] > 0, "{latency:?}");
    let (rate, seconds) = (real(&said["per_second"]), real(&said["seconds"]));
    let answered = number(&said["answered"]) as f64;
    assert!((rate * seconds - answered).abs() < answered / 100.0, "{said:#}");
    assert!(
        real(&said["cpu_us"]["server"]) > 0.0 && real(&said["cpu_us"]["load"]) > 0.0,
        "{said:#}"
    );
    assert!(said["cpu_us"]["test"].is_number(), "{said:#}");
}

#[tokio::test]
async fn an_open_loop_sends_what_is_due_and_no_more() {
    let (server, _files) = server().await;
    for threads in ["1", "3"] {
        let said =
            load(&server, &["--rate", "400", "--duration", "500ms", "--threads", threads]).await;
        assert_eq!(number(&said["requests"]), 200, "{said:#}");
        assert_eq!(said["ok"], said["requests"]);
    }
}

/// While the server stands still, requests are due that cannot be sent; in a closed loop nobody would know of them.
#[tokio::test]
async fn an_open_loop_counts_how_long_requests_wait_while_the_server_stands_still() {
    const STOPPED: Duration = Duration::from_secs(1);
    let (server, _files) = server().await;
    let arguments = ["--rate", "500", "--duration", "4s", "--connections", "1", "--streams", "4"];
    let pause = async {
        let before = counted(&server, "edge:plan=standard:user").await;
        until("it is asked", async || {
            let now = counted(&server, "edge:plan=standard:user").await;
            (now != before).then_some(())
        })
        .await;
        server.signal("STOP").await;
        time::sleep(STOPPED).await;
        server.signal("CONT").await;
    };
    let (said, ()) = tokio::join!(load(&server, &arguments), pause);
    assert_eq!(number(&said["requests"]), 2000, "{said:#}");
    assert_eq!(said["ok"], said["requests"], "all were answered in the end: {said:#}");
    // Of 2,000 requests the 500 of that second waited for what was left of it, half a second on average.
    let latency = |quantile: &str| number(&said["latency_us"][quantile]);
    assert!(latency("max") >= 900_000, "{said:#}");
    assert!(latency("p99") >= 700_000, "the last of 500 waits are no exception: {said:#}");
    assert!(latency("p90") >= 400_000, "{said:#}");
}

#[tokio::test]
async fn what_is_not_answered_in_the_end_is_an_error_without_a_latency() {
    let (server, _files) = server().await;
    let arguments = ["--rate", "100", "--duration", "1s", "--connections", "1", "--streams", "2"];
    let output = load_while_it_stands_still(&server, &arguments).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nothing was answered"), "{}", text(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(number(&said["requests"]), 100, "{said:#}");
    let unanswered = number(&said["errors"]["no answer until the end"]);
    let unsent = number(&said["errors"]["not sent until the end"]);
    assert_eq!((unanswered, unsent), (2, 98), "{said:#}");
    assert_eq!((number(&said["unanswered"]), number(&said["answered"])), (100, 0), "{said:#}");
    assert_eq!(said["latency_us"], Value::Null, "{said:#}");
}

#[tokio::test]
async fn however_many_have_no_answer_all_of_them_are_counted() {
    let (server, _files) = server().await;
    let arguments = ["--duration", "500ms", "--connections", "2", "--streams", "500"];
    let output = load_while_it_stands_still(&server, &arguments).await;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(number(&said["requests"]), 1000, "{said:#}");
    assert_eq!(number(&said["unanswered"]), 1000, "{said:#}");
}

#[tokio::test]
async fn who_has_a_deadline_waits_no_longer() {
    let (server, _files) = server().await;
    let arguments =
        ["--duration", "500ms", "--connections", "1", "--streams", "2", "--deadline", "100ms"];
    let output = load_while_it_stands_still(&server, &arguments).await;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let late = number(&said["errors"]["DEADLINE_EXCEEDED"]);
    assert!((2..=12).contains(&late), "{said:#}");
    assert_eq!(said["requests"], said["errors"]["DEADLINE_EXCEEDED"], "{said:#}");
}

#[tokio::test]
async fn errors_are_counted_by_what_is_wrong() {
    let (server, _files) = server().await;
    let said = load(&server, &["--duration", "200ms", "--domain", ""]).await;
    assert_eq!(said["errors"]["INVALID_ARGUMENT"], said["requests"]);
    assert_eq!(said["answered"], said["requests"], "a status is an answer");
    assert!(number(&said["latency_us"]["p50"]) > 0, "{said:#}");
    assert_eq!((number(&said["ok"]), number(&said["over_limit"])), (0, 0));
}

#[tokio::test]
async fn keys_are_as_uneven_as_the_law_says() {
    let (server, _files) = server().await;
    let arguments =
        ["--duration", "2s", "--keys", "10", "--zipf", "1", "--descriptor", "user={key}"];
    let said = load(&server, &arguments).await;
    let all = number(&said["ok"]) as f64;
    assert_eq!(said["ok"], said["requests"], "{said:#}");
    let metrics = Metrics::of(server.http).await;
    let of = |key: &str| {
        let values = format!("user={key}");
        let labels = [("values", values.as_str()), ("outcome", "allowed")];
        metrics.value("tollgate_decisions_by_value_total", &labels).unwrap_or_default() / all
    };
    // 1 ÷ (1 + 1/2 + … + 1/10) is 0.341.
    for (key, share) in [("0", 0.341), ("1", 0.171), ("9", 0.034)] {
        assert!((of(key) - share).abs() < 0.05, "{key} has {}", of(key));
    }
}

#[tokio::test]
async fn requests_have_as_many_descriptors_as_are_wanted() {
    let (server, _files) = server().await;
    let arguments = [
        "--rate",
        "100",
        "--duration",
        "200ms",
        "--descriptors",
        "5",
        "--keys",
        "1000",
        "--descriptor",
        "user={key}",
        "--descriptor",
        "plan=standard,user={key}",
    ];
    load(&server, &arguments).await;
    assert_eq!(counted(&server, "edge:user").await, [60, 0]);
    assert_eq!(counted(&server, "edge:plan=standard:user").await, [40, 0]);
}

#[tokio::test]
async fn beside_a_server_that_always_gives_the_same_answer_there_is_a_ratio() {
    let (server, _files) = server().await;
    let id = server.id().to_string();
    let arguments = ["--against-null", "--rounds", "2", "--duration", "200ms", "--pid", &id];
    let said = load(&server, &arguments).await;
    for figure in ["per_second", "cpu_us"] {
        for which in ["target", "null", "ratio"] {
            assert!(real(&said[figure][which]) > 0.0, "{said:#}");
        }
    }
    assert_eq!(said["rounds"].as_array().map(Vec::len), Some(2));
    for round in said["rounds"].as_array().unwrap() {
        assert_eq!(round["null"]["ok"], round["null"]["requests"], "{round:#}");
        assert_eq!(round["target"]["ok"], round["target"]["requests"], "{round:#}");
    }
    let target = server.grpc.to_string();
    let shown = run(
        &[
            "load",
            "--target",
            &target,
            "--against-null",
            "--rounds",
            "1",
            "--duration",
            "200ms",
            "--warmup",
            "0",
        ],
        &[],
    )
    .await;
    let shown = text(&shown.stdout);
    assert!(shown.contains("ratio") && shown.contains("--pid"), "{shown}");
}

#[tokio::test]
async fn what_cannot_be_measured_says_why_and_fails() {
    let (server, _files) = server().await;
    let target = server.grpc.to_string();
    let (free, http) = (free_port(), server.http.to_string());
    let nobody = format!("127.0.0.1:{free}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let cases: [(&[&str], i32, &[&str]); 13] = [
        (&["--target", &nobody], 1, &["nobody answers", &nobody, "--target"]),
        (&["--target", &nobody, "--threads", "4"], 1, &["nobody answers"]),
        (&["--target", &http], 1, &["nothing was answered", "gRPC port"]),
        (&["--target", &silent, "--deadline", "50ms"], 1, &["nothing was answered"]),
        (&["--target", "https://localhost:8081"], 2, &["--target", "plain text"]),
        (&["--target", "localhost"], 2, &["--target", "127.0.0.1:8081"]),
        (&["--target", &target, "--descriptor", "user"], 2, &["--descriptor", "plan=free"]),
        (&["--target", &target, "--zipf", "-1"], 2, &["--zipf"]),
        (&["--target", &target, "--keys", "0"], 2, &["--keys"]),
        (&["--target", &target, "--rounds", "2"], 2, &["--against-null"]),
        (&["--target", &target, "--null-threads", "2"], 2, &["--against-null"]),
        (&["--target", &target, "--pid", "redis"], 2, &["--pid", "redis=4711"]),
        (&["--target", &target, "--pid", "4294967295"], 1, &["--pid", "4294967295"]),
    ];
    for (arguments, code, words) in cases {
        let short = [&["load", "--duration", "200ms", "--warmup", "0"], arguments].concat();
        let Output { status, stderr, .. } = run(&short, &[]).await;
        let text = text(&stderr);
        assert_eq!(status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains("error: ") && !text.contains("panicked"), "{arguments:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{arguments:?}: {text}");
    }
}

/// The rules that are shipped have what it asks for when it is told nothing.
#[tokio::test]
async fn asks_by_itself_for_what_the_sample_rules_limit() {
    let config = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let server = Server::start(&config).await;
    let said = load(&server, &["--rate", "100", "--duration", "200ms"]).await;
    assert_eq!(counted(&server, "edge:plan=standard:user").await, [20, 0], "{said:#}");
}

#[tokio::test]
async fn the_null_server_has_as_many_threads_as_the_target_is_said_to_have() {
    for wanted in [1, 3] {
        let mut null = program(&[]);
        null.args(["null", "--threads", &wanted.to_string()]).stdin(Stdio::piped());
        let null = null.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let tasks = format!("/proc/{}/task", null.id().unwrap());
        // Threads name themselves, and others are the runtime's own.
        until("all its threads run", async || {
            let tasks = fs::read_dir(&tasks).unwrap().flatten();
            let names = tasks.map(|it| fs::read_to_string(it.path().join("comm")).unwrap());
            (names.filter(|it| it.starts_with("tollgate-")).count() == wanted).then_some(())
        })
        .await;
    }
    let (server, _files) = server().await;
    let arguments =
        ["--against-null", "--null-threads", "1", "--rounds", "1", "--duration", "100ms"];
    let said = load(&server, &arguments).await;
    assert!(real(&said["per_second"]["ratio"]) > 0.0, "{said:#}");
}

/// The server that `--against-null` starts leaves with whoever started it.
#[tokio::test]
async fn the_null_server_ends_with_its_input() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let process = process.arg("null").stdin(Stdio::null()).kill_on_drop(true);
    let ended = time::timeout(PATIENCE, process.output()).await.expect("it did not end").unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert!(text(&ended.stdout).starts_with("127.0.0.1:"));
}
