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

/// The rate of each key where it is reached, and so much more is asked for. A full bucket has as much as it gets in a
/// second, so that even then it is not the callers who ask for too little.
const RATE: u32 = 1000;
const ASKED: u32 = 4;

/// How long it is measured from full buckets.
const FULL_S: u32 = 1;

/// The longest that a token is in hand, in seconds.
const MAX_AGE: f64 = 0.1;

fn rules(rate: u32, more: &str) -> String {
    format!(
        "domain: edge\ndescriptors:\n  - key: tenant\n    token_bucket: {{rate: {rate}/s, burst: {rate}{more}}}\n"
    )
}

const GRANTS: &str = ", grants: {share: 5%, max_age: 100ms}";

/// Asks all replicas at once for so many seconds, each with these arguments beside those of all.
fn ask(replicas: &[Program], seconds: u32, each: &[Vec<String>]) -> Result<Vec<Value>, Failure> {
    let duration = format!("{seconds}s");
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
    let Limited { table, evenly, most_of_full, most_of_empty } = under_the_limit()?;
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
            what: "from full buckets, at most admitted ÷ (burst + rate × (t + max_age))",
            target: 1.0,
            at_least: false,
            measured: most_of_full,
            unit: "",
        },
        Proof {
            what: "from empty buckets, at most admitted ÷ (rate × (t + max_age))",
            target: 1.0,
            at_least: false,
            measured: most_of_empty,
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
        let memory = ask(&with_memory, SECONDS, &[vec![], vec![]])?;
        let before = calls(&mut connection)?;
        let grants = ask(&with_grants, SECONDS, &[vec![], vec![]])?;
        let made = calls(&mut connection)? - before;
        rates.push(sum(&grants, "per_second")? / sum(&memory, "per_second")?);
        share_of_calls.push(100.0 * made as f64 / sum(&grants, "requests")?);
    }
    Ok((median(rates), median(share_of_calls)))
}

/// What came of replicas that were asked for more than may pass.
struct Limited {
    table: String,
    /// What part of the limit was admitted where two were asked evenly.
    evenly: f64,
    /// The largest parts of what may be admitted: from full buckets, and from empty ones.
    most_of_full: f64,
    most_of_empty: f64,
}

/// Asks one replica, or several, for more than may pass: first from full buckets, and then, when these are empty, for
/// longer.
fn under_the_limit() -> Result<Limited, Failure> {
    let mut table = "| replicas | asked | from full buckets, admitted ÷ (burst + rate × (t + max_age)) | from empty ones, admitted ÷ (rate × (t + max_age)) | from empty ones, admitted ÷ (rate × t) | calls of Redis per 100 decisions |\n|---|---|---|---|---|---|\n".to_owned();
    let (mut evenly, mut most_of_full, mut most_of_empty) = (0.0, 0.0_f64, 0.0_f64);
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
            let rate = f64::from(RATE * 10);
            let asked = rate * f64::from(ASKED);
            let shares = iter::once(first).chain(iter::repeat_n(others, replicas as usize - 1));
            let rates: Vec<_> = shares.map(|share| format!("{:.0}", asked * share)).collect();
            let each = |warmup: &str| -> Vec<Vec<String>> {
                let each = rates.iter().map(|rate| ["--rate", rate, "--warmup", warmup]);
                each.map(|it| it.map(str::to_owned).to_vec()).collect()
            };
            let full = ask(&programs, FULL_S, &each("0s"))?;
            let of_full = sum(&full, "ok")? / (rate + rate * (longest(&full)? + MAX_AGE));
            let before = calls(&mut connection)?;
            // What came while nobody asked is gone within a second.
            let empty = ask(&programs, SECONDS, &each("1s"))?;
            let made = calls(&mut connection)? - before;
            let (ok, seconds) = (sum(&empty, "ok")?, longest(&empty)?);
            let of_empty = ok / (rate * (seconds + MAX_AGE));
            let admitted = ok / (rate * seconds);
            if replicas == 2 && how == "evenly" {
                evenly = admitted;
            }
            (most_of_full, most_of_empty) =
                (most_of_full.max(of_full), most_of_empty.max(of_empty));
            // They were made while it warmed up as well.
            let decisions = sum(&empty, "requests")? * f64::from(SECONDS + 1) / f64::from(SECONDS);
            let share_of_calls = number(100.0 * made as f64 / decisions);
            table += &format!(
                "| {replicas} | {how} | {of_full:.3} | {of_empty:.3} | {admitted:.3} | {share_of_calls} |\n"
            );
        }
    }
    Ok(Limited { table, evenly, most_of_full, most_of_empty })
}

/// How long the one took that took longest, in seconds.
fn longest(measured: &[Value]) -> Result<f64, Failure> {
    let seconds = measured.iter().map(|it| figure(it, &["seconds"]));
    seconds.reduce(|one, other| Ok(one?.max(other?))).unwrap_or(Ok(0.0))
}
