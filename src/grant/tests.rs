use super::*;
use crate::{
    limiter::token_bucket::{Grants, Rate},
    unit::Unit,
};
use proptest::prelude::*;

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

/// The bucket where it is shared.
#[derive(Default)]
struct Bucket {
    state: Option<State>,
    calls: u64,
}

impl Bucket {
    fn grant(&mut self, ask: &Ask, now: Timestamp) -> Granted {
        self.calls += 1;
        let (granted, writes) = grant(&[*ask], std::slice::from_ref(&self.state), now);
        for Write { kept, .. } in writes {
            self.state = kept.map(|kept| kept.state);
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
    answer: Option<(Granted, Timestamp)>,
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
                call.answer = Some((bucket.grant(&call.ask, now), now));
            }
            if now >= call.arrives
                && let Some(Call { asked, ask, answer: Some(answer), .. }) = self.call.take()
            {
                self.granted += answer.0.tokens;
                if let Some(short) = self.hand.granted(here, (asked, &ask), answer) {
                    self.refuses_until = here + short.wait_us;
                }
            }
        }
        let wants = self.hand.is_due(here, 2000) || self.hand.is_to_give_back(here);
        if self.call.is_none()
            && wants
            && let Some(ask) = self.hand.ask(here)
        {
            self.returned += ask.returned;
            let decides = now + takes_us.0;
            let arrives = decides + takes_us.1;
            self.call = Some(Call { asked: here, ask, decides, arrives, answer: None });
        }
    }
}

#[test]
fn hands_out_what_is_there_and_says_what_is_left() {
    let ask = Ask { limit: fast(), returned: 0, since: NOW, wanted: 400 };
    let mut bucket = Bucket::default();
    let granted = bucket.grant(&ask, NOW);
    assert_eq!(granted, Granted { tokens: 400, remaining: 9600, next_in_us: 100 });
    let granted = bucket.grant(&Ask { wanted: 20_000, ..ask }, NOW + 150);
    assert_eq!(granted, Granted { tokens: 9601, remaining: 0, next_in_us: 50 });
    assert_eq!(bucket.grant(&ask, NOW + 150).tokens, 0);
    // To ask for nothing is to look.
    let granted = bucket.grant(&Ask { wanted: 0, ..ask }, NOW + 2 * SECOND);
    assert_eq!(granted, Granted { tokens: 0, remaining: 10_000, next_in_us: 0 });
}

#[test]
fn credits_what_has_not_been_refilled_since() {
    let ask = |returned, since, wanted| Ask { limit: fast(), returned, since, wanted };
    let mut bucket = Bucket::default();
    bucket.grant(&ask(0, NOW, 500), NOW);
    bucket.take(fast(), 9500, NOW);
    // 300 have come by then, and 200 are credited.
    let later = NOW + 30_000;
    assert_eq!(bucket.grant(&ask(500, NOW, 0), later).remaining, 500);
    assert_eq!(bucket.grant(&ask(500, NOW, 0), later).remaining, 700);
    // A half of a token, to that which has just come.
    assert_eq!(bucket.grant(&ask(500, later, 0), later + 49_950).remaining, 700 + 500);
    assert_eq!(bucket.grant(&ask(500, NOW, 0), later + 49_950).next_in_us, 100);
    // More than it holds is not given back by anybody.
    assert_eq!(bucket.grant(&ask(u64::MAX, later, 0), later + 50_000).remaining, 10_000);
    assert_eq!(bucket.state, None);
}

#[test]
fn a_hand_is_filled_by_demand_and_not_for_a_few() {
    let mut hand = Hand::new(fast(), NOW).unwrap();
    hand.note(NOW, 1000);
    assert_eq!(hand.ask(NOW), None, "one request is no demand");
    let (mut hand, mut now) = (Hand::new(fast(), NOW).unwrap(), NOW);
    // One in a millisecond: a slice is for 50 of them.
    for _ in 0..100 {
        now = now + 1000;
        hand.note(now, 1);
    }
    let ask = hand.ask(now).unwrap();
    assert!((40..=60).contains(&ask.wanted), "{ask:?}");
    assert!(!hand.is_due(now, 1000), "it is asked for already");
    let granted = Granted { tokens: ask.wanted, remaining: 9000, next_in_us: 0 };
    assert_eq!(hand.granted(now + 500, (now, &ask), (granted, now)), None);
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
    let ask = hand.ask(NOW).unwrap();
    assert_eq!(ask.wanted, 500);
    let granted = Granted { tokens: 500, remaining: 0, next_in_us: 0 };
    hand.granted(NOW, (NOW, &ask), (granted, NOW));
    assert_eq!(hand.ask(NOW), None);
    hand.spend(NOW, 400);
    assert_eq!(hand.ask(NOW).unwrap().wanted, 400);
}

#[test]
fn what_is_too_old_is_not_spent_but_comes_back() {
    let mut hand = Hand::new(fast(), NOW).unwrap();
    for _ in 0..100 {
        hand.note(NOW, 1);
    }
    let ask = hand.ask(NOW).unwrap();
    let granted = Granted { tokens: 300, remaining: 0, next_in_us: 0 };
    let taken = NOW + 700;
    hand.granted(NOW + 1000, (NOW, &ask), (granted, taken));
    assert_eq!(hand.spendable(NOW + (MAX_AGE_US - 1)), 300);
    assert!(!hand.is_to_give_back(NOW + (MAX_AGE_US - 1)));
    // It counts from when it was asked for, which is before it was taken.
    let later = NOW + MAX_AGE_US;
    assert_eq!((hand.spendable(later), hand.tokens()), (0, 300));
    assert!(hand.is_to_give_back(later));
    let much_later = NOW + 20 * MAX_AGE_US;
    let ask = hand.ask(much_later).unwrap();
    assert_eq!((ask.returned, ask.since, ask.wanted), (300, taken, 0));
    assert!(!hand.is_idle(much_later), "the answer is to come");
    let nothing = Granted { tokens: 0, remaining: 9, next_in_us: 0 };
    assert_eq!(hand.granted(much_later, (much_later, &ask), (nothing, much_later)), None);
    assert!(hand.is_idle(much_later));
}

#[test]
fn an_empty_bucket_is_left_alone_until_a_slice_has_come() {
    let mut hand = Hand::new(fast(), NOW).unwrap();
    for _ in 0..1000 {
        hand.note(NOW, 1);
    }
    let ask = hand.ask(NOW).unwrap();
    assert_eq!(ask.wanted, 500);
    let granted = Granted { tokens: 400, remaining: 0, next_in_us: 40 };
    let short = hand.granted(NOW + 300, (NOW, &ask), (granted, NOW)).unwrap();
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
    let ask = hand.ask(NOW).unwrap();
    let granted = (Granted { tokens: 9, remaining: 0, next_in_us: 0 }, NOW);
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
                    if let Some(ask) = replicas[place].hand.give_back_all() {
                        replicas[place].returned += ask.returned;
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
