//! What a decision costs with states in Redis, with server, Redis and load on the same cores.

use super::{
    Failure, Proof, median, number,
    program::{Program, descriptor, figure, rules},
    proofs,
    support::Server,
};
use serde_json::Value;

/// How often each loop takes its turn, and for how long.
const ROUNDS: usize = 5;
const DURATION: &str = "4s";

pub(crate) fn measure() -> Result<String, Failure> {
    let redis = Server::start()?;
    drop(redis.connect()?);
    let program = Program::serve(&rules(10), Some(&redis.url()))?;
    let (descriptor, redis_id) = (descriptor(10), format!("redis={}", redis.id()));
    let load = |more: &[&str]| {
        let arguments = ["--duration", DURATION, "--descriptor", &descriptor, "--pid", &redis_id];
        program.load(&[&arguments, more].concat())
    };
    let (mut closed, mut open) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        closed.push(load(&[])?);
        open.push(load(&["--rate", "20000"])?);
    }
    let of = |measured: &[Value], path: &[&str]| {
        let figures = measured.iter().map(|it| figure(it, path)).collect::<Result<_, _>>();
        figures.map(median)
    };
    let mut table = "| 4 connections × 32 streams | requests/s | server CPU, µs | Redis CPU, µs | `tollgate load`'s CPU, µs | p50, ms | p99, ms | p99.9, ms |\n|---|---|---|---|---|---|---|---|\n".to_owned();
    for (what, measured) in [("closed loop", &closed), ("open loop", &open)] {
        let paths: [&[&str]; 4] =
            [&["per_second"], &["cpu_us", "server"], &["cpu_us", "redis"], &["cpu_us", "load"]];
        table += &format!("| {what} |");
        for path in paths {
            table += &format!(" {} |", number(of(measured, path)?));
        }
        for quantile in ["p50", "p99", "p99_9"] {
            table += &format!(" {} |", number(of(measured, &["latency_us", quantile])? / 1000.0));
        }
        table.push('\n');
    }
    let proofs = proofs(&[
        Proof {
            what: "decisions a second, closed loop",
            target: 150_000.0,
            at_least: true,
            measured: of(&closed, &["per_second"])?,
            unit: "",
        },
        Proof {
            what: "Redis CPU per decision, closed loop",
            target: 4.0,
            at_least: false,
            measured: of(&closed, &["cpu_us", "redis"])?,
            unit: " µs",
        },
        Proof {
            what: "p99 at 20,000 a second, open loop",
            target: 2.0,
            at_least: false,
            measured: of(&open, &["latency_us", "p99"])? / 1000.0,
            unit: " ms",
        },
    ]);
    Ok(format!("{proofs}\n{table}"))
}
