//! What stands under keys, spread over shards, each behind a lock: requests that share no shard do not wait for each
//! other.
//!
//! Whoever needs several at once takes their locks in ascending order, each once, and so waits for nobody who waits
//! for him. A shard is whatever its owner keeps there; nothing is awaited under a lock.

#[cfg(test)]
mod tests;

use crate::{key::Key, verdict::Few};
use std::{
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// As many shards as are worth having, a power of two: many times the cores, so that locks are seldom contended.
pub(super) const MOST_SHARDS: usize = 64;

/// The shards of all keys.
#[derive(Debug)]
pub(super) struct Shards<S> {
    shards: Box<[Mutex<S>]>,
    /// Seeded at random: whoever chooses keys cannot choose where they fall.
    hasher: RandomState,
}

impl<S: Default> Shards<S> {
    /// So many, or what power of two is next below; at least one.
    pub(super) fn new(count: usize) -> Self {
        let count = 1 << count.max(1).ilog2();
        let shards = (0..count).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }
}

impl<S> Shards<S> {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.shards.len()
    }

    /// What hashes keys. Also for tables within a shard.
    pub(super) const fn hasher(&self) -> &RandomState {
        &self.hasher
    }

    /// The hash of a key, by which its shard is found.
    pub(super) fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Locks the shard of a hash; each has one.
    pub(super) fn lock(&self, hash: u64) -> Option<MutexGuard<'_, S>> {
        self.shards.get(self.place(hash)).map(lock)
    }

    /// Locks the shard at a place.
    pub(super) fn at(&self, place: usize) -> Option<MutexGuard<'_, S>> {
        self.shards.get(place).map(lock)
    }

    /// Locks the shards of these hashes, each once, in ascending order.
    pub(super) fn lock_all(&self, hashes: &[u64]) -> Locked<'_, S> {
        let mut places: Few<usize> = hashes.iter().map(|&hash| self.place(hash)).collect();
        places.sort_unstable();
        places.dedup();
        let locked = places.into_iter();
        let locked = locked.filter_map(|place| Some((place, lock(self.shards.get(place)?))));
        Locked { shards: self, locked: locked.collect() }
    }

    /// All of them, each locked while it is looked at.
    pub(super) fn one_by_one(&self) -> impl Iterator<Item = MutexGuard<'_, S>> {
        self.shards.iter().map(lock)
    }

    /// Where the shard of a hash is: its upper half decides, for a table within the shard uses the lower.
    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }
}

/// Shards that are locked together.
pub(super) struct Locked<'s, S> {
    shards: &'s Shards<S>,
    /// By their places, in ascending order.
    locked: Few<(usize, MutexGuard<'s, S>)>,
}

impl<S> Locked<'_, S> {
    /// The shard of a hash; `None` where that is not among those it was locked for.
    pub(super) fn of(&mut self, hash: u64) -> Option<&mut S> {
        let place = self.shards.place(hash);
        let index = self.locked.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.locked.get_mut(index).map(|(_, shard)| &mut **shard)
    }
}

/// A lock that a panic left behind still guards something whole: nothing under it stops half-way.
fn lock<S>(shard: &Mutex<S>) -> MutexGuard<'_, S> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
