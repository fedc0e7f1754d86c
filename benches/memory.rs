//! How much memory a live key takes in the memory store, beside the key's own text.
//!
//! `cargo bench --bench memory [KEYS]` fills a store, and reads from `/proc` what that took.

mod support;

use std::{env, hint::black_box};
use support::resident_bytes;
use tollgate::{
    clock::Timestamp,
    key::{Key, Path},
    limiter::{Cost, Limit, token_bucket},
    store::Memory,
    unit::Unit,
    verdict::{Check, Question},
};

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn main() {
    let keys = env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000);
    let limit = Limit::TokenBucket(token_bucket::Limit::per_unit(100, Unit::Day));
    let check = Check::of(0, limit, Cost::Take(1));
    // Room to spare: a shard that is full by chance must not forget any of them.
    let store = Memory::new(2 * keys);
    let before = resident_bytes();
    let mut text = 0;
    for user in 0..keys {
        let key = key(user);
        text += key.as_str().len();
        let question = Question::new(vec![key], vec![check]);
        black_box(store.decide(Timestamp::from_micros(1), &question));
    }
    let grown = resident_bytes() - before;
    assert_eq!(store.len(), keys);
    let (each, text) = (grown as f64 / keys as f64, text as f64 / keys as f64);
    println!("{keys} live keys: {} MiB resident", grown >> 20);
    println!("{each:.1} bytes a key: {text:.1} of its own text, {:.1} beside it", each - text);
}

fn key(user: usize) -> Key {
    let mut path = Path::of_domain(b"edge");
    path.push_value(b"plan", b"free");
    path.push_value(b"user", format!("{user:010}").as_bytes());
    Key::new("token_bucket", &path)
}
