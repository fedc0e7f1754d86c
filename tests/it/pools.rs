//! How it stands with the pools, as an operator asks: on the admin port, with the command, and in the log.

use crate::{
    grpc::Client,
    support::{
        self, PATIENCE, Reports, Server, Store, TempDir, free_port, on_every_store, report, until,
    },
};
use serde_json::{Value, json};
use std::{
    net::{SocketAddr, TcpListener},
    process::{Output, Stdio},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time,
};
use tollgate::grpc::proto::tollgate::v1::{
    ReportUtilizationRequest, report_utilization_request::Load,
};

/// With leases and reports that outlive any test.
const RULES: &str = "
domain: edge
pools:
  api:
    capacity: 1000
    reserved: 20%
    lease_ttl: 10m
    utilization: {report_ttl: 10m, shed: [test, get, post]}
  reports: {capacity: reported, lease_ttl: 10m}
  jobs: {capacity: 5, lease_ttl: 10m}
descriptors:
  - {key: priority, value: critical, fleet: {pool: api, critical: true}}
  - {key: priority, fleet: {pool: api}}
  - {key: class, utilization: {pool: api}}
  - {key: report, fleet: {pool: reports}}
  - {key: job, fleet: {pool: jobs}}
";

/// With a pool that sheds at once, and soon hears nothing any more.
const HASTY: &str = "
domain: edge
pools:
  api:
    utilization: {hold_off: 0s, shed_all_after: 1s, report_ttl: 6s, shed: [test, get]}
descriptors:
  - {key: class, utilization: {pool: api}}
";

on_every_store! {
    the_port_shows_slots_and_workers,
    the_command_shows_what_the_port_does,
    shedding_is_shown_and_its_end_and_silence_are_told,
}

async fn open(store: &Store, rules: &str) -> (Server, TempDir) {
    let files = TempDir::new();
    (Server::start_on(store, &files.file("edge.yaml", rules)).await, files)
}

/// Takes slots, one for each value of `priority`.
async fn take(server: &Server, priorities: &[&str]) {
    let mut client = Client::connect(server.grpc).await;
    for priority in priorities {
        let entries = [["priority", priority]];
        let request = json!({ "domain": "edge", "descriptors": [{ "entries": entries }] });
        assert_eq!(client.ask(&request).await.unwrap().overall_code, 1);
    }
}

/// The report of a worker of which so many slots are busy.
fn busy(worker: &str, busy: u32, total_slots: u32) -> ReportUtilizationRequest {
    ReportUtilizationRequest { total_slots, ..report("edge", worker, Load::BusySlots(busy)) }
}

async fn shown(admin: SocketAddr) -> Value {
    let accept = [("accept", &b"application/json"[..])];
    let answer = support::get(admin, "/pools", &accept).await.unwrap();
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    serde_json::from_str(&answer.body).unwrap()
}

async fn text(admin: SocketAddr) -> String {
    let answer = support::get(admin, "/pools", &[]).await.unwrap();
    assert_eq!(answer.status, 200);
    answer.body
}

async fn the_port_shows_slots_and_workers(store: &Store) {
    let (server, _files) = open(store, RULES).await;
    take(&server, &["critical", "low", "low", "low"]).await;
    let workers = Reports::connect(server.grpc).await;
    workers.say(busy("a", 15, 30)).await.unwrap();
    workers.say(busy("b", 10, 10)).await.unwrap();

    let pools = shown(server.admin).await;
    let [api, reports, jobs] = [0, 1, 2].map(|place| &pools["pools"][place]);
    assert_eq!((&api["domain"], &api["pool"]), (&json!("edge"), &json!("api")));
    assert_eq!((&api["capacity"], &api["reserved_slots"]), (&json!(1000), &json!(200)));
    assert_eq!(api["in_flight"], json!({ "critical": 1, "others": 3 }));
    let workers = &api["workers"];
    assert_eq!((&workers["count"], &workers["slots"]), (&json!(2), &json!(40)));
    assert_eq!(workers["utilization"], 0.625);
    assert_eq!(workers["report_ttl_seconds"], 600.0);
    let ago = workers["last_report_seconds_ago"].as_f64().unwrap();
    assert!((0.0..PATIENCE.as_secs_f64()).contains(&ago), "{ago}");
    let least = -28.0 / 120.0;
    let amount = api["shedding"]["amount"].as_f64().unwrap();
    assert!((amount - least).abs() < 0.001, "it rests, rounded down: {amount}");
    let none = |class: &str| json!({ "class": class, "drop_chance": 0.0 });
    assert_eq!(api["shedding"]["classes"], json!([none("test"), none("get"), none("post")]));

    assert_eq!((&reports["capacity"], &reports["capacity_reported"]), (&Value::Null, &json!(true)));
    assert_eq!(reports["workers"]["utilization"], Value::Null);
    assert_eq!((&jobs["workers"], &jobs["shedding"]), (&Value::Null, &Value::Null));

    let text = text(server.admin).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "edge");
    let api = "  api       1000 slots, 200 reserved; in flight: 1 critical, 3 others";
    assert_eq!(lines[1], api);
    assert!(lines[2].starts_with("            62.5 % busy, 2 workers of 40 slots, last report "));
    assert!(lines[3].starts_with("            not shedding, amount -0.233: begins after 28 s of"));
    assert!(lines[4].starts_with("  reports   nobody reports how many slots there are"), "{text}");
    assert!(lines[5].contains("no worker has reported of late"), "{text}");
    assert_eq!(lines[7], "  jobs      5 slots, 0 reserved; in flight: 0 critical, 0 others");
}

/// Runs the command against the port of a server.
async fn pools(admin: SocketAddr, arguments: &[&str]) -> Output {
    let admin = admin.to_string();
    support::run(&[&["pools", "--admin", &admin], arguments].concat(), &[]).await
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

async fn the_command_shows_what_the_port_does(store: &Store) {
    let (server, _files) = open(store, RULES).await;
    take(&server, &["critical"]).await;
    let output = pools(server.admin, &[]).await;
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert_eq!(stdout(&output), text(server.admin).await);
    let output = pools(server.admin, &["--json"]).await;
    assert_eq!((output.status.code(), stdout(&output).lines().count()), (Some(0), 1));
    let document: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(document, shown(server.admin).await);
    // Where the server listens, the variable says to both.
    let admin = server.admin.to_string();
    let output = support::run(&["pools"], &[("TOLLGATE_ADMIN_ADDR", &admin)]).await;
    assert_eq!(stdout(&output), text(server.admin).await);
}

async fn shedding_is_shown_and_its_end_and_silence_are_told(store: &Store) {
    let (server, _files) = open(store, HASTY).await;
    let workers = Reports::connect(server.grpc).await;
    workers.say(busy("a", 30, 20)).await.unwrap();
    let all =
        json!([{ "class": "test", "drop_chance": 1.0 }, { "class": "get", "drop_chance": 1.0 }]);
    let sheds_all = async || {
        let shown = &shown(server.admin).await["pools"][0]["shedding"];
        (shown["classes"] == all).then_some(())
    };
    until("it sheds all", sheds_all).await;
    let text = text(server.admin).await;
    assert!(text.contains("shedding, amount 1 of 1: drops 100 % of test, 100 % of get"), "{text}");

    let lines = [
        "WARN load is shed: the pool api of edge (150 % busy, drops ",
        "WARN no worker's report is fresh, so shedding neither begins nor grows: the pool api of edge (the last came ",
        "INFO load is shed no more: the pool api of edge (no report is fresh)",
    ];
    for line in lines {
        until(line, async || server.log().contains(line).then_some(())).await;
    }
    let shown = shown(server.admin).await;
    assert_eq!(shown["pools"][0]["workers"]["utilization"], Value::Null);
}

#[tokio::test]
async fn what_is_only_tried_out_is_shown_as_that() {
    let in_rule =
        HASTY.replace("utilization: {pool: api}", "utilization: {pool: api}, shadow_mode: true");
    let off = HASTY.replace("utilization: {pool: api}", "utilization: {pool: api}, enabled: false");
    let shadow = [("TOLLGATE_SHADOW_MODE", "true")];
    for (rules, environment, enforced) in [
        (HASTY, &[][..], true),
        (HASTY, &shadow[..], false),
        (&in_rule, &[][..], false),
        (&off, &[][..], false),
    ] {
        let files = TempDir::new();
        let server = Server::start_with(&files.file("edge.yaml", rules), environment).await;
        let shedding = &shown(server.admin).await["pools"][0]["shedding"];
        assert_eq!(shedding["enforced"], enforced, "{rules}");
    }
}

#[tokio::test]
async fn reports_that_are_none_are_told_in_the_log() {
    let rules = format!("{RULES}  - {{key: worker, utilization_report: {{pool: api}}}}\n");
    let (server, _files) = open(&Store::Memory, &rules).await;
    let mut client = Client::connect(server.grpc).await;
    let bad = json!({ "domain": "edge", "descriptors": [
        { "entries": [["worker", "w-1"]], "hits_addend": 10_001 },
        { "entries": [["report", "any"]] },
    ] });
    client.ask(&bad).await.unwrap();
    let lines = [
        "reports that came with requests were none",
        "requests were admitted because nobody reports how many slots their pool has",
    ];
    for line in lines {
        until(line, async || server.log().contains(line).then_some(())).await;
    }
    assert!(!server.log().contains("w-1"), "what callers send is not logged");
}

#[tokio::test]
async fn a_store_that_cannot_be_asked_is_said_to_be_so() {
    let files = TempDir::new();
    let rules = files.file("edge.yaml", RULES);
    let nowhere = format!("redis://127.0.0.1:{}", free_port());
    let server = Server::start_with(&rules, &[("TOLLGATE_STORE", &nowhere)]).await;
    // On a busy machine the first attempt to connect may take longer than the store's timeout.
    until("it is known that the store cannot be reached", async || {
        let answer = support::get(server.admin, "/pools", &[]).await.unwrap();
        assert_eq!(answer.status, 503);
        answer.body.starts_with("the store cannot be reached: ").then_some(())
    })
    .await;
    let accept = [("accept", &b"application/json"[..])];
    let answer = support::get(server.admin, "/pools", &accept).await.unwrap();
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((answer.status, &body["code"]), (503, &json!(14)));
    let message = body["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("the store cannot be reached: "), "{message}");

    for arguments in [&[][..], &["--json"]] {
        let output = pools(server.admin, arguments).await;
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
        assert!(stderr(&output).contains("503") && stderr(&output).contains(&message));
    }
}

#[tokio::test]
async fn who_does_not_answer_is_named_with_what_to_do() {
    let (server, _files) = open(&Store::Memory, RULES).await;
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let cases = [
        (nobody, "refused"),
        (server.http, "does not know /pools"),
        (server.grpc, "does not speak HTTP as tollgate does"),
        (mute.local_addr().unwrap(), "no answer came"),
    ];
    for (address, words) in cases {
        let output = pools(address, &[]).await;
        let text = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""), "{text}");
        assert!(text.starts_with("error: ") && text.contains(words), "{words} in {text}");
        assert!(text.contains(&address.to_string()) && text.contains("--admin"), "{text}");
    }
    for address in ["6070", "http://127.0.0.1:6070", "127.0.0.1"] {
        let output = support::run(&["pools", "--admin", address], &[]).await;
        assert_eq!(output.status.code(), Some(2), "{address}");
        assert!(stderr(&output).contains("127.0.0.1:6070"), "{address}");
    }
}

/// A `tollgate pools --watch`.
fn watch(admin: SocketAddr, arguments: &[&str]) -> Child {
    let mut process = support::program(&[]);
    process.args(["pools", "--watch", "--admin", &admin.to_string()]).args(arguments);
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process.kill_on_drop(true).spawn().unwrap()
}

/// Ends it as Ctrl-C does.
async fn interrupt(mut process: Child) {
    let id = process.id().unwrap().to_string();
    Command::new("kill").args(["-s", "INT", &id]).status().await.unwrap();
    let ended = time::timeout(PATIENCE, process.wait()).await.expect("it did not end");
    assert_eq!(ended.unwrap().code(), Some(0));
}

#[tokio::test]
async fn who_watches_is_told_again_and_again_until_it_is_enough() {
    let (server, _files) = open(&Store::Memory, RULES).await;
    let mut process = watch(server.admin, &["--json"]);
    let mut documents = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut others = async || {
        let line = time::timeout(PATIENCE, documents.next_line()).await.unwrap().unwrap();
        let view: Value = serde_json::from_str(&line.unwrap()).unwrap();
        view["pools"][0]["in_flight"]["others"].as_u64().unwrap()
    };
    assert_eq!(others().await, 0);
    take(&server, &["low"]).await;
    while others().await == 0 {}
    interrupt(process).await;

    let mut process = watch(server.admin, &[]);
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut heads = 0;
    while heads < 2 {
        let line = time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
        assert!(!line.contains('\u{1b}'), "this is no terminal");
        heads += usize::from(line == "edge");
    }
    // Whoever closes the pipe has read enough.
    drop(lines);
    let ended = time::timeout(PATIENCE, process.wait()).await.expect("it did not end");
    assert_eq!(ended.unwrap().code(), Some(0));
}

#[tokio::test]
async fn who_watches_a_server_that_is_not_there_waits_for_it() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut process = watch(nobody, &["--json"]);
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let line = time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert!(line.contains(&nobody.to_string()) && line.ends_with("trying again every second"));
    let files = TempDir::new();
    let rules = files.file("edge.yaml", RULES);
    let mut documents = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut server = support::program(&[
        ("TOLLGATE_GRPC_ADDR", "127.0.0.1:0"),
        ("TOLLGATE_HTTP_ADDR", "127.0.0.1:0"),
        ("TOLLGATE_ADMIN_ADDR", &nobody.to_string()),
    ]);
    server.arg("--config").arg(rules).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = server.kill_on_drop(true).spawn().unwrap();
    let document = time::timeout(PATIENCE, documents.next_line()).await.unwrap().unwrap().unwrap();
    assert!(document.starts_with("{\"pools\":"), "{document}");
    interrupt(process).await;
}
