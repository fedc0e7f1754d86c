//! What tests need around the server: the program itself as a process, files that vanish, HTTP as
//! raw bytes (libraries refuse to send what callers do send), and one way to wait.

mod authority;
mod collector;
mod envoy;
mod files;
mod lease;
mod metrics;
mod prometheus;
mod proxy;
mod redis;
mod wait;
mod worker;

pub(crate) use authority::{Authority, Identity, TlsClient};
pub(crate) use collector::{Collector, text as span_text};
pub(crate) use envoy::{CONNECTION_MANAGER, envoy_example, start_envoy};
pub(crate) use files::TempDir;
pub(crate) use lease::{Hold, Leases, acquire, span};
pub(crate) use metrics::Metrics;
pub(crate) use prometheus::Prometheus;
pub(crate) use proxy::Proxy;
pub(crate) use redis::{Redis, free_port, libfaketime};
pub(crate) use wait::{PATIENCE, a_second, until};
pub(crate) use worker::{Reports, report};

use std::{
    env, fs,
    net::SocketAddr,
    path::Path,
    process::{ExitStatus, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::{Child, Command},
    task::JoinHandle,
    time,
};

/// Reads a YAML file of the repository. The reader nests deeply in a debug build, so it gets a stack of
/// its own.
pub(crate) fn yaml(file: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let reader = thread::Builder::new().stack_size(8 << 20);
    let read =
        reader.spawn(move || serde_saphyr::from_str(&text).map_err(|error| error.to_string()));
    read.unwrap().join().unwrap().unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Where a server keeps its states.
pub(crate) enum Store {
    Memory,
    Redis(Box<Redis>),
}

impl Store {
    pub(crate) async fn redis() -> Self {
        Self::Redis(Box::new(Redis::start().await))
    }

    /// Forgets what a server has stored.
    pub(crate) async fn clear(&self) {
        if let Self::Redis(redis) = self {
            redis.ask::<()>(&["FLUSHALL"]).await;
        }
    }

    /// What a server's environment says of it.
    pub(crate) fn environment(&self) -> Vec<(&str, &str)> {
        match self {
            Self::Memory => vec![],
            Self::Redis(redis) => on(redis).to_vec(),
        }
    }
}

/// Gives a Redis time: the machine may be busy.
pub(crate) const PATIENT: (&str, &str) = ("TOLLGATE_STORE_TIMEOUT", "30s");

/// The environment of a server on a Redis.
pub(crate) fn on(redis: &Redis) -> [(&str, &str); 2] {
    [("TOLLGATE_STORE", redis.url()), PATIENT]
}

/// The same tests on every store: `feature::memory::…` and `feature::redis::…`.
macro_rules! on_every_store {
    ($($test:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&crate::support::Store::Memory).await;
            })+
        }
        mod redis {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&crate::support::Store::redis().await).await;
            })+
        }
    };
}
pub(crate) use on_every_store;

/// A running `tollgate serve` on free ports, killed when dropped.
pub(crate) struct Server {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// What it printed when it started.
    pub(crate) screen: String,
    process: Child,
    log: Arc<Mutex<String>>,
    logging: JoinHandle<()>,
}

impl Server {
    /// Serves the rules of `config` (a file or a directory).
    pub(crate) async fn start(config: &Path) -> Self {
        Self::start_with(config, &[]).await
    }

    /// The same, with its states in this store.
    pub(crate) async fn start_on(store: &Store, config: &Path) -> Self {
        Self::start_with(config, &store.environment()).await
    }

    /// The same, with variables in its environment.
    pub(crate) async fn start_with(config: &Path, environment: &[(&str, &str)]) -> Self {
        Self::spawn(program(environment).args(["serve", "--config"]).arg(config)).await
    }

    /// Serves what the environment says.
    pub(crate) async fn start_from_environment(environment: &[(&str, &str)]) -> Self {
        Self::spawn(&mut program(environment)).await
    }

    async fn spawn(command: &mut Command) -> Self {
        for address in ["TOLLGATE_GRPC_ADDR", "TOLLGATE_HTTP_ADDR", "TOLLGATE_ADMIN_ADDR"] {
            // A test may want another.
            if command.as_std().get_envs().all(|(name, _)| name != address) {
                command.env(address, "127.0.0.1:0");
            }
        }
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut screen = BufReader::new(process.stdout.take().unwrap()).lines();
        // Pipes that nobody empties would block the server in the end.
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&log);
        let logging = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut log = written.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });

        let mut text = String::new();
        let reading = async {
            while !text.contains("Ctrl-C") {
                let Some(line) = screen.next_line().await.unwrap() else { return false };
                text += &line;
                text.push('\n');
            }
            true
        };
        let is_ready = time::timeout(PATIENCE, reading).await;
        if !is_ready.expect("tollgate did not say that it runs") {
            logging.await.unwrap();
            panic!("tollgate ended before it was ready: {}", log.lock().unwrap());
        }
        tokio::spawn(async move { while let Ok(Some(_)) = screen.next_line().await {} });

        let address = |door: &str| {
            let mut lines = text.lines().map(str::split_whitespace);
            let words = lines.find_map(|mut words| (words.next() == Some(door)).then_some(words));
            words.unwrap().next().unwrap().parse().unwrap()
        };
        let (grpc, http, admin) = (address("gRPC"), address("HTTP"), address("admin"));
        Self { grpc, http, admin, screen: text, process, log, logging }
    }
}

impl Server {
    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// What the system says of its memory, in KiB: `VmRSS` is what it has, `VmHWM` the most that it had.
    pub(crate) fn memory_kib(&self, what: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        line.trim_matches([':', '\t', ' ', 'k', 'B']).parse().unwrap()
    }

    /// How much CPU its threads have used.
    pub(crate) fn cpu(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.id())).unwrap().flatten();
        let nanos = threads.filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id().unwrap()
    }

    /// How many files it has open, connections among them.
    pub(crate) fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    /// Sends it a signal.
    pub(crate) async fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().await.unwrap();
        assert!(sent.success());
    }

    /// Waits for its end. All that it has logged.
    pub(crate) async fn last_log(mut self) -> String {
        time::timeout(PATIENCE, self.process.wait()).await.expect("it did not end").unwrap();
        time::timeout(PATIENCE, self.logging).await.expect("its log does not end").unwrap();
        self.log.lock().unwrap().clone()
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        time::timeout(PATIENCE, self.process.wait()).await.expect("it did not end").unwrap()
    }
}

/// The program, with nothing in its environment but these variables.
pub(crate) fn program(environment: &[(&str, &str)]) -> Command {
    // `make attacks` measures a release build.
    let program = env::var_os("TOLLGATE_TEST_PROGRAM");
    let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_tollgate").into());
    let mut command = Command::new(program);
    command.env_clear().envs(environment.iter().copied());
    command
}

/// Runs the program to its end.
pub(crate) async fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let output =
        program(environment).args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
    time::timeout(PATIENCE, output).await.expect("tollgate did not end").unwrap()
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Response {
    /// The value of a header that stands there once or not at all.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        });
        let value = values.next();
        assert_eq!(values.next(), None, "{name} stands twice in {}", self.head);
        value
    }

    /// The value of a header that is a whole number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.header(name).map(|value| value.parse().unwrap())
    }
}

/// Sends a GET whose headers are any bytes. An error when there is nobody to talk to.
pub(crate) async fn get(
    to: SocketAddr,
    path: &str,
    headers: &[(&str, &[u8])],
) -> std::io::Result<Response> {
    send(to, "GET", path, headers, b"").await
}

/// The same, by a name for the server.
pub(crate) async fn get_as(
    host: &str,
    to: SocketAddr,
    path: &str,
    headers: &[(&str, &[u8])],
) -> std::io::Result<Response> {
    send_as(host, to, "GET", path, headers, b"").await
}

/// Sends a POST.
pub(crate) async fn post(to: SocketAddr, path: &str, body: &str) -> std::io::Result<Response> {
    let length = body.len().to_string();
    send(to, "POST", path, &[("content-length", length.as_bytes())], body.as_bytes()).await
}

/// Sends any request whose headers are any bytes.
pub(crate) async fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &[u8])],
    body: &[u8],
) -> std::io::Result<Response> {
    send_as(&to.to_string(), to, method, path, headers, body).await
}

async fn send_as(
    host: &str,
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &[u8])],
    body: &[u8],
) -> std::io::Result<Response> {
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n").into_bytes();
    for (name, value) in headers {
        request.extend_from_slice(name.as_bytes());
        request.extend_from_slice(b": ");
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(body);

    let (mut receiver, mut sender) = TcpStream::connect(to).await?.into_split();
    // A server may answer, and hang up, before it has read all of a body that is too long.
    let sending = tokio::spawn(async move { sender.write_all(&request).await.map(|()| sender) });
    let mut answer = Vec::new();
    let read = time::timeout(PATIENCE, receiver.read_to_end(&mut answer)).await?;
    if answer.is_empty() {
        read?;
    }
    drop(sending.await);
    read_response(answer)
}

fn read_response(answer: Vec<u8>) -> std::io::Result<Response> {
    let answer = String::from_utf8(answer).map_err(std::io::Error::other)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("not HTTP: {answer:?}")))?;
    Ok(Response { status, head: head.to_owned(), body: body.to_owned() })
}
