//! What grants bring, and what they cost: replicas that share Redis and serve hot keys from slices.

use super::{
    Failure, Proof, median, number,
    program::{Program, figure},
    proofs,
    support::{Server, calls},
};
use serde_json::Value;
use std::{iter, thread};

/// Keys, all of them hot.
const KEYS: &str = "10";

/// How often memory and grants take their turn, and for how long.
const ROUNDS: usize = 5;
const SECONDS: u32 = 4;

/// The rate of each key where it is reached: twice as much is asked for.
const RATE: u32 = 2000;

/// The longest that a token is in hand, in seconds.
const MAX_AGE: f64 = 0.1;

fn rules(rate: u32, more: &str) -> String {
    format!(
        "domain: edge\ndescriptors:\n  - key: tenant\n    token_bucket: {{rate: {rate}/s, burst: {rate}{more}}}\n"
    )
}

const GRANTS: &str = ", grants: {share: 5%, max_age: 100ms}";

/// Asks all replicas at once, each with these arguments beside those of all.
fn ask(replicas: &[Program], each: &[Vec<String>]) -> Result<Vec<Value>, Failure> {
    let duration = format!("{SECONDS}s");
    thread::scope(|scope| {
        let asking: Vec<_> = replicas
            .iter()
            .zip(each)
            .map(|(replica, its)| {
                let all = ["--keys", KEYS, "--descriptor", "tenant={key}", "--duration", &duration];
                let arguments: Vec<&str> =
                    all.into_iter().chain(its.iter().map(String::as_str)).collect();
                scope.spawn(move || replica.ask(&arguments))
            })
            .collect();
        let answers = asking.into_iter().map(|it| it.join().map_err(|_| "a bench has panicked")?);
        answers.collect()
    })
}

fn sum(measured: &[Value], name: &str) -> Result<f64, Failure> {
    measured.iter().map(|it| figure(it, &[name])).sum()
}

pub(crate) fn measure() -> Result<String, Failure> {
    let (rates, calls) = beside_memory()?;
    let (table, evenly, most) = under_the_limit()?;
    let proofs = proofs(&[
        Proof {
            what: "rate of 2 replicas with grants ÷ with memory",
            target: 0.8,
            at_least: true,
            measured: rates,
            unit: "",
        },
        Proof {
            what: "calls of Redis per 100 decisions",
            target: 1.0,
            at_least: false,
            measured: calls,
            unit: "",
        },
        Proof {
            what: "admitted ÷ limit, 2 replicas asked evenly",
            target: 0.97,
            at_least: true,
            measured: evenly,
            unit: "",
        },
        Proof {
            what: "the most that was admitted ÷ burst + rate × (t + max_age)",
            target: 1.0,
            at_least: false,
            measured: most,
            unit: "",
        },
    ]);
    Ok(format!("{proofs}\n{table}"))
}

/// Two replicas whose limits nobody reaches, in turn with grants and each with a memory of its own: the rate of these
/// by that of those, and calls of Redis for 100 decisions.
fn beside_memory() -> Result<(f64, f64), Failure> {
    let redis = Server::start()?;
    let mut connection = redis.connect()?;
    let two = |more: &str, store: Option<&str>| {
        let replica = || Program::serve(&rules(10_000_000, more), store);
        Ok::<_, Failure>([replica()?, replica()?])
    };
    let (with_grants, with_memory) = (two(GRANTS, Some(&redis.url()))?, two("", None)?);
    let (mut rates, mut share_of_calls) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let memory = ask(&with_memory, &[vec![], vec![]])?;
        let before = calls(&mut connection)?;
        let grants = ask(&with_grants, &[vec![], vec![]])?;
        let made = calls(&mut connection)? - before;
        rates.push(sum(&grants, "per_second")? / sum(&memory, "per_second")?);
        share_of_calls.push(100.0 * made as f64 / sum(&grants, "requests")?);
    }
    Ok((median(rates), median(share_of_calls)))
}

/// Replicas that are asked for twice what may pass: a table, what part of the limit was admitted where two were asked
/// evenly, and the largest part of the bound.
fn under_the_limit() -> Result<(String, f64, f64), Failure> {
    let mut table = "| replicas | asked | admitted ÷ limit | calls of Redis per 100 decisions |\n|---|---|---|---|\n".to_owned();
    let (mut evenly, mut most) = (0.0, 0.0_f64);
    for replicas in [1, 2, 4] {
        for (how, first) in [("evenly", 1.0 / f64::from(replicas)), ("80 % at one", 0.8)] {
            if replicas == 1 && how != "evenly" {
                continue;
            }
            let redis = Server::start()?;
            let mut connection = redis.connect()?;
            let programs =
                (0..replicas).map(|_| Program::serve(&rules(RATE, GRANTS), Some(&redis.url())));
            let programs: Vec<Program> = programs.collect::<Result<_, _>>()?;
            let others = (1.0 - first) / f64::from((replicas - 1).max(1));
            let asked = f64::from(2 * RATE * 10);
            let shares = iter::once(first).chain(iter::repeat_n(others, replicas as usize - 1));
            let each = shares.map(|share| {
                // What the buckets held at first is gone when it is measured.
                ["--rate", &format!("{:.0}", asked * share), "--warmup", "3s"]
                    .map(str::to_owned)
                    .to_vec()
            });
            let before = calls(&mut connection)?;
            let measured = ask(&programs, &each.collect::<Vec<_>>())?;
            let made = calls(&mut connection)? - before;
            let (ok, requests) = (sum(&measured, "ok")?, sum(&measured, "requests")?);
            let (limit, seconds) = (f64::from(RATE * 10), f64::from(SECONDS));
            let admitted = ok / (limit * seconds);
            if replicas == 2 && how == "evenly" {
                evenly = admitted;
            }
            most = most.max(ok / (limit + limit * (seconds + MAX_AGE)));
            // They were made while it warmed up as well.
            let decisions = requests * (seconds + 3.0) / seconds;
            let share_of_calls = 100.0 * made as f64 / decisions;
            table +=
                &format!("| {replicas} | {how} | {admitted:.3} | {} |\n", number(share_of_calls));
        }
    }
    Ok((table, evenly, most))
}
