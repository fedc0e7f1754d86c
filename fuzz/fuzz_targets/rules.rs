//! Whatever stands in a rule file, reading it ends in rules or in messages, never in a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::{
    config::{self, Options, Source},
    rules::Rules,
};

fuzz_target!(|file: &[u8]| {
    let Ok(text) = str::from_utf8(file) else { return };
    let source = Source { name: "fuzz.yaml".to_owned(), text: text.to_owned() };
    let loaded = config::parse(vec![source], &Options::default());
    if loaded.has_errors() {
        assert!(!loaded.render(false).is_empty(), "an error that says nothing");
    } else {
        drop(Rules::new(loaded.domains));
    }
});
