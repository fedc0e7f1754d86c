use super::*;
use crate::{
    limiter::{concurrency, token_bucket},
    unit::Unit::{self, Day},
};

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

/// A daily limit of so many on a state of its own; what was used of it before.
#[derive(Debug, Clone, Copy)]
struct Given {
    check: Check,
    used: u64,
}

fn limit(slot: usize, amount: u32) -> Given {
    limit_per(slot, amount, Day)
}

fn limit_per(slot: usize, amount: u32, unit: Unit) -> Given {
    let limit = Limit::TokenBucket(token_bucket::Limit::per_unit(amount, unit));
    let check = Check::of(slot, limit, Cost::Take(1));
    Given { check, used: 0 }
}

impl Given {
    fn used(self, used: u64) -> Self {
        Self { used, ..self }
    }

    fn cost(mut self, cost: Cost) -> Self {
        self.check.cost = cost;
        self
    }

    fn shadow(mut self) -> Self {
        self.check.shadow_mode = true;
        self
    }

    fn quota(mut self) -> Self {
        self.check.quota_mode = true;
        self
    }

    fn overdraw(mut self) -> Self {
        let Limit::TokenBucket(limit) = self.check.limit else { panic!("no rate") };
        self.check.limit = Limit::TokenBucket(limit.with_overdraw());
        self
    }
}

/// What is left of each state afterwards, by the limit that was first given for it.
struct After {
    verdict: Verdict,
    left: Vec<u64>,
}

impl After {
    fn is_refused(&self) -> bool {
        self.verdict.refusal.is_some()
    }

    fn over(&self) -> Vec<bool> {
        self.verdict.outcomes.iter().map(|outcome| outcome.over.is_some()).collect()
    }

    fn shown(&self) -> Vec<u64> {
        self.verdict.outcomes.iter().map(|outcome| outcome.remaining).collect()
    }

    fn wait(&self) -> Option<Wait> {
        self.verdict.refusal.map(|refusal| refusal.wait)
    }
}

fn settle_checks(
    checks: &[Check],
    states: &[Option<State>],
    now: Timestamp,
) -> (Answer, Few<Write>) {
    let keys = (0..states.len()).map(|slot| Key::read(&slot.to_string())).collect();
    settle(&Question::new(keys, checks.to_vec()), states, now)
}

fn decide_given(given: &[Given]) -> After {
    let slots = given.iter().map(|given| given.check.slot).max().map_or(0, |most| most + 1);
    let mut states = vec![None; slots];
    let first = |slot: usize| given.iter().find(|given| given.check.slot == slot).unwrap();
    for (slot, state) in states.iter_mut().enumerate() {
        let Given { check, used } = first(slot);
        if *used > 0 {
            *state = check.limit.check(None, NOW, Cost::Take(*used)).state;
        }
    }
    let checks: Vec<Check> = given.iter().map(|given| given.check).collect();
    let (answer, writes) = settle_checks(&checks, &states, NOW);
    let verdict = Verdict::of(&checks, answer);
    for Write { slot, kept, .. } in writes {
        states[slot] = kept.map(|kept| kept.state);
    }
    let left = states
        .iter()
        .enumerate()
        .map(|(slot, state)| first(slot).check.limit.remaining(state.as_ref(), NOW))
        .collect();
    After { verdict, left }
}

#[test]
fn admitted_charges_every_limit() {
    let after = decide_given(&[limit(0, 10), limit(1, 5).used(2)]);
    assert!(!after.is_refused());
    assert_eq!((after.left.clone(), after.shown()), (vec![9, 2], vec![9, 2]));
}

#[test]
fn refused_charges_nothing_and_shows_what_is_stored() {
    let after = decide_given(&[limit(0, 10).used(1), limit(1, 5).used(5), limit(2, 3)]);
    assert!(after.is_refused());
    assert_eq!(after.over(), [false, true, false]);
    assert_eq!((after.left.clone(), after.shown()), (vec![9, 0, 3], vec![9, 0, 3]));
}

#[test]
fn over_shows_nothing_left_though_some_is() {
    let after = decide_given(&[limit(0, 10).used(8).cost(Cost::Take(3))]);
    assert_eq!((after.left.clone(), after.shown()), (vec![2], vec![0]));
}

#[test]
fn two_checks_on_one_state_see_each_other() {
    let after = decide_given(&[limit(0, 10), limit(0, 10)]);
    assert_eq!((after.left.clone(), after.shown()), (vec![8], vec![9, 8]));
    let after = decide_given(&[limit(0, 10).used(9), limit(0, 10)]);
    assert!(after.is_refused());
    assert_eq!(after.over(), [false, true]);
    assert_eq!((after.left.clone(), after.shown()), (vec![1], vec![1, 0]));
}

#[test]
fn two_checks_that_together_exceed_the_limit_never_pass() {
    let three = limit(0, 5).cost(Cost::Take(3));
    assert_eq!(decide_given(&[three, three]).wait(), Some(Wait::Never));
    let two = limit(0, 5).cost(Cost::Take(2));
    assert!(matches!(decide_given(&[two.used(2), two]).wait(), Some(Wait::Micros(_))));
}

#[test]
fn shadow_is_charged_but_never_refuses() {
    let after = decide_given(&[limit(0, 10), limit(1, 5).shadow()]);
    assert_eq!(after.left, [9, 4]);
    let after = decide_given(&[limit(0, 10), limit(1, 5).used(5).shadow()]);
    assert!(!after.is_refused());
    assert_eq!(after.over(), [false, true]);
    assert_eq!((after.left.clone(), after.shown()), (vec![9, 0], vec![9, 0]));
}

#[test]
fn shadow_is_not_charged_where_an_enforced_limit_refuses() {
    let after = decide_given(&[limit(0, 10).shadow(), limit(1, 5).used(5)]);
    assert!(after.is_refused());
    assert_eq!(after.left, [10, 0]);
}

#[test]
fn one_quota_with_room_admits_and_only_it_is_charged() {
    let after = decide_given(&[limit(0, 1).used(1).quota(), limit(1, 2).quota()]);
    assert!(!after.is_refused());
    assert_eq!(after.over(), [true, false]);
    assert_eq!(after.left, [0, 1]);
}

#[test]
fn all_quotas_over_refuse() {
    let after =
        decide_given(&[limit(0, 9), limit(1, 1).used(1).quota(), limit(2, 2).used(2).quota()]);
    assert!(after.is_refused());
    assert_eq!(after.left, [9, 0, 0]);
    assert_eq!(after.verdict.refusal.unwrap().first, 1);
}

#[test]
fn an_enforced_limit_refuses_whatever_quotas_pass() {
    let after = decide_given(&[limit(0, 1).used(1), limit(1, 2).quota()]);
    assert!(after.is_refused());
    assert_eq!(after.left, [0, 2]);
}

#[test]
fn a_shadowed_quota_counts_as_passing() {
    let after = decide_given(&[limit(0, 1).used(1).quota(), limit(1, 1).used(1).quota().shadow()]);
    assert!(!after.is_refused());
}

#[test]
fn a_refund_counts_neither_way() {
    let refund = limit(1, 5).used(3).quota().cost(Cost::Refund(1));
    assert!(decide_given(&[limit(0, 1).used(1).quota(), refund]).is_refused());
    assert!(!decide_given(&[limit(0, 1), refund]).is_refused());
}

#[test]
fn a_refund_stands_when_another_limit_refuses() {
    let after = decide_given(&[limit(0, 5).used(3).cost(Cost::Refund(2)), limit(1, 1).used(1)]);
    assert!(after.is_refused());
    assert_eq!((after.left.clone(), after.shown()), (vec![4, 0], vec![4, 0]));
}

#[test]
fn a_refund_makes_room_for_a_later_check_of_the_same_request() {
    let full = limit(0, 5).used(5);
    assert!(!decide_given(&[full.cost(Cost::Refund(1)), full]).is_refused());
    assert!(decide_given(&[full, full.cost(Cost::Refund(1))]).is_refused());
}

#[test]
fn a_refused_request_refunds_what_was_stored_not_what_it_would_have_taken() {
    let ten = limit(0, 10).used(1);
    let after =
        decide_given(&[ten.cost(Cost::Take(5)), ten.cost(Cost::Refund(3)), limit(1, 1).used(1)]);
    assert!(after.is_refused());
    assert_eq!(after.left, [10, 0], "9 were stored; 3 given back are clamped to 10");
}

#[test]
fn an_overdraft_stands_when_another_limit_refuses() {
    let spent = limit(0, 1000).overdraw().used(200).cost(Cost::Take(900));
    let after = decide_given(&[spent, limit(1, 1).used(1)]);
    assert!(after.is_refused());
    assert_eq!(after.over(), [false, true]);
    assert_eq!(after.left, [0, 0]);
}

#[test]
fn an_overdrawn_limit_refuses_and_is_charged_all_the_same() {
    let broke = limit_per(0, 10, Unit::Second).overdraw().used(15).cost(Cost::Take(3));
    let after = decide_given(&[broke, limit(1, 5)]);
    assert!(after.is_refused());
    assert_eq!(after.left, [0, 5]);
    assert_eq!(after.wait(), Some(Wait::Micros(900_000)), "8 down, 9 to go until there is one");
}

#[test]
fn a_peek_is_refused_when_less_than_one_is_there() {
    assert!(!decide_given(&[limit(0, 3).used(2).cost(Cost::Peek)]).is_refused());
    let after = decide_given(&[limit(0, 3).used(3).cost(Cost::Peek), limit(1, 2)]);
    assert!(after.is_refused());
    assert_eq!(after.left, [0, 2]);
}

#[test]
fn the_wait_is_the_longest_of_those_that_refuse() {
    let fast = limit_per(0, 1, Unit::Second).used(1);
    let slow = limit_per(1, 1, Unit::Minute).used(1);
    let refusal = decide_given(&[fast, slow]).verdict.refusal.unwrap();
    assert_eq!(refusal, Refusal { first: 0, wait: Wait::Micros(60_000_000), by_quotas: false });
    assert_eq!(decide_given(&[fast, limit(1, 0)]).wait(), Some(Wait::Never));
}

#[test]
fn the_wait_for_quotas_is_the_shortest() {
    let fast = limit_per(1, 1, Unit::Second).used(1).quota();
    let slow = limit_per(0, 1, Unit::Minute).used(1).quota();
    assert_eq!(decide_given(&[slow, fast]).wait(), Some(Wait::Micros(1_000_000)));
    let never = limit(0, 0).quota();
    assert_eq!(decide_given(&[never, fast]).wait(), Some(Wait::Micros(1_000_000)));
    let enforced = limit_per(2, 1, Unit::Minute).used(1);
    assert_eq!(decide_given(&[slow, fast, enforced]).wait(), Some(Wait::Micros(60_000_000)));
}

/// What the verdict finds of each check, on states of their own.
fn findings(given: &[Given]) -> Vec<Finding> {
    let mut given = given.to_vec();
    given.iter_mut().enumerate().for_each(|(slot, given)| given.check.slot = slot);
    decide_given(&given).verdict.findings.into_vec()
}

#[test]
fn a_quota_stands_aside_for_one_that_passes_and_in_shadow_for_one_with_room() {
    use Finding::{GaveBack, Passed, Refused, StoodAside, WouldRefuse};
    let (enforced, over, room) = (limit(0, 0), limit(0, 0).quota(), limit(0, 1).quota());
    let over_in_shadow = over.shadow();
    assert_eq!(findings(&[over, room]), [StoodAside, Passed]);
    assert_eq!(findings(&[over_in_shadow, room]), [StoodAside, Passed]);
    assert_eq!(findings(&[over, over_in_shadow]), [StoodAside, WouldRefuse]);
    assert_eq!(findings(&[over]), [Refused]);
    let refund = room.cost(Cost::Refund(1));
    assert_eq!(findings(&[over, refund]), [Refused, GaveBack]);
    assert_eq!(findings(&[over, enforced]), [Refused; 2]);
    assert_eq!(findings(&[over, room, enforced]), [StoodAside, Passed, Refused]);
}

#[test]
fn a_request_is_refused_by_an_enforced_limit_or_by_all_quotas_and_so_say_the_findings() {
    let one = |slot: usize, kind: usize| {
        let given = limit(slot, u32::from(kind & 1 == 0));
        let given = if kind & 2 == 0 { given } else { given.shadow() };
        let given = if kind & 4 == 0 { given } else { given.quota() };
        if kind & 8 == 0 { given } else { given.cost(Cost::Refund(1)) }
    };
    for kinds in 0..16_usize.pow(3) {
        let given = [kinds % 16, kinds / 16 % 16, kinds / 256];
        let given = [0, 1, 2].map(|slot| one(slot, given[slot]));
        let after = decide_given(&given);
        let checks = given.iter().map(|given| given.check).zip(after.over());
        let checks = checks.filter(|(check, _)| matches!(check.cost, Cost::Take(_)));
        let is_over = |(check, over): &(Check, bool)| *over && !check.shadow_mode;
        let (quotas, others): (Vec<_>, Vec<_>) = checks.partition(|(check, _)| check.quota_mode);
        let is_refused =
            others.iter().any(is_over) || (!quotas.is_empty() && quotas.iter().all(is_over));
        assert_eq!(after.is_refused(), is_refused, "{given:?}");
        let findings = &after.verdict.findings;
        assert_eq!(findings.contains(&Finding::Refused), is_refused, "{given:?}");
        let first = after.verdict.refusal.map(|refusal| refusal.first);
        assert_eq!(first, findings.iter().position(|it| *it == Finding::Refused), "{given:?}");
    }
}

#[test]
fn no_limit_admits() {
    assert!(!decide_given(&[]).is_refused());
}

#[test]
fn a_state_is_kept_as_long_as_any_limit_of_the_request_tells_it_from_a_fresh_one() {
    let (slow, fast) = (limit(0, 10), limit_per(0, 1_000_000, Unit::Second));
    let (_, writes) = settle_checks(&[slow.check, fast.check], &[None], NOW);
    let Kept { state, fresh_at: until, .. } = writes[0].kept.clone().unwrap();
    let before = Timestamp::from_micros(until.as_micros() - 1);
    assert_eq!(slow.check.limit.remaining(Some(&state), NOW), 8);
    assert!(slow.check.limit.full_in_us(Some(&state), before) > 0);
    assert_eq!(slow.check.limit.full_in_us(Some(&state), until), 0);
}

#[test]
fn a_state_far_ahead_of_the_clock_is_pulled_back_even_by_a_refusal() {
    let Given { check, .. } = limit_per(0, 1, Unit::Minute);
    let state = check.limit.check(None, NOW + 3_600_000_000, Cost::Take(1)).state;
    let (answer, writes) = settle_checks(&[check], &[state], NOW);
    assert_eq!(answer.outcomes[0].over, Some(Wait::Micros(60_000_000)), "not an hour more");
    let Some(Kept { fresh_at, .. }) = writes[0].kept else { panic!("{writes:?}") };
    assert_eq!(fresh_at, NOW + 60_000_000);
}

fn slots(slot: usize) -> Given {
    let term = Term::of_micros(60_000_000);
    let limit = concurrency::Limit { max: 1, term, weighs_hits: false };
    let mut given = limit_per(slot, 1, Day);
    given.check.limit = Limit::Concurrency(limit);
    given
}

/// The places of the states whose slots it takes for checks to pass that are over, all of them.
fn waits_for(given: &[Given]) -> Option<Vec<usize>> {
    let checks: Vec<Check> = given.iter().map(|given| given.check).collect();
    let over = Outcome::over_for(Wait::Micros(5), 5);
    let answer = Answer { outcomes: vec![over; checks.len()], leased: Leased::Nothing };
    Verdict::of(&checks, answer).waits_for(&checks).map(|(slots, _)| slots)
}

#[test]
fn a_request_waits_for_slots_only_where_they_alone_refuse_it() {
    assert_eq!(waits_for(&[slots(0), slots(1)]), Some(vec![0, 1]));
    assert_eq!(waits_for(&[slots(0), limit(1, 1)]), None, "a rate refuses it too");
    assert_eq!(waits_for(&[slots(0), limit(1, 1).shadow()]), Some(vec![0]), "a shadow does not");
    assert_eq!(waits_for(&[slots(0).shadow(), slots(1)]), Some(vec![1]));
    assert_eq!(waits_for(&[slots(0).shadow()]), None, "nothing refuses it");
    // Whichever has room again first is enough.
    assert_eq!(waits_for(&[slots(0).quota(), slots(1).quota()]), Some(vec![0, 1]));
}

/// The delay of a request whose checks delay for so many microseconds where they pass.
fn delay_us(given: &[(Given, u64)]) -> u64 {
    let checks: Vec<Check> = given.iter().map(|(given, _)| given.check).collect();
    let outcomes = given.iter().map(|(given, delay_us)| match given.used {
        0 => Outcome { delay_us: *delay_us, ..Outcome::passes(1, 0) },
        wait_us => Outcome::over_for(Wait::Micros(wait_us), 0),
    });
    let answer = Answer { outcomes: outcomes.collect(), leased: Leased::Nothing };
    Verdict::of(&checks, answer).delay_us
}

#[test]
fn the_delay_is_the_longest_of_the_checks_that_pass_and_are_enforced() {
    let (first, second, over) = (limit(0, 5), limit(1, 5), limit(2, 5).used(7));
    assert_eq!(delay_us(&[]), 0);
    assert_eq!(delay_us(&[(first, 0), (second, 0)]), 0);
    assert_eq!(delay_us(&[(first, 250_000), (second, 300_000)]), 300_000);
    assert_eq!(delay_us(&[(first, 250_000), (second.shadow(), 300_000)]), 250_000);
    assert_eq!(delay_us(&[(first, 250_000), (over, 0)]), 0, "it is refused");
    assert_eq!(delay_us(&[(first, 250_000), (over.shadow(), 0)]), 250_000);
    assert_eq!(delay_us(&[(first.quota(), 250_000), (over.quota(), 0)]), 250_000);
}

/// What a question is charged that can be given back: of which states, and how much.
fn charged(given: &[Given]) -> Vec<(usize, u64)> {
    let keys = (0..given.len()).map(|slot| Key::read(&slot.to_string())).collect();
    let question = Question::new(keys, given.iter().map(|given| given.check).collect());
    let (answer, _) = settle(&question, &vec![None; given.len()], NOW);
    let charges = question.charged(answer).into_iter();
    charges.map(|charge| (charge.slot, charge.amount)).collect()
}

#[test]
fn what_was_charged_is_given_back_and_nothing_else() {
    let given = [
        limit(0, 5).cost(Cost::Take(3)),
        limit(1, 5).cost(Cost::Peek),
        limit(2, 5).cost(Cost::Refund(1)),
        limit(3, 5).overdraw(),
        limit(4, 0).shadow(),
        limit(5, 5).shadow(),
    ];
    assert_eq!(charged(&given), [(0, 3), (5, 1)]);
    assert_eq!(charged(&given[1..5]), []);
}

#[test]
fn what_was_refused_or_decided_before_is_not_given_back() {
    assert_eq!(charged(&[limit(0, 5), limit(1, 0)]), []);
    let question = Question::new(vec![Key::read("0")], vec![limit(0, 5).check]);
    let outcomes = vec![Outcome::passes(4, 0)];
    for leased in [Leased::Again { left_us: 7 }, Leased::Conflict] {
        let answer = Answer { outcomes: outcomes.clone(), leased };
        assert_eq!(question.charged(answer), []);
    }
}
