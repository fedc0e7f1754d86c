//! Workers, their reports, and time, all made up; what they are told is real. The figure in the README is drawn
//! from a run of this, and the tests in `tests/it/shedding.rs` hold it to what is promised.

use std::collections::HashMap;
use tollgate::{
    clock::Timestamp,
    key::Key,
    limiter::{
        Cost, Limit, State, Wait,
        utilization::{self, Draw},
    },
    report,
    rules::{Reporting, pool_keys},
    verdict::{self, Check, Question, Write},
    worker::{Load, Report, Reported, Settings},
};

/// How many workers there are, and how many slots each has.
pub(super) const WORKERS: usize = 50;
pub(super) const SLOTS: u32 = 10;

/// The classes, in the order in which they are given up.
pub(super) const CLASSES: [&str; 3] = ["test", "get", "post"];

/// A step of the simulation in microseconds: so often one of the workers reports.
pub(super) const STEP_US: u64 = 100_000;

/// Where states are kept, and steps on them taken.
pub(super) trait Steps {
    fn report(&mut self, keys: &[Key; 2], report: &Report, now: Timestamp) -> Reported;
    /// How long the only check of a question would have to wait; `None` where it passes.
    fn ask(&mut self, question: &Question, now: Timestamp) -> Option<Wait>;
}

/// In memory, by the steps that a store takes.
#[derive(Default)]
pub(super) struct InMemory(HashMap<Key, State>);

impl InMemory {
    fn stored(&self, keys: &[Key]) -> Vec<Option<State>> {
        keys.iter().map(|key| self.0.get(key).cloned()).collect()
    }

    fn write(&mut self, keys: &[Key], writes: Vec<Write>) {
        for (key, kept) in writes.into_iter().filter_map(|it| Some((keys.get(it.slot)?, it.kept))) {
            match kept {
                Some(kept) => self.0.insert(key.clone(), kept.state),
                None => self.0.remove(key),
            };
        }
    }
}

impl Steps for InMemory {
    fn report(&mut self, keys: &[Key; 2], report: &Report, now: Timestamp) -> Reported {
        let (reported, writes) = report::report(&self.stored(keys), report, now);
        self.write(keys, writes);
        reported
    }

    fn ask(&mut self, question: &Question, now: Timestamp) -> Option<Wait> {
        let (answer, writes) = verdict::settle(question, &self.stored(&question.keys), now);
        assert!(writes.is_empty(), "who decides writes nothing");
        answer.outcomes.first().and_then(|outcome| outcome.over)
    }
}

/// How it stands at some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Seconds since the beginning.
    pub(super) at_s: f64,
    /// How busy the workers said they were, where any had.
    pub(super) utilization: Option<f64>,
    /// The amount of shedding, below 0 before any.
    pub(super) amount: f64,
    /// Each class's chance to be dropped.
    pub(super) chances: [f64; CLASSES.len()],
    /// How long the first request of each class to be dropped would be told to wait.
    pub(super) waits: [Option<Wait>; CLASSES.len()],
}

/// A pool of workers.
pub(super) struct Simulation<S> {
    steps: S,
    settings: Settings,
    now_us: u64,
    /// How many steps have been taken.
    step: usize,
    samples: Vec<Sample>,
}

impl<S: Steps> Simulation<S> {
    /// A pool in which nobody has reported.
    pub(super) fn new(steps: S, settings: Settings) -> Self {
        // Any time will do.
        let now_us = 1_800_000_000_000_000;
        Self { steps, settings, now_us, step: 0, samples: Vec::new() }
    }

    /// Lets time pass. `load` says how busy a worker is at a time, in seconds since the beginning, when it is
    /// its turn to report; `None` where it says nothing. It also is told what is being shed. Returns a sample
    /// for each step.
    pub(super) fn run(
        &mut self,
        seconds: u64,
        load: impl Fn(f64, &Sample, usize) -> Option<f64>,
    ) -> Vec<Sample> {
        let first = self.samples.len();
        let mut last = self.samples.last().copied().unwrap_or_else(|| self.sample());
        for _ in 0..seconds * 1_000_000 / STEP_US {
            self.now_us += STEP_US;
            self.step += 1;
            let worker = self.step % WORKERS;
            if let Some(ratio) = load(self.at_s(), &last, worker) {
                // A ratio of the simulation is none of a caller.
                if let Ok(load) = Load::of_ratio(ratio, SLOTS, "ratio") {
                    self.report(worker, Some(load));
                }
            }
            last = self.sample();
            self.samples.push(last);
        }
        self.samples.split_off(first)
    }

    /// What is known of the pool, and what becomes of requests.
    fn sample(&mut self) -> Sample {
        let reported = self.report(0, None);
        let amount = reported.amount_parts as f64 / 1e6;
        let classes = CLASSES.len() as f64;
        let mut sample = Sample {
            at_s: self.at_s(),
            utilization: reported.utilization_parts.map(|parts| f64::from(parts) / 1e6),
            amount,
            chances: [0.0; CLASSES.len()],
            waits: [None; CLASSES.len()],
        };
        for (class, (chance, wait)) in sample.chances.iter_mut().zip(&mut sample.waits).enumerate()
        {
            *chance = (amount * classes - class as f64).clamp(0.0, 1.0);
            *wait = self.ask(class, Draw::Request(0));
        }
        sample
    }

    /// A worker's turn to report.
    fn report(&mut self, worker: usize, load: Option<Load>) -> Reported {
        let report = Report { settings: self.settings, load, measured: None };
        let name = worker.to_string();
        let reporting = Reporting::new(b"simulation", "api", name.as_bytes(), report);
        self.steps.report(&reporting.keys, &report, self.now())
    }

    /// What becomes of a request of a class.
    pub(super) fn ask(&mut self, class: usize, draw: Draw) -> Option<Wait> {
        let [_, workers] = pool_keys(b"simulation", "api");
        let limit = Limit::Utilization(utilization::Limit {
            settings: self.settings,
            classes: CLASSES.len() as u32,
            class: class as u32,
            draw,
        });
        let check = Check::of(0, limit, Cost::Take(1));
        let now = self.now();
        self.steps.ask(&Question::new(vec![workers], vec![check]), now)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_us)
    }

    fn at_s(&self) -> f64 {
        (self.step as u64 * STEP_US) as f64 / 1e6
    }
}

/// A day in the life of a service: what is asked of it as a share of what it can do, of which some is of each
/// class, and the workers as busy as what is let through makes them.
pub(super) const SHARES: [f64; CLASSES.len()] = [0.2, 0.3, 0.2];

/// How busy a demand makes the workers, where so much of each class is dropped. What is left of it is critical,
/// and never dropped.
pub(super) fn busy(demand: f64, chances: &[f64; CLASSES.len()]) -> f64 {
    let dropped: f64 = SHARES.iter().zip(chances).map(|(share, chance)| share * chance).sum();
    demand * (1.0 - dropped)
}
