use super::*;
use proptest::prelude::*;
use std::num::NonZeroU64;

const SECOND: u64 = 1_000_000;
const START: Timestamp = Timestamp::from_micros(10 * SECOND);

/// A bucket and the time, moved by hand.
struct Bucket {
    limit: Limit,
    state: Option<State>,
    now: Timestamp,
}

impl Bucket {
    fn new(rate: Rate, burst: u32) -> Self {
        Self { limit: Limit::new(rate, burst), state: None, now: START }
    }

    fn overdrawable(self) -> Self {
        Self { limit: self.limit.with_overdraw(), ..self }
    }

    fn ask(&mut self, cost: Cost) -> Option<Wait> {
        self.state = self.state.map(|state| state.pulled_back(self.now).unwrap_or(state));
        let checked = self.limit.check(self.state, self.now, cost);
        self.state = checked.state.or(self.state);
        checked.over
    }

    fn take(&mut self, tokens: u64) -> Option<Wait> {
        self.ask(Cost::Take(tokens))
    }

    fn remaining(&self) -> u64 {
        self.limit.remaining(self.state, self.now)
    }
}

fn per_second(tokens: u32) -> Rate {
    Rate::per(tokens, Unit::Second)
}

#[test]
fn refuses_the_burst_plus_first() {
    let mut bucket = Bucket::new(per_second(1), 5);
    for left in (0..5).rev() {
        assert_eq!(bucket.take(1), None);
        assert_eq!(bucket.remaining(), left);
    }
    assert_eq!(bucket.take(1), Some(Wait::Micros(SECOND)));
}

#[test]
fn a_token_is_there_at_its_microsecond_and_not_before() {
    let mut bucket = Bucket::new(per_second(3), 2);
    assert_eq!(bucket.take(2), None);
    // A third of a second is 333,333.3 µs; the part of a microsecond is never lost.
    for (early, due) in [(333_333, 333_334), (666_666, 666_667), (999_999, 1_000_000)] {
        bucket.now = START + early;
        assert_eq!(bucket.take(1), Some(Wait::Micros(1)));
        bucket.now = START + due;
        assert_eq!(bucket.take(1), None);
    }
}

#[test]
fn a_cost_above_the_burst_never_passes() {
    let mut bucket = Bucket::new(per_second(1000), 5);
    assert_eq!(bucket.take(6), Some(Wait::Never));
    assert_eq!(bucket.take(u64::MAX), Some(Wait::Never));
    assert_eq!(bucket.take(5), None);
}

#[test]
fn a_peek_takes_nothing_and_needs_one_token() {
    let mut bucket = Bucket::new(per_second(1), 2);
    assert_eq!(bucket.ask(Cost::Peek), None);
    assert_eq!(bucket.state, None);
    assert_eq!(bucket.take(2), None);
    assert_eq!(bucket.ask(Cost::Peek), Some(Wait::Micros(SECOND)));
}

#[test]
fn a_refund_fills_up_to_the_burst_only() {
    let mut bucket = Bucket::new(per_second(1), 5);
    bucket.take(4);
    assert_eq!(bucket.ask(Cost::Refund(2)), None);
    assert_eq!(bucket.remaining(), 3);
    assert_eq!(bucket.ask(Cost::Refund(u64::MAX)), None);
    assert_eq!(bucket.remaining(), 5);
    assert_eq!(bucket.limit.fresh_at(&bucket.state.unwrap()), None);
}

#[test]
fn an_overdraft_refuses_until_one_token_is_there_again() {
    let mut bucket = Bucket::new(per_second(1), 1000).overdrawable();
    bucket.take(200);
    assert_eq!(bucket.take(900), None, "800 were there, and the cost has arisen already");
    assert_eq!(bucket.ask(Cost::Peek), Some(Wait::Micros(101 * SECOND)));
    assert_eq!(bucket.remaining(), 0);
    bucket.now = START + 101 * SECOND;
    assert_eq!(bucket.ask(Cost::Peek), None);
}

#[test]
fn an_overdraft_goes_down_to_minus_the_burst_and_is_charged_even_when_over() {
    let mut bucket = Bucket::new(per_second(1), 10).overdrawable();
    assert_eq!(bucket.take(15), None);
    assert_eq!(bucket.take(3), Some(Wait::Micros(9 * SECOND)), "8 down: 9 until there is 1");
    assert_eq!(bucket.take(u64::MAX), Some(Wait::Micros(11 * SECOND)));
}

#[test]
fn a_changed_limit_keeps_what_was_used() {
    let mut bucket = Bucket::new(Rate::per(5, Unit::Hour), 5);
    bucket.take(3);
    bucket.limit = Limit::new(Rate::per(10, Unit::Minute), 10);
    assert_eq!(bucket.remaining(), 7, "3 of 5 gone are 3 of 10 gone");
    bucket.now = START + 6 * SECOND;
    assert_eq!(bucket.remaining(), 8, "which drain at the new rate");
    bucket.limit = Limit::new(Rate::per(1, Unit::Day), 1);
    assert_eq!(bucket.remaining(), 0);
    bucket.take(1);
    bucket.limit = Limit::new(Rate::per(10, Unit::Minute), 10);
    assert_eq!(bucket.remaining(), 8, "a refusal under the smaller limit wrote nothing");
}

#[test]
fn a_clock_set_back_admits_nothing_extra() {
    let mut bucket = Bucket::new(per_second(1), 5);
    bucket.take(5);
    bucket.now = Timestamp::from_micros(0);
    assert_eq!(bucket.take(1), Some(Wait::Micros(11 * SECOND)));
    bucket.now = START + SECOND;
    assert_eq!(bucket.take(1), None);
    assert!(bucket.take(1).is_some());
}

#[test]
fn an_instant_far_ahead_does_not_stop_the_refill() {
    let mut bucket = Bucket::new(per_second(1), 5);
    bucket.now = START + 3600 * SECOND;
    bucket.take(5);
    bucket.now = START;
    assert_eq!(bucket.take(1), Some(Wait::Micros(SECOND)));
}

#[test]
fn a_zero_limit_refuses_everything_for_ever() {
    for limit in
        [Limit::per_unit(0, Unit::Day), Limit::new(per_second(0), 5), Limit::new(per_second(5), 0)]
    {
        for cost in [Cost::Take(1), Cost::Peek] {
            assert_eq!(limit.check(None, START, cost).over, Some(Wait::Never));
        }
        assert_eq!(limit.remaining(None, START), 0);
        assert_eq!(limit.full_in_us(None, START), 0);
    }
}

#[test]
fn shows_a_unit_where_the_burst_is_what_one_unit_brings() {
    assert_eq!(Limit::per_unit(0, Unit::Day).unit(), Some(Unit::Day));
    assert_eq!(Limit::per_unit(7, Unit::Month).unit(), Some(Unit::Month));
    assert_eq!(Limit::new(per_second(100), 100).unit(), Some(Unit::Second));
    assert_eq!(Limit::new(per_second(100), 6000).unit(), Some(Unit::Minute));
    assert_eq!(Limit::new(per_second(100), 500).unit(), None);
}

#[test]
fn grains_are_exact_for_what_people_write() {
    for unit in Unit::ALL {
        for tokens in [1, 2, 3, 5, 7, 50, 60, 100, 500, 1000, 10_000, 100_000] {
            let grains = Grains::of(Rate::per(tokens, unit), tokens);
            assert_eq!(grains.step_us, 1, "{tokens}/{unit}");
            assert_eq!(
                u128::from(grains.per_step) * u128::from(unit.micros()),
                u128::from(grains.per_token) * u128::from(tokens),
                "{tokens}/{unit}"
            );
        }
    }
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let tokens = prop_oneof![1_u32..=10, 1_u32..=100_000, 1_u32..=u32::MAX, Just(u32::MAX)];
    (tokens, prop::sample::select(Unit::ALL.to_vec()))
        .prop_map(|(tokens, unit)| Rate::per(tokens, unit))
}

/// Whether a bucket refills within the longest time that is counted.
fn refills_in_time(limit: &Limit) -> bool {
    limit.drained_in_us(
        &State { used: 2 * limit.capacity(), updated: START, grains_per_token: 1, ledger: None },
        START,
        0,
    ) < LONGEST_US
}

fn any_burst() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1_u32), 1_u32..=100, 1_u32..=u32::MAX, Just(u32::MAX)]
}

/// Steps of time: in bursts, at the pace of the rate, and after long silence.
fn any_step() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0_u64),
        0_u64..=3,
        0_u64..=2000,
        0_u64..=SECOND,
        0_u64..=40 * 365 * 86_400 * SECOND
    ]
}

/// `tokens` of `limit` in so many microseconds, times the period: exact.
fn refill(limit: &Limit, micros: u64) -> u128 {
    u128::from(limit.rate.tokens) * u128::from(micros)
}

fn scaled(limit: &Limit, tokens: u64) -> u128 {
    u128::from(tokens) * u128::from(limit.rate.period_us)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn never_admits_more_than_burst_plus_rate_times_time(
        rate in any_rate(),
        burst in any_burst(),
        asks in prop::collection::vec((any_step(), 0_u32..=101), 1..80),
    ) {
        let mut bucket = Bucket::new(rate, burst);
        let mut admitted: Vec<(Timestamp, u64)> = Vec::new();
        for (step, share) in asks {
            bucket.now = bucket.now + step;
            // Costs from 1 to a little above the burst.
            let tokens = (u64::from(burst) * u64::from(share) / 100).max(1);
            let over = bucket.take(tokens);
            prop_assert_eq!(over == Some(Wait::Never), tokens > u64::from(burst));
            if over.is_none() {
                admitted.push((bucket.now, tokens));
            }
            // Over every window that ends now.
            let mut sum = 0;
            for (since, tokens) in admitted.iter().rev() {
                sum += scaled(&bucket.limit, *tokens);
                let allowed = scaled(&bucket.limit, burst.into()) + refill(&bucket.limit, bucket.now - *since);
                prop_assert!(sum <= allowed);
            }
        }
    }

    #[test]
    fn admits_nearly_all_of_it_under_steady_demand(
        rate in any_rate(),
        burst in any_burst().prop_map(|burst| burst.max(2)),
        step in prop_oneof![1_u64..=10, 1_u64..=1000, 1_u64..=SECOND],
    ) {
        let mut bucket = Bucket::new(rate, burst);
        // A bucket that is full before it is asked again loses what it cannot hold, as it should.
        let room = u128::from(burst - 1) * u128::from(rate.period_us) / u128::from(rate.tokens);
        let step = step.min(u64::try_from(room).unwrap_or(u64::MAX));
        if step == 0 {
            return Ok(());
        }
        bucket.take(burst.into());
        let mut admitted = 0;
        for _ in 0..3000 {
            bucket.now = bucket.now + step;
            let there = bucket.remaining();
            if there > 0 {
                prop_assert_eq!(bucket.take(there), None);
                admitted += there;
            }
            prop_assert!(bucket.take(1).is_some());
        }
        // Less than a token may be under way, and a step of the refill.
        let due = refill(&bucket.limit, bucket.now - START);
        let under_way = scaled(&bucket.limit, 1) + refill(&bucket.limit, bucket.limit.grains.step_us);
        prop_assert!((scaled(&bucket.limit, admitted) + under_way) * 1000 >= due * 999);
    }

    #[test]
    fn admits_nearly_all_of_it_to_whoever_waits_as_told(
        tokens in 1_u32..=1000,
        unit in prop::sample::select(Unit::ALL.to_vec()),
        burst in any_burst(),
    ) {
        let mut bucket = Bucket::new(Rate::per(tokens, unit), burst);
        bucket.take(burst.into());
        let mut admitted = 0;
        while admitted < 2000 {
            match bucket.take(1) {
                None => admitted += 1,
                Some(Wait::Micros(wait)) => bucket.now = bucket.now + wait,
                Some(Wait::Never) => prop_assert!(false, "one token always fits"),
            }
        }
        let due = refill(&bucket.limit, bucket.now - START);
        prop_assert!(scaled(&bucket.limit, admitted) * 1000 >= due * 999);
    }

    #[test]
    fn passes_at_the_end_of_the_wait_and_not_before(
        rate in any_rate(),
        burst in any_burst(),
        used in 0_u32..=100,
        cost in 1_u32..=100,
        step in any_step(),
    ) {
        let mut bucket = Bucket::new(rate, burst);
        bucket.take((u64::from(burst) * u64::from(used) / 100).max(1));
        bucket.now = bucket.now + step;
        if !refills_in_time(&bucket.limit) {
            return Ok(());
        }
        let tokens = (u64::from(burst) * u64::from(cost) / 100).max(1);
        if let Some(Wait::Micros(wait)) = bucket.take(tokens) {
            prop_assert!(wait > 0);
            let asked_at = bucket.now;
            bucket.now = asked_at + (wait - 1);
            prop_assert!(bucket.take(tokens).is_some());
            bucket.now = asked_at + wait;
            prop_assert_eq!(bucket.take(tokens), None);
        }
    }

    #[test]
    fn a_forgotten_state_equals_a_fresh_one(
        rate in any_rate(),
        burst in any_burst(),
        overdraw: bool,
        tokens in 1_u64..=u64::from(u32::MAX) * 2,
    ) {
        let mut bucket = Bucket::new(rate, burst);
        if overdraw {
            bucket = bucket.overdrawable();
        }
        if !refills_in_time(&bucket.limit) {
            return Ok(());
        }
        bucket.take(tokens.min(if overdraw { u64::MAX } else { burst.into() }));
        let fresh_at = bucket.limit.fresh_at(&bucket.state.unwrap()).unwrap();
        prop_assert_eq!(fresh_at - bucket.now, bucket.limit.full_in_us(bucket.state, bucket.now));
        bucket.now = START + (fresh_at - START - 1);
        prop_assert!(bucket.limit.full_in_us(bucket.state, bucket.now) > 0);
        bucket.now = fresh_at;
        prop_assert_eq!(bucket.remaining(), u64::from(burst));
        prop_assert_eq!(bucket.limit.full_in_us(bucket.state, bucket.now), 0);
    }

    #[test]
    fn a_change_of_limit_and_back_never_gives_a_token_away(
        rates in (any_rate(), any_rate()),
        bursts in (any_burst(), any_burst()),
        used in 1_u32..=100,
    ) {
        let mut bucket = Bucket::new(rates.0, bursts.0);
        bucket.take((u64::from(bursts.0) * u64::from(used) / 100).max(1));
        let before = bucket.limit;
        let gone = u64::from(bursts.0) - bucket.remaining();
        let other = Limit::new(rates.1, bursts.1);
        let gone_there = u64::from(bursts.1) - other.remaining(bucket.state, bucket.now);
        prop_assert_eq!(gone_there, gone.min(bursts.1.into()));
        // A charge under the other limit writes the state in its grains.
        bucket.limit = other;
        let taken = u64::from(bucket.take(1).is_none());
        bucket.limit = before;
        let gone_back = u64::from(bursts.0) - bucket.remaining();
        prop_assert!(gone_back >= (gone.min(bursts.1.into()) + taken).min(bursts.0.into()));
    }

    #[test]
    fn a_state_that_another_limit_wrote_is_kept_until_it_is_fresh(
        rates in (any_rate(), any_rate()),
        bursts in (any_burst(), any_burst()),
        used in 1_u32..=100,
    ) {
        let mut writer = Bucket::new(rates.0, bursts.0);
        writer.take((u64::from(bursts.0) * u64::from(used) / 100).max(1));
        let reader = Limit::new(rates.1, bursts.1);
        if !refills_in_time(&reader) {
            return Ok(());
        }
        let fresh_at = reader.fresh_at(&writer.state.unwrap()).unwrap();
        let before = Timestamp::from_micros(fresh_at.as_micros() - 1);
        prop_assert!(reader.full_in_us(writer.state, before) > 0);
        prop_assert_eq!(reader.full_in_us(writer.state, fresh_at), 0);
    }

    #[test]
    fn survives_any_state_it_finds(
        rate in any_rate(),
        burst in any_burst(),
        used: u64,
        updated: u64,
        grains_per_token: u64,
        now: u64,
        tokens in 1_u64..,
        ledger in prop::option::of((1_u64.., any::<u64>())),
    ) {
        let ledger = ledger.map(|(since, charged)| Ledger { since: NonZeroU64::new(since).unwrap(), charged });
        let state = Some(State { used, updated: Timestamp::from_micros(updated), grains_per_token, ledger });
        let now = Timestamp::from_micros(now);
        for limit in [Limit::new(rate, burst), Limit::new(rate, burst).with_overdraw()] {
            for cost in [Cost::Take(tokens), Cost::Peek, Cost::Refund(tokens)] {
                let checked = limit.check(state, now, cost);
                prop_assert!(checked.state.is_none_or(|state| state.used <= 1 << 53));
                prop_assert!(limit.remaining(checked.state, now) <= burst.into());
                let _ = limit.full_in_us(checked.state, now);
            }
        }
    }
}
