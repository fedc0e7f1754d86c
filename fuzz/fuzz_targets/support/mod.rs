//! What targets share that ask for decisions.

#![allow(dead_code, reason = "each target uses a part of it")]

use axum::Router;
use std::sync::{Arc, LazyLock};
use tokio::runtime::{Builder, Runtime};
use tollgate::{
    budget::Budget,
    clock::{Clock, ManualClock},
    config::{self, Options, Source},
    decider::{Decider, Modes},
    grpc::{Headers, RateLimitHeaders, Service},
    http::{Json, Readiness},
    reload::Reload,
    rules::{Domain, Rules},
    store::{Memory, Store},
};

/// The seeds of all targets name the same rules.
const RULES: &str = include_str!("../../seeds/rules/every-form.yaml");

/// Time passes in it only while all wait, and then at once.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
});

static DOMAINS: LazyLock<Vec<Domain>> = LazyLock::new(|| {
    let source = Source { name: "rules.yaml".to_owned(), text: RULES.to_owned() };
    let loaded = config::parse(vec![source], &Options::default());
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    loaded.domains
});

/// To read what it knows of the messages is most of what a request would take.
static JSON: LazyLock<Json> =
    LazyLock::new(|| Json::new(RUNTIME.handle().clone()).expect("descriptors"));

/// A decider that has decided nothing yet and whose time stands still: an input that fails once fails
/// always.
pub fn new_decider() -> Arc<Decider> {
    let rules = Rules::new(DOMAINS.clone());
    let store = Store::Memory(Memory::new(1000));
    let modes = Modes { metadata: true, standings: true, ..Modes::default() };
    Decider::new(rules, store, Clock::Manual(ManualClock::default()), modes)
}

/// The service, with all that it adds to answers.
pub fn new_service(decider: Arc<Decider>) -> Service {
    // The dialect that tells most, and in names.
    let rate_limit = RateLimitHeaders::Ietf;
    Service::new(decider, Headers { rate_limit, degraded: Some("x-degraded".to_owned()) })
}

/// The door for everybody.
pub fn new_public() -> Router {
    let decider = new_decider();
    let digest = config::read(&[]).digest();
    let reload = Reload::new(Vec::new(), Options::default(), digest, Arc::clone(&decider));
    let readiness = Readiness::new(reload.reloads());
    let service = new_service(Arc::clone(&decider));
    tollgate::http::public(
        service,
        JSON.clone(),
        readiness,
        decider,
        Budget::default(),
        false,
        true,
    )
}
