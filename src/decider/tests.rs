use super::*;
use crate::{
    clock::ManualClock,
    config,
    decision::Status,
    order::Position,
    request::{Descriptor, Entry, Override},
    rules::Effect,
    store::Memory,
    unit::Unit,
};
use std::time::Duration;

const RULES: &str = "
domain: test
descriptors:
  - key: credits
    rate_limit: {unit: day, requests_per_unit: 500, name: credits}
    quota_mode: true
  - key: subscription
    rate_limit: {unit: day, requests_per_unit: 1000, name: subscription}
    quota_mode: true
  - key: both
    limits:
      - rate_limit: {unit: year, requests_per_unit: 1}
        name: yearly quota
        quota_mode: true
      - rate_limit: {unit: minute, requests_per_unit: 1}
        name: enforced
  - key: user
    rate_limit: {unit: second, requests_per_unit: 1}
  - key: alone
    concurrency: {max: 1, lease_ttl: 60s}
  - key: spent
    rate_limit: {unit: day, requests_per_unit: 1000}
    overdraw: true
  - key: dark
    rate_limit: {unit: day, requests_per_unit: 1}
    shadow_mode: true
";

struct Test {
    decider: Arc<Decider>,
    clock: ManualClock,
}

impl Test {
    fn new(modes: Modes) -> Self {
        let clock = ManualClock::default();
        let store = Store::Memory(Memory::new(1000));
        let rules = rules(RULES);
        Self { decider: Decider::new(rules, store, Clock::Manual(clock.clone()), modes), clock }
    }

    /// Puts the same rules in force but for one thing.
    fn reload(&self, was: &str, is: &str) -> Arc<Rules> {
        assert!(RULES.contains(was));
        self.decider.replace_rules(domains(&RULES.replace(was, is)))
    }

    /// Asks for so much of each of these keys.
    async fn ask(&self, hits: u32, keys: &[&'static str]) -> Decision {
        self.decider.decide(&request(hits, keys), Deadline::default()).await.0
    }
}

fn rules(text: &str) -> Rules {
    Rules::new(domains(text))
}

fn domains(text: &str) -> Vec<Domain> {
    let source = config::Source { name: "test.yaml".to_owned(), text: text.to_owned() };
    let loaded = config::parse(vec![source], &config::Options::default());
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    loaded.domains
}

fn name(status: &Status) -> Option<&str> {
    status.limit.as_ref()?.name.as_deref()
}

#[tokio::test]
async fn a_refused_request_passes_when_it_was_told_to_retry() {
    let test = Test::new(Modes::default());
    assert_eq!(test.ask(1, &["user"]).await.code, Code::Ok);
    let refused = test.ask(1, &["user"]).await.refused.unwrap();
    assert_eq!(refused.retry_after_s, Some(1));
    test.clock.advance(1_000_000);
    assert_eq!(test.ask(1, &["user"]).await.code, Code::Ok);
}

#[tokio::test]
async fn the_text_and_the_wait_agree_where_one_quota_never_passes_and_another_will() {
    let test = Test::new(Modes::default());
    test.ask(500, &["subscription"]).await;
    let refused = test.ask(600, &["credits", "subscription"]).await.refused.unwrap();
    let retry = refused.retry_after_s.unwrap();
    assert!(refused.message.starts_with("The rate limit `credits` (500 per day) is smaller"));
    assert!(refused.message.ends_with(&format!("over too. Retry in {retry} s.\n")), "{refused:?}");
}

#[tokio::test]
async fn the_enforced_limit_is_told_even_where_a_quota_waits_longer() {
    let test = Test::new(Modes::default());
    test.ask(1, &["both"]).await;
    let decision = test.ask(1, &["both"]).await;
    assert_eq!(decision.refused.unwrap().retry_after_s, Some(365 * 24 * 3600));
    assert_eq!(name(&decision.statuses[0]), Some("yearly quota"), "the longest wait");
    let enforced = decision.enforced_over.unwrap();
    assert_eq!((name(&enforced), enforced.reset_s), (Some("enforced"), Some(60)));
}

#[tokio::test]
async fn in_shadow_mode_nobody_is_refused_but_all_is_charged() {
    let test = Test::new(Modes { shadow: true, ..Modes::default() });
    test.ask(1, &["user"]).await;
    let decision = test.ask(1, &["user"]).await;
    assert_eq!((decision.code, decision.refused), (Code::Ok, None));
    assert_eq!(decision.statuses[0].code, Code::OverLimit);
}

/// What callers are told of their limits: name, remaining.
fn standings(decision: &Decision) -> Vec<(&str, u32)> {
    let standings = decision.standings.iter();
    standings.map(|standing| (standing.name.as_str(), standing.status.remaining)).collect()
}

#[tokio::test]
async fn every_limit_is_told_by_its_name_or_else_by_the_keys_it_is_for() {
    let test = Test::new(Modes { standings: true, ..Modes::default() });
    let decision = test.ask(1, &["both", "alone"]).await;
    assert_eq!(standings(&decision), [("yearly quota", 0), ("enforced", 0), ("alone", 0)]);
    let refused = test.ask(1, &["both", "nothing"]).await;
    assert_eq!(standings(&refused), [("yearly quota", 0), ("enforced", 0)]);
    let mut request = request(1, &["user"]);
    request.descriptors[0].limit = Some(Override { requests_per_unit: 7, unit: Unit::Day });
    let overridden = test.decider.decide(&request, Deadline::default()).await.0;
    assert_eq!(standings(&overridden), [("request", 6)]);
}

#[tokio::test]
async fn a_limit_in_shadow_mode_is_not_told() {
    let test = Test::new(Modes { standings: true, ..Modes::default() });
    test.reload("name: yearly quota", "shadow_mode: true");
    assert_eq!(standings(&test.ask(1, &["both"]).await), [("enforced", 0)]);
}

/// Asks for so much of each of these keys.
pub(super) fn request(hits: u32, keys: &[&'static str]) -> Request {
    let descriptor = |key: &&'static str| Descriptor {
        entries: vec![Entry { key: key.as_bytes().into(), value: "x".into() }],
        ..Descriptor::default()
    };
    let descriptors = keys.iter().map(descriptor).collect();
    Request { domain: "test".into(), descriptors, hits_addend: hits }
}

/// To acquire what these keys meet, and to wait for it.
pub(super) fn acquire(keys: &[&'static str], wait: Duration) -> Acquire {
    Acquire { request: request(0, keys), id: None, term: None, wait }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn who_waits_longest_is_served_first() {
    let test = Test::new(Modes::default());
    let queues = || test.decider.store().queues().waiting();
    let at_once = acquire(&["alone"], Duration::ZERO);
    let (first, taken) = test.decider.acquire(&at_once, Deadline::default()).await.unwrap();
    taken.unwrap().keep();
    let mut id = first.lease.unwrap().id;
    let mut line = Vec::new();
    for place in 0..5 {
        let decider = Arc::clone(&test.decider);
        line.push(tokio::spawn(async move {
            let (decision, taken) =
                decider.acquire(&acquire(&["alone"], LONG), Deadline::default()).await.unwrap();
            taken.unwrap().keep();
            decision.lease.unwrap().id
        }));
        while queues() <= place {
            tokio::task::yield_now().await;
        }
    }
    for waiter in line {
        test.decider.release(&id).await.unwrap();
        id = waiter.await.unwrap();
    }
    assert_eq!(queues(), 0);
}

/// Otherwise it would be charged each time that the line moves.
#[tokio::test]
async fn who_spends_what_is_known_afterwards_does_not_wait() {
    let test = Test::new(Modes::default());
    let at_once = acquire(&["alone"], Duration::ZERO);
    let (_, taken) = test.decider.acquire(&at_once, Deadline::default()).await.unwrap();
    taken.unwrap().keep();
    let (refused, _) = test
        .decider
        .acquire(&acquire(&["alone", "spent"], LONG), Deadline::default())
        .await
        .unwrap();
    assert_eq!(refused.code, Code::OverLimit);
    assert_eq!(refused.statuses[1].remaining, 999);
}

#[tokio::test]
async fn what_nobody_keeps_is_given_back() {
    let test = Test::new(Modes::default());
    for _ in 0..3 {
        let (decision, taken) = test
            .decider
            .acquire(&acquire(&["alone"], Duration::ZERO), Deadline::default())
            .await
            .unwrap();
        assert_eq!(decision.code, Code::Ok);
        drop(taken);
        test.decider.finish_releases(LONG).await;
    }
}

#[tokio::test]
async fn what_was_used_stays_used_under_other_rules() {
    let test = Test::new(Modes::default());
    assert_eq!(test.ask(400, &["credits"]).await.statuses[0].remaining, 100);
    test.reload("requests_per_unit: 500,", "requests_per_unit: 700,");
    assert_eq!(test.ask(100, &["credits"]).await.statuses[0].remaining, 200);
    // The new set replaces the first, not what had replaced it.
    test.reload("requests_per_unit: 500,", "requests_per_unit: 300,");
    assert_eq!(test.ask(1, &["credits"]).await.code, Code::OverLimit);
}

#[tokio::test]
async fn who_waits_is_admitted_by_the_rules_in_force_then() {
    let test = Test::new(Modes::default());
    let (_, taken) = test
        .decider
        .acquire(&acquire(&["alone"], Duration::ZERO), Deadline::default())
        .await
        .unwrap();
    taken.unwrap().keep();
    let decider = Arc::clone(&test.decider);
    let waiter = tokio::spawn(async move {
        decider.acquire(&acquire(&["alone"], LONG), Deadline::default()).await.unwrap()
    });
    while test.decider.store().queues().waiting() == 0 {
        tokio::task::yield_now().await;
    }
    test.reload("max: 1,", "max: 2,");
    let (decision, taken) = waiter.await.unwrap();
    taken.unwrap().keep();
    assert_eq!((decision.code, decision.statuses[0].remaining), (Code::Ok, 0));
}

#[tokio::test]
async fn who_waits_is_not_admitted_by_rules_that_are_gone() {
    let test = Test::new(Modes::default());
    test.reload("max: 1,", "max: 2,");
    let mut held = Vec::new();
    for _ in 0..2 {
        let (decision, taken) = test
            .decider
            .acquire(&acquire(&["alone"], Duration::ZERO), Deadline::default())
            .await
            .unwrap();
        taken.unwrap().keep();
        held.push(decision.lease.unwrap().id);
    }
    let decider = Arc::clone(&test.decider);
    let waiter = tokio::spawn(async move {
        decider.acquire(&acquire(&["alone"], LONG), Deadline::default()).await.unwrap()
    });
    while test.decider.store().queues().waiting() == 0 {
        tokio::task::yield_now().await;
    }
    test.reload("max: 1,", "max: 1, ");
    // After the first there is room for him where two may be in flight, after the second where one may.
    for id in held {
        test.decider.release(&id).await.unwrap();
        tokio::task::yield_now().await;
    }
    let (decision, taken) = waiter.await.unwrap();
    taken.unwrap().keep();
    assert_eq!(decision.statuses[0].limit.as_ref().unwrap().requests_per_unit, 1);
}

#[tokio::test]
async fn who_waits_in_a_domain_that_goes_is_told_so() {
    let test = Test::new(Modes::default());
    let (_, taken) = test
        .decider
        .acquire(&acquire(&["alone"], Duration::ZERO), Deadline::default())
        .await
        .unwrap();
    taken.unwrap().keep();
    let decider = Arc::clone(&test.decider);
    let waiter = tokio::spawn(async move {
        decider.acquire(&acquire(&["alone"], LONG), Deadline::default()).await
    });
    while test.decider.store().queues().waiting() == 0 {
        tokio::task::yield_now().await;
    }
    test.reload("domain: test", "domain: other");
    assert!(matches!(waiter.await.unwrap(), Err(NotAcquired::UnknownDomain(_))));
    assert_eq!(test.decider.store().queues().waiting(), 0);
}

#[tokio::test]
async fn rules_that_were_replaced_are_for_the_caller_to_free() {
    let test = Test::new(Modes::default());
    let in_use = test.decider.rules();
    let replaced = test.reload("max: 1,", "max: 2,");
    assert_eq!(Arc::strong_count(&replaced), 2);
    drop(in_use);
    assert_eq!(Arc::strong_count(&replaced), 1);
}

#[tokio::test]
async fn nobody_who_waits_keeps_rules_that_are_gone() {
    let test = Test::new(Modes::default());
    let (_, taken) = test
        .decider
        .acquire(&acquire(&["alone"], Duration::ZERO), Deadline::default())
        .await
        .unwrap();
    taken.unwrap().keep();
    for place in 0..3 {
        let decider = Arc::clone(&test.decider);
        tokio::spawn(async move {
            decider.acquire(&acquire(&["alone"], LONG), Deadline::default()).await
        });
        while test.decider.store().queues().waiting() <= place {
            tokio::task::yield_now().await;
        }
    }
    let replaced = test.reload("max: 1,", "max: 1, ");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(test.decider.store().queues().waiting(), 3);
    assert_eq!(Arc::strong_count(&replaced), 1);
}

impl Test {
    /// What the rule on this path did: allowed, refused, would refuse, degraded.
    fn effects(&self, path: &str) -> [u64; 4] {
        let rules = self.decider.rules();
        let placed = rules.placed().iter().find(|placed| &*placed.path == path).unwrap();
        Effect::ALL.map(|effect| placed.tally.of(effect))
    }
}

#[tokio::test]
async fn what_each_limit_did_is_counted_and_outlives_its_rules() {
    let test = Test::new(Modes::default());
    for _ in 0..3 {
        test.ask(1, &["user"]).await;
        test.ask(1, &["dark"]).await;
    }
    assert_eq!(test.effects("test:user"), [1, 2, 0, 0]);
    assert_eq!(test.effects("test:dark"), [1, 0, 2, 0]);
    test.reload("requests_per_unit: 500,", "requests_per_unit: 501,");
    test.ask(1, &["user"]).await;
    assert_eq!(test.effects("test:user"), [1, 3, 0, 0]);
    let rules = test.decider.rules();
    let traffic = rules.traffic(b"test");
    assert_eq!((traffic.of(false, false), traffic.of(true, false)), (4, 3));
    test.decider
        .decide(&Request { domain: "unheard".into(), ..request(1, &["user"]) }, Deadline::default())
        .await;
    assert_eq!(rules.unknown_traffic().of(false, false), 1);
}

#[tokio::test]
async fn in_shadow_mode_and_among_quotas_with_room_nothing_counts_as_refused() {
    let test = Test::new(Modes { shadow: true, ..Modes::default() });
    for _ in 0..3 {
        test.ask(1, &["user"]).await;
    }
    assert_eq!(test.effects("test:user"), [1, 0, 2, 0]);
    let test = Test::new(Modes { quota: true, ..Modes::default() });
    test.ask(1, &["user"]).await;
    test.ask(1, &["user", "credits"]).await;
    assert_eq!(test.effects("test:user"), [2, 0, 0, 0]);
    test.ask(1, &["user"]).await;
    assert_eq!(test.effects("test:user"), [2, 1, 0, 0]);
    // A shadowed one as well refuses nothing where another has room.
    test.ask(1, &["dark"]).await;
    test.ask(1, &["dark", "credits"]).await;
    assert_eq!(test.effects("test:dark"), [2, 0, 0, 0]);
    test.ask(1, &["dark"]).await;
    assert_eq!(test.effects("test:dark"), [2, 0, 1, 0]);
}

#[tokio::test]
async fn two_who_say_different_things_of_a_rule_at_a_time_are_both_obeyed() {
    let test = Test::new(Modes::default());
    let (off, shadow) = tokio::join!(
        test.decider.switch("test:user", Position::Off),
        test.decider.switch("test:user", Position::Shadow),
    );
    assert!(off.is_ok() && shadow.is_ok());
    let rules = test.decider.rules();
    let rule = &rules.at("test:user").unwrap().rule;
    assert_eq!((rule.enabled, rule.shadow_mode), (false, true));
}

#[tokio::test]
async fn a_domain_is_switched_though_a_rule_has_its_name() {
    let test = Test::new(Modes::default());
    let named = RULES.replace("name: enforced", "name: test");
    test.decider.replace_rules(domains(&named));
    let switched = test.decider.switch("test", Position::Off).await;
    assert!(switched.is_ok_and(|switched| switched.scope.rule.is_none()));
    let rules = test.decider.rules();
    assert!(rules.placed().iter().all(|placed| !placed.rule.enabled));
}
