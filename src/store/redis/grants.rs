//! Slices of buckets that this process has in hand, and the task that fetches them: see [`grant`](crate::grant).
//!
//! A request all of whose limits hand out slices is decided here while there are enough tokens in hand, as one step
//! under the locks of its keys' shards, taken in ascending order. If there are not, it goes to Redis as ever, and
//! whoever fetches is told that there is demand. No request waits for a slice.
//!
//! What is due is asked for in one call, along with what soon would be: so ten hot keys cost what one does.

use super::{
    Way,
    script::{self, Call},
};
use crate::{
    clock::{Clock, Timestamp},
    grant::{Ask, Hand},
    key::Key,
    lease::Leased,
    limiter::{Cost, Limit, token_bucket},
    store::GrantCounts,
    verdict::{Answer, Check, Outcome, Question, Verdict},
};
use futures_util::future;
use hashbrown::HashTable;
use redis::Value;
use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync, time};

/// The most buckets of which something is in hand. Of others, Redis decides each request.
const MOST_HANDS: usize = 10_000;

/// The shards, a power of two: many times the cores, so that locks are seldom contended.
const SHARDS: usize = 64;

/// How often it is looked for what is too old, in a process that has anything in hand.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How soon after one call the next is made: what becomes due meanwhile goes together.
const CALL_EVERY: Duration = Duration::from_millis(1);

/// The most buckets in a call: for some of them Redis does nothing else for 100 µs.
const MOST_IN_A_CALL: usize = 64;

/// What is in hand.
pub(super) struct Grants {
    shards: Box<[Mutex<Shard>]>,
    /// Seeded at random: whoever chooses keys cannot choose where they fall.
    hasher: RandomState,
    /// How many hands there are.
    hands: AtomicUsize,
    /// The clock by which requests are told the time.
    clock: Clock,
    /// That there is something to fetch.
    due: sync::Notify,
    /// Held while Redis is asked.
    calling: sync::Mutex<()>,
    /// How long a call takes, in microseconds, on average.
    call_us: AtomicU64,
    /// Nothing is handed out any more.
    is_closed: AtomicBool,
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
struct Asked {
    key: Key,
    ask: Ask,
    at: Timestamp,
}

impl Grants {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            hands: AtomicUsize::new(0),
            clock,
            due: sync::Notify::new(),
            calling: sync::Mutex::new(()),
            call_us: AtomicU64::new(1000),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Decides a request by what is in hand; `None` where that is not enough, or it is not to be decided so.
    pub(super) fn serve(&self, now: Timestamp, question: &Question) -> Option<Verdict> {
        let Question { checks, taking, .. } = question;
        let may_be_served = taking.is_none() && checks.iter().all(|check| taken(check).is_some());
        if !may_be_served || self.is_closed.load(Ordering::Relaxed) {
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
        let hash = self.hasher.hash_one(key);
        let mut shard = lock(self.shards.get(place(hash))?);
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
            Some(Wanted { hash: self.hasher.hash_one(key), key, limit, tokens })
        });
        let wanted: Vec<Wanted<'_>> = wanted.collect::<Option<_>>()?;
        let mut places: Vec<usize> = wanted.iter().map(|wanted| place(wanted.hash)).collect();
        places.sort_unstable();
        places.dedup();
        let locked = places.iter().filter_map(|&at| Some((at, lock(self.shards.get(at)?))));
        let mut locked: Vec<(usize, MutexGuard<'_, Shard>)> = locked.collect();

        let (mut are_there, mut is_due) = (true, false);
        for (at, Wanted { hash, key, limit, tokens }) in wanted.iter().enumerate() {
            // Those before it, of the same bucket, take theirs first.
            let before = wanted.iter().take(at).filter(|before| before.key == *key);
            let all = before.fold(*tokens, |sum, before| sum.saturating_add(before.tokens));
            let shard = among(&mut locked, *hash)?;
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
            let shard = among(&mut locked, *hash)?;
            let outcome = self.hand(shard, *hash, (key, limit), now)?.spend(now, *tokens);
            shard.counts.spent += tokens;
            Some(outcome)
        });
        let outcomes: Option<Vec<Outcome>> = spent.collect();
        if are_there && let Some((_, shard)) = locked.first_mut() {
            shard.counts.served += 1;
        }
        drop(locked);
        if is_due {
            self.due.notify_one();
        }
        outcomes.filter(|_| are_there)
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
            // Who comes first, or finds no room, has those looked for that nobody would miss.
            let others = self.hands.fetch_add(1, Ordering::Relaxed);
            if others == 0 || others >= MOST_HANDS {
                self.due.notify_one();
            }
            if others >= MOST_HANDS {
                self.hands.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            let hand = (key.clone(), Hand::new(*limit, now)?);
            hands.insert_unique(hash, hand, |(of, _)| self.hasher.hash_one(of));
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
            let hash = self.hasher.hash_one(key);
            let Some(shard) = self.shards.get(place(hash)) else { continue };
            let Shard { hands, counts } = &mut *lock(shard);
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
        for shard in &self.shards {
            let GrantCounts { served, taken, spent, returned, lost } = lock(shard).counts;
            sum.served += served;
            sum.taken += taken;
            sum.spent += spent;
            sum.returned += returned;
            sum.lost += lost;
        }
        sum
    }

    /// Gives back all that is in hand. Nothing is handed out any more.
    pub(super) async fn finish(&self, way: &Arc<Way>) {
        self.is_closed.store(true, Ordering::Relaxed);
        // What is on its way comes first.
        let _calling = self.calling.lock().await;
        let at = self.clock.now();
        let asks = self.asks(|hand| hand.give_back_all(), at);
        self.call(way, asks).await;
    }

    /// What is to be asked of buckets, if anything is due.
    fn due(&self) -> Vec<Asked> {
        let (now, lead_us) = (self.clock.now(), self.lead_us());
        let mut is_due = false;
        for shard in &self.shards {
            let Shard { hands, .. } = &mut *lock(shard);
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
        let ask = |hand: &mut Hand| {
            let is_due = hand.is_soon_due(now) || hand.is_due(now, lead_us);
            if is_due || hand.is_to_give_back(now) { hand.ask(now) } else { None }
        };
        self.asks(ask, now)
    }

    fn asks(&self, mut ask: impl FnMut(&mut Hand) -> Option<Ask>, at: Timestamp) -> Vec<Asked> {
        let mut asks = Vec::new();
        for shard in &self.shards {
            for (key, hand) in &mut lock(shard).hands {
                asks.extend(ask(hand).map(|ask| Asked { key: key.clone(), ask, at }));
            }
        }
        asks
    }

    async fn call(&self, way: &Arc<Way>, asks: Vec<Asked>) {
        let calls = asks.chunks(MOST_IN_A_CALL).map(|asked| self.call_once(way, asked));
        future::join_all(calls).await;
    }

    async fn call_once(&self, way: &Arc<Way>, asked: &[Asked]) {
        let asks: Vec<Ask> = asked.iter().map(|asked| asked.ask).collect();
        let call = Call::grant(asked.iter().map(|asked| &asked.key).collect(), &asks);
        let began = self.clock.now();
        let denial = way.denials.asked(began);
        let read = |reply: &Value| script::read_granted(reply, asks.len());
        let answered = way.ask_quietly(&call, read).await;
        let now = self.clock.now();
        let Ok((since, granted)) = answered else {
            for Asked { key, ask, at } in asked {
                self.at(key, |counts, hand| {
                    counts.lost += ask.returned;
                    if let Some(hand) = hand {
                        hand.lost(now, *at);
                    }
                });
            }
            return;
        };
        let average_us = self.call_us.load(Ordering::Relaxed);
        self.call_us.store((7 * average_us + (now - began)) / 8, Ordering::Relaxed);
        for (Asked { key, ask, at }, granted) in asked.iter().zip(granted) {
            let short = self.at(key, |counts, hand| {
                counts.taken += granted.tokens;
                counts.returned += ask.returned;
                let in_hand = hand.map(|hand| {
                    let before = hand.tokens();
                    let short = hand.granted(now, (*at, ask), (granted, since));
                    (short, hand.tokens() - before)
                });
                let (short, kept) = in_hand.unwrap_or_default();
                // Where the limit was changed meanwhile, or the counter reset, nobody has asked for it any more.
                counts.lost += granted.tokens - kept;
                short
            });
            if let Some(short) = short.flatten() {
                let ends = [short.wait_us, short.passes_us].map(|micros| now + micros);
                way.denials.refuse(denial, key.clone(), Limit::TokenBucket(ask.limit), ends);
            }
        }
    }

    /// Does something to the hand of a bucket, if it is there, and what is counted of it.
    fn at<R>(
        &self,
        key: &Key,
        something: impl FnOnce(&mut GrantCounts, Option<&mut Hand>) -> R,
    ) -> Option<R> {
        let hash = self.hasher.hash_one(key);
        let Shard { hands, counts } = &mut *lock(self.shards.get(place(hash))?);
        let hand = hands.find_mut(hash, |(of, _)| of == key).map(|(_, hand)| hand);
        Some(something(counts, hand))
    }
}

/// Fetches and gives back, for as long as it is polled.
pub(super) async fn fetch(way: Arc<Way>, grants: Arc<Grants>) {
    loop {
        let is_idle = grants.hands.load(Ordering::Relaxed) == 0;
        let due = grants.due.notified();
        if is_idle {
            due.await;
        } else {
            let _ = time::timeout(LOOK_EVERY, due).await;
        }
        {
            let _calling = grants.calling.lock().await;
            if grants.is_closed.load(Ordering::Relaxed) {
                return;
            }
            let asks = grants.due();
            grants.call(&way, asks).await;
        }
        time::sleep(CALL_EVERY).await;
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

/// The shard of a hash: its upper half decides, the table within the shard uses the lower.
const fn place(hash: u64) -> usize {
    (hash >> 32) as usize & (SHARDS - 1)
}

/// The shard of a hash, among those that are locked, in ascending order.
fn among<'s>(locked: &'s mut [(usize, MutexGuard<'_, Shard>)], hash: u64) -> Option<&'s mut Shard> {
    let at = locked.binary_search_by_key(&place(hash), |(at, _)| *at).ok()?;
    locked.get_mut(at).map(|(_, shard)| &mut **shard)
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
