//! Leases through a real Envoy, configured by the example that users copy, in front of an upstream that
//! answers when it is told to, or fails, or hangs up.

use crate::support::{
    self, CONNECTION_MANAGER, Leases, Response, Server, Store, TempDir, acquire, envoy_example,
    on_every_store, start_envoy, until,
};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    process::Child,
    sync::watch,
    task::JoinSet,
    time,
};

on_every_store! {
    exactly_as_many_reach_the_upstream_as_may,
    slots_come_back_however_a_request_ends,
    slots_of_requests_that_time_out_come_back,
    slots_of_an_envoy_that_was_killed_come_back_at_the_deadline,
    a_storm_leaves_nothing_behind,
    two_filters_on_one_route_both_give_back,
    a_fleet_that_is_full_answers_503,
    headers_show_what_is_free,
    the_upstream_is_told_the_lease_and_only_by_us,
}

/// What the example's filters ask for.
const REPORTS: [[&str; 2]; 2] = [["path", "/reports"], ["user", "ada"]];
const FLEET: [[&str; 2]; 2] = [["pool", "api"], ["priority", "normal"]];

fn rules(max: u32, ttl: &str, capacity: u32) -> [(&'static str, String); 2] {
    let edge = format!(
        "
domain: edge
descriptors:
  - key: path
    value: /reports
    descriptors:
      - key: user
        concurrency: {{max: {max}, lease_ttl: {ttl}}}
        lease_header: x-lease-id
"
    );
    let fleet = format!(
        "
domain: fleet
lease_key: fleet_lease_id
pools:
  api: {{capacity: {capacity}, lease_ttl: {ttl}}}
descriptors:
  - key: pool
    value: api
    descriptors:
      - key: priority
        fleet: {{pool: api}}
"
    );
    [("edge.yaml", edge), ("fleet.yaml", fleet)]
}

struct Mesh {
    edge: SocketAddr,
    upstream: Upstream,
    leases: Leases,
    envoy: Child,
    _server: Server,
    _files: TempDir,
}

impl Mesh {
    async fn start(store: &Store, rules: &[(&str, String)]) -> Self {
        Self::start_with(store, rules, "60s").await
    }

    /// With an upstream that may take so long.
    async fn start_with(store: &Store, rules: &[(&str, String)], timeout: &str) -> Self {
        let (files, config) = (TempDir::new(), TempDir::new());
        for (name, text) in rules {
            config.file(name, text);
        }
        let server = Server::start_on(store, config.path()).await;
        let upstream = Upstream::start().await;
        let mut example = envoy_example("leases.yaml", server.grpc, upstream.address);
        let route = format!("{CONNECTION_MANAGER}/route_config/virtual_hosts/0/routes/1/route");
        example.pointer_mut(&route).expect("a route")["timeout"] = timeout.into();
        let example = files.file("envoy.json", &example.to_string());
        let (envoy, edge) = start_envoy(&example, &files).await;
        let leases = Leases::connect(server.grpc).await;
        Self { edge, upstream, leases, envoy, _server: server, _files: files }
    }

    /// Asks for something that the upstream does.
    async fn get(&self, what: &str) -> Response {
        self.get_with(what, &[]).await
    }

    async fn get_with(&self, what: &str, headers: &[(&str, &[u8])]) -> Response {
        let headers = [&[("x-user", &b"ada"[..])], headers].concat();
        support::get(self.edge, &format!("/reports/{what}"), &headers).await.unwrap()
    }

    /// How many slots of a limit are free.
    async fn free(&self, domain: &str, entries: [[&str; 2]; 2]) -> u32 {
        let mut peek = acquire(domain, &[&entries]);
        peek.descriptors[0].hits_addend = Some(0);
        self.leases.acquire(peek).await.unwrap().statuses[0].limit_remaining
    }

    async fn until_free(&self, count: u32) {
        let is_free = async || (self.free("edge", REPORTS).await == count).then_some(());
        until(&format!("{count} are free"), is_free).await;
    }

    /// Begins a request that the upstream does not answer yet. The connection it is made on.
    async fn begin(&self, what: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.edge).await.unwrap();
        let head = format!("GET /reports/{what} HTTP/1.1\r\nhost: test\r\nx-user: ada\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }
}

/// What Envoy protects. It does what the path says.
struct Upstream {
    address: SocketAddr,
    in_flight: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// Whether it answers those who wait.
    gate: watch::Sender<bool>,
    _serving: JoinSet<()>,
}

impl Upstream {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (in_flight, most) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let (gate, open) = watch::channel(false);
        let counters = (Arc::clone(&in_flight), Arc::clone(&most));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let ((in_flight, most), open) = (counters.clone(), open.clone());
                connections.spawn(async move {
                    // A connection ends when Envoy ends it, whatever was to be said on it.
                    let _ = answer(stream, &in_flight, &most, open).await;
                });
            }
        });
        Self { address, in_flight, most, gate, _serving: serving }
    }

    async fn until_in_flight(&self, count: usize) {
        let reached = async || (self.in_flight.load(SeqCst) == count).then_some(());
        until(&format!("{count} reach the upstream"), reached).await;
    }
}

/// Answers the requests on a connection, one after the other.
async fn answer(
    mut stream: TcpStream,
    in_flight: &AtomicUsize,
    most: &AtomicUsize,
    mut open: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    loop {
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).await? == 0 {
                return Ok(());
            }
            head.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        head.clear();
        most.fetch_max(in_flight.fetch_add(1, SeqCst) + 1, SeqCst);
        let what = text.split(' ').nth(1).unwrap_or_default().to_owned();
        let status = match what.trim_start_matches("/reports/") {
            "wait" => {
                // Until it may answer, or the caller has gone.
                let mut byte = [0];
                let is_open = tokio::select! {
                    opened = open.wait_for(|is_open| *is_open) => opened.is_ok(),
                    _ = stream.peek(&mut byte) => false,
                };
                if is_open { Some("200 OK") } else { None }
            }
            "fails" => Some("503 Service Unavailable"),
            "hangs-up" => None,
            _ => Some("200 OK"),
        };
        in_flight.fetch_sub(1, SeqCst);
        let Some(status) = status else { return Ok(()) };
        // What it was told goes back in the body.
        let length = text.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{text}");
        stream.write_all(answer.as_bytes()).await?;
    }
}

async fn exactly_as_many_reach_the_upstream_as_may(store: &Store) {
    let mesh = Arc::new(Mesh::start(store, &rules(3, "60s", 1000)).await);
    let mut callers = JoinSet::new();
    for _ in 0..10 {
        let mesh = Arc::clone(&mesh);
        callers.spawn(async move { mesh.get("wait").await.status });
    }
    let mut statuses = Vec::new();
    for _ in 0..7 {
        statuses.push(callers.join_next().await.unwrap().unwrap());
    }
    assert_eq!(statuses, [429; 7]);
    mesh.upstream.until_in_flight(3).await;
    mesh.upstream.gate.send_replace(true);
    assert_eq!(callers.join_all().await, [200; 3]);
    assert_eq!(mesh.upstream.most.load(SeqCst), 3);
    mesh.until_free(3).await;
}

async fn slots_come_back_however_a_request_ends(store: &Store) {
    // Long leases: what comes back was given back.
    let mesh = Mesh::start(store, &rules(3, "1h", 1000)).await;
    for (what, status) in [("at-once", 200), ("fails", 503), ("hangs-up", 503)] {
        for _ in 0..10 {
            let answer = mesh.get(what).await;
            assert!([status, 429].contains(&answer.status), "{what}: {answer:?}");
        }
        mesh.until_free(3).await;
    }
    // A caller who hangs up, while the upstream works.
    let mut callers = Vec::new();
    for _ in 0..3 {
        callers.push(mesh.begin("wait").await);
    }
    mesh.upstream.until_in_flight(3).await;
    assert_eq!(mesh.free("edge", REPORTS).await, 0);
    drop(callers);
    mesh.until_free(3).await;
    assert_eq!(mesh.free("fleet", FLEET).await, 1000);
}

async fn slots_of_requests_that_time_out_come_back(store: &Store) {
    let mesh = Mesh::start_with(store, &rules(3, "1h", 1000), "0.2s").await;
    let mut callers = Vec::new();
    for _ in 0..3 {
        callers.push(mesh.begin("wait").await);
    }
    let mut answer = [0; 12];
    callers[0].read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 504");
    mesh.until_free(3).await;
}

async fn slots_of_an_envoy_that_was_killed_come_back_at_the_deadline(store: &Store) {
    let mut mesh = Mesh::start(store, &rules(3, "3s", 1000)).await;
    let mut callers = Vec::new();
    for _ in 0..3 {
        callers.push(mesh.begin("wait").await);
    }
    mesh.upstream.until_in_flight(3).await;
    mesh.envoy.kill().await.unwrap();
    assert_eq!(mesh.free("edge", REPORTS).await, 0, "nobody has given them back");
    mesh.until_free(3).await;
}

#[allow(clippy::print_stdout, reason = "how close it came is for whoever wants to know")]
async fn a_storm_leaves_nothing_behind(store: &Store) {
    const REQUESTS: usize = 2000;
    const MAX: u32 = 1000;
    let mesh = Arc::new(Mesh::start(store, &rules(MAX, "15s", 1000)).await);
    let mut callers = JoinSet::new();
    for number in 0..REQUESTS {
        if callers.len() >= 50 {
            callers.join_next().await.unwrap().unwrap();
        }
        let mesh = Arc::clone(&mesh);
        callers.spawn(async move {
            if number % 4 == 0 {
                // Gone at some moment between asking and the answer.
                let caller = mesh.begin("at-once").await;
                time::sleep(Duration::from_micros((number as u64 * 37) % 4000)).await;
                drop(caller);
            } else {
                let status = mesh.get("at-once").await.status;
                assert_eq!(status, 200);
            }
        });
    }
    callers.join_all().await;
    // What comes back at once has come back when it stays the same for a while.
    let mut free = 0;
    loop {
        support::a_second().await;
        let before = std::mem::replace(&mut free, mesh.free("edge", REPORTS).await);
        if free == before {
            break;
        }
    }
    let left = MAX - free;
    println!("{left} of {REQUESTS} leases were left to their deadline");
    assert!(left as usize * 100 <= REQUESTS * 2, "{left} leases needed their deadline");
    mesh.until_free(MAX).await;
    until("the fleet is empty, too", async || {
        (mesh.free("fleet", FLEET).await == 1000).then_some(())
    })
    .await;
}

async fn two_filters_on_one_route_both_give_back(store: &Store) {
    let mesh = Arc::new(Mesh::start(store, &rules(20, "1h", 30)).await);
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        let mesh = Arc::clone(&mesh);
        callers.spawn(async move {
            for _ in 0..125 {
                assert_eq!(mesh.get("at-once").await.status, 200);
            }
        });
    }
    callers.join_all().await;
    mesh.until_free(20).await;
    until("the fleet is empty, too", async || {
        (mesh.free("fleet", FLEET).await == 30).then_some(())
    })
    .await;
}

async fn a_fleet_that_is_full_answers_503(store: &Store) {
    let mesh = Mesh::start(store, &rules(10, "1h", 2)).await;
    let mut callers = Vec::new();
    for _ in 0..2 {
        callers.push(mesh.begin("wait").await);
    }
    mesh.upstream.until_in_flight(2).await;
    let refused = mesh.get("wait").await;
    assert_eq!((refused.status, refused.number("retry-after")), (503, Some(1)), "{refused:?}");
    assert_eq!(mesh.free("edge", REPORTS).await, 8, "the second filter was not asked");
    drop(callers);
    mesh.until_free(10).await;
    // Refused by the second, what the first gave is given back.
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(mesh.leases.acquired(acquire("edge", &[&REPORTS])).await);
    }
    assert_eq!(mesh.get("wait").await.status, 429);
    until("the fleet is empty", async || (mesh.free("fleet", FLEET).await == 2).then_some(()))
        .await;
}

async fn headers_show_what_is_free(store: &Store) {
    let mesh = Mesh::start(store, &rules(3, "1h", 1000)).await;
    let answer = mesh.get("at-once").await;
    // Without a unit there is no window to tell.
    assert_eq!(answer.header("x-ratelimit-limit"), Some("3"), "{answer:?}");
    assert_eq!(answer.number("x-ratelimit-remaining"), Some(2), "{answer:?}");
    assert_eq!(answer.number("x-ratelimit-reset"), Some(1), "{answer:?}");
    assert_eq!(answer.header("retry-after"), None, "{answer:?}");
    mesh.until_free(3).await;
    for _ in 0..3 {
        mesh.leases.acquired(acquire("edge", &[&REPORTS])).await;
    }
    let refused = mesh.get("at-once").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("x-ratelimit-limit"), Some("3"), "{refused:?}");
    assert_eq!(refused.number("x-ratelimit-remaining"), Some(0), "{refused:?}");
    assert_eq!(refused.number("x-ratelimit-reset"), Some(1), "{refused:?}");
    assert_eq!(refused.number("retry-after"), Some(1), "{refused:?}");
    assert!(
        refused.body.starts_with("The concurrency limit for path, user (3 in flight)"),
        "{refused:?}"
    );
}

async fn the_upstream_is_told_the_lease_and_only_by_us(store: &Store) {
    let mesh = Mesh::start(store, &rules(3, "1h", 1000)).await;
    let answer = mesh.get_with("at-once", &[("x-lease-id", b"forged")]).await;
    let told: Vec<&str> = answer
        .body
        .lines()
        .filter(|line| line.to_ascii_lowercase().starts_with("x-lease-id:"))
        .collect();
    let [told] = told[..] else { panic!("{answer:?}") };
    assert!(told.contains("lease-") && !told.contains("forged"), "{told}");
}
