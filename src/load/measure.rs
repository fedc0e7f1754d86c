//! Runs all threads for as long as they are to, and puts together what they tell.

use super::{
    Plan,
    generator::{self, Event, Order},
    live::Live,
    process::{self, CpuTimes, NoProcess},
    summary::Summary,
    tally::Tally,
};
use crate::arguments::Process;
use hdrhistogram::CreationError;
use std::{io, sync::Arc, thread, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
    time,
};
use tollgate::clock::{Clock, Timestamp};

/// Tallies that were told and not yet read.
const MOST_UNREAD: usize = 64;

/// Why there is nothing to say.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotMeasured {
    #[error(
        "nobody answers at {target} ({why}): does the server run, and is that its --grpc-addr? Say where it is with --target HOST:PORT"
    )]
    Unreachable { target: String, why: io::Error },
    #[error(transparent)]
    NoProcess(#[from] NoProcess),
    #[error(
        "--pid: two processes are called {0}: give them names of their own, such as redis=4711"
    )]
    SameName(String),
    #[error("the operating system does not let it ask: {0}")]
    System(#[from] io::Error),
    #[error("there is no room for a histogram: {0}")]
    Histogram(#[from] CreationError),
    #[error("a thread that asks has ended: this is a bug of tollgate")]
    Bug,
}

/// What was measured.
pub(super) struct Measurement {
    pub(super) summary: Summary,
    /// Whether Ctrl-C ended it before its time.
    pub(super) is_interrupted: bool,
}

/// Asks as planned, until all is over or Ctrl-C, and says how it was answered.
pub(super) async fn run(
    plan: Plan,
    processes: &[Process],
    name: &str,
) -> Result<Measurement, NotMeasured> {
    let mut processes = processes.to_vec();
    processes.extend(process::this());
    let mut names: Vec<&str> = processes.iter().map(|process| &process.name[..]).collect();
    names.sort_unstable();
    if let Some(twice) =
        names.windows(2).find_map(|two| two.first().filter(|it| two.last() == Some(it)))
    {
        return Err(NotMeasured::SameName((*twice).to_owned()));
    }
    CpuTimes::read(&processes)?;
    let plan = Arc::new(plan);
    let clock = Clock::monotonic();
    let (orders, told) = watch::channel(Order::Connect);
    let (tell, mut events) = mpsc::channel(MOST_UNREAD);
    let threads = (0..plan.threads).map(|number| {
        let (plan, clock) = (Arc::clone(&plan), clock.clone());
        let (told, tell) = (told.clone(), tell.clone());
        let named = thread::Builder::new().name(format!("load-{number}"));
        named.spawn(move || generator::run(&plan, number, &clock, told, &tell))
    });
    let threads = threads.collect::<io::Result<Vec<_>>>()?;
    drop((tell, told));

    let mut connected = 0;
    while connected < plan.threads {
        match events.recv().await {
            Some(Event::Connected) => connected += 1,
            Some(Event::Counted(_)) => {}
            Some(Event::Failed(why)) => {
                let target = plan.target.clone();
                return Err(NotMeasured::Unreachable { target, why });
            }
            None => return Err(NotMeasured::Bug),
        }
    }
    let begin = clock.now();
    orders.send_replace(Order::Ask { begin });
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut measured = Measured { live: Live::new(name, plan.threads)?, tally: Tally::new()? };
    let warm = plan.counting(begin);
    let mut is_interrupted = tokio::select! {
        taken_in = measured.take_in(&mut events, &clock, warm) => taken_in.map(|()| false)?,
        _ = interrupt.recv() => true,
    };
    let before = CpuTimes::read(&processes)?;
    let since = clock.now();
    if !is_interrupted {
        tokio::select! {
            taken_in = measured.take_in(&mut events, &clock, plan.end(begin)) => taken_in?,
            // What was measured until now is worth showing.
            _ = interrupt.recv() => is_interrupted = true,
        }
    }
    orders.send_replace(Order::End);
    // Until the last answer: of what hangs the end is waited for, but it is no time in which anybody was asked.
    let mut last = clock.now();
    while let Some(event) = events.recv().await {
        if matches!(&event, Event::Counted(tally) if tally.answered() > 0) {
            last = clock.now();
        }
        measured.count(event)?;
    }
    let elapsed_us = last - since;
    // A server that has died is not to take along what was measured of it.
    let cpu = CpuTimes::of_those_there(&processes).since(&before);
    threads.into_iter().try_for_each(|it| it.join().map_err(|_| NotMeasured::Bug))?;
    measured.live.end();
    let summary = Summary::new(&measured.tally, elapsed_us, cpu);
    Ok(Measurement { summary, is_interrupted })
}

struct Measured {
    live: Live,
    tally: Tally,
}

impl Measured {
    /// Takes in what threads tell until this instant.
    async fn take_in(
        &mut self,
        events: &mut mpsc::Receiver<Event>,
        clock: &Clock,
        until: Timestamp,
    ) -> Result<(), NotMeasured> {
        let over = time::sleep(Duration::from_micros(until - clock.now()));
        tokio::pin!(over);
        loop {
            tokio::select! {
                biased;
                () = &mut over => return Ok(()),
                event = events.recv() => self.count(event.ok_or(NotMeasured::Bug)?)?,
            }
        }
    }

    fn count(&mut self, event: Event) -> Result<(), NotMeasured> {
        match event {
            Event::Counted(tally) => {
                self.tally.add(&tally);
                self.live.tell(&tally);
                Ok(())
            }
            Event::Connected => Ok(()),
            Event::Failed(why) => Err(NotMeasured::System(why)),
        }
    }
}
