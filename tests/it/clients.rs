//! The clients that users copy, as `scripts/prepare` has built them.

use crate::support::{Leases, PATIENCE, Server, TempDir, a_second, acquire};
use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
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

/// The same tests for every client.
macro_rules! every_client {
    ($($client:ident: $command:expr;)+) => {
        $(mod $client {
            #[tokio::test]
            async fn holds_a_lease_as_long_as_it_works() {
                super::holds_a_lease_as_long_as_it_works(&$command).await;
            }
            #[tokio::test]
            async fn tells_why_it_is_refused_and_when_to_try_again() {
                super::tells_why_it_is_refused_and_when_to_try_again(&$command).await;
            }
            #[tokio::test]
            async fn stops_when_it_loses_its_lease() {
                super::stops_when_it_loses_its_lease(&$command).await;
            }
        })+
    };
}

every_client! {
    python_acquire: ["python/build/bin/python", "python/acquire.py"];
    python_hold: ["python/build/bin/python", "python/hold.py"];
    go_acquire: ["go/build/acquire"];
    go_hold: ["go/build/hold"];
    node_acquire: ["node", "node/acquire.js"];
    node_hold: ["node", "node/hold.js"];
}

/// Where the clients are built.
fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients")
}

/// A client that runs.
struct Client {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
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
        Self { process, output }
    }

    /// The id of the lease that it says it holds.
    async fn acquired(&mut self) -> String {
        let line = time::timeout(PATIENCE, self.output.next_line()).await.unwrap().unwrap();
        match line.as_deref().and_then(|line| line.strip_prefix("acquired ")) {
            Some(id) => id.to_owned(),
            None => panic!("it says {line:?}; is it built? scripts/prepare does that"),
        }
    }

    /// Its end: with which code, and what it printed until then.
    async fn ended(mut self) -> (Option<i32>, String) {
        let mut printed = String::new();
        let mut errors = self.process.stderr.take().unwrap();
        let ending = async {
            while let Some(line) = self.output.next_line().await.unwrap() {
                printed += &line;
                printed.push('\n');
            }
            errors.read_to_string(&mut printed).await.unwrap();
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

#[tokio::test]
async fn the_sample_rules_limit_what_they_ask_for() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let server = Server::start(&config).await;
    let answer = Leases::connect(server.grpc).await.acquire(what()).await.unwrap();
    assert_eq!(answer.outcome(), Outcome::Acquired);
    assert!(answer.statuses[0].current_limit.is_some(), "{answer:?}");
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
