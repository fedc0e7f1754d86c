//! To report: what a worker says takes the place of what it said before.
//!
//! A store runs [`report`] as one atomic step: in memory under its locks, in Redis as `lua/report.lua`, which
//! is the same in Lua.

use crate::{
    clock::Timestamp,
    limiter::State,
    verdict::Write,
    worker::{Counts, MOST_WORKERS, Outcome, Report, Reported, Worker, Workers},
};

/// Where the two states stand among the keys: the pool's, and the worker's own.
const WORKERS: usize = 0;
const WORKER: usize = 1;

/// The atomic step. `stored` is what stands under the pool's key and under the worker's. Returns what became
/// of the report, and what to write, which is nothing where it does not count.
pub fn report(stored: &[Option<State>], report: &Report, now: Timestamp) -> (Reported, Vec<Write>) {
    let Report { settings, load, measured } = report;
    let workers = stored.get(WORKERS).and_then(Option::as_ref).and_then(State::workers);
    let ahead_us = Workers::ahead_us(workers, now);
    let mut workers = Workers::at_report(workers, settings, now);
    let worker = stored.get(WORKER).and_then(Option::as_ref).and_then(State::worker);
    let worker = worker.and_then(|worker| worker.live(ahead_us, now));
    let Some(load) = *load else {
        return (reported(Outcome::Absent, &workers), Vec::new());
    };
    if let (Some(worker), Some(measured)) = (worker, *measured)
        && measured <= worker.measured
    {
        return (reported(Outcome::NotNewer, &workers), Vec::new());
    }
    let replaced = worker.filter(|worker| worker.since == workers.since);
    let was_there =
        replaced.is_some_and(|worker| workers.remove(worker.deadline, Counts::of(worker.load)));
    if !was_there && workers.counts().workers >= MOST_WORKERS {
        return (reported(Outcome::TooManyWorkers, &workers), Vec::new());
    }
    let deadline = settings.report_ttl.deadline(now);
    workers.add(deadline, Counts::of(load));
    let worker = Worker {
        since: workers.since,
        deadline,
        load,
        measured: measured.or(worker.map(|worker| worker.measured)).unwrap_or_default(),
    };
    let reported = reported(Outcome::Counted, &workers);
    let writes =
        vec![Write::of_workers(WORKERS, workers, settings), Write::of_worker(WORKER, worker)];
    (reported, writes)
}

fn reported(outcome: Outcome, workers: &Workers) -> Reported {
    let counts = workers.counts();
    let utilization = counts.utilization().and_then(|parts| parts.try_into().ok());
    Reported {
        outcome,
        utilization_parts: utilization,
        amount_parts: workers.amount(),
        workers: counts.workers,
    }
}
