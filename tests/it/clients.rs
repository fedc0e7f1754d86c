//! The clients that users copy, as `scripts/prepare` has built them.

use crate::support::{Leases, PATIENCE, Proxy, Reports, Server, TempDir, a_second, acquire, until};
use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout, Command},
    time,
};
use tollgate::grpc::proto::tollgate::v1::{AcquireRequest, LeaseState, acquire_response::Outcome};

/// One slot, under leases so short that a client has to renew its own.
const RULES: &str = "
domain: edge
descriptors:
  - key: path
    value: /reports
    descriptors:
      - key: user
        concurrency: {max: 1, lease_ttl: 600ms}
        name: reports
";

/// What every client asks for.
fn what() -> AcquireRequest {
    acquire("edge", &[&[["path", "/reports"], ["user", "ada"]]])
}

/// A pool whose workers are to report four times a second.
const REPORTED: &str = "
domain: fleet
pools:
  api: {utilization: {report_ttl: 1s}}
";

/// The same domain when somebody has removed that pool.
const NOT_REPORTED: &str = "
domain: fleet
pools:
  other: {capacity: 5}
";

/// The same tests for every client that there is for something.
macro_rules! every_client {
    ($tests:tt; $($client:ident: $command:expr;)+) => {
        $(every_client! { @one $client $command; $tests })+
    };
    (@one $client:ident $command:expr; [$($test:ident),+ $(,)?]) => {
        mod $client {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&$command).await;
            })+
        }
    };
}

every_client! {
    [
        holds_a_lease_as_long_as_it_works,
        tells_why_it_is_refused_and_when_to_try_again,
        stops_when_it_loses_its_lease,
        does_not_run_where_no_limit_matches,
    ];
    python_acquire: ["python/build/bin/python", "python/acquire.py"];
    python_hold: ["python/build/bin/python", "python/hold.py"];
    go_acquire: ["go/build/acquire"];
    go_hold: ["go/build/hold"];
    node_acquire: ["node", "node/acquire.js"];
    node_hold: ["node", "node/hold.js"];
}

every_client! {
    [
        keeps_reporting_until_it_is_stopped,
        comes_back_when_its_server_does,
        a_pool_that_is_not_there_ends_it,
        a_pool_that_vanishes_does_not_end_it,
    ];
    python_report: ["python/build/bin/python", "python/report.py"];
    go_report: ["go/build/report"];
    node_report: ["node", "node/report.js"];
}

/// Where the clients are built.
fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients")
}

/// A client that runs.
struct Client {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
    errors: Lines<BufReader<ChildStderr>>,
}

impl Client {
    fn start(command: &[&str], server: SocketAddr) -> Self {
        // Where the machine had no Node, there is one.
        let path = format!("{}:{}", built().join("tools/bin").display(), env::var("PATH").unwrap());
        let mut process = Command::new("env")
            .args(command)
            .arg(server.to_string())
            .current_dir(built())
            .envs([("PATH", path.as_str()), ("PYTHONUNBUFFERED", "1")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        let errors = BufReader::new(process.stderr.take().unwrap()).lines();
        Self { process, output, errors }
    }

    /// What it says after this word in its next line.
    async fn says(&mut self, word: &str) -> String {
        let line = time::timeout(PATIENCE, self.output.next_line()).await.unwrap().unwrap();
        match line.as_deref().and_then(|line| line.strip_prefix(word)) {
            Some(rest) => rest.trim().to_owned(),
            None => panic!("it says {line:?}; is it built? scripts/prepare does that"),
        }
    }

    /// The id of the lease that it says it holds.
    async fn acquired(&mut self) -> String {
        self.says("acquired ").await
    }

    /// Waits until it complains of this.
    async fn complains(&mut self, of: &str) {
        let complaining = async {
            while !self.errors.next_line().await.unwrap().expect("it has ended").contains(of) {}
        };
        time::timeout(PATIENCE, complaining).await.expect("it does not complain");
    }

    /// Sends it a signal.
    async fn signal(&self, signal: &str) {
        let id = self.process.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().await.unwrap();
        assert!(sent.success());
    }

    /// Its end: with which code, and what it printed until then.
    async fn ended(mut self) -> (Option<i32>, String) {
        let mut printed = String::new();
        let ending = async {
            while let Some(line) = self.output.next_line().await.unwrap() {
                printed += &line;
                printed.push('\n');
            }
            while let Some(line) = self.errors.next_line().await.unwrap() {
                printed += &line;
                printed.push('\n');
            }
            self.process.wait().await.unwrap()
        };
        let status = time::timeout(PATIENCE, ending).await.expect("it does not end");
        (status.code(), printed)
    }
}

async fn start() -> (Server, Leases) {
    let files = TempDir::new();
    let server = Server::start(&files.file("edge.yaml", RULES)).await;
    let leases = Leases::connect(server.grpc).await;
    (server, leases)
}

async fn holds_a_lease_as_long_as_it_works(command: &[&str]) {
    let (server, leases) = start().await;
    let mut client = Client::start(command, server.grpc);
    let id = client.acquired().await;
    a_second().await;
    assert!(!leases.is_acquired(what()).await, "it has not renewed the lease");

    assert_eq!(client.ended().await, (Some(0), "released\n".to_owned()));
    assert_eq!(leases.renewed(&id).await, LeaseState::AlreadyGone);
    assert!(leases.is_acquired(what()).await);
}

async fn tells_why_it_is_refused_and_when_to_try_again(command: &[&str]) {
    let (server, leases) = start().await;
    let mut hold = leases.hold(what()).await;
    assert_eq!(hold.acquired().await.outcome(), Outcome::Acquired);

    let (code, printed) = Client::start(command, server.grpc).ended().await;
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.starts_with("refused: The concurrency limit `reports` "), "{printed}");
    assert!(printed.ends_with("\ntry again in 1 s\n"), "{printed}");
}

async fn stops_when_it_loses_its_lease(command: &[&str]) {
    let (server, leases) = start().await;
    let mut client = Client::start(command, server.grpc);
    let id = client.acquired().await;
    assert_eq!(leases.released(&id).await, LeaseState::Live);

    let (code, printed) = client.ended().await;
    assert_ne!(code, Some(0), "{printed}");
    assert!(printed.contains("the lease is lost"), "{printed}");
    assert!(leases.is_acquired(what()).await);
}

async fn does_not_run_where_no_limit_matches(command: &[&str]) {
    let files = TempDir::new();
    let misspelt = RULES.replace("key: user", "key: usr");
    let server = Server::start(&files.file("edge.yaml", &misspelt)).await;
    let (code, printed) = Client::start(command, server.grpc).ended().await;
    assert_ne!(code, Some(0), "{printed}");
    assert!(!printed.contains("acquired lease-"), "{printed}");
    assert!(
        printed.contains("no limit matches: descriptors[0]: no rule is for the key of entries[1]")
    );
}

/// A server of these rules, and somebody who sees how it stands with the pool.
async fn start_pool(rules: &str) -> (Server, Reports) {
    let files = TempDir::new();
    let server =
        Server::start_with(&files.file("fleet.yaml", rules), &[("TOLLGATE_DRAIN", "0")]).await;
    let reports = Reports::connect(server.grpc).await;
    (server, reports)
}

async fn workers(reports: &Reports, count: u32) {
    let counted = async || (reports.look("fleet").await.workers == count).then_some(());
    until("so many workers count", counted).await;
}

async fn keeps_reporting_until_it_is_stopped(command: &[&str]) {
    let (server, reports) = start_pool(REPORTED).await;
    let mut clients = [Client::start(command, server.grpc), Client::start(command, server.grpc)];
    workers(&reports, 2).await;
    // More than a report lasts.
    for _ in 0..5 {
        for client in &mut clients {
            let pool = client.says("the pool is ").await;
            let (busy, shedding) = pool.split_once("% busy, ").unwrap();
            assert!(busy.parse::<u8>().unwrap() <= 100, "{pool}");
            assert_eq!(shedding, "shedding 0%");
        }
    }
    workers(&reports, 2).await;

    for (client, signal) in clients.into_iter().zip(["INT", "TERM"]) {
        client.signal(signal).await;
        let (code, printed) = client.ended().await;
        assert_eq!(code, Some(0), "{printed}");
        // A machine that stands still may lose it a report.
        let is_its_own =
            |line: &str| line.starts_with("the pool is ") || line.starts_with("not reported: ");
        assert!(printed.lines().all(is_its_own), "{printed}");
    }
    workers(&reports, 0).await;
}

async fn comes_back_when_its_server_does(command: &[&str]) {
    let (server, _) = start_pool(REPORTED).await;
    let proxy = Proxy::to(server.grpc.port()).await;
    let mut client = Client::start(command, proxy.address());
    client.says("the pool is ").await;
    server.signal("TERM").await;
    client.complains("the server is leaving").await;
    server.ended().await;
    // And now nobody is there.
    client.complains("not reported").await;

    let (server, reports) = start_pool(REPORTED).await;
    proxy.lead_to(server.grpc.port());
    workers(&reports, 1).await;
}

async fn a_pool_that_is_not_there_ends_it(command: &[&str]) {
    let (server, _) = start_pool(NOT_REPORTED).await;
    let (code, printed) = Client::start(command, server.grpc).ended().await;
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.starts_with("refused: the domain \"fleet\" has no pool \"api\""), "{printed}");
}

async fn a_pool_that_vanishes_does_not_end_it(command: &[&str]) {
    let (server, reports) = start_pool(REPORTED).await;
    let (mistaken, _) = start_pool(NOT_REPORTED).await;
    let proxy = Proxy::to(server.grpc.port()).await;
    let mut client = Client::start(command, proxy.address());
    client.says("the pool is ").await;
    proxy.lead_to(mistaken.grpc.port());
    proxy.reset();
    client.complains("has no pool \"api\"").await;

    workers(&reports, 0).await;
    proxy.lead_to(server.grpc.port());
    proxy.reset();
    workers(&reports, 1).await;
}

#[tokio::test]
async fn the_sample_rules_know_what_they_ask_for() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let server = Server::start(&config).await;
    let answer = Leases::connect(server.grpc).await.acquire(what()).await.unwrap();
    assert_eq!(answer.outcome(), Outcome::Acquired);
    assert!(answer.statuses[0].current_limit.is_some(), "{answer:?}");
    let pool = Reports::connect(server.grpc).await.look("fleet").await;
    assert_eq!(pool.report_again_after.unwrap().seconds, 5);
}

/// Otherwise these tests are about clients that nobody gets.
#[test]
fn they_are_built_of_what_is_there() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/clients");
    for client in ["python", "go", "node"] {
        let made_of = fs::read_to_string(built().join(client).join("made-of")).unwrap_or_default();
        assert!(!made_of.is_empty(), "{client} is not built: scripts/prepare does that");
        for line in made_of.lines().filter(|line| line.contains("examples/clients")) {
            let file = line.split("examples/clients/").nth(1).unwrap();
            let (original, copy) = (fs::read(examples.join(file)), fs::read(built().join(file)));
            assert!(
                original.ok() == copy.ok(),
                "{file} is not what was built: scripts/prepare builds it anew"
            );
        }
    }
}
