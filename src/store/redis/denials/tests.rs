use super::*;
use crate::{
    key::Path,
    lease::{Attempt, LeaseId},
    limiter::{State, concurrency, leaky_bucket, token_bucket},
    unit::{Rate, Unit},
    verdict::{Write, settle},
};
use proptest::prelude::*;
use std::collections::HashMap;

const NOW: Timestamp = Timestamp::from_micros(5_000_000);
const SECOND: u64 = 1_000_000;

/// Ten a second: a token comes every 100 ms.
fn ten() -> Limit {
    Limit::TokenBucket(token_bucket::Limit::per_unit(10, Unit::Second))
}

fn key(name: &str) -> Key {
    Key::new("token_bucket", &Path::of_domain(name.as_bytes()))
}

fn question(checks: Vec<Check>) -> Question {
    Question::new(vec![key("a"), key("b"), key("c")], checks)
}

fn take(slot: usize, hits: u64) -> Check {
    Check::of(slot, ten(), Cost::Take(hits))
}

fn over(wait_us: u64) -> Outcome {
    Outcome::over_for(Wait::Micros(wait_us), SECOND)
}

fn answer(outcomes: Vec<Outcome>) -> Answer {
    Answer { outcomes, leased: Leased::Nothing }
}

/// What is known once the bucket of `a` has refused 2 tokens, which would be there after so long.
fn refused(wait_us: u64) -> Denials {
    let denials = Denials::default();
    learn(&denials, NOW, take(0, 2), over(wait_us));
    denials
}

fn learn(denials: &Denials, now: Timestamp, check: Check, outcome: Outcome) {
    denials.learn(denials.asked(now), &question(vec![check]), &answer(vec![outcome]));
}

fn is_refused(denials: &Denials, now: Timestamp, check: Check) -> bool {
    denials.answer(now, &question(vec![check])).is_some()
}

/// The refusal of a shorter wait says nothing of longer ones, and takes nothing from what is known.
#[test]
fn what_a_caller_refuses_to_wait_for_is_no_denial() {
    let queue = Limit::LeakyBucket(leaky_bucket::Limit::new(Rate::per(10, Unit::Second), 5));
    let check = |limit| Check::of(0, limit, Cost::Take(1));
    let impatient = queue.within(50_000);
    let denials = Denials::default();
    learn(&denials, NOW, check(impatient), over(100_000));
    assert!(
        !is_refused(&denials, NOW, check(impatient)) && !is_refused(&denials, NOW, check(queue))
    );
    learn(&denials, NOW, check(queue), over(100_000));
    learn(&denials, NOW, check(impatient), over(100_000));
    assert!(is_refused(&denials, NOW, check(queue)) && is_refused(&denials, NOW, check(impatient)));
}

#[test]
fn refuses_as_much_or_more_until_it_may_pass() {
    let denials = refused(100_000);
    let wait = |now: Timestamp, hits: u64| {
        Some(denials.answer(now, &question(vec![take(0, hits)]))?.refusal?.wait)
    };
    assert_eq!(wait(NOW, 2), Some(Wait::Micros(100_000)));
    assert_eq!(wait(NOW + 99_999, 2), Some(Wait::Micros(1)));
    assert_eq!(wait(NOW + 100_000, 2), None);
    assert_eq!(wait(NOW, 1), None);
    // Another token takes another 100 ms, and eleven are more than it holds.
    assert_eq!(wait(NOW, 3), Some(Wait::Micros(200_000)));
    assert_eq!(wait(NOW, 11), Some(Wait::Never));
    assert_eq!(denials.answered(), 4);
}

#[test]
fn believes_nothing_for_longer_than_it_says() {
    let denials = refused(3600 * SECOND);
    let last = NOW + (LONGEST_BELIEVED_US - 1);
    let verdict = denials.answer(last, &question(vec![take(0, 2)])).unwrap();
    let wait = 3600 * SECOND - (LONGEST_BELIEVED_US - 1);
    assert_eq!(verdict.refusal.unwrap().wait, Wait::Micros(wait));
    assert!(!is_refused(&denials, NOW + LONGEST_BELIEVED_US, take(0, 2)));
}

#[test]
fn leaves_to_redis_what_another_limit_or_no_enforced_one_decides() {
    let denials = refused(SECOND);
    let eleven = Limit::TokenBucket(token_bucket::Limit::per_unit(11, Unit::Second));
    let asked = take(0, 2);
    for other in [
        Check { limit: eleven, ..asked },
        Check { shadow_mode: true, ..asked },
        Check { quota_mode: true, ..asked },
        Check { slot: 1, ..asked },
        Check { cost: Cost::Peek, ..asked },
        Check { cost: Cost::Refund(2), ..asked },
    ] {
        assert!(!is_refused(&denials, NOW, other), "{other:?}");
    }
    assert!(is_refused(&denials, NOW, asked));
}

#[test]
fn leaves_to_redis_what_is_settled_whoever_refuses() {
    let denials = refused(SECOND);
    let bucket = token_bucket::Limit::per_unit(10, Unit::Second).with_overdraw();
    let overdrawn = Check::of(1, Limit::TokenBucket(bucket), Cost::Take(1));
    for other in [overdrawn, Check::of(1, ten(), Cost::Refund(1)), Check::of(1, ten(), Cost::Peek)]
    {
        assert!(denials.answer(NOW, &question(vec![take(0, 2), other])).is_none(), "{other:?}");
    }
    learn(&denials, NOW, overdrawn, over(SECOND));
    assert!(!is_refused(&denials, NOW, overdrawn));
}

#[test]
fn leaves_to_redis_what_is_decided_once_under_an_id_of_the_callers() {
    let denials = refused(SECOND);
    let id = LeaseId::draw().unwrap().0;
    for (by, is_known) in [(By::Server, true), (By::Caller, false), (By::Request, false)] {
        let mut question = question(vec![take(0, 2)]);
        question.take_under(&id, (by, Attempt::NONE), None, None);
        assert_eq!(denials.answer(NOW, &question).is_some(), is_known, "{by:?}");
    }
}

#[test]
fn redis_is_asked_where_it_is_not_known_how_it_stands_with_every_limit() {
    let denials = refused(SECOND);
    learn(&denials, NOW, take(2, 1), over(2 * SECOND));
    let slots = concurrency::Limit { max: 3, weighs_hits: false, term: Default::default() };
    let slots = Check::of(1, Limit::Concurrency(slots), Cost::Take(1));
    let open = take(3, 1);
    for other in [slots, open] {
        assert_eq!(denials.answer(NOW, &question(vec![other, take(0, 2), take(2, 1)])), None);
    }
    let verdict = denials.answer(NOW, &question(vec![take(0, 2), take(2, 1)])).unwrap();
    assert_eq!(verdict.outcomes[0].over, Some(Wait::Micros(SECOND)));
    let refusal = verdict.refusal.unwrap();
    assert_eq!((refusal.first, refusal.wait), (0, Wait::Micros(2 * SECOND)));
}

#[test]
fn learns_nothing_of_what_a_request_took_from_itself() {
    let denials = Denials::default();
    let asked = question(vec![take(0, 6), take(0, 6)]);
    let passes = Outcome::passes(4, 0);
    denials.learn(denials.asked(NOW), &asked, &answer(vec![passes, over(200_000)]));
    assert!(!is_refused(&denials, NOW, take(0, 6)));
    denials.learn(denials.asked(NOW), &asked, &answer(vec![over(100_000), over(700_000)]));
    assert!(is_refused(&denials, NOW, take(0, 6)));
}

#[test]
fn what_is_opened_is_open_at_once_whatever_was_on_its_way() {
    let denials = refused(SECOND);
    let asked_before = denials.asked(NOW);
    denials.open(&key("a"));
    assert!(!is_refused(&denials, NOW, take(0, 2)));
    let denial = |asked| denials.learn(asked, &question(vec![take(0, 2)]), &answer(vec![over(9)]));
    denial(asked_before);
    assert!(!is_refused(&denials, NOW, take(0, 2)));
    denial(denials.asked(NOW));
    assert!(is_refused(&denials, NOW, take(0, 2)));
    denials.open_all(&question(vec![take(1, 1), Check::of(0, ten(), Cost::Refund(1))]));
    assert!(!is_refused(&denials, NOW, take(0, 2)));
}

#[test]
fn what_passes_under_another_limit_opens_as_well() {
    let denials = refused(SECOND);
    let limit = Limit::TokenBucket(token_bucket::Limit::per_unit(5, Unit::Second));
    let passes = Outcome::passes(4, 0);
    learn(&denials, NOW, Check { limit, ..take(0, 1) }, passes);
    assert!(!is_refused(&denials, NOW, take(0, 2)));
}

#[test]
fn keeps_what_refuses_the_least_cost() {
    let denials = refused(SECOND);
    learn(&denials, NOW, take(0, 5), over(2 * SECOND));
    assert!(is_refused(&denials, NOW, take(0, 2)));
    learn(&denials, NOW, take(0, 1), over(100_000));
    assert!(is_refused(&denials, NOW, take(0, 1)));
    assert!(!is_refused(&denials, NOW + 100_000, take(0, 1)));
    // What is over says nothing any more.
    learn(&denials, NOW + 100_000, take(0, 7), over(SECOND));
    assert!(is_refused(&denials, NOW + 100_000, take(0, 7)));
}

#[test]
fn a_flood_of_names_takes_no_more_room() {
    let denials = Denials::default();
    for number in 0..100_000_u64 {
        let asked = Question::new(vec![key(&number.to_string())], vec![take(0, 1)]);
        denials.learn(denials.asked(NOW), &asked, &answer(vec![over(SECOND)]));
    }
    let kept = denials.shards.one_by_one().map(|shard| shard.denials.len());
    assert_eq!(kept.sum::<usize>(), MOST_SHARDS * PER_SHARD);
    // Whoever comes last finds room.
    let asked = Question::new(vec![key("99999")], vec![take(0, 1)]);
    assert!(denials.answer(NOW, &asked).is_some());
}

/// What may happen between a replica and Redis.
#[derive(Debug, Clone, Copy)]
enum Step {
    Wait(u64),
    /// Somebody asks for so many tokens of one bucket, or of two.
    Ask(usize, u64, Option<(usize, u64)>),
    /// Somebody gives back so many.
    Refund(usize, u64),
    Reset(usize),
    /// Redis decides what waits at this place.
    Decide(usize),
    /// The answer at this place arrives.
    Arrive(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (slot, hits) = (0..3_usize, 1..12_u64);
    let step = prop_oneof![
        3 => prop_oneof![0..40_u64, 99_960..100_001_u64, 0..300_000_u64].prop_map(Step::Wait),
        6 => (slot.clone(), hits.clone(), prop::option::of((slot.clone(), hits.clone())))
            .prop_map(|(slot, hits, other)| Step::Ask(slot, hits, other)),
        1 => (slot.clone(), hits).prop_map(|(slot, hits)| Step::Refund(slot, hits)),
        1 => slot.prop_map(Step::Reset),
        5 => any::<prop::sample::Index>().prop_map(|at| Step::Decide(at.index(1 << 16))),
        5 => any::<prop::sample::Index>().prop_map(|at| Step::Arrive(at.index(1 << 16))),
    ];
    prop::collection::vec(step, 1..300)
}

/// A call that is on its way.
struct Call {
    asked: Asked,
    /// `None` for a reset.
    question: Question,
    resets: Option<Key>,
    answer: Option<Answer>,
}

impl Call {
    /// Whether it has opened a bucket there, and it is not known here yet.
    fn opens(&self, keys: &[&Key]) -> bool {
        let given_back = self.question.checks.iter().filter_map(|check| match check.cost {
            Cost::Refund(_) => self.question.keys.get(check.slot),
            _ => None,
        });
        self.answer.is_some() && given_back.chain(&self.resets).any(|key| keys.contains(&key))
    }
}

fn decide(states: &mut HashMap<Key, State>, question: &Question, now: Timestamp) -> Answer {
    let stored: Vec<_> = question.keys.iter().map(|key| states.get(key).cloned()).collect();
    let (answer, writes) = settle(question, &stored, now);
    for Write { slot, kept, .. } in writes {
        let key = question.keys[slot].clone();
        match kept {
            Some(kept) => states.insert(key, kept.state),
            None => states.remove(&key),
        };
    }
    answer
}

proptest! {
    #[test]
    fn never_refuses_what_redis_would_let_pass(steps in steps()) {
        let (denials, mut states) = (Denials::default(), HashMap::new());
        let (mut now, mut calls) = (NOW, Vec::<Call>::new());
        for step in steps {
            match step {
                Step::Wait(micros) => now = now + micros,
                Step::Ask(slot, hits, other) => {
                    let other = other.map(|(slot, hits)| take(slot, hits));
                    let question = question([take(slot, hits)].into_iter().chain(other).collect());
                    let Some(known) = denials.answer(now, &question) else {
                        let asked = denials.asked(now);
                        calls.push(Call { asked, question, resets: None, answer: None });
                        continue;
                    };
                    let keys: Vec<_> =
                        question.checks.iter().map(|check| &question.keys[check.slot]).collect();
                    if calls.iter().any(|call| call.opens(&keys)) {
                        continue;
                    }
                    let told = decide(&mut states.clone(), &question, now);
                    let told = Verdict::of(&question.checks, told);
                    prop_assert!(told.refusal.is_some());
                    for (place, known) in known.outcomes.iter().enumerate() {
                        if let Some(wait) = known.over {
                            // Rounded up in two parts, a wait is longer by one microsecond at most.
                            let Some(true_wait) = told.outcomes[place].over else {
                                return Err(TestCaseError::fail("it would pass"));
                            };
                            let longest = match true_wait {
                                Wait::Micros(micros) => Wait::Micros(micros + 1),
                                Wait::Never => Wait::Never,
                            };
                            prop_assert!(wait <= longest, "{wait:?} for {true_wait:?}");
                        }
                    }
                }
                Step::Refund(slot, hits) => {
                    let question = question(vec![Check::of(slot, ten(), Cost::Refund(hits))]);
                    prop_assert!(denials.answer(now, &question).is_none());
                    let asked = denials.asked(now);
                    calls.push(Call { asked, question, resets: None, answer: None });
                }
                Step::Reset(slot) => {
                    let question = question(Vec::new());
                    let resets = Some(question.keys[slot].clone());
                    calls.push(Call { asked: denials.asked(now), question, resets, answer: None });
                }
                Step::Decide(at) => {
                    let mut waiting: Vec<_> =
                        calls.iter_mut().filter(|call| call.answer.is_none()).collect();
                    let at = at % waiting.len().max(1);
                    let Some(call) = waiting.get_mut(at) else { continue };
                    call.resets.iter().for_each(|key| drop(states.remove(key)));
                    call.answer = Some(decide(&mut states, &call.question, now));
                }
                Step::Arrive(at) => {
                    let at = at % calls.len().max(1);
                    if calls.get(at).is_none_or(|call| call.answer.is_none()) {
                        continue;
                    }
                    let Call { asked, question, resets, answer } = calls.swap_remove(at);
                    resets.iter().for_each(|key| denials.open(key));
                    denials.open_all(&question);
                    denials.learn(asked, &question, &answer.unwrap());
                }
            }
        }
    }
}
