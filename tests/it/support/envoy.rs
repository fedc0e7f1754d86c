//! A real Envoy for one test.

use super::{TempDir, get, until};
use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::process::{Child, Command};

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
