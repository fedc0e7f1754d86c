//! A decider whose clock is moved by hand, and what it is asked.

use crate::{
    clock::{Clock, Deadline, ManualClock},
    config,
    decider::{Acquire, Decider, Modes, NotAcquired, Taken},
    decision::Decision,
    lease::LeaseId,
    request::{Descriptor, Entry, Request},
    rules::Rules,
    store::{Memory, Store},
};
use std::{sync::Arc, time::Duration};
use tokio::task::{self, JoinHandle};

/// Longer than anything takes.
pub(in crate::decider) const LONG: Duration = Duration::from_secs(60);

pub(in crate::decider) struct Test {
    pub(in crate::decider) decider: Arc<Decider>,
    pub(in crate::decider) clock: ManualClock,
}

impl Test {
    /// One that keeps states in memory.
    pub(in crate::decider) fn new(rules: &str, modes: Modes) -> Self {
        Self::on(Store::Memory(Memory::new(1000)), rules, modes)
    }

    pub(in crate::decider) fn on(store: Store, rules: &str, modes: Modes) -> Self {
        let clock = ManualClock::default();
        let rules = Rules::new(config::domains_of(rules));
        Self { decider: Decider::new(rules, store, Clock::Manual(clock.clone()), modes), clock }
    }

    pub(in crate::decider) async fn decide(&self, request: &Request) -> Decision {
        self.decider.decide(request, Deadline::default()).await.0
    }

    /// Asks for so much of each of these keys.
    pub(in crate::decider) async fn ask(&self, hits: u32, keys: &[&'static str]) -> Decision {
        self.decide(&request(hits, keys)).await
    }

    /// Acquires what these keys meet, and waits for it for so long.
    pub(in crate::decider) async fn acquire(
        &self,
        keys: &[&'static str],
        wait: Duration,
    ) -> (Decision, Option<Taken>) {
        self.decider.acquire(&acquire(keys, wait), Deadline::default()).await.unwrap()
    }

    /// Acquires what is free, and holds it.
    pub(in crate::decider) async fn hold(&self, keys: &[&'static str]) -> LeaseId {
        let (decision, taken) = self.acquire(keys, Duration::ZERO).await;
        taken.unwrap().keep();
        decision.lease.unwrap().id
    }

    /// Somebody who waits for what is not free; he stands in line by now.
    pub(in crate::decider) async fn waiter(
        &self,
        keys: &'static [&'static str],
    ) -> JoinHandle<Result<(Decision, Option<Taken>), NotAcquired>> {
        let (decider, before) = (Arc::clone(&self.decider), self.waiting());
        let waiter = tokio::spawn(async move {
            decider.acquire(&acquire(keys, LONG), Deadline::default()).await
        });
        while self.waiting() <= before {
            task::yield_now().await;
        }
        waiter
    }

    /// How many stand in line.
    pub(in crate::decider) fn waiting(&self) -> usize {
        self.decider.store().queues().waiting()
    }
}

/// Asks for so much of each of these keys.
pub(in crate::decider) fn request(hits: u32, keys: &[&'static str]) -> Request {
    let descriptor = |key: &&'static str| Descriptor {
        entries: vec![Entry { key: key.as_bytes().into(), value: "x".into() }],
        ..Descriptor::default()
    };
    let descriptors = keys.iter().map(descriptor).collect();
    Request { domain: "test".into(), descriptors, hits_addend: hits }
}

/// To acquire what these keys meet, and to wait for it.
fn acquire(keys: &[&'static str], wait: Duration) -> Acquire {
    Acquire { request: request(0, keys), id: None, term: None, wait, requires_limit: false }
}
