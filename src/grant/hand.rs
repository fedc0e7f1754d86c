//! What a replica has in hand of one bucket.

use super::{Ask, Granted, demand::Demand};
use crate::{
    clock::Timestamp,
    limiter::{
        Limit,
        token_bucket::{self, Ledger, Returned},
    },
    verdict::Outcome,
};
use std::num::NonZeroU64;

/// The least that is worth asking for ahead of need: so many requests, and as many tokens.
const LEAST: u64 = 4;

/// How many slices are spent in the longest time that one may be kept: it is full at the time of its half, so that it
/// is spent before it is old, and the next one is there.
const SLICES: u64 = 2;

/// How many times in that time a bucket is asked again at least that is empty.
const TRIES: u64 = 4;

/// How long a bucket is left alone that is empty for long, in microseconds: others may give back.
const LONGEST_SHORT_US: u64 = 250_000;

/// What a replica has of a bucket, and what it does with it. Time comes from outside, by the replica's own clock.
#[derive(Debug, Clone)]
pub struct Hand {
    limit: token_bucket::Limit,
    max_age_us: u64,
    /// The first is spent first; the second is there before that is over.
    slices: [Slice; 2],
    /// Tokens and requests that are asked for of late.
    tokens: Demand,
    requests: Demand,
    /// What the bucket had left when it was last heard of.
    left: u64,
    /// Since when an answer is on its way.
    asked: Option<Timestamp>,
    /// Not asked again before.
    pause: Timestamp,
    /// When anybody last asked for any.
    used: Timestamp,
}

/// Tokens that were taken together.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    tokens: u64,
    /// When the bucket was asked for them, which is before they were taken.
    taken: Timestamp,
    /// By which what is left of them may be given back.
    ledger: Option<Ledger>,
}

/// The bucket had less than was asked for: until then, it is not asked, and what is not in hand is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// Until when, in microseconds from now.
    pub wait_us: u64,
    /// Microseconds until there is a token, if nobody else takes it; no less than that.
    pub passes_us: u64,
}

impl Hand {
    /// An empty one. `None` for a bucket of which no slices may be taken.
    pub fn new(limit: token_bucket::Limit, now: Timestamp) -> Option<Self> {
        let max_age_us = u64::from(limit.grants()?.max_age_us);
        let window_us = max_age_us / TRIES;
        Some(Self {
            limit,
            max_age_us,
            slices: Default::default(),
            tokens: Demand::new(window_us, now),
            requests: Demand::new(window_us, now),
            left: 0,
            asked: None,
            pause: now,
            used: now,
        })
    }

    /// The bucket that it is of.
    pub const fn limit(&self) -> &token_bucket::Limit {
        &self.limit
    }

    /// Somebody asks for so many tokens.
    pub fn note(&mut self, now: Timestamp, tokens: u64) {
        self.tokens.note(now, tokens);
        self.requests.note(now, 1);
        self.used = now;
    }

    /// Tokens that may be spent.
    pub fn spendable(&self, now: Timestamp) -> u64 {
        self.slices.iter().filter(|slice| !self.is_old(slice, now)).map(|slice| slice.tokens).sum()
    }

    /// All tokens that it has, those included that are too old and were not given back yet.
    pub fn tokens(&self) -> u64 {
        self.slices.iter().map(|slice| slice.tokens).sum()
    }

    /// Spends tokens, all of which must be there, and says how it stands after that.
    pub fn spend(&mut self, now: Timestamp, tokens: u64) -> Outcome {
        let (mut wanted, max_age_us) = (tokens, self.max_age_us);
        for slice in &mut self.slices {
            if now - slice.taken < max_age_us {
                let spent = wanted.min(slice.tokens);
                slice.tokens -= spent;
                wanted -= spent;
            }
        }
        let burst = u64::from(self.limit.burst());
        let remaining = self.spendable(now).saturating_add(self.left).min(burst);
        let full_in_us = Limit::TokenBucket(self.limit).arrives_in_us(burst - remaining);
        Outcome::passes(remaining, full_in_us)
    }

    /// Whether the bucket is to be asked now, if an answer takes so long.
    pub fn is_due(&mut self, now: Timestamp, lead_us: u64) -> bool {
        let wanted = self.wanted(now);
        let lasts = self.tokens.within(now, lead_us).max(wanted / 4);
        self.may_ask(now) && wanted > 0 && self.spendable(now) <= lasts
    }

    /// Whether it may as well be asked now, along with others that are due.
    pub fn is_soon_due(&mut self, now: Timestamp) -> bool {
        let soon = now + self.max_age_us / (2 * TRIES);
        let wanted = self.wanted(now);
        self.may_ask(soon) && wanted > 0 && self.spendable(now) <= wanted / 2
    }

    /// Whether it has tokens that are too old to be spent, or that nobody asks for any more.
    pub fn is_to_give_back(&self, now: Timestamp) -> bool {
        self.asked.is_none()
            && self.slices.iter().any(|slice| slice.tokens > 0 && self.is_old(slice, now))
    }

    /// Whether nobody would miss it.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        let long = 10 * self.max_age_us;
        self.asked.is_none() && self.tokens() == 0 && now - self.used > long
    }

    /// What to ask of the bucket: what is too old comes back, and as much is asked for as is needed. `None` where
    /// there is nothing to ask. Until it is answered it has that back and nothing more. `drawn` is a random number.
    pub fn ask(&mut self, now: Timestamp, drawn: NonZeroU64) -> Option<Ask> {
        let wanted = self.wanted(now).min(self.room(now));
        let wanted = if now < self.pause { 0 } else { wanted };
        let max_age_us = self.max_age_us;
        let ask = self.give_back(wanted, drawn, |slice| now - slice.taken >= max_age_us)?;
        self.asked = Some(now);
        Some(ask)
    }

    /// What gives back all that it has; `None` where it has nothing.
    pub fn give_back_all(&mut self, drawn: NonZeroU64) -> Option<Ask> {
        self.give_back(0, drawn, |_| true)
    }

    /// The answer to what was asked then. `Short` where the bucket has run empty. An answer to what this hand has not
    /// asked gives it nothing.
    pub fn granted(
        &mut self,
        now: Timestamp,
        (asked, ask): (Timestamp, &Ask),
        granted: Granted,
    ) -> Option<Short> {
        if self.asked != Some(asked) || ask.limit != self.limit {
            return None;
        }
        self.asked = None;
        self.left = granted.remaining;
        let slice = Slice { tokens: granted.tokens, taken: asked, ledger: granted.ledger };
        let [first, second] = &mut self.slices;
        if first.tokens == 0 {
            (*first, *second) = (*second, Slice::default());
        }
        match first.tokens {
            0 => *first = slice,
            _ => *second = slice,
        }
        if ask.wanted == 0 || granted.tokens >= ask.wanted {
            return None;
        }
        // Until as much has come as was asked for, if nobody else takes it; and not for long, for others give back.
        let limit = Limit::TokenBucket(self.limit);
        let enough_us = limit.arrives_in_us(ask.wanted - granted.tokens);
        let wait_us = enough_us.min(self.max_age_us / TRIES).max(granted.next_in_us);
        let (wait_us, passes_us) = (wait_us.min(LONGEST_SHORT_US), wait_us);
        // So that the next slice is there when it is over.
        let answer_us = (2 * (now - asked)).min(wait_us / 2);
        self.pause = now + (wait_us - answer_us);
        Some(Short { wait_us, passes_us })
    }

    /// It was not answered: what was on its way is lost.
    pub fn lost(&mut self, now: Timestamp, asked: Timestamp) {
        if self.asked == Some(asked) {
            self.asked = None;
            self.pause = now + self.max_age_us / TRIES;
        }
    }

    /// The answer that is on its way, if any, is lost.
    pub fn lose_answer(&mut self, now: Timestamp) {
        if let Some(asked) = self.asked {
            self.lost(now, asked);
        }
    }

    /// How many tokens had better be in hand: as many as are spent in the time of one slice.
    fn wanted(&mut self, now: Timestamp) -> u64 {
        let lasts_us = self.max_age_us / SLICES;
        let is_steady = self.requests.within(now, lasts_us) >= LEAST;
        let wanted = self.tokens.within(now, lasts_us).min(self.limit.most_in_hand());
        if is_steady && wanted >= LEAST { wanted } else { 0 }
    }

    /// How many more it may have.
    fn room(&self, now: Timestamp) -> u64 {
        let has_place =
            self.slices.iter().any(|slice| slice.tokens == 0 || self.is_old(slice, now));
        let room = self.limit.most_in_hand().saturating_sub(self.spendable(now));
        if has_place { room } else { 0 }
    }

    fn may_ask(&self, now: Timestamp) -> bool {
        self.asked.is_none() && now >= self.pause && self.room(now) > 0
    }

    fn is_old(&self, slice: &Slice, now: Timestamp) -> bool {
        now - slice.taken >= self.max_age_us
    }

    /// Takes the slices out that are to come back, each by its own claim.
    fn give_back(
        &mut self,
        wanted: u64,
        drawn: NonZeroU64,
        comes_back: impl Fn(&Slice) -> bool,
    ) -> Option<Ask> {
        let mut returned = Vec::new();
        for slice in &mut self.slices {
            if slice.tokens > 0 && comes_back(slice) {
                let Slice { tokens, ledger, .. } = std::mem::take(slice);
                returned.extend(ledger.map(|ledger| Returned { tokens, ledger }));
            }
        }
        let ask = Ask { limit: self.limit, returned, wanted, drawn };
        (ask.wanted > 0 || !ask.returned.is_empty()).then_some(ask)
    }
}
