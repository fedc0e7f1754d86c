//! Whatever bytes arrive as an Acquire, they are refused as malformed or invalid, or decided: one status
//! for each descriptor, and what was acquired is held, and can be renewed and released by its id.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use std::sync::LazyLock;
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};
use tollgate::{
    clock::{Clock, ManualClock},
    config::{self, Options, Source},
    decider::{Decider, Modes},
    grpc::{
        Leases,
        proto::tollgate::v1::{
            AcquireRequest, LeaseState, ReleaseRequest, RenewRequest, acquire_response::Outcome,
            lease_service_server::LeaseService as _,
        },
    },
    rules::{Domain, Rules},
    store::{Memory, Store},
};
use tonic::Request;

/// The seeds of the other targets name the same rules.
const RULES: &str = include_str!("../seeds/rules/every-form.yaml");

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime"));

static DOMAINS: LazyLock<Vec<Domain>> = LazyLock::new(|| {
    let source = Source { name: "rules.yaml".to_owned(), text: RULES.to_owned() };
    let loaded = config::parse(vec![source], &Options::default());
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    loaded.domains
});

/// A service that has seen nothing yet and whose time stands still: an input that fails once fails
/// always.
fn new_service() -> Leases {
    let rules = Rules::new(DOMAINS.clone());
    let store = Store::Memory(Memory::new(1000));
    let clock = Clock::Manual(ManualClock::default());
    Leases::new(Decider::new(rules, store, clock, Modes::default()), watch::channel(()).1)
}

fuzz_target!(|message: &[u8]| {
    let Ok(mut request) = AcquireRequest::decode(message) else { return };
    // Nobody releases what it would wait for.
    request.wait = None;
    RUNTIME.block_on(async {
        let service = new_service();
        let (domain, descriptors) = (request.domain.clone(), request.descriptors.clone());
        let Ok(answer) = service.acquire(Request::new(request)).await else { return };
        let acquired = answer.get_ref();
        assert_eq!(acquired.statuses.len(), descriptors.len());
        let lease_id = acquired.lease_id.clone();
        if acquired.outcome() == Outcome::Refused {
            assert!(lease_id.is_empty() && acquired.refusal.is_some());
            return;
        }
        let renew = RenewRequest { lease_id: lease_id.clone(), ttl: None, domain, descriptors };
        let renewed = service.renew(Request::new(renew)).await.expect("what was valid is valid");
        assert_eq!(renewed.get_ref().state(), LeaseState::Live);
        let release = || Request::new(ReleaseRequest { lease_id: lease_id.clone() });
        for state in [LeaseState::Live, LeaseState::AlreadyGone] {
            let released = service.release(release()).await.expect("an id that was given");
            assert_eq!(released.get_ref().state(), state);
        }
    });
});
