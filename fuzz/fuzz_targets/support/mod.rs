//! What targets share that ask for decisions.

use std::sync::{Arc, LazyLock};
use tokio::runtime::{Builder, Runtime};
use tollgate::{
    clock::{Clock, ManualClock},
    config::{self, Options, Source},
    decider::{Decider, Modes},
    rules::{Domain, Rules},
    store::{Memory, Store},
};

/// The seeds of all targets name the same rules.
const RULES: &str = include_str!("../../seeds/rules/every-form.yaml");

pub static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

static DOMAINS: LazyLock<Vec<Domain>> = LazyLock::new(|| {
    let source = Source { name: "rules.yaml".to_owned(), text: RULES.to_owned() };
    let loaded = config::parse(vec![source], &Options::default());
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    loaded.domains
});

/// A decider that has decided nothing yet and whose time stands still: an input that fails once fails
/// always.
pub fn new_decider() -> Arc<Decider> {
    let rules = Rules::new(DOMAINS.clone());
    let store = Store::Memory(Memory::new(1000));
    let modes = Modes { metadata: true, ..Modes::default() };
    Decider::new(rules, store, Clock::Manual(ManualClock::default()), modes)
}
