//! What Redis has refused of late: until it can be otherwise, this process refuses as much by itself.
//!
//! A bucket that has refused a cost of n, and would pass it in so long if nobody took anything, refuses every cost
//! of n or more until then, whoever asks: what others take only makes it later. So Redis need not be asked again
//! for each request of a caller who is far over his limit. One that meets other limits as well is answered here only
//! where all of them refuse it: else nobody here could say how it stands with them.
//!
//! ```text
//!     asked       decided     answered                 decided + wait
//!     ├───────────●───────────┼────────────────────────┤
//!     ◄─────── wait ────────────────────────►┤ until then this process refuses by itself
//! ```
//!
//! The wait is counted from when Redis was asked, which is before it decided, and by this process's clock: so it is
//! over here before it is there, and nothing is refused that Redis would have let pass.
//!
//! What opens a bucket before that is known where this process does it itself: who is given something back, or is
//! reset, is forgotten here at once, and what was asked before that is not believed any more. Of what others do
//! nothing is known, so nothing is believed for longer than [`LONGEST_BELIEVED_US`].
//!
//! A bucket of which slices are taken ahead of need, and that was empty then, is left alone for a moment in the same
//! way: what is refused so might pass, and is the price of asking seldom ([`grant`](crate::grant)).
//!
//! Time comes from outside. The room is bounded: in each place where a key may be, what ends first makes room.

#[cfg(test)]
mod tests;

use crate::{
    clock::Timestamp,
    key::Key,
    lease::{By, Leased},
    limiter::{Cost, Limit, Wait},
    store::shards::{MOST_SHARDS, Shards},
    verdict::{Answer, Check, Outcome, Question, Verdict},
};
use std::sync::atomic::{AtomicU64, Ordering};

/// How long a denial is believed at most, in microseconds: so long after something was given back, set or reset by
/// way of another replica it is heard of here, too.
const LONGEST_BELIEVED_US: u64 = 250_000;

/// The denials that a shard has room for: for 100,000 that are refused in a second, each by another bucket.
const PER_SHARD: usize = 256;

/// Places of a shard among which one key may be, a part of [`PER_SHARD`].
const PLACES: usize = 8;

/// What Redis has refused.
pub(super) struct Denials {
    shards: Shards<Shard>,
    /// Until when anything at all is believed, in microseconds.
    last_believed: AtomicU64,
    /// How often something was opened.
    openings: AtomicU64,
    /// How many questions were answered.
    answered: AtomicU64,
}

/// When Redis was asked: what it refuses is believed unless it was opened since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    at: Timestamp,
    openings: u64,
}

#[derive(Default)]
struct Shard {
    /// None until the first is to be kept.
    denials: Vec<Option<Denial>>,
    /// The number of its last opening.
    opened: u64,
}

/// That a limit refuses a cost, and all that are higher.
struct Denial {
    key: Key,
    limit: Limit,
    cost: u64,
    /// When the cost would pass, if nobody took anything.
    passes: Timestamp,
    /// Until when this is believed.
    believed: Timestamp,
}

impl Default for Denials {
    fn default() -> Self {
        Self {
            shards: Shards::new(MOST_SHARDS),
            last_believed: AtomicU64::new(0),
            openings: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        }
    }
}

impl Denials {
    /// The answer to a question that is known to be refused, without asking Redis; `None` where it is to be asked:
    /// always for what gives back, what only looks, and what is decided only once under an id that the caller has.
    pub(super) fn answer(&self, now: Timestamp, question: &Question) -> Option<Verdict> {
        let checks = &question.checks;
        if now.as_micros() >= self.last_believed.load(Ordering::Relaxed) {
            return None;
        }
        let names_lease = question.taking.as_ref().is_some_and(|taking| taking.by != By::Server);
        let all_take = checks.iter().all(|check| matches!(check.cost, Cost::Take(_)));
        if names_lease || !all_take || question.settles_regardless() {
            return None;
        }
        if !checks.iter().any(Check::is_enforced) {
            return None;
        }
        // Also of what does not decide it the answer says how it stands: where that is not known, Redis is asked.
        let outcome = |check| match self.wait(now, question, check)? {
            over @ Wait::Micros(micros) => Some(Outcome::over_for(over, micros)),
            Wait::Never => None,
        };
        let outcomes: Vec<Outcome> = checks.iter().map(outcome).collect::<Option<_>>()?;
        self.answered.fetch_add(1, Ordering::Relaxed);
        Some(Verdict::of(checks, Answer { outcomes, leased: Leased::Nothing }))
    }

    /// Redis is asked now.
    pub(super) fn asked(&self, now: Timestamp) -> Asked {
        Asked { at: now, openings: self.openings.load(Ordering::Acquire) }
    }

    /// Takes note of what Redis has answered.
    pub(super) fn learn(&self, asked: Asked, question: &Question, answer: &Answer) {
        // What was decided before was not decided now.
        if !matches!(answer.leased, Leased::Nothing | Leased::For { .. }) {
            return;
        }
        let Question { checks, .. } = question;
        let is_idle = asked.at.as_micros() >= self.last_believed.load(Ordering::Relaxed);
        for (place, (check, outcome)) in checks.iter().zip(&answer.outcomes).enumerate() {
            let Some(key) = question.keys.get(check.slot) else { continue };
            let (Cost::Take(cost), true) = (check.cost, may_be_kept(check)) else { continue };
            match outcome.over {
                // Under another limit it may pass.
                None if !is_idle => self.forget_others(key, &lasting(check)),
                None | Some(Wait::Never) => {}
                // It refuses a delay that others would accept.
                Some(_) if check.limit != lasting(check) => {}
                Some(Wait::Micros(wait_us)) => {
                    // The first of a key sees the state as it is, the others what it has become by then.
                    let before = checks.iter().take(place);
                    if before.into_iter().all(|before| before.slot != check.slot) {
                        let believed = asked.at + wait_us.min(LONGEST_BELIEVED_US);
                        let passes = asked.at + wait_us;
                        let limit = lasting(check);
                        let denial = Denial { key: key.clone(), limit, cost, passes, believed };
                        self.keep(asked, denial);
                    }
                }
            }
        }
    }

    /// Has all be refused until then that a limit would be asked for under this key: the bucket was empty when it was
    /// asked for a slice, and is left alone until one is there. `passes` is when there is a token.
    pub(super) fn refuse(
        &self,
        asked: Asked,
        key: Key,
        limit: Limit,
        [until, passes]: [Timestamp; 2],
    ) {
        self.keep(asked, Denial { key, limit, cost: 1, passes, believed: until });
    }

    /// Something was given back to what is under this key, or it was forgotten: what was asked until now is not
    /// believed any more.
    pub(super) fn open(&self, key: &Key) {
        let hash = self.shards.hash(key);
        let Some(mut shard) = self.shards.lock(hash) else { return };
        for place in shard.places(hash) {
            place.take_if(|denial| denial.key == *key);
        }
        shard.opened = self.openings.fetch_add(1, Ordering::AcqRel) + 1;
    }

    /// The same of all that a question gives back to.
    pub(super) fn open_all(&self, question: &Question) {
        for check in &question.checks {
            if let (Cost::Refund(_), Some(key)) = (check.cost, question.keys.get(check.slot)) {
                self.open(key);
            }
        }
    }

    /// How many questions were answered.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// How long a check is refused from now on; `None` where that is not known.
    fn wait(&self, now: Timestamp, question: &Question, check: &Check) -> Option<Wait> {
        let (Cost::Take(cost), true) = (check.cost, may_be_kept(check)) else { return None };
        let key = question.keys.get(check.slot)?;
        let hash = self.shards.hash(key);
        let mut shard = self.shards.lock(hash)?;
        let known = shard.places(hash).iter().flatten().find(|denial| denial.key == *key)?;
        let holds = known.limit == lasting(check) && known.cost <= cost && known.believed > now;
        holds.then(|| {
            Wait::Micros(known.passes - now + known.limit.arrives_in_us(cost - known.cost))
        })
    }

    fn keep(&self, asked: Asked, denial: Denial) {
        let hash = self.shards.hash(&denial.key);
        let believed_us = denial.believed.as_micros();
        let Some(mut shard) = self.shards.lock(hash) else { return };
        if shard.opened > asked.openings {
            return;
        }
        if shard.denials.is_empty() {
            shard.denials.resize_with(PER_SHARD, || None);
        }
        let places = shard.places(hash);
        let same = |place: &Option<Denial>| place.as_ref().is_some_and(|it| it.key == denial.key);
        let place = match places.iter().position(same) {
            Some(place) => places.get_mut(place),
            None => places.iter_mut().min_by_key(|place| place.as_ref().map(|it| it.believed)),
        };
        let Some(place) = place else { return };
        let says_more = place.as_ref().is_some_and(|known| {
            let is_same = known.key == denial.key && known.limit == denial.limit;
            let (cost, believed) = (known.cost, known.believed);
            let is_wider =
                cost < denial.cost || (cost == denial.cost && believed > denial.believed);
            is_same && believed > asked.at && is_wider
        });
        if !says_more {
            *place = Some(denial);
            drop(shard);
            self.last_believed.fetch_max(believed_us, Ordering::Relaxed);
        }
    }

    /// Forgets what any other limit refuses under this key.
    fn forget_others(&self, key: &Key, limit: &Limit) {
        let hash = self.shards.hash(key);
        let Some(mut shard) = self.shards.lock(hash) else { return };
        for place in shard.places(hash) {
            place.take_if(|denial| denial.key == *key && denial.limit != *limit);
        }
    }
}

/// The limit of a check, however long its caller waits for a delay.
fn lasting(check: &Check) -> Limit {
    check.limit.within(u64::MAX)
}

/// Whether a denial by this check may be repeated.
fn may_be_kept(check: &Check) -> bool {
    check.is_charge() && check.limit.properties().may_cache_denials
}

impl Shard {
    /// Where a key of this hash may be, by its lower half; nowhere as long as nothing was kept.
    fn places(&mut self, hash: u64) -> &mut [Option<Denial>] {
        let first = hash as usize % (PER_SHARD / PLACES) * PLACES;
        self.denials.get_mut(first..first + PLACES).unwrap_or_default()
    }
}
