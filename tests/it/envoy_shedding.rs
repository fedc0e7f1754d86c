//! Shedding through a real Envoy, configured by the example that users copy: workers that know nothing of tollgate
//! say in two headers of their answers how busy they are.

use crate::support::{
    self, Reports, Response, Server, Store, TempDir, envoy_example, on_every_store, start_envoy,
    until,
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    process::Child,
    task::JoinSet,
};

on_every_store! {
    workers_are_heard_through_envoy_and_traffic_is_shed_by_class,
    answers_that_say_nothing_are_no_reports,
}

/// As `config/fleet.yaml`, but so that a test can wait for it.
const RULES: &str = "
domain: fleet
pools:
  api:
    utilization: {hold_off: 0s, shed_all_after: 1s, report_ttl: 5m, shed: [test, get, post]}
descriptors:
  - key: shed
    value: api
    descriptors:
      - key: class
        utilization: {pool: api}
  - key: worker_report
    value: api
    descriptors:
      - key: worker
        utilization_report: {pool: api}
";

struct Mesh {
    edge: SocketAddr,
    /// The headers of the workers' next answers.
    says: Arc<Mutex<String>>,
    reports: Reports,
    server: Server,
    _envoy: Child,
    _workers: JoinSet<()>,
    _files: TempDir,
}

impl Mesh {
    async fn start(store: &Store) -> Self {
        let files = TempDir::new();
        let server = Server::start_on(store, &files.file("rules.yaml", RULES)).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = listener.local_addr().unwrap();
        let says = Arc::new(Mutex::new(String::new()));
        let mut workers = JoinSet::new();
        let said = Arc::clone(&says);
        workers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(answer(stream, Arc::clone(&said)));
            }
        });
        let example = envoy_example("shedding.yaml", server.grpc, upstream);
        let example = files.file("envoy.json", &example.to_string());
        let (envoy, edge) = start_envoy(&example, &files).await;
        let reports = Reports::connect(server.grpc).await;
        Self { edge, says, reports, server, _envoy: envoy, _workers: workers, _files: files }
    }

    /// Has the workers say this from now on.
    fn say(&self, worker: &str, utilization: &str) {
        let header = |name: &str, value: &str| match value {
            "" => String::new(),
            value => format!("{name}: {value}\r\n"),
        };
        *self.says.lock().unwrap() =
            header("x-worker", worker) + &header("x-utilization", utilization);
    }

    /// A request of what is never dropped.
    async fn put(&self) -> Response {
        self.send("PUT", &[]).await
    }

    async fn send(&self, method: &str, headers: &[(&str, &[u8])]) -> Response {
        support::send(self.edge, method, "/", headers, b"").await.unwrap()
    }
}

/// Answers the requests on a connection, until it ends.
async fn answer(mut stream: TcpStream, says: Arc<Mutex<String>>) {
    let mut head = Vec::new();
    loop {
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if !matches!(stream.read(&mut byte).await, Ok(1)) {
                return;
            }
            head.push(byte[0]);
        }
        head.clear();
        let headers = says.lock().unwrap().clone();
        let answer = format!("HTTP/1.1 200 OK\r\n{headers}content-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn workers_are_heard_through_envoy_and_traffic_is_shed_by_class(store: &Store) {
    let mesh = Mesh::start(store).await;
    mesh.say("web-1", "1200");
    let answer = mesh.put().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-worker"), None, "clients do not read it");
    assert_eq!(answer.header("x-utilization"), None);
    until("the report has come", async || {
        let seen = mesh.reports.look("fleet").await;
        (seen.utilization == Some(1.2) && seen.workers == 1).then_some(())
    })
    .await;
    mesh.say("web-2", "1000");
    until("two are heard of, and all that may be is shed", async || {
        assert_eq!(mesh.put().await.status, 200);
        let seen = mesh.reports.look("fleet").await;
        (seen.utilization == Some(1.1) && seen.workers == 2 && seen.shedding == 1.0).then_some(())
    })
    .await;

    let test: [(&str, &[u8]); 1] = [("x-mode", b"test")];
    for (method, headers, class) in
        [("GET", &test[..], "test"), ("GET", &[], "get"), ("POST", &[], "post")]
    {
        let dropped = mesh.send(method, headers).await;
        assert_eq!(dropped.status, 503);
        assert!(dropped.body.contains(&format!("the class `{class}`")), "{}", dropped.body);
        assert_eq!(dropped.header("retry-after"), Some("1"));
        assert_eq!(dropped.header("x-ratelimit-limit"), None);
    }
    assert_eq!(mesh.send("DELETE", &[]).await.status, 200);

    // They have less to do, and all comes back.
    mesh.say("web-2", "0");
    mesh.put().await;
    mesh.say("web-1", "0");
    until("nothing is shed", async || {
        mesh.put().await;
        (mesh.reports.look("fleet").await.shedding <= 0.0).then_some(())
    })
    .await;
    assert_eq!(mesh.send("GET", &test).await.status, 200);
}

async fn answers_that_say_nothing_are_no_reports(store: &Store) {
    let mesh = Mesh::start(store).await;
    mesh.say("web-1", "500");
    mesh.put().await;
    let seen = async || mesh.reports.look("fleet").await;
    let heard = async || (seen().await.utilization == Some(0.5)).then_some(());
    until("the report has come", heard).await;
    for (worker, utilization) in [
        ("", ""),
        ("", "900"),
        ("web-1", ""),
        ("web-1", "busy"),
        ("web-1", "-5"),
        ("web-1", "99999"),
    ] {
        mesh.say(worker, utilization);
        assert_eq!(mesh.put().await.status, 200);
    }
    // Reports come in order, on one connection: behind this one there is nothing to come.
    mesh.say("web-2", "700");
    mesh.put().await;
    until("the last has come", async || (seen().await.workers == 2).then_some(())).await;
    assert_eq!(seen().await.utilization, Some(0.6));
    assert!(!mesh.server.log().contains("web-1"), "callers' values are in no log");
}
