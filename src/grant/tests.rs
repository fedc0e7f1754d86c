use super::*;
use crate::{
    limiter::token_bucket::{Grants, Rate},
    unit::Unit,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const SECOND: u64 = 1_000_000;
const MAX_AGE_US: u64 = 100_000;

fn limit(rate: Rate, burst: u32) -> token_bucket::Limit {
    token_bucket::Limit::new(rate, burst).with_grants(Some(Grants::DEFAULT))
}

/// 10,000 a second, and at once: a slice is 500 at most.
fn fast() -> token_bucket::Limit {
    limit(Rate::per(10_000, Unit::Second), 10_000)
}

fn per(tokens: u32, unit: Unit, burst: u32) -> token_bucket::Limit {
    limit(Rate::per(tokens, unit), burst)
}

/// A number that no other ask has.
fn drawn() -> NonZeroU64 {
    static LAST: AtomicU64 = AtomicU64::new(1);
    NonZeroU64::new(LAST.fetch_add(1, Ordering::Relaxed)).unwrap()
}

fn wants(limit: token_bucket::Limit, wanted: u64) -> Ask {
    Ask { limit, returned: Vec::new(), wanted, drawn: drawn() }
}

/// What gives back so much of a chunk.
fn gives_back(limit: token_bucket::Limit, chunk: Granted, tokens: u64) -> Ask {
    let ledger = chunk.ledger.unwrap();
    Ask { returned: vec![Returned { tokens, ledger }], ..wants(limit, 0) }
}

fn given(tokens: u64, remaining: u64, next_in_us: u64) -> Granted {
    let ledger = Some(Ledger { since: drawn(), charged: tokens });
    Granted { tokens, remaining, next_in_us, ledger, void: 0 }
}

impl Granted {
    fn without_ledger(self) -> Self {
        Self { ledger: None, ..self }
    }
}

/// The bucket where it is shared.
#[derive(Default)]
struct Bucket {
    state: Option<State>,
    calls: u64,
}

impl Bucket {
    fn grant(&mut self, ask: &Ask, now: Timestamp) -> Granted {
        self.calls += 1;
        let (granted, changes) =
            grant(std::slice::from_ref(ask), std::slice::from_ref(&self.state), now);
        match changes.into_iter().next().unwrap() {
            Some(Change::Written(Kept { state, .. }) | Change::Credited(state)) => {
                self.state = Some(state);
            }
            Some(Change::Forgotten) => self.state = None,
            Some(Change::Extended(_)) | None => {}
        }
        granted[0]
    }

    /// What a request does that is decided there.
    fn take(&mut self, limit: token_bucket::Limit, tokens: u64, now: Timestamp) -> bool {
        self.calls += 1;
        let checked = Limit::TokenBucket(limit).check(self.state.as_ref(), now, Cost::Take(tokens));
        self.state = checked.state.or(self.state.take());
        checked.over.is_none()
    }
}

/// A call that is on its way.
struct Call {
    asked: Timestamp,
    ask: Ask,
    decides: Timestamp,
    arrives: Timestamp,
    answer: Option<Granted>,
}

/// A replica: its hand, what is on its way, and what it has admitted, when.
struct Replica {
    hand: Hand,
    call: Option<Call>,
    refuses_until: Timestamp,
    /// By which its clock is behind the bucket's.
    behind_us: u64,
    granted: u64,
    returned: u64,
    spent: u64,
}

impl Replica {
    fn new(limit: token_bucket::Limit, now: Timestamp, behind_us: u64) -> Self {
        let here = Timestamp::from_micros(now.as_micros() - behind_us);
        let hand = Hand::new(limit, here).unwrap();
        let [granted, returned, spent] = Default::default();
        Self { hand, call: None, refuses_until: here, behind_us, granted, returned, spent }
    }

    fn here(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_micros(now.as_micros() - self.behind_us)
    }

    /// Somebody asks for tokens. Whether he gets them.
    fn ask(&mut self, bucket: &mut Bucket, now: Timestamp, tokens: u64) -> bool {
        let here = self.here(now);
        self.hand.note(here, tokens);
        if self.hand.spendable(here) >= tokens {
            self.hand.spend(here, tokens);
            self.spent += tokens;
            return true;
        }
        here >= self.refuses_until && bucket.take(*self.hand.limit(), tokens, now)
    }

    /// What happens beside requests. A call takes so long there, and so long back.
    fn tend(&mut self, bucket: &mut Bucket, now: Timestamp, takes_us: (u64, u64)) {
        let here = self.here(now);
        if let Some(call) = &mut self.call {
            if call.answer.is_none() && now >= call.decides {
                call.answer = Some(bucket.grant(&call.ask, now));
            }
            if now >= call.arrives
                && let Some(Call { asked, ask, answer: Some(answer), .. }) = self.call.take()
            {
                self.granted += answer.tokens;
                if let Some(short) = self.hand.granted(here, (asked, &ask), answer) {
                    self.refuses_until = here + short.wait_us;
                }
            }
        }
        let wants = self.hand.is_due(here, 2000) || self.hand.is_to_give_back(here);
        if self.call.is_none()
            && wants
            && let Some(ask) = self.hand.ask(here, drawn())
        {
            self.returned += ask.tokens_returned();
            let decides = now + takes_us.0;
            let arrives = decides + takes_us.1;
            self.call = Some(Call { asked: here, ask, decides, arrives, answer: None });
        }
    }
}

#[test]
fn hands_out_what_is_there_and_says_what_is_left() {
    let ask = wants(fast(), 400);
    let mut bucket = Bucket::default();
    let granted = bucket.grant(&ask, NOW);
    assert_eq!(Granted { ledger: None, ..granted }, given(400, 9600, 100).without_ledger());
    let granted = bucket.grant(&wants(fast(), 20_000), NOW + 150);
    assert_eq!((granted.tokens, granted.remaining, granted.next_in_us), (9601, 0, 50));
    assert_eq!(bucket.grant(&ask, NOW + 150), given(0, 0, 50).without_ledger());
    // To ask for nothing is to look.
    let granted = bucket.grant(&wants(fast(), 0), NOW + 2 * SECOND);
    assert_eq!(granted, given(0, 10_000, 0).without_ledger());
}

#[test]
fn credits_what_has_not_been_refilled_since() {
    let mut bucket = Bucket::default();
    let chunk = bucket.grant(&wants(fast(), 500), NOW);
    bucket.take(fast(), 9500, NOW);
    // 300 have come by then, all of them to what was charged first; and 200 are credited.
    let later = NOW + 30_000;
    bucket.take(fast(), 300, later);
    assert_eq!(bucket.grant(&gives_back(fast(), chunk, 500), later).remaining, 200);
}

/// The chunk's place was refilled before the rate was lowered.
#[test]
fn a_lowered_rate_brings_nothing_back_twice() {
    let (fast, slow) = (per(10, Unit::Second, 10), per(10, Unit::Hour, 10));
    let mut bucket = Bucket::default();
    let chunk = bucket.grant(&wants(fast, 4), NOW);
    let later = NOW + 500_000;
    let mut admitted = u64::from(bucket.take(fast, 10, later)) * 10;
    bucket.grant(&gives_back(slow, chunk, 4), later);
    while bucket.take(slow, 1, later) {
        admitted += 1;
    }
    assert_eq!(admitted, 10);
}

#[test]
fn a_lowered_burst_brings_nothing_back_twice() {
    let (two, one) = (per(1, Unit::Hour, 2), per(1, Unit::Hour, 1));
    let mut bucket = Bucket::default();
    let chunk = bucket.grant(&wants(two, 1), NOW);
    let hour = NOW + 3600 * SECOND;
    assert!(bucket.take(two, 1, NOW));
    // Used 2, cut to 1, of which the hour brings all back.
    assert!(bucket.take(one, 1, hour));
    assert_eq!(bucket.grant(&gives_back(one, chunk, 1), hour).void, 1);
    assert!(!bucket.take(one, 1, hour), "2 of 1");
}

#[test]
fn a_clock_that_is_set_back_brings_nothing_back_twice() {
    let one = per(1, Unit::Second, 1);
    let mut bucket = Bucket::default();
    let chunk = bucket.grant(&wants(one, 1), NOW);
    let mut admitted = u64::from(bucket.take(one, 1, NOW + SECOND));
    bucket.grant(&gives_back(one, chunk, 1), NOW);
    admitted += u64::from(bucket.take(one, 1, NOW));
    assert_eq!(admitted, 1);
}

/// Claims on what another ledger, another unit or no state at all has taken the place of are void.
#[test]
fn what_was_charged_to_a_ledger_that_is_gone_is_not_given_back() {
    let limit = per(10, Unit::Day, 10);
    let mut bucket = Bucket::default();
    let chunk = bucket.grant(&wants(limit, 3), NOW);
    let back = gives_back(limit, chunk, 3);
    let state = bucket.state.take();
    assert_eq!((bucket.grant(&back, NOW).void, &bucket.state), (3, &None), "it was lost");
    bucket.grant(&wants(limit, 5), NOW);
    let granted = bucket.grant(&back, NOW);
    assert_eq!((granted.void, granted.remaining), (3, 5), "another began");
    for other in [per(10, Unit::Hour, 10), per(10, Unit::Day, 2), limit.with_overdraw()] {
        bucket.state = state.clone();
        bucket.take(other, 30, NOW);
        bucket.take(other, 1, NOW + 100 * 86_400 * SECOND);
        let is_void = bucket.grant(&back, NOW + 100 * 86_400 * SECOND).void == 3;
        assert!(is_void, "{other:?}");
    }
    // A sum that is too high begins anew.
    let mut full = state.unwrap().token_bucket().unwrap();
    full.ledger = full.ledger.map(|ledger| Ledger { charged: (1 << 53) - 1, ..ledger });
    bucket.state = Some(State::TokenBucket(full));
    bucket.take(limit, 1, NOW);
    assert_eq!(bucket.state.as_ref().unwrap().token_bucket().unwrap().ledger, None);
}

#[test]
fn two_chunks_are_given_back_each_by_its_own_claim() {
    let limit = per(10, Unit::Day, 10);
    let mut bucket = Bucket::default();
    let [first, second] = [3, 4].map(|tokens| bucket.grant(&wants(limit, tokens), NOW));
    assert_eq!(first.ledger.unwrap().since, second.ledger.unwrap().since);
    let mut ask = gives_back(limit, first, 2);
    ask.returned.extend(gives_back(limit, second, 4).returned);
    let granted = bucket.grant(&ask, NOW);
    assert_eq!((granted.remaining, granted.void), (9, 0));
}

#[test]
fn a_hand_is_filled_by_demand_and_not_for_a_few() {
    let mut hand = Hand::new(fast(), NOW).unwrap();
    hand.note(NOW, 1000);
    assert_eq!(hand.ask(NOW, drawn()), None, "one request is no demand");
    let (mut hand, mut now) = (Hand::new(fast(), NOW).unwrap(), NOW);
    // One in a millisecond: a slice is for 50 of them.
    for _ in 0..100 {
        now = now + 1000;
        hand.note(now, 1);
    }
    let ask = hand.ask(now, drawn()).unwrap();
    assert!((40..=60).contains(&ask.wanted), "{ask:?}");
    assert!(!hand.is_due(now, 1000), "it is asked for already");
    let granted = given(ask.wanted, 9000, 0);
    assert_eq!(hand.granted(now + 500, (now, &ask), granted), None);
    assert_eq!(hand.spendable(now + 500), ask.wanted);
    let outcome = hand.spend(now + 500, 10);
    assert_eq!(outcome.remaining, 9000 + ask.wanted - 10);
    assert!(!hand.is_due(now + 500, 1000));
    hand.spend(now + 500, ask.wanted - 15);
    assert!(hand.is_due(now + 500, 1000), "a tenth is left");
}

#[test]
fn never_holds_more_than_its_share() {
    let mut hand = Hand::new(fast(), NOW).unwrap();
    for _ in 0..100_000 {
        hand.note(NOW, 7);
    }
    let ask = hand.ask(NOW, drawn()).unwrap();
    assert_eq!(ask.wanted, 500);
    let granted = given(500, 0, 0);
    hand.granted(NOW, (NOW, &ask), granted);
    assert_eq!(hand.ask(NOW, drawn()), None);
    hand.spend(NOW, 400);
    assert_eq!(hand.ask(NOW, drawn()).unwrap().wanted, 400);
}

#[test]
fn what_is_too_old_is_not_spent_but_comes_back() {
    let mut hand = Hand::new(fast(), NOW).unwrap();
    for _ in 0..100 {
        hand.note(NOW, 1);
    }
    let ask = hand.ask(NOW, drawn()).unwrap();
    let granted = given(300, 0, 0);
    hand.granted(NOW + 1000, (NOW, &ask), granted);
    assert_eq!(hand.spendable(NOW + (MAX_AGE_US - 1)), 300);
    assert!(!hand.is_to_give_back(NOW + (MAX_AGE_US - 1)));
    // It counts from when it was asked for, which is before it was taken.
    let later = NOW + MAX_AGE_US;
    assert_eq!((hand.spendable(later), hand.tokens()), (0, 300));
    assert!(hand.is_to_give_back(later));
    let much_later = NOW + 20 * MAX_AGE_US;
    let ask = hand.ask(much_later, drawn()).unwrap();
    let ledger = granted.ledger.unwrap();
    assert_eq!((&ask.returned, ask.wanted), (&vec![Returned { tokens: 300, ledger }], 0));
    assert!(!hand.is_idle(much_later), "the answer is to come");
    let nothing = given(0, 9, 0);
    assert_eq!(hand.granted(much_later, (much_later, &ask), nothing), None);
    assert!(hand.is_idle(much_later));
}

#[test]
fn an_empty_bucket_is_left_alone_until_a_slice_has_come() {
    let mut hand = Hand::new(fast(), NOW).unwrap();
    for _ in 0..1000 {
        hand.note(NOW, 1);
    }
    let ask = hand.ask(NOW, drawn()).unwrap();
    assert_eq!(ask.wanted, 500);
    let granted = given(400, 0, 40);
    let short = hand.granted(NOW + 300, (NOW, &ask), granted).unwrap();
    // 100 more take 10 ms.
    assert_eq!(short, Short { wait_us: 10_000, passes_us: 10_000 });
    hand.note(NOW + 300, 400);
    hand.spend(NOW + 300, 400);
    assert!(!hand.is_due(NOW + 9_000, 2000));
    // The answer takes as long as the last, and twice that is time enough.
    assert!(hand.is_due(NOW + 9_700, 2000));
}

#[test]
fn an_answer_to_another_question_gives_nothing() {
    let mut hand = Hand::new(fast(), NOW).unwrap();
    for _ in 0..100 {
        hand.note(NOW, 1);
    }
    let ask = hand.ask(NOW, drawn()).unwrap();
    let granted = given(9, 0, 0);
    hand.granted(NOW, (NOW + 1, &ask), granted);
    assert_eq!(hand.tokens(), 0);
    hand.lost(NOW, NOW);
    hand.granted(NOW, (NOW, &ask), granted);
    assert_eq!(hand.tokens(), 0);
}

/// Two replicas, each asked for as much as the limit allows, for ten seconds.
#[test]
fn under_even_load_the_limit_is_used_up_and_the_bucket_seldom_asked() {
    const SECONDS: u64 = 10;
    let (mut bucket, mut admitted, mut asked) = (Bucket::default(), 0, 0);
    let mut replicas = [0, 40_000].map(|behind_us| Replica::new(fast(), NOW, behind_us));
    for step in 0..SECONDS * 10_000 {
        let now = NOW + step * 100;
        for replica in &mut replicas {
            admitted += u64::from(replica.ask(&mut bucket, now, 1));
            replica.tend(&mut bucket, now, (150, 150));
            asked += 1;
        }
    }
    let most = 10_000 + 10_000 * SECONDS;
    assert!(admitted * 100 >= most * 97, "{admitted} of {most}");
    assert!(bucket.calls * 100 < asked, "{} calls for {asked} requests", bucket.calls);
}

/// The same below the limit: nobody is refused.
#[test]
fn below_the_limit_everybody_is_admitted() {
    let mut bucket = Bucket::default();
    let mut replicas = [0, 40_000].map(|behind_us| Replica::new(fast(), NOW, behind_us));
    for step in 0..30_000 {
        let now = NOW + step * 250;
        for replica in &mut replicas {
            assert!(replica.ask(&mut bucket, now, 1), "{step}");
            replica.tend(&mut bucket, now, (150, 150));
        }
    }
    assert!(bucket.calls * 100 < 60_000, "{}", bucket.calls);
}

/// What may happen to a replica.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// So many requests for so many tokens each.
    Ask(u64, u64),
    /// It dies, and another takes its place.
    Die,
    /// It leaves.
    Leave,
}

fn any_limit() -> impl Strategy<Value = token_bucket::Limit> {
    let rate = prop_oneof![
        (1..50_000_u32).prop_map(|tokens| Rate::per(tokens, Unit::Second)),
        (1..1000_u32).prop_map(|tokens| Rate::per(tokens, Unit::Hour)),
    ];
    let grants = (1_000..500_000_u32, 10_000..500_000_u32)
        .prop_map(|(share_parts, max_age_us)| Grants { share_parts, max_age_us });
    (rate, 1..20_000_u32, grants).prop_map(|(rate, burst, grants)| {
        token_bucket::Limit::new(rate, burst).with_grants(Some(grants))
    })
}

fn any_steps() -> impl Strategy<Value = Vec<(u64, usize, Step, (u64, u64))>> {
    let wait = prop_oneof![4 => 0..500_u64, 2 => 0..20_000_u64, 1 => 0..400_000_u64];
    let step = prop_oneof![
        20 => (1..100_u64, 1..20_u64).prop_map(|(times, tokens)| Step::Ask(times, tokens)),
        1 => Just(Step::Die),
        1 => Just(Step::Leave),
    ];
    let takes = prop_oneof![(0..300_u64, 0..300_u64), (0..30_000_u64, 0..30_000_u64)];
    prop::collection::vec((wait, 0..4_usize, step, takes), 1..300)
}

proptest! {
    #[test]
    fn all_replicas_together_never_admit_more_than_the_bound(
        limit in any_limit(),
        steps in any_steps(),
    ) {
        let (mut bucket, mut now) = (Bucket::default(), NOW);
        let replica = |place: usize, now| Replica::new(limit, now, 1000 * place as u64);
        let mut replicas: Vec<Replica> = (0..4).map(|place| replica(place, now)).collect();
        // When, and how much.
        let mut admitted: Vec<(Timestamp, u64)> = Vec::new();
        for (wait_us, place, step, takes_us) in steps {
            now = now + wait_us;
            for replica in &mut replicas {
                replica.tend(&mut bucket, now, takes_us);
                replica.tend(&mut bucket, now, takes_us);
            }
            match step {
                Step::Ask(times, tokens) => {
                    for _ in 0..times {
                        if replicas[place].ask(&mut bucket, now, tokens) {
                            admitted.push((now, tokens));
                        }
                    }
                    replicas[place].tend(&mut bucket, now, takes_us);
                }
                Step::Die => replicas[place] = replica(place, now),
                Step::Leave => {
                    if let Some(ask) = replicas[place].hand.give_back_all(drawn()) {
                        replicas[place].returned += ask.tokens_returned();
                        bucket.grant(&ask, now);
                    }
                }
            }
            let Replica { hand, granted, returned, spent, .. } = &replicas[place];
            prop_assert_eq!(*granted, hand.tokens() + returned + spent);
            prop_assert!(hand.tokens() <= limit.most_in_hand());
        }
        let Rate { tokens: per_period, period_us } = limit.rate();
        let max_age_us = limit.grants().unwrap().max_age_us;
        let arrives_in = |micros: u64| u128::from(per_period) * u128::from(micros);
        let most = u128::from(limit.burst()) * u128::from(period_us) + arrives_in(max_age_us.into());
        // The most that any stretch of time that ends here has had above what arrived in it.
        let (mut above, mut last) = (0_u128, NOW);
        for (at, tokens) in admitted {
            above = above.saturating_sub(arrives_in(at - last));
            above += u128::from(tokens) * u128::from(period_us);
            last = at;
            prop_assert!(above <= most, "{} too many", (above - most) / u128::from(period_us));
        }
    }
}

/// What may happen to a bucket whose limit is changed again and again, and whose clock may be set back.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A replica takes a chunk.
    Fetch(u64),
    /// It spends so much of its oldest chunk.
    Spend(u64),
    /// It gives back what is left of that.
    GiveBack,
    /// A request is decided at the bucket.
    Take(u64),
    /// The same where the bucket may be overdrawn.
    Overdraw(u64),
    /// A caller gives back.
    Refund(u64),
    /// So much time passes.
    Wait(u64),
    /// The clock is set back.
    SetBack(u64),
    /// Another of the limits is in force.
    Change(usize),
}

fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let tokens = || 1..12_u64;
    let event = prop_oneof![
        4 => tokens().prop_map(Event::Fetch),
        2 => tokens().prop_map(Event::Spend),
        4 => Just(Event::GiveBack),
        6 => tokens().prop_map(Event::Take),
        1 => tokens().prop_map(Event::Overdraw),
        1 => tokens().prop_map(Event::Refund),
        4 => (0..3_000_000_u64).prop_map(Event::Wait),
        1 => (0..90_000_000_u64).prop_map(Event::SetBack),
        2 => (0..3_usize).prop_map(Event::Change),
    ];
    prop::collection::vec(event, 1..40)
}

/// A chunk in the hands of a replica.
struct Chunk {
    taken: usize,
    granted: Granted,
    spent: u64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// What was spent counts from when it was taken, so that the age of chunks needs no allowance.
    #[test]
    fn whatever_is_changed_meanwhile_no_more_is_admitted_than_the_bound(
        rates in prop::array::uniform3(prop_oneof![1..10_u32, Just(0)]),
        bursts in prop_oneof![
            (1..12_u32).prop_map(|burst| [burst; 3]),
            prop::array::uniform3(1..12_u32),
        ],
        events in any_events(),
    ) {
        let limits = [0, 1, 2].map(|place| match rates[place] {
            // One that hardly refills, in a unit of its own.
            0 => per(1, Unit::Day, bursts[place]),
            rate => per(rate, Unit::Second, bursts[place]),
        });
        let (mut bucket, mut now, mut limit) = (Bucket::default(), NOW, limits[0]);
        let mut chunks = std::collections::VecDeque::<Chunk>::new();
        // What each charge admitted. How much time had passed by then, and what callers had given back.
        let mut charges: Vec<u64> = Vec::new();
        let (mut passed_us, mut given_back) = (0, 0);
        let mut allowed: Vec<(u64, u64)> = Vec::new();
        for event in events {
            let before = bucket.state.as_ref().and_then(State::token_bucket);
            match event {
                Event::Fetch(tokens) => {
                    let granted = bucket.grant(&wants(limit, tokens), now);
                    chunks.push_back(Chunk { taken: charges.len(), granted, spent: 0 });
                    charges.push(0);
                }
                Event::Spend(tokens) => {
                    if let Some(Chunk { taken, granted, spent }) = chunks.front_mut() {
                        *spent = (*spent + tokens).min(granted.tokens);
                        charges[*taken] = *spent;
                    }
                }
                Event::GiveBack => {
                    let chunk = chunks.pop_front().filter(|chunk| chunk.granted.tokens > chunk.spent);
                    if let Some(Chunk { granted, spent, .. }) = chunk {
                        bucket.grant(&gives_back(limit, granted, granted.tokens - spent), now);
                    }
                    continue;
                }
                Event::Take(tokens) => {
                    let admitted = bucket.take(limit, tokens, now);
                    charges.push(if admitted { tokens } else { 0 });
                }
                Event::Overdraw(tokens) => {
                    bucket.take(limit.with_overdraw(), tokens, now);
                }
                Event::Refund(tokens) => {
                    let checked = Limit::TokenBucket(limit)
                        .check(bucket.state.as_ref(), now, Cost::Refund(tokens));
                    bucket.state = checked.state;
                    given_back += tokens;
                }
                Event::Wait(micros) => {
                    now = now + micros;
                    passed_us += micros;
                    continue;
                }
                Event::SetBack(micros) => {
                    now = Timestamp::from_micros(now.as_micros() - micros);
                    continue;
                }
                Event::Change(place) => {
                    limit = limits[place];
                    continue;
                }
            }
            // A smaller burst forgets what was used above it.
            let used = before.map_or(0, |state| state.used.div_ceil(state.grains_per_token));
            given_back += used.saturating_sub(limit.burst().into());
            // A state that every limit reads as full is forgotten.
            let fresh = bucket.state.as_ref().and_then(State::token_bucket);
            let is_fresh = |limit: &token_bucket::Limit| {
                fresh.is_none_or(|state| limit.fresh_at(&state).is_none_or(|fresh_at| fresh_at <= now))
            };
            if limits.iter().all(is_fresh) {
                bucket.state = None;
            }
            while allowed.len() < charges.len() {
                allowed.push((passed_us, given_back));
            }
        }
        // All rates are at most the highest, in tokens a second.
        let rate = u64::from(rates.into_iter().max().unwrap()).max(1);
        let burst = u64::from(bursts.into_iter().max().unwrap());
        for first in 0..charges.len() {
            let mut admitted = 0;
            for last in first..charges.len() {
                admitted += charges[last];
                let passed_us = allowed[last].0 - allowed[first].0;
                let refunds = allowed[last].1 - allowed[first].1;
                let most = (burst + refunds) * SECOND + rate * passed_us;
                prop_assert!(admitted * SECOND <= most, "{} of {}", admitted, most);
            }
        }
    }
}
