//! The memory budget of requests that are not whole yet: heads that have begun, streams whose message has not come,
//! messages of which a part is there. Each of them has a bound of its own, but thousands of connections may carry
//! thousands of streams, so all of them together have this one.
//!
//! A reservation never waits and never fails for want of room: the oldest reservations are revoked instead. A
//! request that an honest client sends is whole within milliseconds, so what is oldest is what a slow or hostile
//! peer leaves unfinished, and a flood of unfinished requests evicts itself. What is revoked counts as free at once;
//! its owner is woken, and drops what it holds.

#[cfg(test)]
mod tests;

use futures_util::task::AtomicWaker;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

/// What one budget holds, in bytes. With what the allocator adds, the process stays well below the memory limit of
/// the manifest (`deploy/kubernetes/deployment.yaml`).
pub const ROOM: usize = 64 << 20;

/// What a request costs that has begun and of whose message nothing has come, in bytes: its stream, its task, its
/// header fields.
pub const STREAM: usize = 4 << 10;

/// A revoked reservation: its owner gives up what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "too many requests are unfinished, and this one has been for longest: send it again, as a whole"
)]
pub struct Revoked;

/// The budget. Clones share it.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Mutex<Ledger>>);

#[derive(Debug)]
struct Ledger {
    room: usize,
    /// The number of the next reservation.
    next: u64,
    /// By number, so the oldest is first.
    open: BTreeMap<u64, Claim>,
    revoked: u64,
}

#[derive(Debug)]
struct Claim {
    bytes: usize,
    notice: Arc<Notice>,
}

/// How an owner hears that its reservation was revoked.
#[derive(Debug, Default)]
struct Notice {
    is_revoked: AtomicBool,
    owner: AtomicWaker,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(ROOM)
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub fn of(room: usize) -> Self {
        let ledger = Ledger { room, next: 0, open: BTreeMap::new(), revoked: 0 };
        Self(Arc::new(Mutex::new(ledger)))
    }

    /// Reserves so many bytes. The oldest reservations make room.
    pub fn reserve(&self, bytes: usize) -> Reservation {
        let notice = Arc::<Notice>::default();
        let mut ledger = self.ledger();
        let number = ledger.next;
        ledger.next += 1;
        ledger.open.insert(number, Claim { bytes: 0, notice: Arc::clone(&notice) });
        ledger.set(number, bytes);
        drop(ledger);
        Reservation { budget: self.clone(), number, notice, bytes }
    }

    /// How many reservations were revoked since the start.
    pub fn revoked(&self) -> u64 {
        self.ledger().revoked
    }

    /// No method of the ledger panics half-way, so a poisoned lock still guards whole entries.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// Makes a claim one of so many bytes, and revokes the oldest claims until there is room for it.
    fn set(&mut self, number: u64, bytes: usize) {
        let Some(claim) = self.open.get_mut(&number) else { return };
        self.room += std::mem::replace(&mut claim.bytes, 0);
        while self.room < bytes {
            let Some((oldest, claim)) = self.open.pop_first() else { return };
            self.room += claim.bytes;
            self.revoked += 1;
            claim.notice.is_revoked.store(true, Ordering::Release);
            claim.notice.owner.wake();
            if oldest == number {
                return;
            }
        }
        if let Some(claim) = self.open.get_mut(&number) {
            claim.bytes = bytes;
            self.room -= bytes;
        }
    }
}

/// Bytes that are reserved. Dropped, it frees them.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    number: u64,
    notice: Arc<Notice>,
    bytes: usize,
}

impl Reservation {
    /// Makes it a reservation of so many bytes.
    ///
    /// # Errors
    ///
    /// Where it was revoked, now or before.
    pub fn set(&mut self, bytes: usize) -> Result<(), Revoked> {
        if bytes != self.bytes && !self.is_revoked() {
            self.budget.ledger().set(self.number, bytes);
            self.bytes = bytes;
        }
        if self.is_revoked() { Err(Revoked) } else { Ok(()) }
    }

    /// Ready once it was revoked; until then the task is woken when that happens.
    pub fn poll_revoked(&self, context: &Context<'_>) -> Poll<Revoked> {
        self.notice.owner.register(context.waker());
        if self.is_revoked() { Poll::Ready(Revoked) } else { Poll::Pending }
    }

    /// Completes once it was revoked.
    pub async fn revoked(&self) -> Revoked {
        std::future::poll_fn(|context| self.poll_revoked(context)).await
    }

    fn is_revoked(&self) -> bool {
        self.notice.is_revoked.load(Ordering::Acquire)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut ledger = self.budget.ledger();
        if let Some(claim) = ledger.open.remove(&self.number) {
            ledger.room += claim.bytes;
        }
    }
}
