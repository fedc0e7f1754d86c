//! States in this process's memory: exact under concurrency, bounded, and every one expires.
//!
//! Keys are spread over [`shards`](super::shards). A request locks all of its own, decides, writes, and lets go.
//!
//! A state that equals one never used is forgotten. Every key that a request asks for sweeps a few
//! entries of its shard, so memory follows the live keys, as long as there are requests, without a task
//! of its own.
//!
//! A full shard makes room as Redis does, by a sample: of a few entries it forgets the one of whose limit
//! the smallest share is used. That one has least to lose: a flood of made-up names pushes out made-up
//! names, and not who is at his limit, unless one request uses a whole limit. What is in flight is forgotten
//! last, and before it the records of leases. Forgetting a live state lets its
//! caller have again what he had used, so it is counted, and the server says so in its log.

mod shadow;
#[cfg(test)]
mod tests;

use crate::{
    clock::Timestamp,
    key::Key,
    lease::{LeaseId, Release, Released, Renewed, Term},
    limiter::State,
    release::release,
    renew::renew,
    report::report,
    shadow::Slots,
    store::{
        Queues,
        orders::{Orders, Telling, Told},
        shards::{MOST_SHARDS, Shards},
    },
    verdict::{self, Few, Kept, Question, Verdict, Write},
    worker::{Report, Reported},
};
use hashbrown::{HashTable, hash_table::OccupiedEntry};
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Entries that are looked at for expired ones, for each key that is asked for. More than the one that it
/// may add, so that sweeping keeps ahead of growth.
const SWEPT_PER_KEY: usize = 2;

/// Entries that are looked at under one lock when limits have changed: some 50 µs.
const EXTENDED_AT_ONCE: usize = 64;

/// Room that a shard keeps, in entries, however few it has.
const LEAST_ROOM: usize = 64;

/// Entries among which a full shard chooses the one to forget.
const CANDIDATES: usize = 16;

/// The least keys that a shard is worth having for.
const KEYS_PER_SHARD: usize = 1024;

/// The store.
#[derive(Debug)]
pub struct Memory {
    shards: Shards<Shard>,
    keys_per_shard: usize,
    forgotten_live: AtomicU64,
    queues: Queues,
    orders: Mutex<Orders>,
    /// What rules in shadow did of late, by their paths.
    shadow: Mutex<BTreeMap<Box<str>, Slots>>,
}

#[derive(Debug, Default)]
struct Shard {
    /// Where in `entries` a key is.
    places: HashTable<u32>,
    entries: Vec<Entry>,
    /// Where the sweep goes on.
    hand: usize,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    kept: Kept,
}

impl Memory {
    /// A store for at most `max_keys` keys; 0 is taken as 1. Each shard has its part of the room, so one
    /// may be full when the whole is not quite.
    pub fn new(max_keys: usize) -> Self {
        let max_keys = max_keys.clamp(1, u32::MAX as usize);
        let shards = Shards::new((max_keys / KEYS_PER_SHARD).min(MOST_SHARDS));
        Self {
            keys_per_shard: max_keys / shards.count(),
            shards,
            forgotten_live: AtomicU64::new(0),
            queues: Queues::default(),
            orders: Mutex::default(),
            shadow: Mutex::default(),
        }
    }

    /// Decides a request, as one atomic step.
    pub fn decide(&self, now: Timestamp, question: &Question) -> Verdict {
        let settle = |stored: &[Option<State>]| verdict::settle(question, stored, now);
        Verdict::of(&question.checks, self.at_once(now, &question.keys, settle))
    }

    /// Releases what a lease holds.
    pub fn release(&self, now: Timestamp, id: &LeaseId, what: Release) -> Released {
        let (released, free) =
            self.with_lease(now, id, |keys, stored| release(keys, stored, what, now));
        free.iter().for_each(|key| self.queues.announce(key));
        released
    }

    /// Renews a lease.
    pub fn renew(&self, now: Timestamp, id: &LeaseId, term: Option<Term>) -> Renewed {
        let (renewed, free) =
            self.with_lease(now, id, |keys, stored| renew(keys, stored, term, now));
        if renewed == Renewed::Lost {
            free.iter().for_each(|key| self.queues.announce(key));
        }
        renewed
    }

    /// Takes in what a worker says. The keys are those of its pool's workers and its own.
    pub fn report(&self, now: Timestamp, keys: &[Key; 2], what: &Report) -> Reported {
        self.at_once(now, keys, |stored| report(stored, what, now))
    }

    /// Forgets states, and tells those who wait for them.
    pub fn forget(&self, keys: &[Key]) {
        for key in keys {
            let hash = self.shards.hash(key);
            if let Some(mut shard) = self.shards.lock(hash) {
                shard.remove(hash, key, self.shards.hasher());
            }
            self.queues.announce(key);
        }
    }

    /// Tells of orders, and hears of them.
    pub fn tell_orders(&self, now: Timestamp, telling: Telling<'_>) -> Told {
        lock(&self.orders).tell(now, telling)
    }

    /// Keeps states for longer than they were to be, by what the limits in force say of each: until when, and in how many
    /// microseconds as much comes as the limit allows. A few entries at a time are locked, so that no request waits.
    pub fn extend_all(&self, needed: impl Fn(&Key, &State) -> Option<(Timestamp, u64)>) {
        for shard in 0..self.shards.count() {
            // From the end: what is removed meanwhile is replaced by what was the last, which has been looked at.
            let mut end = usize::MAX;
            while end > 0 {
                let Some(mut shard) = self.shards.at(shard) else { break };
                end = end.min(shard.entries.len());
                let begin = end.saturating_sub(EXTENDED_AT_ONCE);
                for entry in shard.entries.get_mut(begin..end).unwrap_or_default() {
                    if let Some((fresh_at, refill_us)) = needed(&entry.key, &entry.kept.state) {
                        entry.extend(fresh_at, refill_us);
                    }
                }
                end = begin;
            }
        }
    }

    /// What stands under these keys, each read by itself.
    pub fn look(&self, keys: &[Key]) -> Vec<Option<State>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Who waits for slots.
    pub const fn queues(&self) -> &Queues {
        &self.queues
    }

    /// A step on a lease's record and all states that it names. Which those are must be known before they
    /// are locked, so the record is read first, and then again.
    fn with_lease<R>(
        &self,
        now: Timestamp,
        id: &LeaseId,
        step: impl Fn(&[Key], &[Option<State>]) -> (R, Vec<Write>),
    ) -> (R, Vec<Key>) {
        loop {
            let seen = self.get(id.key());
            let mut keys = vec![id.key().clone()];
            let entries = seen.as_ref().and_then(State::record).map(|record| &record.entries);
            for hold in entries.into_iter().flatten().flat_map(|entry| &entry.holds) {
                if !keys.contains(&hold.key) {
                    keys.push(hold.key.clone());
                }
            }
            let done = self.at_once(now, &keys, |stored| {
                if stored.first() != Some(&seen) {
                    return (None, Vec::new());
                }
                let (answer, writes) = step(&keys, stored);
                let written = writes.iter().filter_map(|write| keys.get(write.slot));
                let free = written.filter(|key| *key != id.key()).cloned().collect();
                (Some((answer, free)), writes)
            });
            if let Some(done) = done {
                return done;
            }
        }
    }

    fn get(&self, key: &Key) -> Option<State> {
        let hash = self.shards.hash(key);
        self.shards.lock(hash)?.get(hash, key).cloned()
    }

    /// Reads states and writes what becomes of them, while nobody else does.
    fn at_once<R, W: IntoIterator<Item = Write>>(
        &self,
        now: Timestamp,
        keys: &[Key],
        step: impl FnOnce(&[Option<State>]) -> (R, W),
    ) -> R {
        let hasher = self.shards.hasher();
        let hashes: Few<u64> = keys.iter().map(|key| self.shards.hash(key)).collect();
        let mut locked = self.shards.lock_all(&hashes);
        for &hash in &hashes {
            if let Some(shard) = locked.of(hash) {
                shard.sweep(now, hasher);
            }
        }
        let stored: Few<Option<State>> = keys
            .iter()
            .zip(&hashes)
            .map(|(key, &hash)| locked.of(hash)?.get(hash, key).cloned())
            .collect();
        let (answer, writes) = step(&stored);
        for Write { slot, kept, is_extension } in writes {
            let (Some(key), Some(&hash)) = (keys.get(slot), hashes.get(slot)) else { continue };
            let Some(shard) = locked.of(hash) else { continue };
            match kept {
                Some(kept) if is_extension => shard.extend(hash, key, &kept),
                Some(kept) => {
                    if shard.is_full_for(hash, key, self.keys_per_shard) {
                        self.make_room(shard, now);
                    }
                    shard.put(hash, key, kept, hasher);
                }
                None => shard.remove(hash, key, hasher),
            }
        }
        answer
    }

    /// How many keys it holds, expired ones included that no sweep has met yet.
    pub fn len(&self) -> usize {
        self.shards.one_by_one().map(|shard| shard.entries.len()).sum()
    }

    /// How many keys it holds at most.
    pub fn max_keys(&self) -> usize {
        self.keys_per_shard * self.shards.count()
    }

    /// Whether it holds no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many live states it has had to forget since it was made, for want of room.
    pub fn forgotten_live(&self) -> u64 {
        self.forgotten_live.load(Ordering::Relaxed)
    }

    fn make_room(&self, shard: &mut Shard, now: Timestamp) {
        let Some(place) = shard.least_used(now) else { return };
        if shard.entries.get(place).is_some_and(|entry| entry.kept.fresh_at > now) {
            self.forgotten_live.fetch_add(1, Ordering::Relaxed);
        }
        shard.remove_at(place, self.shards.hasher());
    }
}

impl Shard {
    fn get(&self, hash: u64, key: &Key) -> Option<&State> {
        let place = *self.places.find(hash, |&place| self.is_at(place, key))?;
        self.entries.get(place as usize).map(|entry| &entry.kept.state)
    }

    fn is_full_for(&self, hash: u64, key: &Key, most: usize) -> bool {
        self.entries.len() >= most && self.get(hash, key).is_none()
    }

    fn put(&mut self, hash: u64, key: &Key, kept: Kept, hasher: &RandomState) {
        let found = self.places.find(hash, |&place| self.is_at(place, key)).copied();
        match found.and_then(|place| self.entries.get_mut(place as usize)) {
            Some(entry) => entry.kept = kept,
            None => {
                let Ok(place) = u32::try_from(self.entries.len()) else { return };
                self.entries.push(Entry { key: key.clone(), kept });
                let entries = &self.entries;
                self.places.insert_unique(hash, place, |&place| hash_at(entries, place, hasher));
            }
        }
    }

    /// Keeps an entry for longer, where it would be forgotten before.
    fn extend(&mut self, hash: u64, key: &Key, kept: &Kept) {
        let found = self.places.find(hash, |&place| self.is_at(place, key)).copied();
        if let Some(entry) = found.and_then(|place| self.entries.get_mut(place as usize)) {
            entry.extend(kept.fresh_at, kept.refill_us);
        }
    }

    fn remove(&mut self, hash: u64, key: &Key, hasher: &RandomState) {
        let found = self.places.find(hash, |&place| self.is_at(place, key)).copied();
        if let Some(place) = found {
            self.remove_at(place as usize, hasher);
        }
    }

    /// Removes an entry; the last one takes its place.
    fn remove_at(&mut self, place: usize, hasher: &RandomState) {
        let Some(last) = self.entries.len().checked_sub(1) else { return };
        if let Some(found) = self.place_of(place, hasher) {
            found.remove();
        }
        if place != last
            && let Some(mut moved) = self.place_of(last, hasher)
        {
            *moved.get_mut() = place as u32;
        }
        self.entries.swap_remove(place);
        self.shrink(hasher);
    }

    /// Gives back what a crowd that has gone left behind.
    fn shrink(&mut self, hasher: &RandomState) {
        let room = self.entries.len() * 2;
        if self.entries.capacity() > LEAST_ROOM.max(room * 2) {
            let entries = &mut self.entries;
            entries.shrink_to(room);
            self.places.shrink_to(room, |&place| hash_at(entries, place, hasher));
        }
    }

    /// Where the table names the entry at a place.
    fn place_of(&mut self, place: usize, hasher: &RandomState) -> Option<OccupiedEntry<'_, u32>> {
        let hash = hash_at(&self.entries, place as u32, hasher);
        self.places.find_entry(hash, |&found| found as usize == place).ok()
    }

    /// Forgets expired entries among the next few.
    fn sweep(&mut self, now: Timestamp, hasher: &RandomState) {
        for _ in 0..SWEPT_PER_KEY {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            match self.entries.get(self.hand) {
                Some(entry) if entry.kept.fresh_at <= now => self.remove_at(self.hand, hasher),
                Some(_) => self.hand += 1,
                None => return,
            }
        }
    }

    /// Among the next few entries, the one of whose limit the smallest share is used.
    fn least_used(&mut self, now: Timestamp) -> Option<usize> {
        let len = self.entries.len();
        let hand = self.hand;
        self.hand = (hand + CANDIDATES) % len.max(1);
        (0..CANDIDATES.min(len))
            .map(|step| (hand + step) % len)
            .filter_map(|place| Some((place, self.entries.get(place)?.share_used(now))))
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(place, _)| place)
    }

    fn is_at(&self, place: u32, key: &Key) -> bool {
        self.entries.get(place as usize).is_some_and(|entry| entry.key == *key)
    }
}

impl Entry {
    /// Keeps it until then, if that is later.
    fn extend(&mut self, fresh_at: Timestamp, refill_us: u64) {
        if fresh_at > self.kept.fresh_at {
            (self.kept.fresh_at, self.kept.refill_us) = (fresh_at, refill_us);
        }
    }

    /// How much of its limit is used, from 0 to 1, or 2 where it is overdrawn.
    #[expect(clippy::cast_precision_loss, reason = "it only serves to compare")]
    fn share_used(&self, now: Timestamp) -> f64 {
        (self.kept.fresh_at - now) as f64 / self.kept.refill_us.max(1) as f64
    }
}

fn hash_at(entries: &[Entry], place: u32, hasher: &RandomState) -> u64 {
    entries.get(place as usize).map_or(0, |entry| hasher.hash_one(&entry.key))
}

/// A lock that a panic left behind still guards whole entries: nothing here stops half-way.
fn lock<T>(locked: &Mutex<T>) -> MutexGuard<'_, T> {
    locked.lock().unwrap_or_else(PoisonError::into_inner)
}
