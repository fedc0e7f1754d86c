//! Releases that are to be made: those that the store could not be told of are kept until it can, and those
//! of requests that nobody waits for are made in the background.

use super::{Decider, LeaseEvent};
use crate::{
    clock::Timestamp,
    lease::{Attempt, LeaseId, Release, Released},
    rules::Rules,
    store::StoreError,
    task::{Task, supervise},
};
use std::{
    collections::VecDeque,
    panic,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, task::JoinSet, time};

/// The most releases that are kept. Beyond, the oldest leases are left to their deadlines.
const MOST_KEPT: usize = 100_000;

/// How long after a failure the store is told again.
const TRY_EVERY: Duration = Duration::from_millis(100);

/// How many it is told of at a time.
const AT_A_TIME: usize = 64;

/// Releases that are to be made.
#[derive(Debug, Default)]
pub(super) struct Pending {
    kept: Mutex<VecDeque<Kept>>,
    /// Whether somebody sees to those that are kept.
    is_attended: AtomicBool,
    /// How many are being made in the background.
    under_way: AtomicUsize,
    /// How many had to be given up, for there were too many, since the process began.
    given_up: AtomicU64,
    /// The longest that any lease may last, in microseconds, under any rules that were ever in force.
    longest_lease_us: AtomicU64,
}

/// A release that is kept.
#[derive(Debug, Clone)]
struct Kept {
    id: LeaseId,
    what: Release,
    /// When every lease will be over anyhow.
    until: Timestamp,
}

/// Releases that are under way.
pub(super) struct Busy {
    decider: Arc<Decider>,
    count: usize,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.decider.pending.under_way.fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl Pending {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Under these rules, too, leases are taken from now on.
    pub(super) fn expect_leases_of(&self, rules: &Rules) {
        self.longest_lease_us.fetch_max(rules.longest_lease_us(), Ordering::Relaxed);
    }

    fn push(&self, release: Kept) {
        let mut kept = self.kept();
        if kept.len() >= MOST_KEPT {
            kept.pop_front();
            self.given_up.fetch_add(1, Ordering::Relaxed);
        }
        kept.push_back(release);
    }

    /// How many had to be given up, for there were too many, since the process began.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.kept().len()
    }

    fn is_empty(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0 && self.kept().is_empty()
    }
}

impl Decider {
    /// Waits until all releases are made, but no longer than this.
    pub async fn finish_releases(&self, patience: Duration) {
        let all_made = async {
            while !self.pending.is_empty() {
                time::sleep(Duration::from_millis(5)).await;
            }
        };
        // Those that are not made by then are left to their deadlines.
        let _ = time::timeout(patience, all_made).await;
    }

    /// Gives back in the background what a request took that nobody waits for any more. It may still be
    /// taking it: then it takes nothing.
    pub(super) fn give_back(self: &Arc<Self>, id: LeaseId, attempt: Attempt) {
        // Where the runtime is gone, so is the process.
        let Ok(runtime) = Handle::try_current() else { return };
        let (decider, busy) = (Arc::clone(self), self.busy(1));
        runtime.spawn(async move {
            decider.release_or_keep(&id, Release::Untold(attempt)).await.ok();
            drop(busy);
        });
    }

    /// Releases what a stream held that has ended.
    pub(super) async fn end(self: &Arc<Self>, id: &LeaseId, attempt: Attempt) {
        // Where the store does not take it, it is kept.
        self.release_or_keep(id, Release::Ended(attempt)).await.ok();
    }

    /// Releases what a lease holds, or keeps the release until the store can take it.
    pub(super) async fn release_or_keep(
        self: &Arc<Self>,
        id: &LeaseId,
        what: Release,
    ) -> Result<Released, StoreError> {
        let released = self.make(self.clock.now(), id, what).await;
        released.inspect_err(|error| {
            // Made twice, it would give back what another has taken under the same name meanwhile.
            let may_be_repeated = !matches!(what, Release::Last { .. }) || id.is_drawn();
            if may_be_repeated || !error.may_be_done() {
                let until =
                    self.clock.now() + self.pending.longest_lease_us.load(Ordering::Relaxed);
                self.pending.push(Kept { id: id.clone(), what, until });
                self.attend();
            }
        })
    }

    /// Makes a release.
    async fn make(
        &self,
        now: Timestamp,
        id: &LeaseId,
        what: Release,
    ) -> Result<Released, StoreError> {
        let released = self.store.release(now, id, what).await?;
        if let Some(event) = LeaseEvent::of(what, released) {
            self.lease_events.count(event);
        }
        Ok(released)
    }

    /// Forgets releases by whoever knows an id that is now acquired again.
    pub(super) fn forget_releases(&self, id: &LeaseId) {
        let is_stale = |kept: &Kept| kept.id == *id && matches!(kept.what, Release::Last { .. });
        self.pending.kept().retain(|kept| !is_stale(kept));
    }

    /// Counts releases that are under way, until what it returns is dropped.
    pub(super) fn busy(self: &Arc<Self>, count: usize) -> Busy {
        self.pending.under_way.fetch_add(count, Ordering::Relaxed);
        Busy { decider: Arc::clone(self), count }
    }

    /// Sees to it that what is kept is made in the end.
    fn attend(self: &Arc<Self>) {
        if self.pending.is_attended.swap(true, Ordering::AcqRel) {
            return;
        }
        let decider = Arc::clone(self);
        tokio::spawn(supervise(Task::Releases, async move || decider.make_all().await));
    }

    /// Makes what is kept, until nothing is.
    async fn make_all(self: &Arc<Self>) {
        loop {
            time::sleep(TRY_EVERY).await;
            // What is known to fail needs not be tried, and told of.
            if self.store.condition().down.is_some() {
                continue;
            }
            while self.make_some().await {}
            if self.pending.kept().is_empty() {
                self.pending.is_attended.store(false, Ordering::Release);
                // One may have been kept meanwhile, by somebody who saw it attended.
                if self.pending.kept().is_empty()
                    || self.pending.is_attended.swap(true, Ordering::AcqRel)
                {
                    return;
                }
            }
        }
    }

    /// Tells the store of the oldest. Whether it was told, and there may be more.
    async fn make_some(self: &Arc<Self>) -> bool {
        let now = self.clock.now();
        let _busy = self.busy(AT_A_TIME);
        let oldest: Vec<Kept> = {
            let mut kept = self.pending.kept();
            let count = kept.len().min(AT_A_TIME);
            kept.drain(..count).filter(|release| release.until > now).collect()
        };
        if oldest.is_empty() {
            return false;
        }
        let mut making = JoinSet::new();
        for release in oldest {
            let decider = Arc::clone(self);
            making.spawn(async move {
                let made = decider.make(now, &release.id, release.what).await;
                made.is_err().then_some(release)
            });
        }
        let (mut failed, mut panicked) = (Vec::new(), None);
        while let Some(made) = making.join_next().await {
            match made {
                Ok(release) => failed.extend(release),
                Err(error) => panicked = error.try_into_panic().ok().or(panicked),
            }
        }
        let is_made = failed.is_empty();
        {
            let mut kept = self.pending.kept();
            for release in failed.into_iter().rev() {
                kept.push_front(release);
            }
        }
        // The release that panicked is left to the deadline of its lease: made again, it might panic again.
        if let Some(panicked) = panicked {
            self.pending.given_up.fetch_add(1, Ordering::Relaxed);
            panic::resume_unwind(panicked);
        }
        is_made
    }
}
