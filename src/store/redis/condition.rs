//! What is known of a Redis beside its connections: why there are none, and what has gone wrong.

use crate::store::{Failures, StoreError};
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
            last_refusal: self.words().refusal.clone(),
        }
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
