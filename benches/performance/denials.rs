//! What refusals cost with states in Redis: those that are answered from memory, and those that cannot be.

use super::{
    Failure, median, number,
    program::{Program, figure},
    support::Server,
};
use serde_json::Value;

/// How often all take their turn, and for how long.
const ROUNDS: usize = 3;
const DURATION: &str = "3s";

/// Callers, who together ask some ten times what they may.
const KEYS: &str = "1000";

/// Ten a second for each: of 100,000 requests a second, nine of ten are refused.
const OVER: &str = "token_bucket: {rate: 10/s, burst: 1}";

/// What nobody reaches.
const NEVER: &str = "token_bucket: {rate: 1000000/s}";

/// A server whose callers meet these limits.
struct Candidate {
    what: &'static str,
    redis: Server,
    program: Program,
    measured: Vec<Value>,
}

impl Candidate {
    fn new(what: &'static str, limits: &[&str]) -> Result<Self, Failure> {
        let redis = Server::start()?;
        drop(redis.connect()?);
        let limits: String = limits.iter().map(|limit| format!("          - {limit}\n")).collect();
        let rules = format!(
            "domain: edge\ndescriptors:\n  - key: plan\n    value: standard\n    descriptors:\n      - key: user\n        limits:\n{limits}"
        );
        let program = Program::serve(&rules, Some(&redis.url()))?;
        Ok(Self { what, redis, program, measured: Vec::new() })
    }

    fn take_turn(&mut self) -> Result<(), Failure> {
        let redis = format!("redis={}", self.redis.id());
        let arguments = ["--duration", DURATION, "--keys", KEYS, "--pid", &redis];
        let measured = self.program.ask(&arguments)?;
        if measured.get("errors") != Some(&Value::Object(serde_json::Map::new())) {
            return Err(format!("there were errors: {measured:#}").into());
        }
        self.measured.push(measured);
        Ok(())
    }

    fn median(&self, of: impl Fn(&Value) -> Result<f64, Failure>) -> Result<f64, Failure> {
        Ok(median(self.measured.iter().map(of).collect::<Result<_, _>>()?))
    }

    fn line(&self) -> Result<String, Failure> {
        let figures = [&["per_second"][..], &["cpu_us", "server"], &["cpu_us", "redis"]];
        let [rate, server, redis] = figures.map(|path| self.median(|it| figure(it, path)));
        let over =
            self.median(|it| Ok(100.0 * figure(it, &["over_limit"])? / figure(it, &["requests"])?));
        Ok(format!(
            "| {} | {:.0} % | {} | {} | {} |\n",
            self.what,
            over?,
            number(rate?),
            number(server?),
            number(redis?)
        ))
    }
}

pub(crate) fn measure() -> Result<String, Failure> {
    let mut candidates = [
        Candidate::new("a limit that nobody reaches", &[NEVER])?,
        Candidate::new("a limit that is reached", &[OVER])?,
        Candidate::new("both, so that Redis is asked for each", &[OVER, NEVER])?,
    ];
    for _ in 0..ROUNDS {
        for candidate in &mut candidates {
            candidate.take_turn()?;
        }
    }
    let mut table = "| closed loop, 4 connections × 32 streams, 1,000 keys | OVER_LIMIT | requests/s | server CPU, µs | Redis CPU, µs |\n|---|---|---|---|---|\n".to_owned();
    for candidate in &candidates {
        table += &candidate.line()?;
    }
    Ok(table)
}
