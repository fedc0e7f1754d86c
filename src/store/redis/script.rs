//! The scripts that decide in Redis, and the way to call them: questions in, answers out.

use super::{batch::Batch, shadow};
use crate::{
    clock::Timestamp,
    grant::{Ask, Granted},
    key::Key,
    lease::{Attempt, LeaseId, Release, Released, Renewed, Term},
    limiter::{
        self, Limiter as _,
        token_bucket::{self, Ledger, Returned},
    },
    refund::Refund,
    shadow::Seen,
    store::orders::{Change, Changed, Fields, Telling, Told, Version},
    verdict::{Answer, Question},
    worker::{self, Report, Reported},
};
use redis::{Arg, Cmd, ServerError, Value};
use std::num::NonZeroU64;

/// The clock that is served: Redis's own.
pub const CLOCK: &str = include_str!("../../../lua/clock.lua");

const KEY: &str = include_str!("../../../lua/key.lua");
const SLOTS: &str = include_str!("../../../lua/slots.lua");
const TERM: &str = include_str!("../../../lua/lease/term.lua");
const IN_FLIGHT: &str = include_str!("../../../lua/lease/in_flight.lua");
const RECORD: &str = include_str!("../../../lua/lease/record.lua");
const SLOTTED: &str = include_str!("../../../lua/lease/slotted.lua");
const WORKERS: &str = include_str!("../../../lua/worker/workers.lua");
const WORKER: &str = include_str!("../../../lua/worker/worker.lua");
const SETTLE: &str = include_str!("../../../lua/settle.lua");
const REQUEST: &str = include_str!("../../../lua/request.lua");
const RELEASE: &str = include_str!("../../../lua/release.lua");
const RENEW: &str = include_str!("../../../lua/renew.lua");
const REPORT: &str = include_str!("../../../lua/report.lua");
const HEARTBEAT: &str = include_str!("../../../lua/heartbeat.lua");
const ORDERS: &str = include_str!("../../../lua/orders.lua");
const SHADOW: &str = include_str!("../../../lua/shadow.lua");
const KEEP_AS_LONG: &str = include_str!("../../../lua/keep_as_long.lua");
const GRANT: &str = include_str!("../../../lua/grant.lua");
const REFUND: &str = include_str!("../../../lua/refund.lua");

/// A script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Decides a request.
    Request,
    /// Releases a lease.
    Release,
    /// Renews one.
    Renew,
    /// Takes in what a worker says.
    Report,
    /// Says that a process is there, and hears how many are.
    Heartbeat,
    /// Tells what operators have said, and hears it.
    Orders,
    /// Adds what a rule in shadow did.
    Shadow,
    /// Hands out tokens ahead of need, and takes them back.
    Grant,
    /// Gives back charges after a timeout.
    Refund,
}

impl Script {
    /// All of them, each at the place that [`Script::place`] says.
    pub const ALL: [Self; 9] = [
        Self::Request,
        Self::Release,
        Self::Renew,
        Self::Report,
        Self::Heartbeat,
        Self::Orders,
        Self::Shadow,
        Self::Grant,
        Self::Refund,
    ];

    /// Where it stands in the list.
    pub const fn place(self) -> usize {
        match self {
            Self::Request => 0,
            Self::Release => 1,
            Self::Renew => 2,
            Self::Report => 3,
            Self::Heartbeat => 4,
            Self::Orders => 5,
            Self::Shadow => 6,
            Self::Grant => 7,
            Self::Refund => 8,
        }
    }

    /// The whole script: a clock, and what it uses. Only tests join another clock than [`CLOCK`].
    pub fn join(self, clock: &str) -> String {
        match self {
            Self::Request => {
                let (rates, others) =
                    (limiter::RATE_SCRIPTS.join("\n"), limiter::OTHER_SCRIPTS.join("\n"));
                let limiters = format!("local LIMITERS = {{ {} }}", limiter::NAMES.join(", "));
                // Most calls have no need of these: they are a function, because to make them costs more than to decide.
                let others = [TERM, IN_FLIGHT, RECORD, WORKERS, SLOTS, &others, &limiters, SETTLE]
                    .join("\n");
                let make_rate = make_rate();
                [clock, KEY, &rates, &make_rate, "local function others()", &others, "end", REQUEST]
                    .join("\n")
            }
            Self::Release => [clock, KEY, TERM, IN_FLIGHT, RECORD, SLOTTED, RELEASE].join("\n"),
            Self::Renew => [clock, KEY, TERM, IN_FLIGHT, RECORD, SLOTTED, RENEW].join("\n"),
            Self::Report => [clock, KEY, TERM, WORKERS, WORKER, REPORT].join("\n"),
            Self::Heartbeat => [clock, KEY, HEARTBEAT].join("\n"),
            Self::Orders => [clock, KEY, ORDERS].join("\n"),
            Self::Shadow => [clock, KEY, SHADOW].join("\n"),
            Self::Grant => [
                clock,
                KEY,
                KEEP_AS_LONG,
                token_bucket::Limit::SCRIPT,
                token_bucket::LEDGER_SCRIPT,
                GRANT,
            ]
            .join("\n"),
            Self::Refund => {
                let (rates, credits) =
                    (limiter::RATE_SCRIPTS.join("\n"), limiter::CREDIT_SCRIPTS.join("\n"));
                let names = limiter::NAMES.iter().take(limiter::RATE_SCRIPTS.len());
                let list = names.map(|name| format!("{{ {name}, {name}_credit }}"));
                let list = format!("local RATES = {{ {} }}", list.collect::<Vec<_>>().join(", "));
                [clock, KEY, KEEP_AS_LONG, &rates, &credits, &list, REFUND].join("\n")
            }
        }
    }
}

/// A function in Lua that makes a rate by its number. It is no table, which each call would have to make.
fn make_rate() -> String {
    // The rates are the first of all limiters.
    let rates = limiter::NAMES.iter().zip(limiter::RATE_SCRIPTS).zip(1..);
    let rates =
        rates.map(|((name, _), number)| format!("if number == {number} then return {name}() end"));
    format!("local function make_rate(number) {} end", rates.collect::<Vec<_>>().join(" "))
}

/// A call of a script.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// Which.
    pub script: Script,
    keys: Vec<&'a Key>,
    arguments: Vec<Vec<u8>>,
}

impl<'a> Call<'a> {
    /// To decide one request.
    pub fn request(question: &'a Question) -> Self {
        Self {
            script: Script::Request,
            keys: question.keys.iter().collect(),
            arguments: Batch::of(question).arguments().into(),
        }
    }

    /// To release what a lease holds.
    pub fn release(id: &'a LeaseId, what: Release) -> Self {
        let (what, attempt) = match what {
            Release::Last { marks: false } => (0, Attempt::NONE),
            Release::Last { marks: true } => (1, Attempt::NONE),
            Release::Untold(attempt) => (2, attempt),
            Release::Ended(attempt) => (3, attempt),
        };
        let arguments = [what, attempt.number()].map(|number: u64| number.to_string().into());
        Self { script: Script::Release, keys: vec![id.key()], arguments: arguments.into() }
    }

    /// To renew a lease.
    pub fn renew(id: &'a LeaseId, term: Option<Term>) -> Self {
        let term_us = term.map_or(0, Term::as_micros).to_string();
        Self { script: Script::Renew, keys: vec![id.key()], arguments: vec![term_us.into()] }
    }

    /// To report what a worker says.
    pub fn report(keys: &'a [Key; 2], report: &Report) -> Self {
        let (slots, utilization) = match report.load {
            Some(load) => (load.slots().into(), load.utilization_parts().into()),
            None => (0.0, 0.0),
        };
        // 0 is before all instants.
        let measured = report.measured.map_or(0, worker::Instant::as_micros);
        #[expect(clippy::cast_precision_loss, reason = "at most 2^53")]
        let numbers = report.settings.arguments().into_iter().chain([
            slots,
            utilization,
            u8::from(report.measured.is_some()).into(),
            measured as f64,
        ]);
        Self {
            script: Script::Report,
            keys: keys.iter().collect(),
            arguments: vec![numbers.flat_map(f64::to_le_bytes).collect()],
        }
    }

    /// To say that this process is there. `key` is where processes are counted.
    pub fn heartbeat(key: &'a Key, beat: &Beat) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "all are below 2^53")]
        let numbers = [beat.id, beat.epoch, beat.ttl_us].map(|number| number as f64);
        let arguments = vec![numbers.into_iter().flat_map(f64::to_le_bytes).collect()];
        Self { script: Script::Heartbeat, keys: vec![key], arguments }
    }

    /// To tell of orders. `key` is where they are.
    pub fn orders(key: &'a Key, telling: Telling<'_>) -> Self {
        let Telling { known: Version { epoch, number, mark }, changes, drawn } = telling;
        let numbers = [epoch, number, mark].into_iter().chain(drawn);
        let mut arguments: Vec<String> = numbers.map(|number| number.to_string()).collect();
        let stands = |text: &Option<String>| match text {
            Some(text) => format!("={text}"),
            None => String::new(),
        };
        for Change { field, was, is } in changes {
            arguments.extend([field.clone(), stands(was), stands(is)]);
        }
        let arguments = arguments.into_iter().map(String::into_bytes).collect();
        Self { script: Script::Orders, keys: vec![key], arguments }
    }

    /// To add what a rule in shadow did, to the slots under these keys.
    pub fn shadow(keys: &'a [Key], seen: &Seen) -> Self {
        let arguments = vec![shadow::write(seen)];
        Self { script: Script::Shadow, keys: keys.iter().collect(), arguments }
    }

    /// To ask something of each of these buckets.
    #[expect(
        clippy::cast_precision_loss,
        reason = "instants, and what buckets hold, are below 2^53"
    )]
    pub fn grant(keys: Vec<&'a Key>, asks: &[&Ask]) -> Self {
        let mut numbers = Vec::new();
        for Ask { limit, returned, wanted, drawn } in asks {
            let wanted = (*wanted).min(limit.burst().into());
            limit.push_arguments(&mut numbers);
            numbers.extend([wanted as f64, drawn.get() as f64, returned.len() as f64]);
            for Returned { tokens, ledger: Ledger { since, charged } } in returned {
                let returned = [*tokens, since.get(), *charged];
                numbers.extend(returned.map(|number| number.min(1 << 53) as f64));
            }
        }
        let arguments = vec![numbers.into_iter().flat_map(f64::to_le_bytes).collect()];
        Self { script: Script::Grant, keys, arguments }
    }

    /// To give back charges to the states under these keys, in order.
    #[expect(clippy::cast_precision_loss, reason = "instants and amounts are at most 2^53")]
    pub fn refund(keys: &'a [Key], refunds: &[Refund]) -> Self {
        let mut numbers = Vec::new();
        for Refund { limit, charges } in refunds {
            numbers.push(limit.script().into());
            limit.push_arguments(&mut numbers);
            numbers.push(charges.len() as f64);
            for (amount, at) in charges {
                numbers.extend([*amount, at.as_micros()].map(|number| number.min(1 << 53) as f64));
            }
        }
        let arguments = vec![numbers.into_iter().flat_map(f64::to_le_bytes).collect()];
        Self { script: Script::Refund, keys: keys.iter().collect(), arguments }
    }

    /// The command for a Redis that knows the script by this name.
    pub fn by_name(&self, sha: &str) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(sha).arg(self.keys.len());
        for key in &self.keys {
            command.arg(key.as_str());
        }
        for argument in &self.arguments {
            command.arg(argument.as_slice());
        }
        command
    }
}

/// The same command for a Redis that has forgotten the script: its text is in it.
pub fn by_text(by_name: &Cmd, text: &str) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(text);
    for argument in by_name.args_iter().skip(2) {
        if let Arg::Simple(bytes) = argument {
            command.arg(bytes);
        }
    }
    command
}

/// What a process says of itself. All are whole numbers below 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// Its number.
    pub id: u64,
    /// What to call the epoch, if one begins.
    pub epoch: u64,
    /// How long it counts unless it is heard of again, in microseconds.
    pub ttl_us: u64,
}

/// What it hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// What the epoch is called. Another one: all states were lost meanwhile.
    pub epoch: u64,
    /// How many processes are there, this one included.
    pub replicas: u32,
    /// Until when this one counted, by Redis's clock in microseconds; 0 where nobody knew of it.
    pub known: u64,
    /// Until when it counts now.
    pub deadline: u64,
}

/// What a script says.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply<T> {
    /// It was done.
    Done(T),
    /// A key held something that is no state, and has been deleted. Nothing else was done. Its place among
    /// the keys.
    Deleted(usize),
    /// It met an error, which others in the same call did not.
    Failed(ServerError),
}

/// Reads the reply to one request. `None` where it is none of the script's.
pub fn read_answer(reply: &Value, question: &Question) -> Option<Reply<Answer>> {
    Batch::of(question).read(reply.clone())?.of(0, question)
}

/// Reads the reply to a release.
pub fn read_released(reply: &Value) -> Option<Reply<Released>> {
    read(reply, |numbers| match numbers {
        [1] => Some(Released::Live),
        [2] => Some(Released::Expired),
        [3] => Some(Released::AlreadyGone),
        _ => None,
    })
}

/// Reads the reply to a renewal.
pub fn read_renewed(reply: &Value) -> Option<Reply<Renewed>> {
    read(reply, |numbers| match *numbers {
        [1, left] => Some(Renewed::Live { left_us: left.try_into().ok()? }),
        [2, _] => Some(Renewed::Expired),
        [3, _] => Some(Renewed::AlreadyGone),
        [4, _] => Some(Renewed::Lost),
        _ => None,
    })
}

/// Reads the reply to a report.
pub fn read_reported(reply: &Value) -> Option<Reply<Reported>> {
    read(reply, |numbers| {
        let &[outcome, utilization, amount_parts, workers] = numbers else { return None };
        Some(Reported {
            outcome: match outcome {
                1 => worker::Outcome::Counted,
                2 => worker::Outcome::Absent,
                3 => worker::Outcome::NotNewer,
                4 => worker::Outcome::TooManyWorkers,
                _ => return None,
            },
            utilization_parts: match utilization {
                -1 => None,
                parts => Some(parts.try_into().ok()?),
            },
            amount_parts,
            workers: workers.try_into().ok()?,
        })
    })
}

/// Reads the reply to what a rule in shadow did.
pub fn read_added(reply: &Value) -> Option<Reply<()>> {
    read(reply, |numbers| numbers.is_empty().then_some(()))
}

/// Reads the reply to so many who asked for tokens ahead of need, or gave some back: what each is given.
pub fn read_granted(reply: &Value, count: usize) -> Option<Reply<Vec<Granted>>> {
    read(reply, |numbers| {
        let granted = numbers.chunks(6).map(|numbers| {
            let &[tokens, remaining, next_in_us, since, charged, void] = numbers else {
                return None;
            };
            let since = NonZeroU64::new(since.try_into().ok()?);
            let charged = charged.try_into().ok()?;
            Some(Granted {
                tokens: tokens.try_into().ok()?,
                remaining: remaining.try_into().ok()?,
                next_in_us: next_in_us.try_into().ok()?,
                ledger: since.map(|since| Ledger { since, charged }),
                void: void.try_into().ok()?,
            })
        });
        let granted: Vec<Granted> = granted.collect::<Option<_>>()?;
        (granted.len() == count).then_some(granted)
    })
}

/// Reads the reply to so many refunds: how many charges of each were not given back.
pub fn read_refunded(reply: &Value, count: usize) -> Option<Reply<Vec<usize>>> {
    read(reply, |numbers| {
        let void = numbers.iter().map(|number| usize::try_from(*number).ok());
        void.collect::<Option<Vec<_>>>().filter(|void| void.len() == count)
    })
}

/// Reads the reply to a heartbeat.
pub fn read_heard(reply: &Value) -> Option<Reply<Heard>> {
    read(reply, |numbers| {
        let &[epoch, replicas, known, deadline] = numbers else { return None };
        Some(Heard {
            epoch: epoch.try_into().ok()?,
            replicas: replicas.try_into().ok()?,
            known: known.try_into().ok()?,
            deadline: deadline.try_into().ok()?,
        })
    })
}

/// Reads the reply to what was told of orders. `known` is the version that was heard of.
pub fn read_told(reply: &Value, known: Version) -> Option<Reply<Told>> {
    let Value::Array(parts) = reply else { return None };
    let whole = |value: &Value| u64::try_from(number(value)?).ok();
    match parts.as_slice() {
        [Value::Int(1)] => Some(Reply::Deleted(0)),
        [Value::Int(0), epoch, version, mark, now, Value::Array(changed), fields] => {
            let (epoch, number, mark) = (whole(epoch)?, whole(version)?, whole(mark)?);
            let version = Version { epoch, number, mark };
            let changed = changed.iter().map(|changed| match changed {
                Value::Int(1) => Some(Changed::Done),
                Value::Int(2) => Some(Changed::Differs),
                Value::Int(3) => Some(Changed::Full),
                _ => None,
            });
            let mut fields = read_fields(fields)?;
            // The script's own.
            fields.retain(|field, _| field.contains(' '));
            Some(Reply::Done(Told {
                version,
                now: Timestamp::from_micros(whole(now)?),
                changed: changed.collect::<Option<_>>()?,
                fields: (version != known).then_some(fields),
            }))
        }
        _ => None,
    }
}

/// Names and texts in turn. What is no text was not written here, and does not count.
fn read_fields(reply: &Value) -> Option<Fields> {
    let Value::Array(parts) = reply else { return None };
    let text = |part: &Value| match part {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    };
    let pairs = parts.chunks_exact(2).filter_map(|pair| match pair {
        [field, is] => text(field).zip(text(is)),
        _ => None,
    });
    Some(pairs.collect())
}

fn read<T>(reply: &Value, done: impl FnOnce(&[i64]) -> Option<T>) -> Option<Reply<T>> {
    let Value::Array(numbers) = reply else { return None };
    let numbers: Option<Vec<i64>> = numbers.iter().map(number).collect();
    match numbers?.as_slice() {
        [0, rest @ ..] => done(rest).map(Reply::Done),
        [slot] => Some(Reply::Deleted(usize::try_from(*slot).ok()?.checked_sub(1)?)),
        _ => None,
    }
}

const fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}
