//! A real Redis for one test: Debian's `redis-server`, on a socket or a port of its own.

use super::{PATIENCE, TempDir, until};
use redis::{AsyncConnectionConfig, FromRedisValue, aio::MultiplexedConnection};
use std::{fs, net::TcpListener, process::Stdio};
use tokio::process::{Child, Command};

/// The file that says what time it is.
const CLOCK: &str = "clock";

/// A running Redis, killed when dropped.
pub(crate) struct Redis {
    url: String,
    command: Vec<String>,
    environment: Vec<(String, String)>,
    process: Child,
    files: TempDir,
}

impl Redis {
    /// A Redis on a unix socket.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same, with settings as on its command line.
    pub(crate) async fn start_with(settings: &[&str]) -> Self {
        Self::start_in(TempDir::new(), &[], settings).await
    }

    /// The same, with a clock that shows what [`Redis::set_clock`] says.
    pub(crate) async fn start_at(clock: &str) -> Self {
        let files = TempDir::new();
        let file = files.file(CLOCK, clock).display().to_string();
        // Redis's own allocator asks for the time before libfaketime is ready.
        let preload = format!("{}:libc.so.6", libfaketime());
        let environment = [
            ("LD_PRELOAD", preload.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        Self::start_in(files, &environment, &[]).await
    }

    /// Sets its clock: `+60` is a minute ahead and goes on, `2030-01-01 00:00:00` stands still.
    pub(crate) fn set_clock(&self, clock: &str) {
        self.files.file(CLOCK, clock);
    }

    async fn start_in(files: TempDir, environment: &[(&str, &str)], settings: &[&str]) -> Self {
        let socket = files.path().join("redis.sock").display().to_string();
        let settings = [&["--port", "0", "--unixsocket", &socket], settings].concat();
        Self::run(files, format!("unix://{socket}"), environment, &settings).await
    }

    /// A Redis on a port of loopback.
    pub(crate) async fn start_on_port(settings: &[&str]) -> Self {
        let port = free_port().to_string();
        let settings = [&["--port", &port, "--bind", "127.0.0.1"], settings].concat();
        Self::run(TempDir::new(), format!("redis://127.0.0.1:{port}"), &[], &settings).await
    }

    /// A Sentinel, on a port of loopback.
    pub(crate) async fn start_sentinel() -> Self {
        let (files, port) = (TempDir::new(), free_port().to_string());
        let file = files.file("sentinel.conf", "").display().to_string();
        let settings = [&file, "--sentinel", "--port", &port, "--bind", "127.0.0.1"];
        Self::run(files, format!("redis://127.0.0.1:{port}"), &[], &settings).await
    }

    async fn run(
        files: TempDir,
        url: String,
        environment: &[(&str, &str)],
        settings: &[&str],
    ) -> Self {
        let directory = files.path().display().to_string();
        let common = ["--save", "", "--dir", &directory];
        // The file of a Sentinel's settings must come first.
        let command: Vec<_> = settings.iter().chain(&common).map(|&word| word.to_owned()).collect();
        let environment: Vec<_> =
            environment.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let process = spawn(&command, &environment);
        let redis = Self { url, command, environment, process, files };
        redis.until_up().await;
        redis
    }

    /// Where it is, as `--store` takes it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The port it listens on, where it does.
    pub(crate) fn port(&self) -> u16 {
        self.url.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// A directory of its own.
    pub(crate) const fn files(&self) -> &TempDir {
        &self.files
    }

    /// Kills it; all is lost.
    pub(crate) async fn kill(&mut self) {
        self.process.kill().await.unwrap();
    }

    /// Starts it again where it was.
    pub(crate) async fn restart(&mut self) {
        self.process = spawn(&self.command, &self.environment);
        self.until_up().await;
    }

    /// Sends it a signal: STOP and CONT make it hang and go on.
    pub(crate) async fn signal(&self, signal: &str) {
        let id = self.process.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().await.unwrap();
        assert!(sent.success());
    }

    /// A connection to it.
    pub(crate) async fn connect(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url.as_str()).unwrap();
        // The client's own patience, half a second, is too short for a busy machine.
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
    }

    /// Sends it a command of words.
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let mut words = command.iter();
        let mut asked = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            asked.arg(word);
        });
        asked.query_async(&mut self.connect().await).await.unwrap()
    }

    async fn until_up(&self) {
        let client = redis::Client::open(self.url.as_str()).unwrap();
        until("Redis is up", async || {
            let mut connection = client.get_multiplexed_async_connection().await.ok()?;
            let answer = redis::cmd("PING").query_async::<String>(&mut connection).await;
            // Whoever asks for a password is up, too.
            answer.map_or_else(|error| error.code() == Some("NOAUTH"), |_| true).then_some(())
        })
        .await;
    }
}

fn spawn(command: &[String], environment: &[(String, String)]) -> Child {
    Command::new("redis-server")
        .args(command)
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("redis-server is not installed: scripts/prepare does it")
}

/// Debian's library that lets a program see another time.
pub(crate) fn libfaketime() -> String {
    let triplets = fs::read_dir("/usr/lib").unwrap();
    let libraries = triplets.map(|it| it.unwrap().path().join("faketime/libfaketimeMT.so.1"));
    let mut there = libraries.filter(|library| library.exists());
    let library = there.next().expect("faketime is not installed: scripts/prepare does it");
    library.display().to_string()
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
