//! What a live key takes in the memory store, and whether that stays so while keys come and go.

use super::{Failure, number, support::resident_bytes};
use std::{fmt::Write as _, hint::black_box};
use tollgate::{
    clock::Timestamp,
    key::{Key, Path},
    limiter::{Cost, Limit, token_bucket},
    store::Memory,
    unit::Unit,
    verdict::{Check, Question},
};

/// Keys that are live at the same time.
const KEYS: u64 = 1_000_000;

/// An hour, and how many of its seconds there are between two looks.
const HOUR_S: u64 = 3600;
const LOOK_EVERY_S: u64 = 600;

/// Keys that come each second of that hour, and are live for a minute.
const COMING: u64 = 2000;

const SECOND_US: u64 = 1_000_000;

pub(crate) fn measure() -> Result<String, Failure> {
    // Room to spare: a shard that is full by chance must not forget any of them.
    let store = Memory::new(2 * KEYS as usize);
    let before = resident_bytes();
    let text = fill(&store);
    let grown = resident_bytes() - before;
    if store.len() as u64 != KEYS {
        return Err(format!("{} of {KEYS} keys are live", store.len()).into());
    }
    let (each, text) = (grown as f64 / KEYS as f64, text as f64 / KEYS as f64);
    let mut document = format!(
        "{} live keys take {} MiB: **{each:.0} bytes a key**, {text:.0} of them its own text.\n\nBeside these, an hour of churn by a clock that is moved by hand: {} new keys a second, each live for a minute.\n\n",
        number(KEYS as f64),
        grown >> 20,
        number(COMING as f64)
    );
    churn(&store, before, &mut document);
    Ok(document)
}

/// Has as many keys as wanted, live for a day; how many bytes of text they are.
fn fill(store: &Memory) -> usize {
    let check = check(token_bucket::Limit::per_unit(1, Unit::Day));
    let keys = (0..KEYS).map(|user| {
        let key = key(user);
        let text = key.as_str().len();
        black_box(store.decide(Timestamp::from_micros(1), &Question::new(vec![key], vec![check])));
        text
    });
    keys.sum()
}

/// Has other keys come and go, and adds a table of what the process has in memory meanwhile.
fn churn(store: &Memory, before: usize, document: &mut String) {
    let check = check(token_bucket::Limit::per_unit(1, Unit::Minute));
    *document += "| minutes | keys kept | resident, MiB more than at first |\n|---|---|---|\n";
    for second in 0..HOUR_S {
        for user in 0..COMING {
            let now = Timestamp::from_micros(second * SECOND_US + user * SECOND_US / COMING + 1);
            let key = key(KEYS + second * COMING + user);
            black_box(store.decide(now, &Question::new(vec![key], vec![check])));
        }
        let passed = second + 1;
        if passed.is_multiple_of(LOOK_EVERY_S) {
            let resident = (resident_bytes() - before) >> 20;
            let kept = number(store.len() as f64);
            let _ = writeln!(document, "| {} | {kept} | {resident} |", passed / 60);
        }
    }
}

fn check(limit: token_bucket::Limit) -> Check {
    Check::of(0, Limit::TokenBucket(limit), Cost::Take(1))
}

fn key(user: u64) -> Key {
    let mut path = Path::of_domain(b"edge");
    path.push_value(b"plan", b"free");
    path.push_value(b"user", format!("{user:010}").as_bytes());
    Key::new("token_bucket", &path)
}
