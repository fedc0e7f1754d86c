//! Background tasks that panic: they go on. That is a bug of tollgate, so only a part that a test puts in its place
//! brings it about.

use crate::support::{Redis, until};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;
use tollgate::{
    clock::Deadline,
    config::{self, Options, Source},
    decider::{Acquire, Decider, Modes},
    lease::LeaseId,
    request::{Descriptor, Entry, Request},
    rules::Rules,
    store::{
        Operation, Store, StoreError, Timing,
        redis::{Address, Certificates, Redis as RedisStore},
    },
    task::Task,
};

/// More than are released in one step.
const LEASES: usize = 200;

/// Panics when the first release that was kept is made.
#[derive(Debug, Default)]
struct Faulty {
    released: AtomicU32,
}

impl Timing for Faulty {
    fn took(&self, operation: Operation, _micros: u64, error: Option<&StoreError>) {
        if operation == Operation::Release && error.is_none() {
            let released = self.released.fetch_add(1, Ordering::Relaxed);
            assert!(released > 0, "as the test wants it");
        }
    }
}

fn rules() -> Rules {
    let text = format!(
        "domain: shop\ndescriptors:\n  - key: job\n    concurrency: {{max: {LEASES}, lease_ttl: 600s}}\n"
    );
    let source = Source { name: "shop.yaml".into(), text };
    let loaded = config::parse(vec![source], &Options::default());
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    Rules::new(loaded.domains)
}

/// Takes a slot, if one is free.
async fn acquire(decider: &Arc<Decider>) -> Option<LeaseId> {
    let entries = vec![Entry { key: "job".into(), value: "x".into() }];
    let descriptors = vec![Descriptor { entries, ..Descriptor::default() }];
    let request = Request { domain: "shop".into(), descriptors, hits_addend: 0 };
    let acquire =
        Acquire { request, id: None, term: None, wait: Duration::ZERO, requires_limit: false };
    let (decision, taken) = decider.acquire(&acquire, Deadline::default()).await.ok()?;
    taken?.keep();
    decision.lease.map(|lease| lease.id)
}

#[tokio::test]
async fn a_release_that_panics_holds_up_no_other() {
    let redis = Redis::start().await;
    let address = Address::parse(redis.url()).unwrap();
    let timeout = Duration::from_millis(500);
    let store = RedisStore::open(address, Certificates::default(), timeout).await.unwrap();
    let clock = store.clock();
    let decider = Decider::new(rules(), Store::Redis(Box::new(store)), clock, Modes::default());

    let mut ids = Vec::new();
    while ids.len() < LEASES {
        // On a busy machine an answer may come too late, and is given back.
        ids.push(until("a slot is free", async || acquire(&decider).await).await);
    }
    let before = Task::Releases.restarts();
    redis.signal("STOP").await;
    let mut releasing = JoinSet::new();
    for id in ids {
        let decider = Arc::clone(&decider);
        releasing.spawn(async move { decider.release(&id).await.is_err() });
    }
    assert!(releasing.join_all().await.into_iter().all(|is_kept| is_kept));
    decider.store().time(Arc::new(Faulty::default()));
    redis.signal("CONT").await;

    let all_are_made = async || (decider.releases_pending() == 0).then_some(());
    until("all releases are made", all_are_made).await;
    assert!(Task::Releases.restarts() > before);
    for _ in 0..LEASES {
        until("a slot is free", async || acquire(&decider).await).await;
    }
}
