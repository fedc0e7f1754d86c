//! Which keys have passed a peek of late, so that a mistake is seen: a limit without `overdraw` is peeked when a
//! request begins, and charged when it ends. A charge above what is left is refused and spends nothing, so every
//! peek passes for ever, and nobody is limited.
//!
//! A refused cost alone is no mistake. It is one where a peek of the same key has passed before, and a token is
//! left, so that the next peek passes as well.
//!
//! The room is bounded: a table of hashes, each of which takes the place of an older one. A hash is of 64 bits, with
//! keys drawn by each process, so callers cannot choose two keys that are taken for one another. No lock is taken,
//! and a request without a peek writes nothing.

use crate::{
    key::Key,
    limiter::{Cost, Wait},
    verdict::{Check, Outcome},
};
use std::{
    hash::{BuildHasher as _, RandomState},
    iter,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// How many hashes are kept, in 128 KiB.
const PLACES: usize = 16_384;

/// Keys of which a peek has passed.
#[derive(Debug, Default)]
pub(super) struct Peeks {
    hasher: RandomState,
    /// Made with the first peek: most processes see none.
    places: OnceLock<Box<[AtomicU64]>>,
}

impl Peeks {
    /// Takes note of a check of the limit under this key. Says whether it is a cost that should have been charged:
    /// it is refused although something is left, and a peek has passed before.
    pub(super) fn note(&self, check: &Check, outcome: &Outcome, key: &Key) -> bool {
        match check.cost {
            Cost::Peek if is_without_overdraw(check) => {
                match outcome.over {
                    None => self.keep(key),
                    Some(_) => self.forget(key),
                }
                false
            }
            Cost::Take(cost) if is_without_overdraw(check) && leaves_some(check, outcome, cost) => {
                self.knows(key)
            }
            _ => false,
        }
    }

    fn keep(&self, key: &Key) {
        let places = self
            .places
            .get_or_init(|| iter::repeat_with(AtomicU64::default).take(PLACES).collect());
        let hash = self.hash(key);
        if let Some(place) = place(places, hash)
            // What is there already is not written again: other cores read it.
            && place.load(Ordering::Relaxed) != hash
        {
            place.store(hash, Ordering::Relaxed);
        }
    }

    fn forget(&self, key: &Key) {
        let Some(places) = self.places.get() else { return };
        let hash = self.hash(key);
        if let Some(place) = place(places, hash).filter(|it| it.load(Ordering::Relaxed) == hash) {
            place.store(0, Ordering::Relaxed);
        }
    }

    fn knows(&self, key: &Key) -> bool {
        let Some(places) = self.places.get() else { return false };
        let hash = self.hash(key);
        place(places, hash).is_some_and(|place| place.load(Ordering::Relaxed) == hash)
    }

    /// Never 0, which stands in an empty place.
    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key) | 1 << 63
    }
}

fn place(places: &[AtomicU64], hash: u64) -> Option<&AtomicU64> {
    places.get(hash as usize % PLACES)
}

fn is_without_overdraw(check: &Check) -> bool {
    check.limit.properties().may_be_overdrawn && !check.limit.overdraw()
}

/// Whether a refused cost leaves a token there, so that a peek passes.
fn leaves_some(check: &Check, outcome: &Outcome, cost: u64) -> bool {
    let limit = &check.limit;
    if outcome.over.is_some() && limit.arrives_in_us(1) == 0 {
        // What is missing does not say what is left; but the last peek has passed.
        return cost > 1;
    }
    match outcome.over {
        None => false,
        // All but one of its tokens, or fewer, are missing.
        Some(Wait::Micros(wait_us)) => wait_us <= limit.arrives_in_us(cost.saturating_sub(1)),
        // It is more than the limit ever holds.
        Some(Wait::Never) => limit.amount().is_some_and(|burst| {
            burst > 0 && outcome.full_in_us <= limit.arrives_in_us(u64::from(burst) - 1)
        }),
    }
}
