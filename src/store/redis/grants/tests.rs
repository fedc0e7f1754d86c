use super::*;
use crate::{
    key::Path,
    limiter::token_bucket::{Grants as Share, Ledger, Rate},
    unit::Unit,
};
use futures_util::FutureExt as _;

const NOW: Timestamp = Timestamp::from_micros(5_000_000);
const SECOND: u64 = 1_000_000;
const MAX_AGE_US: u64 = Share::DEFAULT.max_age_us as u64;

/// So many tokens a second, and at once.
fn bucket(burst: u32) -> token_bucket::Limit {
    let limit = token_bucket::Limit::new(Rate::per(burst, Unit::Second), burst);
    limit.with_grants(Some(Share::DEFAULT))
}

fn check(slot: usize, limit: token_bucket::Limit, tokens: u64) -> Check {
    Check::of(slot, Limit::TokenBucket(limit), Cost::Take(tokens))
}

/// Asks so much of each of these buckets.
fn question(wanted: &[(&str, u64)]) -> Question {
    let key = |name: &str| Key::new("token_bucket", &Path::of_domain(name.as_bytes()));
    let checks = wanted.iter().enumerate();
    let checks = checks.map(|(slot, (_, tokens))| check(slot, bucket(10_000), *tokens));
    Question::new(wanted.iter().map(|(name, _)| key(name)).collect(), checks.collect())
}

fn is_served(grants: &Grants, now: Timestamp, question: &Question) -> bool {
    grants.serve(now, question).is_some()
}

/// Has so many requests come that cannot be served.
fn demand(grants: &Grants, now: Timestamp, question: &Question) {
    for _ in 0..10 {
        assert!(!is_served(grants, now, question));
    }
}

fn given(tokens: u64, remaining: u64, next_in_us: u64) -> Granted {
    let ledger = Some(Ledger { since: NonZeroU64::MIN, charged: tokens });
    Granted { tokens, remaining, next_in_us, ledger, void: 0 }
}

/// Gives all that is asked for.
fn fetch(grants: &Grants, now: Timestamp) {
    for asked in grants.due(now) {
        let tokens = asked.ask.wanted;
        let granted = given(tokens, 1000, 0);
        assert_eq!(grants.granted(now, &asked, granted), None);
    }
}

/// Where so much of each of these buckets is in hand that ten such requests are served, and no more than twenty.
fn grants_of(question: &Question) -> Grants {
    let grants = Grants::default();
    demand(&grants, NOW, question);
    fetch(&grants, NOW);
    grants
}

/// How many requests are served before one is not.
fn served(grants: &Grants, now: Timestamp, question: &Question) -> u64 {
    (0..1000).take_while(|_| is_served(grants, now, question)).count() as u64
}

#[test]
fn as_much_is_spent_as_was_fetched() {
    let one = question(&[("a", 3)]);
    let grants = grants_of(&one);
    let taken = grants.counts().taken;
    let served = served(&grants, NOW, &one);
    assert!((10..=20).contains(&served), "{served}");
    let counts = grants.counts();
    assert_eq!((counts.served, counts.spent), (served, 3 * served));
    assert_eq!((counts.taken, counts.in_hand()), (taken, taken - 3 * served));
}

#[test]
fn who_fetches_hears_of_the_first_demand_and_again_when_a_slice_runs_out() {
    let (grants, one) = (Grants::default(), question(&[("a", 1)]));
    assert!(grants.is_empty());
    assert!(grants.until_due().now_or_never().is_none());
    demand(&grants, NOW, &one);
    assert!(!grants.is_empty());
    assert!(grants.until_due().now_or_never().is_some());
    fetch(&grants, NOW);
    assert!(grants.until_due().now_or_never().is_none());
    served(&grants, NOW, &one);
    assert!(grants.until_due().now_or_never().is_some());
}

#[test]
fn of_several_buckets_all_have_enough_or_none_is_spent() {
    let (one, both) = (question(&[("a", 1)]), question(&[("a", 1), ("b", 1)]));
    let grants = grants_of(&one);
    let in_hand = grants.counts().in_hand();
    assert!(!is_served(&grants, NOW, &both), "nothing of the other is in hand");
    assert_eq!(grants.counts().in_hand(), in_hand);
    let grants = grants_of(&both);
    let served = served(&grants, NOW, &both);
    assert!(served >= 10);
    let counts = grants.counts();
    assert_eq!((counts.served, counts.spent), (served, 2 * served));
}

#[test]
fn two_checks_of_one_bucket_do_not_spend_the_same_tokens() {
    let one = question(&[("a", 1)]);
    let twice =
        Question::new(one.keys.clone(), [6, 6].map(|it| check(0, bucket(10_000), it)).into());
    let grants = grants_of(&one);
    let in_hand = grants.counts().in_hand();
    while is_served(&grants, NOW, &twice) {}
    let counts = grants.counts();
    assert_eq!((counts.spent, counts.in_hand()), (12 * counts.served, in_hand % 12));
    assert!(counts.served > 0);
}

#[test]
fn only_what_takes_from_limits_with_grants_and_under_no_lease_is_served() {
    let one = question(&[("a", 1)]);
    let grants = grants_of(&one);
    let of = |check: Check| Question::new(one.keys.clone(), vec![check]);
    let refund = Check { cost: Cost::Refund(1), ..check(0, bucket(10_000), 1) };
    assert!(!is_served(&grants, NOW, &of(refund)));
    assert!(!is_served(&grants, NOW, &of(check(0, bucket(10_000).with_grants(None), 1))));
    assert!(!is_served(&grants, NOW, &Question::default()));
    assert!(is_served(&grants, NOW, &one));
}

#[test]
fn what_is_too_old_is_not_spent_but_given_back() {
    let one = question(&[("a", 1)]);
    let grants = grants_of(&one);
    let taken = grants.counts().taken;
    let later = NOW + MAX_AGE_US;
    assert!(!is_served(&grants, later, &one));
    fetch(&grants, later);
    let counts = grants.counts();
    assert_eq!(counts.returned, taken);
}

#[test]
fn of_another_limit_nothing_is_in_hand() {
    let one = question(&[("a", 1)]);
    let grants = grants_of(&one);
    let taken = grants.counts().taken;
    let other = Question::new(one.keys, vec![check(0, bucket(20_000), 1)]);
    assert!(!is_served(&grants, NOW, &other));
    assert_eq!((grants.counts().lost, grants.counts().in_hand()), (taken, 0));
}

#[test]
fn what_is_forgotten_is_lost_also_what_was_on_its_way() {
    let one = question(&[("a", 1)]);
    let grants = grants_of(&one);
    grants.forget(&one.keys);
    assert!(grants.is_empty());
    assert!(!is_served(&grants, NOW, &one));

    demand(&grants, NOW, &one);
    let asked = grants.due(NOW);
    grants.forget(&one.keys);
    for asked in &asked {
        let granted = given(asked.ask.wanted, 1000, 0);
        assert_eq!(grants.granted(NOW, asked, granted), None);
    }
    let counts = grants.counts();
    assert_eq!((asked.len(), counts.in_hand()), (1, 0));
    assert_eq!(counts.lost, counts.taken);
}

#[test]
fn what_nobody_answers_is_lost_and_asked_for_again_later() {
    let one = question(&[("a", 1)]);
    let grants = grants_of(&one);
    let taken = grants.counts().taken;
    let later = NOW + MAX_AGE_US;
    demand(&grants, later, &one);
    let asked = grants.due(later);
    assert_eq!(asked.len(), 1);
    assert!(grants.due(later).is_empty(), "an answer is on its way");
    asked.iter().for_each(|asked| grants.lost(later, asked));
    assert_eq!((grants.counts().lost, grants.counts().in_hand()), (taken, 0));
    let later = later + MAX_AGE_US;
    demand(&grants, later, &one);
    fetch(&grants, later);
    assert!(is_served(&grants, later, &one));
}

#[test]
fn a_bucket_that_has_run_empty_is_told_of() {
    let (grants, one) = (Grants::default(), question(&[("a", 1)]));
    demand(&grants, NOW, &one);
    let asked = grants.due(NOW);
    let empty = given(0, 0, 100);
    let short = asked.iter().filter_map(|asked| grants.granted(NOW, asked, empty));
    assert_eq!(short.filter(|short| short.passes_us >= 100).count(), 1);
}

#[test]
fn nothing_is_served_any_more_once_it_is_closed_and_all_is_given_back() {
    let both = question(&[("a", 1), ("b", 1)]);
    let grants = grants_of(&both);
    grants.close();
    assert!(grants.is_closed());
    assert!(!is_served(&grants, NOW, &both));
    let returned = grants.give_back_all(NOW).into_iter().map(|asked| asked.ask.tokens_returned());
    assert_eq!(returned.sum::<u64>(), grants.counts().taken);
    assert!(grants.give_back_all(NOW).is_empty());
}

#[test]
fn a_slow_call_has_the_next_slice_fetched_sooner() {
    let grants = Grants::default();
    let before_us = grants.lead_us();
    grants.took(80_000);
    assert_eq!(grants.lead_us(), before_us + 2 * (80_000 - FIRST_CALL_US) / 8);
}

#[test]
fn there_are_only_so_many_and_who_is_not_missed_makes_room() {
    let grants = Grants::default();
    for name in 0..MOST_HANDS {
        assert!(!is_served(&grants, NOW, &question(&[(&name.to_string(), 1)])));
    }
    let late = question(&[("late", 1)]);
    demand(&grants, NOW, &late);
    fetch(&grants, NOW);
    assert!(!is_served(&grants, NOW, &late), "there is no room");
    let later = NOW + 10 * MAX_AGE_US + SECOND;
    fetch(&grants, later);
    assert!(grants.is_empty());
    demand(&grants, later, &late);
    fetch(&grants, later);
    assert!(is_served(&grants, later, &late));
}

#[test]
fn what_was_taken_under_other_rules_is_dropped_as_spent() {
    let one = question(&[("a", 1)]);
    let grants = grants_of(&one);
    let taken = grants.counts().taken;
    demand(&grants, NOW + MAX_AGE_US, &one);
    let asked = grants.due(NOW + MAX_AGE_US);
    assert_eq!(asked.len(), 1);
    grants.follow(7);
    assert!(grants.is_empty());
    assert!(asked.iter().all(|asked| grants.is_dropped(asked)));
    // Who follows the rules before has nothing, and asks for nothing.
    demand(&grants, NOW, &one);
    assert!(grants.is_empty() && grants.due(NOW).is_empty());
    let next = Question { generation: 7, ..one };
    demand(&grants, NOW + MAX_AGE_US, &next);
    // What was asked before the rules were replaced gives nothing to who came after.
    assert_eq!(grants.granted(NOW + MAX_AGE_US, &asked[0], given(500, 1000, 0)), None);
    assert!(!is_served(&grants, NOW + MAX_AGE_US, &next));
    assert_eq!(grants.counts().in_hand(), 0);
    assert_eq!(grants.counts().lost + grants.counts().returned, taken + 500);
    fetch(&grants, NOW + MAX_AGE_US);
    assert!(is_served(&grants, NOW + MAX_AGE_US, &next));
}
