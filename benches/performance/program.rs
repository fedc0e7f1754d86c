//! The built program: as a server, as the server that always gives the same answer, and as what asks them.

use super::Failure;
use serde_json::Value;
use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdin, Command, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tollgate");

/// A running server, which ends with this.
pub(crate) struct Program {
    process: Child,
    /// Where it is asked.
    pub(crate) grpc: String,
    /// What the null server reads to know that it is still wanted.
    _input: Option<ChildStdin>,
    _files: tempfile::TempDir,
}

impl Program {
    /// A server with these rules, and its states in memory or there.
    pub(crate) fn serve(rules: &str, store: Option<&str>) -> Result<Self, Failure> {
        let files = tempfile::tempdir()?;
        let path = files.path().join("edge.yaml");
        fs::write(&path, rules)?;
        let mut command = Command::new(PROGRAM);
        command
            .env_clear()
            .args(["serve", "--log", "warn", "--grpc-addr", "127.0.0.1:0", "--http-addr"])
            .args([
                "127.0.0.1:0",
                "--admin-addr",
                "127.0.0.1:0",
                "--store",
                store.unwrap_or("memory"),
            ])
            // A busy machine is no failure of the store.
            .args(["--store-timeout", "1s", "--config"])
            .arg(path);
        Self::start(command, files, |line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("gRPC")).then(|| words.next().map(str::to_owned)).flatten()
        })
    }

    /// The server that always gives the same answer.
    pub(crate) fn null() -> Result<Self, Failure> {
        let mut command = Command::new(PROGRAM);
        command.env_clear().arg("null");
        Self::start(command, tempfile::tempdir()?, |line| Some(line.to_owned()))
    }

    fn start(
        mut command: Command,
        files: tempfile::TempDir,
        address: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = process.stdin.take();
        let mut program = Self { process, grpc: String::new(), _input: input, _files: files };
        let stdout = program.process.stdout.take().ok_or("it has no output")?;
        for line in BufReader::new(stdout).lines() {
            if let Some(address) = address(&line?) {
                program.grpc = address;
                return Ok(program);
            }
        }
        Err("the server has ended before it said where it listens".into())
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asks it what nothing refuses.
    pub(crate) fn load(&self, arguments: &[&str]) -> Result<Value, Failure> {
        let measured = self.ask(arguments)?;
        let whole = |name: &str| measured.get(name).and_then(Value::as_u64);
        if whole("ok") != whole("requests") {
            return Err(format!(
                "not all was OK, so it is not what was to be measured: {measured:#}"
            )
            .into());
        }
        Ok(measured)
    }

    /// Asks it: 4 connections of 32 streams each, 10,000 keys, unless these say otherwise; and what that showed.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<Value, Failure> {
        let id = self.id().to_string();
        let output = Command::new(PROGRAM)
            .env_clear()
            .args(["load", "--json", "--target", &self.grpc, "--pid", &id])
            .args(arguments)
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(format!("tollgate load {arguments:?} has failed").into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has nothing to lose.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Rules for so many plans, each with a bucket for each user, which is never empty here.
pub(crate) fn rules(plans: usize) -> String {
    let mut text = "domain: edge\ndescriptors:\n".to_owned();
    for plan in 0..plans {
        let _ = write!(
            text,
            "  - key: plan\n    value: plan-{plan}\n    descriptors:\n      - key: user\n        token_bucket: {{rate: 1000000/s}}\n"
        );
    }
    text
}

/// A descriptor of two entries: the plan in the middle of so many, and a user.
pub(crate) fn descriptor(plans: usize) -> String {
    format!("plan=plan-{},user={{key}}", plans / 2)
}

/// A figure of what was measured.
pub(crate) fn figure(measured: &Value, path: &[&str]) -> Result<f64, Failure> {
    let found = path.iter().try_fold(measured, |value, name| value.get(name));
    let found = found.and_then(Value::as_f64);
    found.ok_or_else(|| format!("there is no {path:?} in {measured:#}").into())
}
