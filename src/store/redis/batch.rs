//! Requests that one call decides, as `lua/request.lua` reads them, and what it says of each.

use super::script::Reply;
use crate::{
    clock::Timestamp,
    lease::{By, Leased, Taking},
    limiter::{Cost, Limit, Wait},
    verdict::{Answer, Check, Outcome, Question},
};
use redis::{Cmd, ServerError, Value};
use std::ops::Range;

/// The most requests in a batch, and keys with which no further one is taken in. Redis does nothing else meanwhile: for
/// some 0.3 ms, a small part of what a caller waits for it. Four times fewer cost a tenth more each.
const MOST_REQUESTS: usize = 64;
const MANY_KEYS: usize = 256;

/// How many limits are looked at to find one that was told already. Requests that come together mostly meet the same
/// few; to look further takes longer than to tell it again.
const LOOKED_AT: usize = 8;

/// The largest whole number up to which a double holds all.
const LARGEST: u64 = 1 << 53;

/// What a row begins with that tells of a single check.
const ALONE: f64 = -1.0;

/// Bytes of a double, and of the three that say what became of a check.
const NUMBER: usize = 8;
const CHECK: usize = 3 * NUMBER;

/// Requests to be decided one after the other.
#[derive(Debug, Default)]
pub struct Batch {
    requests: Vec<Request>,
    /// The texts of all keys, one behind the other, and where each ends.
    keys: Vec<u8>,
    ends: Vec<usize>,
    limits: Vec<Limit>,
    /// What is told of each request, one behind the other.
    rows: Vec<u8>,
}

/// One of them.
#[derive(Debug)]
struct Request {
    /// Where among all of the batch its own keys are, and its rows.
    keys: Range<usize>,
    rows: Range<usize>,
    /// How many bytes tell what became of it, where it is decided.
    told: usize,
    /// Nobody waits for it any more, and it has not been sent.
    is_void: bool,
}

impl Batch {
    /// A batch of one.
    pub fn of(question: &Question) -> Self {
        let mut batch = Self::default();
        batch.push(question);
        batch
    }

    /// Takes in a request, the first however large. Returns its place; `None` where there is no room for it.
    pub fn push(&mut self, question: &Question) -> Option<usize> {
        let place = self.requests.len();
        if place >= MOST_REQUESTS || self.ends.len() >= MANY_KEYS {
            return None;
        }
        let (first_key, first_row) = (self.ends.len(), self.rows.len());
        for key in &question.keys {
            self.keys.extend(key.as_str().as_bytes());
            self.ends.push(self.keys.len());
        }
        let (keys, checks) = (question.keys.len(), question.checks.len());
        let are_apart = are_apart(question);
        match question.checks.as_slice() {
            [check] if are_apart => {
                let [limit, cost, amount] = self.numbers_of(check);
                self.push_numbers([ALONE, limit, cost, amount]);
            }
            all => {
                let lease = question.taking.as_ref().map_or_else(Vec::new, lease);
                let [keys, checks, lease_length] =
                    [keys, checks, lease.len()].map(|count| count as f64);
                let is_simple = are_apart && !question.settles_regardless();
                self.push_numbers([keys, checks, lease_length, u8::from(is_simple).into()]);
                for check in all {
                    let slot = (check.slot + 1) as f64;
                    let [limit, cost, amount] = self.numbers_of(check);
                    let mode = u8::from(check.shadow_mode) + 2 * u8::from(check.quota_mode);
                    let told_by = check.told_by.map_or(0, |slot| slot + 1) as f64;
                    self.push_numbers([slot, limit, cost, amount, mode.into(), told_by]);
                }
                self.rows.extend(lease);
            }
        }
        let leased = if question.taking.is_some() { NUMBER } else { 0 };
        self.requests.push(Request {
            keys: first_key..self.ends.len(),
            rows: first_row..self.rows.len(),
            told: leased + checks * CHECK,
            is_void: false,
        });
        Some(place)
    }

    /// Has a request not be sent.
    pub fn remove(&mut self, place: usize) {
        if let Some(request) = self.requests.get_mut(place) {
            request.is_void = true;
        }
    }

    /// Whether there is nothing to be sent.
    pub fn is_empty(&self) -> bool {
        self.sent().next().is_none()
    }

    /// The command for a Redis that knows the script by this name.
    pub fn by_name(&self, sha: &str) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        let keys = || self.sent().flat_map(|request| request.keys.clone());
        command.arg(sha).arg(keys().count());
        for key in keys() {
            command.arg(self.key(key));
        }
        let [limits, requests] = self.arguments();
        command.arg(limits).arg(requests);
        command
    }

    /// The script's arguments.
    pub(super) fn arguments(&self) -> [Vec<u8>; 2] {
        let mut limits = Vec::with_capacity(NUMBER * self.limits.len());
        for limit in &self.limits {
            limits.push(limit.script().into());
            limit.push_arguments(&mut limits);
        }
        let mut rows = Vec::with_capacity(self.rows.len());
        for request in self.sent() {
            rows.extend(self.rows.get(request.rows.clone()).unwrap_or_default());
        }
        [limits.into_iter().flat_map(f64::to_le_bytes).collect(), rows]
    }

    /// Reads the reply. `None` where it is none of the script's.
    pub fn read(&self, reply: Value) -> Option<Said> {
        let Value::Array(parts) = reply else { return None };
        let mut parts = parts.into_iter();
        let (Some(Value::BulkString(rows)), Some(Value::BulkString(undecided))) =
            (parts.next(), parts.next())
        else {
            return None;
        };
        let (undecided, rest) = undecided.as_chunks::<NUMBER>();
        let (undecided, odd) = undecided.as_chunks::<2>();
        let mut undecided = undecided.iter().map(|pair| pair.map(whole)).peekable();
        let now = Timestamp::from_micros(whole(*rows.first_chunk()?)?.try_into().ok()?);
        let (mut sent, mut end) = (0, NUMBER);
        let mut told = Vec::with_capacity(self.requests.len());
        for request in &self.requests {
            if request.is_void {
                told.push(Told::NotAsked);
                continue;
            }
            sent += 1;
            let slot = undecided.next_if(|[place, _]| *place == Some(sent)).map(|[_, slot]| slot);
            told.push(match slot {
                None => {
                    let start = end;
                    end += request.told;
                    Told::Decided(start..end)
                }
                Some(Some(0)) => match parts.next() {
                    Some(Value::ServerError(error)) => Told::Failed(error),
                    _ => return None,
                },
                Some(slot) => Told::Deleted(usize::try_from(slot?).ok()?.checked_sub(1)?),
            });
        }
        let is_whole = end == rows.len() && rest.is_empty() && odd.is_empty();
        (is_whole && undecided.next().is_none()).then_some(Said { now, rows, told })
    }

    /// Those that are sent.
    fn sent(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| !request.is_void)
    }

    fn key(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).and_then(|before| self.ends.get(before));
        let (start, end) = (start.copied().unwrap_or_default(), self.ends.get(place));
        self.keys.get(start..end.copied().unwrap_or_default()).unwrap_or_default()
    }

    /// The place of a limit among those that are told, the first being 1.
    fn place_of(&mut self, limit: &Limit) -> usize {
        let count = self.limits.len();
        let last = self.limits.iter().enumerate().rev().take(LOOKED_AT);
        // What it is told by its own request is nobody else's.
        let mut known = last.filter(|(_, known)| !known.is_told() && *known == limit);
        if let Some((place, _)) = known.next() {
            return place + 1;
        }
        self.limits.push(*limit);
        count + 1
    }

    /// What is told of a check, whatever else: the place of its limit, the kind of cost, and how much.
    fn numbers_of(&mut self, check: &Check) -> [f64; 3] {
        let (cost, amount) = match check.cost {
            Cost::Take(amount) => (0.0, amount),
            Cost::Peek => (1.0, 0),
            Cost::Refund(amount) => (2.0, amount),
        };
        // No limit holds more.
        [self.place_of(&check.limit) as f64, cost, amount.min(LARGEST) as f64]
    }

    fn push_numbers<const N: usize>(&mut self, numbers: [f64; N]) {
        self.rows.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }
}

/// Whether each check of a request is one of a rate, and under a key of its own, in order: then the script has little to
/// settle. Most requests are so.
fn are_apart(question: &Question) -> bool {
    let Question { keys, checks, taking, .. } = question;
    let is_apart =
        |(slot, check): (usize, &Check)| check.slot == slot && check.limit.is_rate_limit();
    taking.is_none() && keys.len() == checks.len() && checks.iter().enumerate().all(is_apart)
}

/// What the script is told of a lease.
fn lease(taking: &Taking) -> Vec<u8> {
    let by = match taking.by {
        By::Server => 0.0,
        By::Caller => 1.0,
        By::Request => 2.0,
    };
    let (term_us, attempt) = (taking.term.as_micros(), taking.attempt.number());
    let numbers = [(taking.slot + 1) as f64, by, term_us as f64, attempt as f64];
    let mut bytes: Vec<u8> = numbers.into_iter().flat_map(f64::to_le_bytes).collect();
    bytes.extend(taking.fingerprint.iter().flat_map(|fingerprint| fingerprint.0));
    bytes
}

/// What a call said of each of its requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    now: Timestamp,
    rows: Vec<u8>,
    told: Vec<Told>,
}

/// What it said of one.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    /// It was decided; where that stands.
    Decided(Range<usize>),
    /// A key of this slot held what is no state, and has been deleted.
    Deleted(usize),
    /// It met an error.
    Failed(ServerError),
    /// It was not sent.
    NotAsked,
}

impl Said {
    /// When it decided, by Redis's clock.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// What it said of the request at this place, which is the question. `None` where that makes no sense.
    pub fn of(&self, place: usize, question: &Question) -> Option<Reply<Answer>> {
        match self.told.get(place)? {
            Told::Decided(range) => {
                read_answer(self.rows.get(range.clone())?, question).map(Reply::Done)
            }
            Told::Deleted(slot) => Some(Reply::Deleted(*slot)),
            Told::Failed(error) => Some(Reply::Failed(error.clone())),
            Told::NotAsked => None,
        }
    }

    /// The errors that it met.
    pub(super) fn errors(&self) -> impl Iterator<Item = &ServerError> {
        self.told.iter().filter_map(|told| match told {
            Told::Failed(error) => Some(error),
            _ => None,
        })
    }
}

/// Reads what became of a request.
fn read_answer(row: &[u8], question: &Question) -> Option<Answer> {
    let (numbers, _) = row.as_chunks::<NUMBER>();
    let (leased, numbers) = match &question.taking {
        Some(_) => numbers.split_first().map(|(leased, rest)| (whole(*leased), rest))?,
        None => (Some(0), numbers),
    };
    let leased = match leased? {
        0 => Leased::Nothing,
        -1 => Leased::Conflict,
        left if left < 0 => Leased::Again { left_us: left.checked_add(2)?.unsigned_abs() },
        left => Leased::For { left_us: left.unsigned_abs() },
    };
    let (checks, rest) = numbers.as_chunks::<3>();
    let outcomes: Vec<Outcome> = checks.iter().map(outcome).collect::<Option<_>>()?;
    let is_whole = rest.is_empty() && outcomes.len() == question.checks.len();
    is_whole.then_some(Answer { outcomes, leased })
}

fn outcome(&[over, remaining, full_in_us]: &[[u8; NUMBER]; 3]) -> Option<Outcome> {
    let (over, delay_us) = match whole(over)? {
        0 => (None, 0),
        -1 => (Some(Wait::Never), 0),
        wait @ 1.. => (Some(Wait::Micros(wait.unsigned_abs())), 0),
        delay => (None, delay.unsigned_abs() - 1),
    };
    Some(Outcome {
        over,
        delay_us,
        remaining: whole(remaining)?.try_into().ok()?,
        full_in_us: whole(full_in_us)?.try_into().ok()?,
    })
}

/// A whole number that a double holds.
fn whole(bytes: [u8; NUMBER]) -> Option<i64> {
    let number = f64::from_le_bytes(bytes);
    #[expect(clippy::cast_possible_truncation, reason = "whole, and at most 2^53")]
    (number.fract() == 0.0 && number.abs() <= LARGEST as f64).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_over_for_a_while_or_for_ever_or_passes_now_or_later() {
        let read = |over: f64| outcome(&[over, 3.0, 5.0].map(f64::to_le_bytes));
        let passes = Outcome::passes(3, 5);
        let later = |delay_us| Some(Outcome { delay_us, ..passes });
        assert_eq!(read(0.0), Some(passes));
        assert_eq!(read(-2.0), later(1));
        assert_eq!(read(-250_001.0), later(250_000));
        assert_eq!(read(-(2.0_f64.powi(53))), later((1 << 53) - 1));
        let over = |wait| Some(Outcome { over: Some(wait), ..passes });
        assert_eq!(read(-1.0), over(Wait::Never));
        assert_eq!(read(7.0), over(Wait::Micros(7)));
        assert_eq!((read(0.5), read(f64::NAN)), (None, None));
    }
}
