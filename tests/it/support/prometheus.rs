//! A real Prometheus for one test: Debian's, on a port of its own.

use super::{PATIENCE, TempDir, free_port, until};
use axum::body::{Body, to_bytes};
use http::{Request, header};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::{fmt::Write as _, net::SocketAddr, process::Stdio};
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time,
};

/// A running Prometheus, killed when dropped.
pub(crate) struct Prometheus {
    address: SocketAddr,
    _process: Child,
    _files: TempDir,
}

impl Prometheus {
    /// One that asks these doors every second, as the job `tollgate`, and goes by these rules.
    pub(crate) async fn start(doors: &[SocketAddr], rules: &str) -> Self {
        let files = TempDir::new();
        files.file("rules.yaml", rules);
        let targets: Vec<_> = doors.iter().map(ToString::to_string).collect();
        // YAML reads JSON as well.
        let config = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{
                "job_name": "tollgate",
                "static_configs": [{ "targets": targets }],
            }],
        });
        let config = files.file("prometheus.yaml", &config.to_string());
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", files.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("prometheus is not installed: scripts/prepare does it");
        let prometheus = Self { address, _process: process, _files: files };
        until("Prometheus is up", async || prometheus.ask("/api/v1/rules").await).await;
        prometheus
    }

    /// What an expression is at present, as a list of `{metric, value}`; `None` where nobody answers.
    ///
    /// # Panics
    ///
    /// Where Prometheus cannot evaluate it.
    pub(crate) async fn query(&self, expression: &str) -> Option<Vec<Value>> {
        let mut path = "/api/v1/query?query=".to_owned();
        for byte in expression.bytes() {
            let _ = write!(path, "%{byte:02x}");
        }
        let data = self.ask(&path).await?;
        Some(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// Asks its API, and tells what it has to say; `None` where nobody answers.
    ///
    /// # Panics
    ///
    /// Where the answer is an error.
    pub(crate) async fn ask(&self, path: &str) -> Option<Value> {
        let stream = TcpStream::connect(self.address).await.ok()?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        let request = Request::get(path).header(header::HOST, self.address.to_string());
        let answer = sender.send_request(request.body(Body::empty()).unwrap());
        let answer = time::timeout(PATIENCE, answer).await.unwrap().ok()?;
        let body = to_bytes(Body::new(answer.into_body()), usize::MAX).await.ok()?;
        // Before it is ready, it says so in words.
        let answer: Value = serde_json::from_slice(&body).ok()?;
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        assert!(answer["warnings"].is_null(), "{path}: {answer}");
        Some(answer["data"].clone())
    }
}
