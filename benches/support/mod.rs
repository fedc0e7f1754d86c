//! What benches share: a Redis of their own, and what a process costs.

#![allow(dead_code, reason = "each bench uses a part of it")]

use redis::{Client, Connection};
use std::{
    fs, io,
    process::{Child, Command, Stdio},
};

pub(crate) fn load(redis: &mut Connection, script: &str) -> redis::RedisResult<String> {
    redis::cmd("SCRIPT").arg("LOAD").arg(script).query(redis)
}

pub(crate) fn used_memory(redis: &mut Connection) -> Result<u64, Box<dyn std::error::Error>> {
    let info: String = redis::cmd("INFO").arg("memory").query(redis)?;
    Ok(field(&info, "used_memory").parse()?)
}

/// How many scripts were called so far.
pub(crate) fn calls(
    redis: &mut Connection,
) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let info: String = redis::cmd("INFO").arg("commandstats").query(redis)?;
    let evalsha = field(&info, "cmdstat_evalsha");
    let calls = evalsha.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    Ok(calls.unwrap_or("0").parse()?)
}

pub(crate) fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let mut lines = info.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default()
}

/// CPU time of a process so far, in microseconds.
pub(crate) fn cpu_us(process: &str) -> f64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1000.0
}

/// A Redis of this bench.
pub(crate) struct Server {
    process: Child,
    files: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> io::Result<Self> {
        let files = tempfile::tempdir()?;
        let process = Command::new("redis-server")
            // As docs/redis.md has it, so that a server has nothing to warn of.
            .args(["--save", "", "--lazyfree-lazy-expire", "yes", "--port", "0", "--unixsocket"])
            .arg(files.path().join("redis.sock"))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { process, files })
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.files.path().join("redis.sock").display())
    }

    pub(crate) fn connect(&self) -> redis::RedisResult<Connection> {
        let client = Client::open(self.url())?;
        loop {
            match client.get_connection() {
                Err(error) if error.is_io_error() => std::thread::yield_now(),
                connected => return connected,
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn cpu_us(&self) -> f64 {
        cpu_us(&self.id().to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has nothing to lose.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What this process has in memory.
pub(crate) fn resident_bytes() -> usize {
    resident_bytes_of("self")
}

/// What a process has in memory.
pub(crate) fn resident_bytes_of(process: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kibibytes = line.split_whitespace().next().and_then(|number| number.parse::<usize>().ok());
    kibibytes.unwrap_or_default() * 1024
}
