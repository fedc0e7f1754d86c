//! What it costs to ask whether a request is shed, and to take in what a worker says.
//!
//! `cargo bench --bench shedding [WORKERS]` measures on a store in memory, by CPU time of this process, and on a
//! `redis-server` of its own, by that of Redis. Compare figures of one run only.

mod support;

use redis::{Cmd, Connection, Pipeline};
use std::env;
use support::{Server, cpu_us, load};
use tollgate::{
    clock::Timestamp,
    lease::Term,
    limiter::{
        Cost, Limit, fleet,
        utilization::{self, Draw},
    },
    rules::{Reporting, pool_keys},
    store::{
        Memory,
        redis::script::{self, Call, Script},
    },
    verdict::{Check, Question},
    worker::{Load, Report, Settings},
};

/// How many times each thing is done.
const TIMES: usize = 100_000;

/// Calls that are written before their answers are read.
const PIPELINED: usize = 64;

type Failure = Box<dyn std::error::Error>;

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn main() -> Result<(), Failure> {
    let workers = env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(50);
    println!("{workers} workers; µs each\n");
    in_memory(workers)?;
    in_redis(workers)
}

/// What the worker whose turn it is says.
fn reporting(workers: usize, place: usize) -> Result<Reporting, Failure> {
    // As far apart as reports are that come all the time, though these come all at once.
    let apart_us = 5_000_000 * (place % workers) / workers;
    let report_ttl = Term::of_micros(15_000_000 + apart_us as u64);
    let settings = Settings { report_ttl, ..Settings::default() };
    let load = Load::of_slots(9, 10)?;
    let report = Report { settings, load: Some(load), measured: None };
    let name = format!("worker-{}", place % workers);
    Ok(Reporting::new(b"edge", "api", name.as_bytes(), report))
}

/// Whether a request is shed.
fn shed() -> Question {
    let [_, workers] = pool_keys(b"edge", "api");
    let settings = Settings::default();
    let draw = Draw::Request(12_345);
    let limit = utilization::Limit { settings, classes: 3, class: 1, draw };
    Question::new(vec![workers], vec![Check::of(0, Limit::Utilization(limit), Cost::Take(1))])
}

/// A slot of the pool, as many as it says or as its workers do.
fn slot(is_reported: bool) -> Question {
    let [in_flight, workers] = pool_keys(b"edge", "api");
    let report_ttl = Settings::default().report_ttl;
    let capacity = if is_reported {
        fleet::Capacity::Reported { report_ttl, slots: None }
    } else {
        fleet::Capacity::Slots(1)
    };
    let limit = Limit::Fleet(fleet::Limit {
        capacity,
        reserved_parts: 200_000,
        critical: false,
        term: Term::default(),
        weighs_hits: false,
    });
    let (keys, told_by) =
        if is_reported { (vec![in_flight, workers], Some(1)) } else { (vec![in_flight], None) };
    // Nothing is taken, so that nothing has to be given back: a peek reads as much.
    let peek = Check { told_by, ..Check::of(0, limit, Cost::Peek) };
    Question::new(keys, vec![peek])
}

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn in_memory(workers: usize) -> Result<(), Failure> {
    let store = Memory::new(1_000_000);
    let reports: Vec<Reporting> =
        (0..workers).map(|place| reporting(workers, place)).collect::<Result<_, _>>()?;
    // Each of them every five seconds.
    let between_us = 5_000_000 / workers as u64;
    let mut now = Timestamp::from_micros(0);
    let begun = cpu_us("self");
    for Reporting { keys, report } in reports.iter().cycle().take(TIMES) {
        now = now + between_us;
        store.report(now, keys, report);
    }
    let reported = cpu_us("self");
    println!("memory: a report            {:6.2}", (reported - begun) / TIMES as f64);
    let question = shed();
    for _ in 0..TIMES {
        store.decide(now, &question);
    }
    println!("memory: a utilization limit {:6.2}", (cpu_us("self") - reported) / TIMES as f64);
    Ok(())
}

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn in_redis(workers: usize) -> Result<(), Failure> {
    let server = Server::start()?;
    let mut redis = server.connect()?;
    let request = load(&mut redis, &Script::Request.join(script::CLOCK))?;
    let report = load(&mut redis, &Script::Report.join(script::CLOCK))?;
    let reports: Vec<Reporting> =
        (0..TIMES).map(|place| reporting(workers, place)).collect::<Result<_, _>>()?;
    let calls = reports.iter().map(|it| Call::report(&it.keys, &it.report).by_name(&report));
    println!("Redis: a report             {:6.1}", cost(&server, &mut redis, calls)?);
    let mut asked = |what: &str, question: &Question| {
        let calls = (0..TIMES).map(|_| Call::request(question).by_name(&request));
        println!("Redis: {what:<20} {:6.1}", cost(&server, &mut redis, calls)?);
        Ok::<_, Failure>(())
    };
    asked("a utilization limit", &shed())?;
    asked("a peek at a fleet", &slot(false))?;
    asked("the same, reported", &slot(true))?;
    Ok(())
}

/// CPU time of Redis for each of many calls, in microseconds.
fn cost(
    server: &Server,
    redis: &mut Connection,
    calls: impl Iterator<Item = Cmd>,
) -> Result<f64, Failure> {
    let calls: Vec<Cmd> = calls.collect();
    let pipelines: Vec<Pipeline> = calls
        .chunks(PIPELINED)
        .map(|calls| {
            let mut pipeline = redis::pipe();
            for call in calls {
                pipeline.add_command(call.clone()).ignore();
            }
            pipeline
        })
        .collect();
    let before = server.cpu_us();
    pipelines.iter().try_for_each(|calls| calls.exec(redis))?;
    Ok((server.cpu_us() - before) / calls.len() as f64)
}
