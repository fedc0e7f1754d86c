//! What holds of every limiter on the list: of all rates the same promises, and of all limiters that a state is read as
//! it was written.

use super::{
    Checked, Cost, Limit, PROPERTIES, Setting, State, Wait,
    samples::{Samples, any_delay_us},
};
use crate::{
    clock::Timestamp,
    key::{Key, Path},
    store::redis::stored,
    unit::{Rate, Unit},
};
use proptest::{prelude::*, test_runner::TestRunner};
use std::fmt::Debug;

const SECOND: u64 = 1_000_000;
const YEAR: u64 = 365 * 86_400 * SECOND;

/// When a history begins.
const START: Timestamp = Timestamp::from_micros(1_800_000_000 * SECOND);

/// A limit that takes longer to be whole again has waits that are cut off.
const LONGEST_REFILL_US: u64 = 70 * YEAR;

/// How much time passes, and what is asked then.
type Event = (u64, Cost);

/// A limit on a rate, what is stored of it at first, and what happens to it.
type History = (Limit, Option<State>, Vec<Event>);

/// Holds a property for random values.
fn for_all<T: Debug>(
    limiter: &str,
    values: impl Strategy<Value = T>,
    holds: impl Fn(T) -> Result<(), TestCaseError>,
) {
    let usual = ProptestConfig::default();
    // More with PROPTEST_CASES.
    let cases = usual.cases.max(1000);
    let config = ProptestConfig { failure_persistence: None, cases, ..usual };
    TestRunner::new(config)
        .run(&values, holds)
        .unwrap_or_else(|failure| panic!("{limiter}: {failure}"));
}

/// Holds a property for random histories of each rate on the list.
fn for_each_rate(holds: impl Fn(&Samples, &History) -> Result<(), TestCaseError>) {
    for rate in Samples::of_rates() {
        for_all(rate.name, any_history(&rate), |history| holds(&rate, &history));
    }
}

fn any_history(rate: &Samples) -> impl Strategy<Value = History> + use<> {
    let limits = rate.limits.clone();
    let limits = limits.prop_filter("too slow", |limit| limit.refill_us() <= LONGEST_REFILL_US);
    let begun = prop::option::of(rate.states.clone());
    (limits, begun).prop_flat_map(|(limit, begun)| {
        let event = (any_step(&limit), any_cost(&limit));
        let begun = begun.map(|state| limit.clamped_to_now(&state, START).unwrap_or(state));
        (Just(limit), Just(begun), prop::collection::vec(event, 1..20))
    })
}

/// Steps of time: none, short ones, and up to twice what the limit takes to be whole again.
fn any_step(limit: &Limit) -> BoxedStrategy<u64> {
    let refill_us = limit.refill_us();
    let one_us = limit.arrives_in_us(1);
    prop_oneof![
        Just(0),
        0..=3_u64,
        0..=SECOND,
        (0..=3_u64).prop_map(move |tokens| tokens.saturating_mul(one_us).min(YEAR)),
        0..=2 * refill_us.min(YEAR),
    ]
    .boxed()
}

/// Costs up to a little above what the limit holds, and a few that are far above.
fn any_cost(limit: &Limit) -> BoxedStrategy<Cost> {
    let most = u64::from(limit.amount().unwrap_or(10)).max(1);
    let amount =
        prop_oneof![4 => 1..=3_u64, 8 => 1..=most, 2 => most..=most + 2, 1 => 1..=u64::MAX];
    (amount, 0..10_u8)
        .prop_map(|(amount, kind)| match kind {
            0 => Cost::Peek,
            1 | 2 => Cost::Refund(amount),
            _ => Cost::Take(amount),
        })
        .boxed()
}

/// A limit, its state, and the time, moved by hand.
#[derive(Debug, Clone)]
struct World {
    limit: Limit,
    state: Option<State>,
    now: Timestamp,
}

impl World {
    fn new((limit, state, _): &History) -> Self {
        Self { limit: *limit, state: state.clone(), now: START }
    }

    fn check(&self, cost: Cost) -> Checked<State> {
        self.limit.check(self.state.as_ref(), self.now, cost)
    }

    /// When a cost would pass, as things are.
    fn would(&self, cost: Cost) -> Option<Wait> {
        self.check(cost).over
    }

    /// The same, and the state is what the cost leaves.
    fn ask(&mut self, cost: Cost) -> Option<Wait> {
        let checked = self.check(cost);
        self.state = checked.state.or(self.state.take());
        checked.over
    }

    fn remaining(&self) -> u64 {
        self.limit.remaining(self.state.as_ref(), self.now)
    }

    fn full_in_us(&self) -> u64 {
        self.limit.full_in_us(self.state.as_ref(), self.now)
    }

    fn after(&self, micros: u64) -> Self {
        Self { now: self.now + micros, ..self.clone() }
    }
}

/// Runs a history, and holds a property before each of its events.
fn at_each_event(
    history: &History,
    holds: impl Fn(&World, Cost) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut world = World::new(history);
    for (step_us, cost) in &history.2 {
        world.now = world.now + *step_us;
        holds(&world, *cost)?;
        world.ask(*cost);
    }
    Ok(())
}

#[test]
fn a_peek_passes_where_a_cost_of_one_would() {
    for_each_rate(|_, history| {
        at_each_event(history, |world, _| {
            let (peek, one) = (world.would(Cost::Peek), Cost::Take(1));
            prop_assert_eq!(peek.is_some(), world.would(one).is_some());
            // A cost that is applied all the same has more to wait for.
            if !world.limit.is_applied_if_refused(one) {
                prop_assert_eq!(peek, world.would(one));
            }
            prop_assert_eq!(world.check(Cost::Peek).state, None, "a peek changes nothing");
            Ok(())
        })
    });
}

#[test]
fn a_refused_cost_changes_nothing_that_anybody_sees() {
    for_each_rate(|_, history| {
        let mut with = World::new(history);
        let mut without = with.clone();
        for (step_us, cost) in &history.2 {
            with.now = with.now + *step_us;
            without.now = with.now;
            prop_assert_eq!(with.remaining(), without.remaining());
            prop_assert_eq!(with.full_in_us(), without.full_in_us());
            prop_assert_eq!(with.would(Cost::Peek), without.would(Cost::Peek));
            let over = with.ask(*cost);
            let is_applied = with.limit.is_applied_if_refused(*cost);
            if over.is_none() || is_applied {
                prop_assert_eq!(without.ask(*cost), over);
            } else {
                prop_assert_eq!(without.would(*cost), over);
            }
        }
        Ok(())
    });
}

#[test]
fn a_stated_wait_is_true() {
    for_each_rate(|rate, history| {
        at_each_event(history, |world, cost| {
            let mut refused = world.clone();
            match refused.ask(cost) {
                None => {}
                Some(Wait::Never) => {
                    let never = Some(Wait::Never);
                    let fresh = World { state: None, ..refused };
                    prop_assert_eq!(fresh.would(cost), never, "it would pass if nothing were used");
                }
                Some(Wait::Micros(wait_us)) => {
                    prop_assert!(wait_us > 0, "it could have passed");
                    let after = refused.after(wait_us);
                    prop_assert_eq!(after.would(cost), None, "after {} µs", wait_us);
                    let before_us = wait_us.checked_sub(1 + rate.wait_is_longer_by_us);
                    let before = before_us.map(|before_us| refused.after(before_us));
                    let is_over = before.is_none_or(|before| before.would(cost).is_some());
                    prop_assert!(is_over, "it passes before {} µs are over", wait_us);
                }
            }
            Ok(())
        })
    });
}

#[test]
fn a_request_is_delayed_for_as_long_as_it_accepts_or_refused() {
    for rate in Samples::of_rates() {
        let found = (any_history(&rate), any_delay_us());
        for_all(rate.name, found, |(history, most_us)| {
            at_each_event(&history, |world, cost| {
                let plain = world.check(cost);
                let limit = world.limit.within(most_us);
                let restricted = World { limit, ..world.clone() };
                let found = restricted.check(cost);
                prop_assert_eq!(restricted.remaining(), world.remaining());
                prop_assert!(plain.delay_us == 0 || limit.properties().may_delay);
                prop_assert!(plain.delay_us == 0 || plain.over.is_none());
                prop_assert!(found.delay_us <= most_us);
                if plain.over.is_some() || plain.delay_us <= most_us {
                    prop_assert_eq!(
                        (found.over.is_some(), found.delay_us),
                        (plain.over.is_some(), plain.delay_us)
                    );
                    prop_assert_eq!(found.state, plain.state);
                } else {
                    prop_assert!(found.state.is_none(), "it is refused, and takes nothing");
                    let Some(Wait::Micros(wait_us)) = found.over else {
                        return Err(TestCaseError::fail("it would pass some time"));
                    };
                    prop_assert_eq!(restricted.after(wait_us).would(cost), None);
                    let before_us = wait_us.checked_sub(1 + rate.wait_is_longer_by_us);
                    let before = before_us.map(|before_us| restricted.after(before_us));
                    prop_assert!(before.is_none_or(|before| before.would(cost).is_some()));
                }
                Ok(())
            })
        });
    }
}

/// Without refunds in between: what was not charged takes nothing back.
#[test]
fn a_charge_that_is_given_back_leaves_no_more_than_if_it_had_never_been() {
    for_each_rate(|_, history| {
        let is_refund = |(_, cost): &&Event| matches!(cost, Cost::Refund(_));
        // A state in other units is rounded when it is first written.
        let mut with = World { state: None, ..World::new(history) };
        let mut without = with.clone();
        let mut charge = None;
        for (step_us, cost) in history.2.iter().filter(|event| !is_refund(event)) {
            with.now = with.now + *step_us;
            without.now = with.now;
            match (charge, cost) {
                // The first that is charged is the one that is given back.
                (None, Cost::Take(amount)) => {
                    if with.ask(*cost).is_none() {
                        charge = Some((*amount, with.now));
                    }
                }
                // Both admit the same, or what is left cannot be compared.
                (Some(_), Cost::Take(_)) if with.would(*cost).is_some() => {}
                (_, cost) => {
                    with.ask(*cost);
                    without.ask(*cost);
                }
            }
            let Some(charge) = charge else { continue };
            let state = with.state.as_ref();
            let credited = state.and_then(|state| with.limit.credit(state, with.now, charge));
            let Some(state) = credited else { continue };
            let credited = World { state: Some(state), ..with.clone() };
            prop_assert!(credited.remaining() >= with.remaining());
            // A limit that counts time in steps begins them with what is charged first.
            let a_little_later = without.after(with.limit.arrives_in_us(1));
            prop_assert!(credited.remaining() <= a_little_later.remaining());
        }
        Ok(())
    });
}

#[test]
fn a_state_that_has_expired_is_as_good_as_none() {
    for_each_rate(|_, history| {
        at_each_event(history, |world, cost| {
            let Some(state) = &world.state else { return Ok(()) };
            let expires_at = world.limit.expires_at(state);
            let now = expires_at.map_or(world.now, |instant| instant.max(world.now));
            for later_us in [0, 1, SECOND, YEAR] {
                let kept = World { now: now + later_us, ..world.clone() };
                let lost = World { state: None, ..kept.clone() };
                prop_assert_eq!(kept.full_in_us(), 0);
                prop_assert_eq!(kept.remaining(), lost.remaining());
                for cost in [cost, Cost::Peek, Cost::Take(1)] {
                    let (mut kept, mut lost) = (kept.clone(), lost.clone());
                    prop_assert_eq!(kept.ask(cost), lost.ask(cost));
                    prop_assert_eq!(kept.remaining(), lost.remaining());
                    prop_assert_eq!(kept.full_in_us(), lost.full_in_us());
                }
            }
            Ok(())
        })
    });
}

#[test]
fn no_more_is_left_than_may_pass_at_once() {
    for_each_rate(|_, history| {
        at_each_event(history, |world, _| {
            let amount = world.limit.amount().map_or(u64::MAX, u64::from);
            let left = world.remaining();
            prop_assert!(left <= amount);
            prop_assert_eq!(world.would(Cost::Peek).is_none(), left > 0);
            prop_assert!(left == 0 || world.would(Cost::Take(left)).is_none());
            Ok(())
        })
    });
}

#[test]
fn a_state_is_read_as_it_was_written() {
    let mut path = Path::of_domain(b"tests");
    path.push_key(b"key");
    for Samples { name, states, .. } in Samples::of_all() {
        for_all(name, states, |state| {
            let bytes = state.write().unwrap();
            prop_assert_eq!(stored::read(&Key::new(name, &path), &bytes), Some(state));
            Ok(())
        });
    }
}

#[test]
fn a_limit_has_the_name_and_the_number_of_its_limiter() {
    for Samples { name, limits, .. } in Samples::of_all() {
        for_all(name, limits, |limit| {
            prop_assert_eq!(limit.limiter(), name);
            prop_assert_eq!(super::NAMES[usize::from(limit.script()) - 1], name);
            Ok(())
        });
    }
}

/// The table of the documentation says so.
#[test]
fn what_may_be_set_and_given_back_can_be() {
    let rate = Some(Rate::per(7, Unit::Second));
    let settings =
        [Setting { rate, ..Setting::default() }, Setting { max: Some(7), ..Setting::default() }];
    for (samples, properties) in Samples::of_all().iter().zip(PROPERTIES) {
        for_all(samples.name, samples.limits.clone(), |limit| {
            let may_be_set = settings.iter().any(|setting| limit.set(*setting).is_some());
            prop_assert_eq!(may_be_set, properties.may_be_set);
            let mut world = World { limit, state: None, now: START };
            if world.remaining() > 0 {
                world.ask(limit.charge(Cost::Take(1)));
                let used = world.remaining();
                world.ask(Cost::Refund(1));
                prop_assert_eq!(world.remaining() > used, properties.is_refundable);
            }
            Ok(())
        });
    }
}
