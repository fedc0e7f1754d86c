//! The script that decides a request in Redis, and the way to call it: checks in, outcomes out.

use crate::{
    key::Key,
    limiter::{self, Cost, Wait},
    verdict::{Check, Outcome},
};
use redis::{Cmd, Value};

/// The clock that is served: Redis's own.
pub const CLOCK: &str = include_str!("../../../lua/clock.lua");

const REQUEST: &str = include_str!("../../../lua/request.lua");

/// The largest whole number up to which a double holds all.
const LARGEST: u64 = 1 << 53;

/// The whole script: a clock, the limiters, the request. Only tests join another clock than [`CLOCK`].
pub fn join(clock: &str) -> String {
    let limiters = limiter::SCRIPTS.join("\n");
    format!("{clock}\n{limiters}\n{REQUEST}")
}

/// The call for a request: `sha` is what Redis calls the script.
pub fn call(sha: &str, keys: &[Key], checks: &[Check]) -> Cmd {
    call_by("EVALSHA", sha, keys, checks)
}

/// The same for a Redis that has forgotten the script, which is in the call.
pub fn call_with_text(script: &str, keys: &[Key], checks: &[Check]) -> Cmd {
    call_by("EVAL", script, keys, checks)
}

fn call_by(command: &str, script: &str, keys: &[Key], checks: &[Check]) -> Cmd {
    let mut call = redis::cmd(command);
    call.arg(script).arg(keys.len());
    for key in keys {
        call.arg(key.as_str());
    }
    call.arg(arguments(checks));
    call
}

/// What the script is told of checks: a row of numbers for each.
#[expect(clippy::cast_precision_loss, reason = "slots are few, and amounts are cut to 2^53")]
fn arguments(checks: &[Check]) -> Vec<u8> {
    let mut numbers = Vec::with_capacity(10 * checks.len());
    for check in checks {
        let (cost, amount) = match check.cost {
            Cost::Take(amount) => (0.0, amount),
            Cost::Peek => (1.0, 0),
            Cost::Refund(amount) => (2.0, amount),
        };
        let slot = (check.slot + 1) as f64;
        // No limit holds more.
        let amount = amount.min(LARGEST) as f64;
        let mode = u8::from(check.shadow_mode) + 2 * u8::from(check.quota_mode);
        numbers.extend([slot, check.limit.script().into(), cost, amount, mode.into()]);
        check.limit.push_arguments(&mut numbers);
    }
    numbers.into_iter().flat_map(f64::to_le_bytes).collect()
}

/// What the script answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It decided: what became of each check.
    Decided(Vec<Outcome>),
    /// One of the keys held something that is no state, and has been deleted. Nothing else was done.
    /// The place of the key among the request's.
    Deleted(usize),
}

/// Reads a reply. `None` where it is none of the script's.
pub fn answer(reply: &Value, checks: &[Check]) -> Option<Answer> {
    let Value::Array(numbers) = reply else { return None };
    let numbers: Option<Vec<i64>> = numbers.iter().map(number).collect();
    match numbers?.as_slice() {
        [0, outcomes @ ..] if outcomes.len() == 3 * checks.len() => {
            let outcomes = outcomes.chunks_exact(3).map(outcome).collect::<Option<_>>();
            outcomes.map(Answer::Decided)
        }
        [slot] => Some(Answer::Deleted(usize::try_from(*slot).ok()?.checked_sub(1)?)),
        _ => None,
    }
}

const fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

fn outcome(numbers: &[i64]) -> Option<Outcome> {
    let &[over, remaining, full_in_us] = numbers else { return None };
    Some(Outcome {
        over: match over {
            0 => None,
            -1 => Some(Wait::Never),
            wait => Some(Wait::Micros(wait.try_into().ok()?)),
        },
        remaining: remaining.try_into().ok()?,
        full_in_us: full_in_us.try_into().ok()?,
    })
}
