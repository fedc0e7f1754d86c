//! One request, one decision: the clock once, the rules, the store once, the fold.
//!
//! There is always a decision: `failure.rs` says what is answered when the store cannot.
//!
//! What requests hold is taken here too, and given back: `lease.rs` acquires, renews and releases,
//! `held.rs` lists what a lease holds, `taken.rs` gives back what nobody was told of, and `pending.rs` keeps what the store could not be told;
//! `event.rs` counts all that.
//! `peeks.rs` notes which keys passed a peek, to see costs that should have been charged.
//! `shadow.rs` keeps what limits in shadow would have refused, and reports it.
//! `report.rs` takes in what workers say, and `view.rs` shows what it amounts to, `view/describe.rs` in words.

mod counter;
mod event;
mod failure;
mod fold;
mod held;
mod lease;
mod orders;
mod peeks;
mod pending;
mod replaced;
mod report;
mod shadow;
mod taken;
mod tally;
#[cfg(test)]
mod tests;
mod view;

pub use counter::CounterView;
pub use event::LeaseEvent;
pub use failure::DegradedCounts;
pub use lease::{Acquire, NotAcquired, Renewal};
pub use orders::{LimitSet, NotOrdered, OrderCounts, Reach, Switched, in_words as switch_in_words};
pub use replaced::Replaced;
pub use report::{NotReported, Saying};
pub use shadow::{NoShadowReport, ShadowReport, ShadowView, Standing};
pub use taken::Taken;
pub use view::{PoolView, WorkersView, text as pools_text};

use crate::{
    clock::{Clock, Deadline},
    decision::{Code, Decision, Lease},
    lease::{Attempt, By, LeaseId, Leased},
    limiter::{Cost, Limit, State, fleet},
    request::Request,
    rules::{Domain, OnStoreFailure, Resolution, Rules},
    store::{LeaseCounts, Memory, Store, StoreError, WorkerCounts},
    verdict::{Question, Verdict},
};
use arc_swap::ArcSwap;
use bytes::Bytes;
use event::LeaseEvents;
use failure::Degraded;
use futures_util::FutureExt as _;
use orders::OrderBook;
use peeks::Peeks;
use pending::Pending;
use shadow::Shadow;
use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// How a whole process decides, beside what its rules say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// Nobody is refused: everything is decided and charged as if it were enforced, and answered OK.
    pub shadow: bool,
    /// Every limit is a quota limit.
    pub quota: bool,
    /// Answers carry the metadata of the rules.
    pub metadata: bool,
    /// Answers tell how it stands with every limit, and not with one for each descriptor.
    pub standings: bool,
    /// What limits do when the store cannot decide, where neither they nor their domains say it.
    pub on_store_failure: OnStoreFailure,
    /// How many processes there are, for limits that each then applies for itself; `None` for as many as the
    /// store last knew of.
    pub replicas: Option<u32>,
}

/// The most keys of which this process counts for itself while the store cannot decide.
const MOST_LOCAL_KEYS: usize = 200_000;

/// What became of a question.
#[derive(Debug)]
struct Asked {
    verdict: Verdict,
    /// What was taken for it.
    taken: Option<Taken>,
    /// By what each check was decided without the store; `None` where the store decided.
    policies: Option<Vec<OnStoreFailure>>,
}

/// Decides requests.
#[derive(Debug)]
pub struct Decider {
    /// Replaced as a whole: whoever decides takes a copy of the pointer first, and stays with that.
    rules: ArcSwap<Rules>,
    store: Store,
    clock: Clock,
    modes: Modes,
    pending: Pending,
    /// Where rules limit locally while the store cannot decide.
    local: Memory,
    degraded: Degraded,
    /// Held by whoever puts other rules in force.
    replacing: Mutex<()>,
    orders: OrderBook,
    lease_events: LeaseEvents,
    shadow: Shadow,
    peeks: Peeks,
    #[cfg(test)]
    has_a_bug: std::sync::atomic::AtomicBool,
    refunds_ignored: AtomicU64,
    bad_reports: AtomicU64,
    too_many_workers: AtomicU64,
    unmetered: AtomicU64,
}

impl Decider {
    /// A decider over these rules, with states kept in this store.
    pub fn new(rules: Rules, store: Store, clock: Clock, modes: Modes) -> Arc<Self> {
        let (pending, degraded) = (Pending::default(), Degraded::default());
        let local = Memory::new(MOST_LOCAL_KEYS);
        pending.expect_leases_of(&rules);
        store.expect_rules(rules.generation(), false);
        let [refunds_ignored, bad_reports, too_many_workers, unmetered] = Default::default();
        Arc::new(Self {
            rules: ArcSwap::from_pointee(rules),
            store,
            clock,
            modes,
            pending,
            local,
            degraded,
            replacing: Mutex::default(),
            orders: OrderBook::default(),
            lease_events: LeaseEvents::default(),
            shadow: Shadow::default(),
            peeks: Peeks::default(),
            #[cfg(test)]
            has_a_bug: false.into(),
            refunds_ignored,
            bad_reports,
            too_many_workers,
            unmetered,
        })
    }

    /// The rules in force. Whoever needs them twice for one thing asks once: they may be replaced at any
    /// time.
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Puts other rules in force, for all that comes from now on. What was used stays used, wherever the new
    /// rules have a limit in the same place.
    ///
    /// What is returned was in force until now. Whoever has begun goes on with it, and the last to drop it
    /// frees all of it, which takes a while where there are many rules: keep it until nobody else does.
    pub fn replace_rules(&self, domains: Vec<Domain>) -> Arc<Rules> {
        self.replace(|rules| rules.with_domains(domains))
    }

    /// Puts those in force that follow the ones in force.
    fn replace(&self, next: impl FnOnce(&Rules) -> Rules) -> Arc<Rules> {
        // One after the other, so that each goes on from the last.
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.rules();
        let rules = next(&before);
        self.pending.expect_leases_of(&rules);
        // What was taken under the rules in force is dropped before others are, so that it speaks by no limit of theirs.
        self.store.expect_rules(rules.generation(), before.outdates_grants(&rules));
        let replaced = self.rules.swap(Arc::new(rules));
        self.keep_for_longer(&replaced);
        // There may be room now for those who wait.
        self.store.queues().announce_to_all();
        replaced
    }

    /// Has what was used of changed limits kept in memory for as long as the new ones need. Redis is told by whoever asks
    /// for a key again.
    fn keep_for_longer(&self, before: &Rules) {
        let Store::Memory(memory) = &self.store else { return };
        let rules = self.rules();
        let changed = rules.changed_rate_limits(before);
        if changed.is_empty() {
            return;
        }
        let needs = |limit: &Limit, state: &State| {
            Some((limit.expires_at(state)?, limit.refill_us_of(state)))
        };
        memory.extend_all(|key, state| match state {
            state if !state.is_of_rate() => None,
            state if key.is_hashed() => {
                // Any of them may be its limit.
                let needed = changed.iter().filter_map(|limit| needs(limit, state));
                needed.max_by_key(|(fresh_at, _)| *fresh_at)
            }
            state => needs(&rules.rate_limit_of(key)?, state),
        });
    }

    /// How it decides, beside what the rules say.
    pub const fn modes(&self) -> Modes {
        self.modes
    }

    /// Where it keeps its states.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// What went on with leases.
    pub fn lease_counts(&self) -> LeaseCounts {
        LeaseCounts {
            releases_given_up: self.pending.given_up(),
            refunds_ignored: self.refunds_ignored.load(Ordering::Relaxed),
        }
    }

    /// How often this became of a lease, since the process began.
    pub fn lease_events(&self, event: LeaseEvent) -> u64 {
        self.lease_events.of(event)
    }

    /// How many releases are kept until the store can take them.
    pub fn releases_pending(&self) -> usize {
        self.pending.len()
    }

    /// How many requests were answered without the store.
    pub fn degraded_counts(&self) -> DegradedCounts {
        self.degraded.counts()
    }

    /// What went on with workers.
    pub fn worker_counts(&self) -> WorkerCounts {
        WorkerCounts {
            bad_reports: self.bad_reports.load(Ordering::Relaxed),
            too_many_workers: self.too_many_workers.load(Ordering::Relaxed),
            unmetered: self.unmetered.load(Ordering::Relaxed),
        }
    }

    /// Decides a request before the deadline, and releases what it releases. What it took for it comes along,
    /// and is given back unless it is kept: whoever has answered keeps it.
    ///
    /// There is always a decision: where the store makes none in time, what the rules want done then.
    pub async fn decide(
        self: &Arc<Self>,
        request: &Request,
        deadline: Deadline,
    ) -> (Decision, Option<Taken>) {
        let decided =
            AssertUnwindSafe(self.decide_by_rules(request, deadline)).catch_unwind().await;
        let decided = decided.unwrap_or_else(|_| (self.despite_a_bug(request), None));
        self.degraded.count(&decided.0);
        decided
    }

    async fn decide_by_rules(
        self: &Arc<Self>,
        request: &Request,
        deadline: Deadline,
    ) -> (Decision, Option<Taken>) {
        // Not a copy of the pointer, which all cores would count in one place; but of the many that wait for a store.
        let rules = self.rules.load();
        let mut resolution = rules.resolve(request, self.modes.quota);
        if !resolution.releases.is_empty() {
            // They are carried out whether or not anybody waits.
            deadline.bound(Box::pin(self.release_all(&resolution.releases))).await;
        }
        let ignored = resolution.question.refunds_of_slots();
        if ignored > 0 {
            self.refunds_ignored.fetch_add(ignored, Ordering::Relaxed);
        }
        let drawn = draw_for(&mut resolution.question);
        let named = drawn.and_then(|()| self.take_under(&mut resolution));
        let asking = async {
            let id = named.as_ref().map_err(StoreError::clone)?.as_ref().map(|(id, _)| id);
            self.ask(&resolution, id, deadline).await
        };
        self.count_bad_reports(resolution.bad_reports);
        let asked = if resolution.reports.is_empty() {
            asking.await
        } else {
            // What workers say decides nothing of this request.
            let reporting = deadline.bound(self.report_all(&resolution.reports));
            Box::pin(async { tokio::join!(asking, reporting).0 }).await
        };
        let asked = asked.unwrap_or_else(|_| self.by_policy(&rules, request, &resolution));
        let mut decision = self.fold(&rules, request, &resolution, &asked);
        if let (Ok(Some((id, name))), Some(left_us)) = (named, asked.verdict.leased.left_us()) {
            decision.lease = Some(lease(&rules, request, &resolution, id, name, left_us));
        }
        (decision, asked.taken)
    }

    /// The lease under which a request takes what it takes, and what Envoy is to call it; `None` where it
    /// takes nothing.
    fn take_under(
        &self,
        resolution: &mut Resolution<'_>,
    ) -> Result<Option<(LeaseId, Bytes)>, StoreError> {
        if let Some((id, name)) = resolution.carried.clone() {
            let (_, attempt) = draw()?;
            resolution.question.take_under(&id, (By::Request, attempt), None, None);
            return Ok(Some((id, name)));
        }
        if !resolution.question.takes_slots() {
            return Ok(None);
        }
        let (id, attempt) = draw()?;
        resolution.question.take_under(&id, (By::Server, attempt), None, None);
        let name = Bytes::copy_from_slice(id.as_str().as_bytes());
        Ok(Some((id, name)))
    }

    /// Asks the store. What it took is given back unless it is kept, also where nobody waits for the answer
    /// any more.
    async fn ask(
        self: &Arc<Self>,
        resolution: &Resolution<'_>,
        id: Option<&LeaseId>,
        deadline: Deadline,
    ) -> Result<Asked, StoreError> {
        #[cfg(test)]
        assert!(!self.has_a_bug.load(Ordering::Relaxed), "a bug");
        let taking = resolution.question.taking.as_ref();
        let mut taken = id.zip(taking).map(|(id, taking)| Taken::new(self, id, taking.attempt));
        let decided = self.store.decide(self.clock.now(), &resolution.question, deadline).await;
        let is_taken = match &decided {
            Ok(verdict) => verdict.leased.left_us().is_some(),
            Err(error) => error.may_be_done(),
        };
        if !is_taken && let Some(taken) = taken.take() {
            taken.keep();
        }
        let verdict = decided?;
        if id.is_some() && matches!(verdict.leased, Leased::For { .. }) {
            self.lease_events.count(LeaseEvent::Taken);
        }
        self.count_unmetered(&resolution.question, &verdict);
        Ok(Asked { verdict, taken, policies: None })
    }

    /// Counts what was admitted because nobody knows what its pool can take.
    fn count_unmetered(&self, question: &Question, verdict: &Verdict) {
        if verdict.refusal.is_some() {
            return;
        }
        let told = question.checks.iter().zip(&verdict.outcomes);
        let unmetered = told.filter(|(check, outcome)| {
            let could_be_refused = !check.limit.is_critical();
            let takes = matches!(check.cost, Cost::Take(_));
            let is_unknown = outcome.remaining == fleet::UNKNOWN;
            check.told_by.is_some() && could_be_refused && takes && is_unknown
        });
        let unmetered = unmetered.count() as u64;
        if unmetered > 0 {
            self.unmetered.fetch_add(unmetered, Ordering::Relaxed);
        }
    }

    /// The decision that an answer amounts to, counted.
    fn fold(
        &self,
        rules: &Rules,
        request: &Request,
        resolution: &Resolution<'_>,
        asked: &Asked,
    ) -> Decision {
        let mut decision = fold::fold(resolution, asked, self.modes.shadow);
        // What was decided before has been counted.
        if !matches!(asked.verdict.leased, Leased::Again { .. } | Leased::Conflict) {
            let is_refused = decision.code == Code::OverLimit;
            rules.traffic(&request.domain).count(is_refused, decision.degraded);
            tally::count(resolution, asked, self.modes.shadow, &self.shadow, &self.peeks);
        }
        if self.modes.metadata {
            decision.metadata = fold::metadata(resolution, &decision.statuses);
        }
        if self.modes.standings {
            decision.standings = fold::standings(resolution, asked);
        }
        decision
    }
}

/// A lease for the answer, as these rules, by which the request was resolved, want it told.
fn lease(
    rules: &Rules,
    request: &Request,
    resolution: &Resolution<'_>,
    id: LeaseId,
    name: Bytes,
    left_us: u64,
) -> Lease {
    let key = rules.lease_key(&request.domain).to_owned();
    let mut headers: Vec<String> = Vec::new();
    let rules = resolution.rules.iter().flatten();
    for header in rules.filter_map(|placed| placed.rule.lease_header.as_ref()) {
        if !headers.contains(header) {
            headers.push(header.clone());
        }
    }
    Lease { id, name, key, left_us, headers, held: Vec::new() }
}

fn draw() -> Result<(LeaseId, Attempt), StoreError> {
    LeaseId::draw().map_err(no_random_numbers)
}

/// Draws for a request of which something depends on chance.
fn draw_for(question: &mut Question) -> Result<(), StoreError> {
    if question.draws() {
        question.draw(getrandom::u32().map_err(no_random_numbers)?);
    }
    Ok(())
}

fn no_random_numbers(error: getrandom::Error) -> StoreError {
    StoreError::Refused(format!("the operating system has no random numbers: {error}"))
}
