//! What a lease takes in memory and in Redis, what it costs, and what happens when very many end at once.
//!
//! `cargo bench --bench leases [LEASES]` measures on a store in memory and on a `redis-server` of its own.
//! Times of calls are Redis's own; compare figures of one run only.

mod support;

use redis::{Connection, Pipeline};
use std::{
    env, thread,
    time::{Duration, Instant},
};
use support::{Server, load, resident_bytes, used_memory};
use tollgate::{
    clock::{Clock, Timestamp},
    key::{Key, Path},
    lease::{By, LeaseId, Leased, Release, Term},
    limiter::{Cost, Limit, concurrency},
    store::{
        Memory,
        redis::script::{self, Call, Script},
    },
    verdict::{Check, Question},
};

/// Calls that are written before their answers are read.
const PIPELINED: usize = 64;

/// Callers among whom leases are spread.
const CALLERS: usize = 1000;

type Failure = Box<dyn std::error::Error>;

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn main() -> Result<(), Failure> {
    let leases = env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    println!("{leases} leases, spread over {CALLERS} callers\n");
    in_memory(leases)?;
    let server = Server::start()?;
    let mut redis = server.connect()?;
    in_redis(&server, &mut redis, leases)?;
    println!("\n{leases} leases of three callers that end at once\n");
    memory_ends(leases)?;
    redis_ends(&mut redis, leases)
}

/// To take a slot of one caller's.
fn question(caller: usize, term: Term) -> Result<(LeaseId, Question), Failure> {
    let mut path = Path::of_domain(b"edge");
    path.push_value(b"user", format!("{caller:010}").as_bytes());
    let limit = concurrency::Limit { max: u32::MAX, term, weighs_hits: false };
    let limit = Limit::Concurrency(limit);
    let check = Check::of(0, limit, Cost::Take(1));
    let mut question = Question::new(vec![Key::new("concurrency", &path)], vec![check]);
    let (id, attempt) = LeaseId::draw()?;
    question.take_under(&id, (By::Server, attempt), None, None);
    Ok((id, question))
}

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn in_memory(leases: usize) -> Result<(), Failure> {
    let store = Memory::new(4 * leases);
    let before = resident_bytes();
    for lease in 0..leases {
        let (_, question) = question(lease % CALLERS, Term::default())?;
        let taken = store.decide(Timestamp::from_micros(lease as u64), &question).leased;
        assert!(matches!(taken, Leased::For { .. }));
    }
    let each = (resident_bytes() - before) as f64 / leases as f64;
    println!("memory: {each:.0} bytes a lease");
    Ok(())
}

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn in_redis(server: &Server, redis: &mut Connection, leases: usize) -> Result<(), Failure> {
    let request = load(redis, &Script::Request.join(script::CLOCK))?;
    let release = load(redis, &Script::Release.join(script::CLOCK))?;
    let renew = load(redis, &Script::Renew.join(script::CLOCK))?;
    let asked: Vec<_> =
        (0..leases).map(|it| question(it % CALLERS, Term::default())).collect::<Result<_, _>>()?;
    let mut run = |what: &str, call: &dyn Fn(&(LeaseId, Question)) -> redis::Cmd| {
        let pipelines: Vec<Pipeline> = asked
            .chunks(PIPELINED)
            .map(|asked| {
                let mut calls = redis::pipe();
                for asked in asked {
                    calls.add_command(call(asked)).ignore();
                }
                calls
            })
            .collect();
        let before = (server.cpu_us(), used_memory(redis)?);
        pipelines.iter().try_for_each(|calls| calls.exec(redis))?;
        let cost = (server.cpu_us() - before.0) / leases as f64;
        let bytes = (used_memory(redis)? as f64 - before.1 as f64) / leases as f64;
        println!("Redis: {what}: {cost:.1} µs, {bytes:+.0} bytes");
        Ok::<_, Failure>(())
    };
    run("acquire", &|(_, question)| Call::request(question).by_name(&request))?;
    run("renew", &|(id, _)| Call::renew(id, None).by_name(&renew))?;
    run("release", &|(id, _)| Call::release(id, Release::Last { marks: false }).by_name(&release))
}

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn memory_ends(leases: usize) -> Result<(), Failure> {
    let (store, clock) = (Memory::new(4 * leases), Clock::monotonic());
    let term = Term::of_micros(1_000_000);
    for _ in 0..leases {
        store.decide(Timestamp::from_micros(0), &question(0, term)?.1);
    }
    let over = Timestamp::from_micros(60_000_000);
    let mut longest_us = 0;
    for place in 0..leases {
        let (_, question) = question(place % CALLERS, term)?;
        let begun = clock.now();
        store.decide(over, &question);
        longest_us = longest_us.max(clock.now() - begun);
    }
    println!("memory: the longest decision of the next {leases}: {longest_us} µs");
    Ok(())
}

/// Asks all the time while they end, and until their records are gone.
#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
#[allow(clippy::disallowed_methods, reason = "it measures")]
fn redis_ends(redis: &mut Connection, leases: usize) -> Result<(), Failure> {
    redis::cmd("FLUSHALL").exec(redis)?;
    let request = load(redis, &Script::Request.join(script::CLOCK))?;
    let begun = Instant::now();
    for chunk in 0..leases / PIPELINED {
        // What is taken later lasts less long.
        let term = Duration::from_secs(20).saturating_sub(begun.elapsed());
        let term = Term::of_micros(u64::try_from(term.as_micros())?);
        let mut calls = redis::pipe();
        for _ in 0..PIPELINED {
            let (_, question) = question(chunk % 3, term)?;
            calls.add_command(Call::request(&question).by_name(&request)).ignore();
        }
        calls.exec(redis)?;
    }
    println!("Redis: taken within {:.1} s", begun.elapsed().as_secs_f64());
    redis::cmd("SLOWLOG").arg("RESET").exec(redis)?;
    let threshold = "slowlog-log-slower-than";
    redis::cmd("CONFIG").arg("SET").arg(threshold).arg(500).exec(redis)?;
    let (mut calls, mut longest, mut late) = (0_u64, Duration::ZERO, 0_u64);
    loop {
        let (_, question) = question(0, Term::of_micros(1_000_000))?;
        let asked = Instant::now();
        let reply: redis::Value = Call::request(&question).by_name(&request).query(redis)?;
        let took = asked.elapsed();
        longest = longest.max(took);
        late += u64::from(took > Duration::from_millis(5));
        calls += 1;
        drop(reply);
        thread::sleep(Duration::from_millis(1));
        if calls.is_multiple_of(100) {
            let keys: usize = redis::cmd("DBSIZE").query(redis)?;
            // What is left is what this loop takes itself.
            if keys < leases / 4 && begun.elapsed() > Duration::from_secs(32) {
                break;
            }
        }
    }
    let slow: Vec<Vec<redis::Value>> = redis::cmd("SLOWLOG").arg("GET").arg(1000).query(redis)?;
    let slowest = slow.iter().filter_map(|entry| match entry.get(2) {
        Some(redis::Value::Int(micros)) => Some(*micros),
        _ => None,
    });
    let slowest = slowest.max().map_or("below 500 µs".to_owned(), |it| format!("{it} µs"));
    println!("Redis: {calls} calls meanwhile, the longest script {slowest} by its slow log");
    println!(
        "Redis: the longest call with its way there and back {:.1} ms, {late} above 5 ms",
        longest.as_secs_f64() * 1000.0
    );
    Ok(())
}
