//! With a real Envoy, configured by the example that users copy.

use crate::support::{
    self, CONNECTION_MANAGER, Response, Server, Store, TempDir, envoy_example, on_every_store,
    start_envoy,
};
use axum::{Router, routing};
use serde_json::Value;
use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{net::TcpListener, process::Child};

/// Refills so slowly that no test can be late.
const RULES: &str = "
domain: edge
descriptors:
  - key: plan
    value: free
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 3}
        message: Three an hour on the free plan.
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: {unit: hour, requests_per_unit: 3}
";

/// The same for a user with several limits.
const SEVERAL: &str = "
domain: edge
descriptors:
  - key: plan
    value: free
    descriptors:
      - key: user
        limits:
          - rate_limit: {unit: hour, requests_per_unit: 2}
            name: hourly
          - rate_limit: {unit: day, requests_per_unit: 100}
          - rate_limit: {unit: day, requests_per_unit: 1}
            name: dark
            shadow_mode: true
";

on_every_store! {
    refuses_the_burst_plus_first_before_it_reaches_the_upstream,
    limits_a_user_whose_name_is_not_text,
    limits_a_user_with_a_name_of_50_kilobytes,
    tells_long_names_apart_by_their_last_byte,
    limits_a_path_however_it_is_spelled,
    the_sample_rules_limit_what_the_example_sends,
    a_client_reads_in_the_ietfs_headers_how_it_stands_with_every_limit,
    a_client_reads_the_headers_that_envoy_writes_though_envoy_writes_none,
}

/// A caller's view: Envoy with tollgate beside it and something to protect behind it.
struct Mesh {
    edge: SocketAddr,
    reached: Arc<AtomicUsize>,
    _envoy: Child,
    _server: Server,
    _files: TempDir,
}

impl Mesh {
    async fn start(store: &Store) -> Self {
        let files = TempDir::new();
        let rules = files.file("edge.yaml", RULES);
        Self::start_with(store, &rules, files).await
    }

    async fn start_with(store: &Store, rules: &Path, files: TempDir) -> Self {
        let server = Server::start_on(store, rules).await;
        Self::around(server, files, |_| {}).await
    }

    /// An Envoy that adds no headers of its own, with a server that speaks this dialect.
    async fn speaking(store: &Store, dialect: &str) -> Self {
        let files = TempDir::new();
        let rules = files.file("edge.yaml", SEVERAL);
        let environment =
            [store.environment(), vec![("TOLLGATE_RATE_LIMIT_HEADERS", dialect)]].concat();
        let server = Server::start_with(&rules, &environment).await;
        let silent = |config: &mut Value| {
            let filter = config.pointer_mut(&format!("{CONNECTION_MANAGER}/http_filters/0"));
            filter.unwrap()["typed_config"]["enable_x_ratelimit_headers"] = "OFF".into();
        };
        Self::around(server, files, silent).await
    }

    async fn around(server: Server, files: TempDir, change: impl FnOnce(&mut Value)) -> Self {
        let (upstream, reached) = start_upstream().await;
        // Envoy reads JSON as well, so the example is changed by place, not by searching its text.
        let mut config = envoy_example("envoy.yaml", server.grpc, upstream);
        change(&mut config);
        let config = files.file("envoy.json", &config.to_string());
        let (envoy, edge) = start_envoy(&config, &files).await;
        Self { edge, reached, _envoy: envoy, _server: server, _files: files }
    }

    async fn get(&self, path: &str, headers: &[(&str, &[u8])]) -> Response {
        support::get(self.edge, path, headers).await.unwrap()
    }

    async fn get_as(&self, user: &[u8]) -> Response {
        self.get("/", &[("x-plan", b"free"), ("x-user", user)]).await
    }

    /// How many requests the upstream has seen.
    fn reached(&self) -> usize {
        self.reached.load(Ordering::Relaxed)
    }
}

async fn start_upstream() -> (SocketAddr, Arc<AtomicUsize>) {
    let reached = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reached);
    let answer = async move || {
        count.fetch_add(1, Ordering::Relaxed);
        "from the upstream"
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let upstream = Router::new().fallback(routing::any(answer));
    tokio::spawn(async move { axum::serve(listener, upstream).await });
    (address, reached)
}

async fn refuses_the_burst_plus_first_before_it_reaches_the_upstream(store: &Store) {
    let mesh = Mesh::start(store).await;

    for (remaining, full_in_s) in [(2, 1200), (1, 2400), (0, 3600)] {
        let answer = mesh.get_as(b"ada").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.contains("from the upstream"), "{answer:?}");
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3, 3;w=3600"), "{answer:?}");
        assert_eq!(answer.number("x-ratelimit-remaining"), Some(remaining), "{answer:?}");
        let reset_s = answer.number("x-ratelimit-reset").unwrap();
        assert!((full_in_s - 100..=full_in_s).contains(&reset_s), "{answer:?}");
        assert_eq!(answer.header("retry-after"), None, "{answer:?}");
    }
    assert_eq!(mesh.reached(), 3);

    let refusal = mesh.get_as(b"ada").await;
    assert_eq!(refusal.status, 429, "{refusal:?}");
    assert_eq!(refusal.body, "Three an hour on the free plan.");
    assert_eq!(refusal.header("x-ratelimit-limit"), Some("3, 3;w=3600"), "{refusal:?}");
    assert_eq!(refusal.number("x-ratelimit-remaining"), Some(0), "{refusal:?}");
    let retry_s = refusal.number("retry-after").unwrap();
    assert!((1100..=1200).contains(&retry_s), "{refusal:?}");
    assert_eq!(refusal.number("x-ratelimit-reset"), Some(retry_s), "{refusal:?}");
    assert_eq!(mesh.reached(), 3);

    assert_eq!(mesh.get_as(b"grace").await.status, 200, "another user has a limit of her own");
}

async fn limits_a_user_whose_name_is_not_text(store: &Store) {
    assert_limits(store, b"\xFF").await;
}

async fn limits_a_user_with_a_name_of_50_kilobytes(store: &Store) {
    assert_limits(store, &[b'a'; 50 * 1024]).await;
}

async fn assert_limits(store: &Store, user: &[u8]) {
    let mesh = Mesh::start(store).await;
    for _ in 0..3 {
        assert_eq!(mesh.get_as(user).await.status, 200);
    }
    assert_eq!(mesh.get_as(user).await.status, 429);
    assert_eq!(mesh.reached(), 3);
}

async fn tells_long_names_apart_by_their_last_byte(store: &Store) {
    let mesh = Mesh::start(store).await;
    let [mut one, mut other] = [[b'a'; 50 * 1024]; 2];
    *one.last_mut().unwrap() = b'1';
    *other.last_mut().unwrap() = b'2';

    for user in [one, other] {
        for remaining in [2, 1, 0] {
            let answer = mesh.get_as(&user).await;
            assert_eq!(answer.number("x-ratelimit-remaining"), Some(remaining));
        }
        assert_eq!(mesh.get_as(&user).await.status, 429);
    }
}

async fn limits_a_path_however_it_is_spelled(store: &Store) {
    let mesh = Mesh::start(store).await;
    for path in ["/login", "//login", "/x/../login"] {
        assert_eq!(mesh.get(path, &[("x-forwarded-for", path.as_bytes())]).await.status, 200);
    }
    assert_eq!(mesh.get("/login?again", &[]).await.status, 429);
    for path in ["/%2Flogin", "/x%2f..%2flogin", "/login%2f"] {
        assert_eq!(
            mesh.get(path, &[]).await.status,
            400,
            "{path} would reach the upstream unlimited"
        );
    }
    assert_eq!(mesh.get("/", &[]).await.status, 200, "no other path is limited by address");
}

async fn the_sample_rules_limit_what_the_example_sends(store: &Store) {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mesh = Mesh::start_with(store, &samples, TempDir::new()).await;

    let answer = mesh.get_as(b"ada").await;
    assert!(answer.header("x-ratelimit-limit").is_some(), "{answer:?}");

    // Five a minute: even a machine that is slow at this gets through sooner than they come back.
    let mut attempts = Vec::new();
    for _ in 0..10 {
        attempts.push(mesh.get("/login", &[]).await.status);
    }
    assert_eq!(attempts[..5], [200; 5]);
    assert!(attempts[5..].contains(&429), "{attempts:?}");
}

async fn a_client_reads_in_the_ietfs_headers_how_it_stands_with_every_limit(store: &Store) {
    let mesh = Mesh::speaking(store, "ietf").await;
    let policies = r#""hourly";q=2;w=3600, "plan, user";q=100;w=86400"#;
    for (status, hourly, others) in [(200, 1, 99), (200, 0, 98), (429, 0, 98)] {
        let answer = mesh.get_as(b"ada").await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("ratelimit-policy"), Some(policies), "{answer:?}");
        let state = answer.header("ratelimit").unwrap();
        assert!(state.starts_with(&format!(r#""hourly";r={hourly};t="#)), "{state}");
        assert!(state.contains(&format!(r#", "plan, user";r={others};t="#)), "{state}");
        assert!(!state.contains("dark"), "a limit in the dark is nobody's business: {state}");
        assert_eq!(answer.header("x-ratelimit-limit"), None, "{answer:?}");
    }
}

async fn a_client_reads_the_headers_that_envoy_writes_though_envoy_writes_none(store: &Store) {
    let mesh = Mesh::speaking(store, "x-ratelimit").await;
    for (status, remaining) in [(200, 0), (200, 0), (429, 0)] {
        let answer = mesh.get_as(b"ada").await;
        assert_eq!(answer.status, status, "{answer:?}");
        let shown = answer.header("x-ratelimit-limit").unwrap();
        assert!(shown.contains(";w=") && shown.contains(";name=\""), "{answer:?}");
        assert_eq!(answer.number("x-ratelimit-remaining"), Some(remaining), "{answer:?}");
        assert!(answer.number("x-ratelimit-reset").is_some(), "{answer:?}");
        assert_eq!(answer.header("ratelimit"), None, "{answer:?}");
    }
}
