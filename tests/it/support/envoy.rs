//! A real Envoy for one test.

use super::{TempDir, get, until, yaml};
use serde_json::{Value, json};
use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::process::{Child, Command};

/// An example that users copy, with the addresses of a test.
pub(crate) fn envoy_example(file: &str, server: SocketAddr, upstream: SocketAddr) -> Value {
    let mut config = yaml(&format!("examples/envoy/{file}"));
    let mut put = |place: &str, value: Value| {
        let old = config.pointer_mut(place).unwrap_or_else(|| panic!("the example lacks {place}"));
        *old = value;
    };
    let free = json!({"socket_address": {"address": "127.0.0.1", "port_value": 0}});
    put("/admin/address", free.clone());
    put("/static_resources/listeners/0/address", free);
    for (cluster, address) in [server, upstream].into_iter().enumerate() {
        let endpoints = format!("/static_resources/clusters/{cluster}/load_assignment/endpoints");
        let endpoint = format!("{endpoints}/0/lb_endpoints/0/endpoint/address/socket_address");
        put(&format!("{endpoint}/port_value"), address.port().into());
    }

    // A machine that runs all tests at once may take longer than 20 ms to answer, and Envoy would let
    // the request pass.
    let filters = config.pointer_mut(&format!("{CONNECTION_MANAGER}/http_filters"));
    for filter in filters.unwrap().as_array_mut().unwrap() {
        if filter["typed_config"].get("rate_limit_service").is_some() {
            filter["typed_config"]["timeout"] = "10s".into();
        }
    }
    config
}

/// Where in an example the connection manager's settings are.
pub(crate) const CONNECTION_MANAGER: &str =
    "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

/// Starts Envoy and says where it listens.
pub(crate) async fn start_envoy(config: &Path, files: &TempDir) -> (Child, SocketAddr) {
    let admin_file = files.path().join("admin");
    let log = files.path().join("envoy.log");
    let mut envoy = Command::new(envoy_binary())
        .arg("--config-path")
        .arg(config)
        .arg("--admin-address-path")
        .arg(&admin_file)
        // Hot restart goes by a number that all Envoys of a machine share.
        .args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"])
        .stdin(Stdio::null())
        .stderr(fs::File::create(&log).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();

    let admin = until("Envoy is ready", async || {
        if let Some(status) = envoy.try_wait().unwrap() {
            panic!("Envoy ended with {status}: {}", fs::read_to_string(&log).unwrap());
        }
        let admin = fs::read_to_string(&admin_file).ok()?.parse().ok()?;
        let ready = get(admin, "/ready", &[]).await.ok()?;
        (ready.status == 200).then_some(admin)
    })
    .await;

    let said = fs::read_to_string(&log).unwrap();
    assert!(!said.to_ascii_lowercase().contains("deprecated"), "{said}");
    let listeners = get(admin, "/listeners", &[]).await.unwrap();
    let edge = listeners.body.lines().find_map(|line| line.split_once("edge::"));
    let (_, edge) = edge.unwrap_or_else(|| panic!("no listener `edge` in {listeners:?}"));
    (envoy, edge.trim().parse().unwrap())
}

fn envoy_binary() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/envoy/bin/envoy");
    let binary = env::var_os("TOLLGATE_TEST_ENVOY").map_or(installed, PathBuf::from);
    assert!(
        binary.is_file(),
        "there is no Envoy at {}: `make test` installs it, or TOLLGATE_TEST_ENVOY names another",
        binary.display()
    );
    binary
}
