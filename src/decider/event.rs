//! What goes on with leases, counted.

use crate::lease::{Release, Released};
use std::sync::atomic::{AtomicU64, Ordering};

/// What became of a lease through this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseEvent {
    /// It was taken.
    Taken,
    /// It was renewed.
    Renewed,
    /// It was gone, and taken again by its holder's renewal.
    Retaken,
    /// It was given back by its holder, in time.
    Released,
    /// It was given back for its holder, who had not been told of it.
    GivenBack,
    /// It was to be released, and was not there.
    AlreadyGone,
    /// It was to be released or renewed after its deadline.
    Expired,
}

impl LeaseEvent {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Taken,
        Self::Renewed,
        Self::Retaken,
        Self::Released,
        Self::GivenBack,
        Self::AlreadyGone,
        Self::Expired,
    ];

    /// Its name, in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Renewed => "renewed",
            Self::Retaken => "retaken",
            Self::Released => "released",
            Self::GivenBack => "given_back",
            Self::AlreadyGone => "already_gone",
            Self::Expired => "expired",
        }
    }

    /// What a release did; `None` where there was nothing to give back for somebody who was told of nothing.
    pub(super) const fn of(what: Release, released: Released) -> Option<Self> {
        match (what, released) {
            (Release::Untold(_), Released::Live) => Some(Self::GivenBack),
            (Release::Untold(_), _) => None,
            (_, Released::Live) => Some(Self::Released),
            (_, Released::AlreadyGone) => Some(Self::AlreadyGone),
            (_, Released::Expired) => Some(Self::Expired),
        }
    }
}

/// What counts them. Each count only grows.
#[derive(Debug, Default)]
pub(super) struct LeaseEvents([AtomicU64; LeaseEvent::ALL.len()]);

impl LeaseEvents {
    pub(super) fn count(&self, event: LeaseEvent) {
        if let Some(count) = self.0.get(event as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn of(&self, event: LeaseEvent) -> u64 {
        self.0.get(event as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}
