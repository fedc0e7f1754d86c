//! Whatever stands in a rule file, reading it ends in rules or in messages, never in a panic. An input is read as a file,
//! and as a change of one that has a limit of each limiter, so that no limiter needs a seed of its own.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tollgate::{
    config::{self, Options, Source},
    limiter::config::examples,
    rules::Rules,
};

/// The file with a limit of each limiter.
static EXAMPLES: LazyLock<String> = LazyLock::new(examples);

fuzz_target!(|input: &[u8]| {
    read(input);
    // Where the change is, how much it takes out, and what it puts in.
    if let [at, more, length, piece @ ..] = input {
        let mut file = EXAMPLES.clone().into_bytes();
        let at = usize::from(u16::from_le_bytes([*at, *more])) % file.len();
        let end = (at + usize::from(*length)).min(file.len());
        file.splice(at..end, piece.iter().copied());
        read(&file);
    }
});

fn read(file: &[u8]) {
    let Ok(text) = str::from_utf8(file) else { return };
    let source = Source { name: "fuzz.yaml".to_owned(), text: text.to_owned() };
    let loaded = config::parse(vec![source], &Options::default());
    if loaded.has_errors() {
        assert!(!loaded.render(false).is_empty(), "an error that says nothing");
    } else {
        drop(Rules::new(loaded.domains));
    }
}
