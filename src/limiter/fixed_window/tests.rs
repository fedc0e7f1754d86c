use super::*;
use crate::config::domains_of;
use crate::rules::Kind;
use proptest::prelude::*;

const DAY: u64 = Unit::Day.micros();
/// 2024-02-29 12:00:00.
const NOON: Timestamp = Timestamp::from_micros(1_709_208_000_000_000);

fn daily(limit: u32) -> Limit {
    Limit::new(limit, Period::Calendar(Unit::Day))
}

/// The states that a limit leaves, one after the other.
#[derive(Default)]
struct Counter(Option<State>);

impl Counter {
    fn ask(&mut self, limit: &Limit, now: Timestamp, cost: Cost) -> Option<Wait> {
        let checked = limit.check(self.0.as_ref(), now, cost);
        self.0 = checked.state.or(self.0);
        checked.over
    }

    fn left(&self, limit: &Limit, now: Timestamp) -> u64 {
        limit.remaining(self.0.as_ref(), now)
    }
}

#[test]
fn a_window_lets_so_many_pass_and_the_next_one_begins_anew() {
    let (limit, mut counter) = (daily(5), Counter::default());
    assert_eq!(counter.ask(&limit, NOON, Cost::Take(3)), None);
    assert_eq!(counter.ask(&limit, NOON, Cost::Take(3)), Some(Wait::Micros(DAY / 2)));
    assert_eq!(counter.ask(&limit, NOON, Cost::Take(2)), None);
    assert_eq!(counter.ask(&limit, NOON, Cost::Peek), Some(Wait::Micros(DAY / 2)));
    assert_eq!(counter.ask(&limit, NOON, Cost::Take(6)), Some(Wait::Never));
    let midnight = NOON + DAY / 2;
    assert_eq!(counter.ask(&limit, midnight, Cost::Take(5)), None, "twice around the boundary");
    assert_eq!(counter.left(&limit, midnight), 0);
    assert_eq!(limit.full_in_us(counter.0.as_ref(), midnight), DAY);
}

#[test]
fn a_changed_limit_keeps_what_was_used_and_a_changed_window_does_not() {
    let mut counter = Counter::default();
    counter.ask(&daily(5), NOON, Cost::Take(3));
    assert_eq!(counter.left(&daily(10), NOON), 7);
    assert_eq!(counter.left(&daily(2), NOON), 0);
    assert_eq!(counter.left(&Limit::new(5, Period::Fixed(DAY)), NOON), 2, "the same window");
    assert_eq!(counter.left(&Limit::new(5, Period::Calendar(Unit::Month)), NOON), 5);
}

#[test]
fn a_refund_is_of_the_current_window() {
    let (limit, mut counter) = (daily(5), Counter::default());
    counter.ask(&limit, NOON, Cost::Take(3));
    counter.ask(&limit, NOON, Cost::Refund(9));
    assert_eq!(counter.left(&limit, NOON), 5);
    counter.ask(&limit, NOON, Cost::Take(3));
    let state = counter.0.unwrap();
    let given_back = |at, now| limit.credit(&state, now, (2, at)).map(|state| state.used);
    assert_eq!(given_back(NOON, NOON + 1), Some(1));
    assert_eq!(given_back(NOON, NOON + DAY), None, "its window is over");
    assert_eq!(limit.credit(&state, NOON, (4, NOON)), None, "less was charged");
}

#[test]
fn what_is_overdrawn_ends_with_the_window() {
    let (limit, mut counter) = (daily(5).with_overdraw(), Counter::default());
    assert_eq!(counter.ask(&limit, NOON, Cost::Take(100)), None);
    assert_eq!(counter.0.unwrap().used, 10);
    assert_eq!(counter.ask(&limit, NOON, Cost::Take(1)), Some(Wait::Micros(DAY / 2)));
    assert_eq!(counter.left(&limit, NOON + DAY), 5);
}

#[test]
fn a_limit_that_was_lowered_and_raised_again_has_forgotten_nothing() {
    for overdraw in [false, true] {
        let [high, low] = [500, 10].map(|limit| match overdraw {
            true => daily(limit).with_overdraw(),
            false => daily(limit),
        });
        let mut counter = Counter::default();
        assert_eq!(counter.ask(&high, NOON, Cost::Take(400)), None);
        assert_eq!(counter.ask(&low, NOON, Cost::Take(1)), Some(Wait::Micros(DAY / 2)));
        assert_eq!((counter.left(&low, NOON), counter.left(&high, NOON)), (0, 100));
    }
}

#[test]
fn of_a_full_memory_what_has_used_least_is_forgotten_first() {
    let limit = daily(1000);
    let state = |used| State { used, window: limit.period.window(NOON) };
    let [least, most] = [1, 1000].map(|used| limit.refill_us_of(&state(used)));
    assert_eq!((least, most), (1000 * DAY, DAY));
}

#[test]
fn a_clock_that_is_set_back_admits_nothing_twice() {
    let (limit, mut counter) = (Limit::new(5, Period::Fixed(1_000_000)), Counter::default());
    assert_eq!(counter.ask(&limit, NOON, Cost::Take(5)), None);
    let back = Timestamp::from_micros(NOON.as_micros() - 2_000_000);
    assert_eq!(counter.ask(&limit, back, Cost::Take(1)), Some(Wait::Micros(3_000_000)));
    let far = Timestamp::from_micros(NOON.as_micros() - 61_000_000);
    let clamped = limit.clamped_to_now(&counter.0.unwrap(), far).unwrap();
    assert_eq!(clamped.window, limit.period.window(far));
}

proptest! {
    /// However it is asked, no window admits more than the limit.
    #[test]
    fn no_window_admits_more_than_the_limit(
        most in 1..10_u32,
        steps in prop::collection::vec((0..400_000_u64, 1..6_u64), 1..80),
    ) {
        let limit = Limit::new(most, Period::Fixed(1_000_000));
        let (mut counter, mut now) = (Counter::default(), NOON);
        let mut admitted = std::collections::BTreeMap::<u64, u64>::new();
        for (step, hits) in steps {
            now = now + step;
            if counter.ask(&limit, now, Cost::Take(hits)).is_none() {
                *admitted.entry(now.as_micros() / 1_000_000).or_default() += hits;
            }
        }
        prop_assert!(admitted.values().all(|hits| *hits <= most.into()));
    }
}

#[test]
fn it_is_read_from_a_rule_file() {
    let limit = |inside: &str| {
        let text = format!("domain: a\ndescriptors: [{{key: b, fixed_window: {inside}}}]\n");
        match domains_of(&text)[0].descriptors[0].limits[0].kind {
            Kind::Limit(limit) => (limit.in_words(), limit.to_json()["fixed_window"].clone()),
            ref other => panic!("{other:?}"),
        }
    };
    let (words, json) = limit("{limit: 100000, per: Day}");
    assert_eq!(words, "100000 in each day");
    assert_eq!((&json["per"], &json["align"]), (&"day".into(), &"utc".into()));
    let (words, json) = limit("{limit: 5, per: week, align: epoch}");
    assert_eq!((words.as_str(), json.get("align")), ("5 in each 7d", None));
    assert_eq!(limit("{limit: 5, per: 250ms}").0, "5 in each 250ms");
}

#[test]
fn mistakes_are_told() {
    let message = |inside: &str| {
        let text = format!("domain: a\ndescriptors: [{{key: b, fixed_window: {inside}}}]\n");
        let source = crate::config::Source { name: "a.yaml".into(), text };
        let loaded = crate::config::parse(vec![source], &crate::config::Options::default());
        loaded.diagnostics[0].message.clone()
    };
    assert_eq!(message("{per: day}"), "`limit` is missing");
    assert_eq!(message("{limit: 5}"), "`per` is missing");
    assert_eq!(message("{limit: 0, per: day}"), "`limit: 0` refuses everything");
    assert_eq!(message("{limit: 5, per: dya}"), "`dya` is no window");
    assert_eq!(message("{limit: 5, per: 400d}"), "`per` is longer than a year");
    assert_eq!(
        message("{limit: 5, per: day, align: local}"),
        "`align` is `local`, which it cannot be"
    );
    let misplaced = "`align` beside a `per` that is no unit of the calendar";
    assert_eq!(message("{limit: 5, per: 10s, align: utc}"), misplaced);
}
