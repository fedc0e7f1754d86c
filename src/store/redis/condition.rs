//! What is known of a Redis beside its connections: why there are none, and what has gone wrong.

use super::heartbeat::Loss;
use crate::store::{Failures, LateCharges, Losses, StoreError};
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// Shared by the pool, which connects, and by the store, which asks.
#[derive(Debug, Default)]
pub(super) struct Condition {
    /// Whether the last attempt to connect failed.
    is_down: AtomicBool,
    words: Mutex<Words>,
    unreachable: AtomicU64,
    late: AtomicU64,
    refused: AtomicU64,
    unreadable: AtomicU64,
    busy: AtomicU64,
    silent: AtomicU64,
    given_back: AtomicU64,
    kept: AtomicU64,
    lost_all: AtomicU64,
    lost_last: AtomicU64,
    /// How many processes use it; 0 where that is not known.
    replicas: AtomicU32,
    /// For how many ticks more a refusal is news.
    refusing: AtomicU32,
}

/// Ticks for which it is.
const NEWS: u32 = 40;

#[derive(Debug, Default, Clone)]
struct Words {
    down: Option<String>,
    refusal: Option<String>,
    cautions: Vec<String>,
}

impl Condition {
    /// Takes note of an attempt to connect: why it failed, or that it did not.
    pub(super) fn set_down(&self, reason: Option<String>) {
        self.is_down.store(reason.is_some(), Ordering::Relaxed);
        self.words().down = reason;
    }

    /// Whether the last attempt to connect failed.
    pub(super) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Why it failed.
    pub(super) fn down(&self) -> Option<String> {
        self.words().down.clone()
    }

    /// Takes note of what would be better otherwise.
    pub(super) fn set_cautions(&self, cautions: Vec<String>) {
        self.words().cautions = cautions;
    }

    /// What would be better otherwise.
    pub(super) fn cautions(&self) -> Vec<String> {
        self.words().cautions.clone()
    }

    /// Counts a request that was not decided.
    pub(super) fn count(&self, error: &StoreError) {
        let counter = match error {
            StoreError::Unreachable | StoreError::Lost => &self.unreachable,
            StoreError::Late => &self.late,
            StoreError::Unreadable => &self.unreadable,
            StoreError::Busy => &self.busy,
            StoreError::Silent => &self.silent,
            StoreError::Refused(reason) => {
                self.words().refusal = Some(reason.clone());
                self.refusing.store(NEWS, Ordering::Relaxed);
                &self.refused
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Time passes.
    pub(super) fn tick(&self) {
        let left = self.refusing.load(Ordering::Relaxed);
        self.refusing.store(left.saturating_sub(1), Ordering::Relaxed);
    }

    /// Why it has refused requests lately; `None` where it has not.
    pub(super) fn refusing(&self) -> Option<String> {
        let is_news = self.refusing.load(Ordering::Relaxed) > 0;
        self.words().refusal.clone().filter(|_| is_news)
    }

    /// How many were not decided, and why.
    pub(super) fn failures(&self) -> Failures {
        Failures {
            unreachable: self.unreachable.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            unreadable: self.unreadable.load(Ordering::Relaxed),
            busy: self.busy.load(Ordering::Relaxed),
            silent: self.silent.load(Ordering::Relaxed),
            last_refusal: self.words().refusal.clone(),
        }
    }

    /// Counts a charge that came too late: whether it was given back.
    pub(super) fn count_late_charge(&self, is_given_back: bool) {
        let counter = if is_given_back { &self.given_back } else { &self.kept };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What became of charges that came too late.
    pub(super) fn late_charges(&self) -> LateCharges {
        LateCharges {
            given_back: self.given_back.load(Ordering::Relaxed),
            kept: self.kept.load(Ordering::Relaxed),
        }
    }

    /// Counts a loss of states.
    pub(super) fn count_loss(&self, loss: Loss) {
        let counter = match loss {
            Loss::All => &self.lost_all,
            Loss::Last => &self.lost_last,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// How often states were lost.
    pub(super) fn losses(&self) -> Losses {
        Losses {
            all: self.lost_all.load(Ordering::Relaxed),
            last: self.lost_last.load(Ordering::Relaxed),
        }
    }

    /// Takes note of how many processes use it.
    pub(super) fn set_replicas(&self, replicas: u32) {
        self.replicas.store(replicas, Ordering::Relaxed);
    }

    /// How many processes use it, where that is known.
    pub(super) fn replicas(&self) -> Option<u32> {
        Some(self.replicas.load(Ordering::Relaxed)).filter(|replicas| *replicas > 0)
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
