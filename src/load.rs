//! `tollgate load`: asks a server as hard as it is told, and says how it answered.
//!
//! `generator.rs` is a thread that asks: `line.rs` is its way to the server, `message.rs` what it asks, `keys.rs`
//! about which keys, `pace.rs` when, by a `schedule.rs` and to the microsecond by `timer.rs`. What became of it goes
//! into a `tally.rs`; `measure.rs` runs all threads for as long as they are to, while `live.rs` tells how it goes, and
//! makes a `summary.rs` of it, with what processes took meanwhile by `process.rs`. `null.rs` is the server that always
//! gives the same answer, and `compare.rs` measures both in turn.

mod compare;
mod generator;
mod keys;
mod line;
mod live;
mod measure;
mod message;
mod null;
mod pace;
mod process;
mod schedule;
mod summary;
mod tally;
mod timer;

use crate::arguments::Load;
use anyhow::Context as _;
use line::Head;
use message::Message;
use std::{io::stdout, process::ExitCode, time::Duration};
use tokio::runtime::Builder;
use tollgate::clock::Timestamp;

pub(crate) use null::serve as serve_null;

/// What shells say of a command that Ctrl-C ended: 128 and the number of its signal.
const INTERRUPTED: u8 = 130;

/// What to ask of whom, how hard and for how long.
#[derive(Debug)]
struct Plan {
    target: String,
    head: Head,
    message: Message,
    keys: u32,
    zipf: f64,
    connections: u32,
    streams: u32,
    threads: u32,
    /// Requests per second in an open loop; `None` for a closed one.
    rate: Option<u32>,
    warmup: Duration,
    duration: Duration,
}

impl Plan {
    /// What the command line says, but for the target.
    fn new(arguments: &Load, target: String) -> Result<Self, http::Error> {
        let wanted = arguments.descriptors.map_or(arguments.templates.len(), |it| it as usize);
        let templates: Vec<_> = arguments.templates.iter().cycle().take(wanted).cloned().collect();
        Ok(Self {
            head: Head::new(&target, arguments.deadline)?,
            target,
            message: Message::new(&arguments.domain, &templates, arguments.keys),
            keys: arguments.keys,
            zipf: arguments.zipf,
            connections: arguments.connections,
            streams: arguments.streams,
            // A thread without a connection would have nobody to ask.
            threads: arguments.threads.min(arguments.connections),
            rate: arguments.rate,
            warmup: arguments.warmup,
            duration: arguments.duration,
        })
    }

    /// From when on requests count, where they are sent from `begin` on.
    fn counting(&self, begin: Timestamp) -> Timestamp {
        begin + micros(self.warmup)
    }

    /// When no more are sent.
    fn end(&self, begin: Timestamp) -> Timestamp {
        self.counting(begin) + micros(self.duration)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Asks, and says how it was answered. Fails where nothing was.
pub(crate) fn run(arguments: &Load) -> anyhow::Result<ExitCode> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (text, is_answered, is_interrupted) = runtime.block_on(async {
        if arguments.against_null {
            let comparison = compare::run(arguments).await?;
            let (answered, interrupted) = (comparison.is_answered(), comparison.is_interrupted);
            anyhow::Ok((comparison.written(arguments.json), answered, interrupted))
        } else {
            let plan = Plan::new(arguments, arguments.target.clone());
            let plan = plan.with_context(|| format!("--target {}", arguments.target))?;
            let measured = measure::run(plan, &arguments.processes, &arguments.target).await?;
            let summary = measured.summary;
            let (answered, interrupted) = (summary.is_answered(), measured.is_interrupted);
            anyhow::Ok((summary.written(arguments.json), answered, interrupted))
        }
    })?;
    crate::print(&mut stdout(), &text)?;
    if is_interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if is_answered {
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::bail!(
        "nothing was answered: is {} the gRPC port of a server, in plain text? (--target)",
        arguments.target
    )
}
