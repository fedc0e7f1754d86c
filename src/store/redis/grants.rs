//! Slices of buckets that this process has in hand: see [`grant`](crate::grant).
//!
//! A request all of whose limits hand out slices is decided here while there are enough tokens in hand, as one step
//! under the locks of its keys' [`shards`](crate::store::shards). If there are not, it goes to Redis as ever, and
//! whoever [fetches](super::fetcher) is told that there is demand. No request waits for a slice.
//!
//! Redis is not known here, and time comes from outside.

#[cfg(test)]
mod tests;

use super::fetcher::CALL_EVERY;
use crate::{
    clock::Timestamp,
    grant::{Ask, Granted, Hand, Short},
    key::Key,
    lease::Leased,
    limiter::{Cost, Limit, token_bucket},
    store::{
        GrantCounts, draw,
        shards::{MOST_SHARDS, Shards},
    },
    verdict::{Answer, Check, Few, Outcome, Question, Verdict},
};
use hashbrown::HashTable;
use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
use tokio::sync::Notify;

/// The most buckets of which something is in hand. Of others, Redis decides each request.
const MOST_HANDS: usize = 10_000;

/// What a call is thought to take before there was any, in microseconds.
const FIRST_CALL_US: u64 = 1000;

/// What is in hand.
pub(super) struct Grants {
    shards: Shards<Shard>,
    /// How many hands there are.
    hands: AtomicUsize,
    /// That there is something to fetch.
    due: Notify,
    /// How long a call takes, in microseconds, on average.
    call_us: AtomicU64,
    /// Nothing is handed out any more.
    is_closed: AtomicBool,
    /// The oldest generation of rules by which anything is handed out.
    oldest: AtomicU64,
    /// How often all was dropped. It is raised before anything is, and read under the lock of a shard.
    drops: AtomicU64,
}

#[derive(Default)]
struct Shard {
    hands: HashTable<(Key, Hand)>,
    counts: GrantCounts,
}

/// What a request wants of a bucket.
struct Wanted<'q> {
    hash: u64,
    key: &'q Key,
    limit: &'q token_bucket::Limit,
    tokens: u64,
}

/// What is asked of a bucket, and when.
pub(super) struct Asked {
    pub(super) key: Key,
    pub(super) ask: Ask,
    at: Timestamp,
    /// How often all had been dropped by then.
    drops: u64,
}

impl Default for Grants {
    fn default() -> Self {
        Self {
            shards: Shards::new(MOST_SHARDS),
            hands: AtomicUsize::new(0),
            due: Notify::new(),
            call_us: AtomicU64::new(FIRST_CALL_US),
            is_closed: AtomicBool::new(false),
            oldest: AtomicU64::new(0),
            drops: AtomicU64::new(0),
        }
    }
}

impl Grants {
    /// Decides a request by what is in hand; `None` where that is not enough, or it is not to be decided so.
    pub(super) fn serve(&self, now: Timestamp, question: &Question) -> Option<Verdict> {
        let Question { checks, taking, .. } = question;
        let may_be_served = taking.is_none() && checks.iter().all(|check| taken(check).is_some());
        if !may_be_served || self.is_closed() {
            return None;
        }
        let outcomes = match &checks[..] {
            [] => None,
            [check] => self.serve_one(now, question, check).map(|outcome| vec![outcome]),
            _ => self.serve_all(now, question),
        };
        let answer = Answer { outcomes: outcomes?, leased: Leased::Nothing };
        Some(Verdict::of(checks, answer))
    }

    fn serve_one(&self, now: Timestamp, question: &Question, check: &Check) -> Option<Outcome> {
        let (key, (limit, tokens)) = (question.keys.get(check.slot)?, taken(check)?);
        let hash = self.shards.hash(key);
        let mut shard = self.shards.lock(hash)?;
        if self.is_outdated(question) {
            return None;
        }
        let hand = self.hand(&mut shard, hash, (key, limit), now)?;
        let is_due = self.note(hand, now, tokens);
        let outcome = (hand.spendable(now) >= tokens).then(|| hand.spend(now, tokens));
        if outcome.is_some() {
            shard.counts.served += 1;
            shard.counts.spent += tokens;
        }
        drop(shard);
        if is_due {
            self.due.notify_one();
        }
        outcome
    }

    /// All or nothing.
    fn serve_all(&self, now: Timestamp, question: &Question) -> Option<Vec<Outcome>> {
        let wanted = question.checks.iter().map(|check| {
            let (key, (limit, tokens)) = (question.keys.get(check.slot)?, taken(check)?);
            Some(Wanted { hash: self.shards.hash(key), key, limit, tokens })
        });
        let wanted: Vec<Wanted<'_>> = wanted.collect::<Option<_>>()?;
        let hashes: Few<u64> = wanted.iter().map(|wanted| wanted.hash).collect();
        let mut locked = self.shards.lock_all(&hashes);
        if self.is_outdated(question) {
            return None;
        }

        let (mut are_there, mut is_due) = (true, false);
        for (at, Wanted { hash, key, limit, tokens }) in wanted.iter().enumerate() {
            // Those before it, of the same bucket, take theirs first.
            let before = wanted.iter().take(at).filter(|before| before.key == *key);
            let all = before.fold(*tokens, |sum, before| sum.saturating_add(before.tokens));
            let shard = locked.of(*hash)?;
            match self.hand(shard, *hash, (key, limit), now) {
                Some(hand) => {
                    is_due |= self.note(hand, now, *tokens);
                    are_there &= hand.spendable(now) >= all;
                }
                None => are_there = false,
            }
        }
        let spent = wanted.iter().filter(|_| are_there).map(|wanted| {
            let Wanted { hash, key, limit, tokens } = wanted;
            let shard = locked.of(*hash)?;
            let outcome = self.hand(shard, *hash, (key, limit), now)?.spend(now, *tokens);
            shard.counts.spent += tokens;
            Some(outcome)
        });
        let outcomes: Option<Vec<Outcome>> = spent.collect();
        if are_there && let Some(shard) = hashes.first().and_then(|&hash| locked.of(hash)) {
            shard.counts.served += 1;
        }
        drop(locked);
        if is_due {
            self.due.notify_one();
        }
        outcomes.filter(|_| are_there)
    }

    /// Whether a question follows rules that were replaced, and whose limits have changed. Asked under the locks of its
    /// shards, so that nothing comes to be in hand there after all was dropped.
    fn is_outdated(&self, question: &Question) -> bool {
        question.generation < self.oldest.load(Ordering::Acquire)
    }

    /// Hands out only by rules of this generation and later. What is in hand is dropped.
    pub(super) fn follow(&self, generation: u64) {
        self.oldest.store(generation, Ordering::Release);
        self.drop_all();
    }

    /// Drops all that is in hand, as if it had been spent. What is on its way will not be taken in.
    pub(super) fn drop_all(&self) {
        self.drops.fetch_add(1, Ordering::AcqRel);
        for mut shard in self.shards.one_by_one() {
            let Shard { hands, counts } = &mut *shard;
            let count = hands.len();
            counts.lost += hands.drain().map(|(_, hand)| hand.tokens()).sum::<u64>();
            self.hands.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// Whether all was dropped since something was asked.
    pub(super) fn is_dropped(&self, asked: &Asked) -> bool {
        asked.drops != self.drops.load(Ordering::Acquire)
    }

    /// The hand of a bucket; `None` where there is no room for it.
    fn hand<'s>(
        &self,
        shard: &'s mut Shard,
        hash: u64,
        (key, limit): (&Key, &token_bucket::Limit),
        now: Timestamp,
    ) -> Option<&'s mut Hand> {
        let Shard { hands, counts } = shard;
        let is_there = hands.find(hash, |(of, _)| of == key).is_some();
        if !is_there {
            let hand = (key.clone(), Hand::new(*limit, now)?);
            // Who comes first, or finds no room, has those looked for that nobody would miss.
            let others = self.hands.fetch_add(1, Ordering::Relaxed);
            if others == 0 || others >= MOST_HANDS {
                self.due.notify_one();
            }
            if others >= MOST_HANDS {
                self.hands.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            hands.insert_unique(hash, hand, |(of, _)| self.shards.hash(of));
        }
        let (_, hand) = hands.find_mut(hash, |(of, _)| of == key)?;
        if hand.limit() != limit {
            // What was taken under the limit that it had before is not given back to this one.
            counts.lost += hand.tokens();
            *hand = Hand::new(*limit, now)?;
        }
        Some(hand)
    }

    /// Somebody asks for so many. Whether more are to be fetched.
    fn note(&self, hand: &mut Hand, now: Timestamp, tokens: u64) -> bool {
        hand.note(now, tokens);
        hand.is_due(now, self.lead_us())
    }

    /// How long before its slice is spent a hand asks for the next.
    fn lead_us(&self) -> u64 {
        2 * self.call_us.load(Ordering::Relaxed) + CALL_EVERY.as_micros() as u64
    }

    /// Lets go of what is in hand of these.
    pub(super) fn forget(&self, keys: &[Key]) {
        for key in keys {
            let hash = self.shards.hash(key);
            let Some(mut shard) = self.shards.lock(hash) else { continue };
            let Shard { hands, counts } = &mut *shard;
            if let Ok(found) = hands.find_entry(hash, |(of, _)| of == key) {
                let ((_, hand), _) = found.remove();
                counts.lost += hand.tokens();
                self.hands.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// What went on with them.
    pub(super) fn counts(&self) -> GrantCounts {
        let mut sum = GrantCounts::default();
        for shard in self.shards.one_by_one() {
            let GrantCounts { served, taken, spent, returned, lost } = shard.counts;
            sum.served += served;
            sum.taken += taken;
            sum.spent += spent;
            sum.returned += returned;
            sum.lost += lost;
        }
        sum
    }

    /// Nothing is handed out any more.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Whether nothing is handed out any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether nobody asks for any.
    pub(super) fn is_empty(&self) -> bool {
        self.hands.load(Ordering::Relaxed) == 0
    }

    /// Comes when there is something to fetch.
    pub(super) async fn until_due(&self) {
        self.due.notified().await;
    }

    /// What is to be asked of buckets, if anything is due.
    pub(super) fn due(&self, now: Timestamp) -> Vec<Asked> {
        let lead_us = self.lead_us();
        let mut is_due = false;
        for mut shard in self.shards.one_by_one() {
            let Shard { hands, .. } = &mut *shard;
            let before = hands.len();
            hands.retain(|(_, hand)| {
                is_due |= hand.is_to_give_back(now) || hand.is_due(now, lead_us);
                !hand.is_idle(now)
            });
            self.hands.fetch_sub(before - hands.len(), Ordering::Relaxed);
        }
        if !is_due {
            return Vec::new();
        }
        let ask = |hand: &mut Hand, drawn| {
            let is_due = hand.is_soon_due(now) || hand.is_due(now, lead_us);
            if is_due || hand.is_to_give_back(now) { hand.ask(now, drawn) } else { None }
        };
        self.asks(ask, now)
    }

    /// What gives back all that is in hand.
    pub(super) fn give_back_all(&self, now: Timestamp) -> Vec<Asked> {
        self.asks(Hand::give_back_all, now)
    }

    fn asks(
        &self,
        mut ask: impl FnMut(&mut Hand, NonZeroU64) -> Option<Ask>,
        at: Timestamp,
    ) -> Vec<Asked> {
        let mut asks = Vec::new();
        for mut shard in self.shards.one_by_one() {
            let drops = self.drops.load(Ordering::Acquire);
            for (key, hand) in &mut shard.hands {
                // Without random numbers nothing can be claimed, so nothing is asked for.
                let Some(drawn) = draw().ok().and_then(NonZeroU64::new) else { continue };
                let asked = |ask| Asked { key: key.clone(), ask, at, drops };
                asks.extend(ask(hand, drawn).map(asked));
            }
        }
        asks
    }

    /// A call has taken so many microseconds.
    pub(super) fn took(&self, micros: u64) {
        let average_us = self.call_us.load(Ordering::Relaxed);
        self.call_us.store((7 * average_us + micros) / 8, Ordering::Relaxed);
    }

    /// What a bucket was asked for has come. `Short` where it has run empty.
    pub(super) fn granted(&self, now: Timestamp, asked: &Asked, granted: Granted) -> Option<Short> {
        let Asked { key, ask, at, .. } = asked;
        let short = self.at(key, |counts, hand| {
            counts.taken += granted.tokens;
            counts.returned += ask.tokens_returned().saturating_sub(granted.void);
            counts.lost += granted.void;
            let in_hand = hand.filter(|_| !self.is_dropped(asked)).map(|hand| {
                let before = hand.tokens();
                let short = hand.granted(now, (*at, ask), granted);
                (short, hand.tokens() - before)
            });
            let (short, kept) = in_hand.unwrap_or_default();
            // Where all was dropped meanwhile, or the counter reset, nobody has asked for it any more.
            counts.lost += granted.tokens - kept;
            short
        });
        short.flatten()
    }

    /// Nobody knows what became of what a bucket was asked for, and given back.
    pub(super) fn lost(&self, now: Timestamp, asked: &Asked) {
        self.at(&asked.key, |counts, hand| {
            counts.lost += asked.ask.tokens_returned();
            if let Some(hand) = hand {
                hand.lost(now, asked.at);
            }
        });
    }

    /// The answers that are on their way are lost: the task that waited for them has panicked.
    pub(super) fn lose_answers(&self, now: Timestamp) {
        for mut shard in self.shards.one_by_one() {
            shard.hands.iter_mut().for_each(|(_, hand)| hand.lose_answer(now));
        }
    }

    /// Does something to the hand of a bucket, if it is there, and what is counted of it.
    fn at<R>(
        &self,
        key: &Key,
        something: impl FnOnce(&mut GrantCounts, Option<&mut Hand>) -> R,
    ) -> Option<R> {
        let hash = self.shards.hash(key);
        let Shard { hands, counts } = &mut *self.shards.lock(hash)?;
        let hand = hands.find_mut(hash, |(of, _)| of == key).map(|(_, hand)| hand);
        Some(something(counts, hand))
    }
}

/// The limit of a check that may be decided by what is in hand, and what it takes.
const fn taken(check: &Check) -> Option<(&token_bucket::Limit, u64)> {
    match (&check.limit, check.cost) {
        (Limit::TokenBucket(limit), Cost::Take(tokens)) if limit.grants().is_some() => {
            Some((limit, tokens))
        }
        _ => None,
    }
}
