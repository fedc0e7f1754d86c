pub(super) mod support;

use super::*;
use crate::{
    config::domains_of,
    decision::Status,
    limiter::Setting,
    order::Position,
    request::Override,
    rules::Effect,
    unit::{Rate, Unit},
};
use support::{Test, request};

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

/// One with these rules, of which nothing is used.
pub(super) fn fresh(modes: Modes) -> Test {
    Test::new(RULES, modes)
}

impl Test {
    /// Puts the same rules in force but for one thing.
    pub(super) fn reload(&self, was: &str, is: &str) -> Arc<Rules> {
        assert!(RULES.contains(was));
        self.decider.replace_rules(domains_of(&RULES.replace(was, is)))
    }

    /// What the rule on this path did: allowed, refused, would refuse, degraded.
    fn effects(&self, path: &str) -> [u64; 4] {
        let rules = self.decider.rules();
        let placed = rules.placed().iter().find(|placed| &*placed.path == path).unwrap();
        Effect::ALL.map(|effect| placed.tally.of(effect))
    }
}

fn name(status: &Status) -> Option<&str> {
    status.limit.as_ref()?.name.as_deref()
}

/// Limits that are peeked and charged, each with a burst of 100.
const CHARGED: &str = "
domain: test
descriptors:
  - key: plain
    token_bucket: {rate: 100/day}
  - key: debt
    token_bucket: {rate: 100/day}
    overdraw: true
  - key: dark
    token_bucket: {rate: 100/day}
    shadow_mode: true
  - key: quota
    token_bucket: {rate: 100/day}
    quota_mode: true
  - key: fast
    token_bucket: {rate: 10/s, burst: 100}
  - key: alone
    concurrency: {max: 1, lease_ttl: 60s}
";

impl Test {
    async fn peek(&self, key: &'static str) -> Code {
        let mut peek = request(1, &[key]);
        peek.descriptors[0].hits_addend = Some(0);
        self.decide(&peek).await.code
    }

    /// How many costs the rule of this key refused that it should have charged.
    fn not_charged(&self, key: &str) -> Option<u64> {
        self.decider.rules().at(&format!("test:{key}")).unwrap().not_charged()
    }
}

#[tokio::test]
async fn a_refused_cost_is_counted_where_peeks_pass_for_ever() {
    for key in ["plain", "dark", "quota"] {
        let test = Test::new(CHARGED, Modes::default());
        for round in 1..=3 {
            assert_eq!(test.peek(key).await, Code::Ok);
            test.ask(300, &[key]).await;
            assert_eq!(test.not_charged(key), Some(round), "{key}: more than there ever is");
        }
        test.ask(40, &[key]).await;
        test.ask(61, &[key]).await;
        assert_eq!(test.not_charged(key), Some(4), "{key}: more than is left");
        assert_eq!(test.peek(key).await, Code::Ok);
    }
    // In shadow mode of the whole process nobody is refused, and nothing is charged either.
    let test = Test::new(CHARGED, Modes { shadow: true, ..Modes::default() });
    test.peek("plain").await;
    assert_eq!(test.ask(101, &["plain"]).await.code, Code::Ok);
    assert_eq!(test.not_charged("plain"), Some(1));
}

#[tokio::test]
async fn an_ordinary_refused_cost_is_no_mistake() {
    let test = Test::new(CHARGED, Modes::default());
    // Nobody has peeked.
    test.ask(90, &["plain"]).await;
    assert_eq!(test.ask(11, &["plain"]).await.code, Code::OverLimit);
    // Somebody has peeked at another key, or at one that was full.
    assert_eq!(test.peek("fast").await, Code::Ok);
    assert_eq!(test.ask(11, &["plain"]).await.code, Code::OverLimit);
    test.ask(10, &["plain"]).await;
    assert_eq!(test.peek("plain").await, Code::OverLimit);
    assert_eq!(test.ask(11, &["plain"]).await.code, Code::OverLimit);
    // A limit that is used up refuses peeks as well, so it limits.
    test.ask(100, &["fast"]).await;
    for cost in [1, 2, 50, 100] {
        assert_eq!(test.ask(cost, &["fast"]).await.code, Code::OverLimit);
    }
    assert_eq!(test.peek("fast").await, Code::OverLimit);
    test.clock.advance(99_999);
    assert_eq!(test.ask(5, &["fast"]).await.code, Code::OverLimit);
    // One more request than there is room for is what limits are for.
    test.clock.advance(1);
    assert_eq!(test.ask(1, &["fast"]).await.code, Code::Ok);
    assert_eq!(test.ask(1, &["fast"]).await.code, Code::OverLimit);
    assert_eq!([test.not_charged("plain"), test.not_charged("fast")], [Some(0), Some(0)]);

    // What overdraws is charged, and slots come back.
    test.peek("debt").await;
    test.ask(150, &["debt"]).await;
    assert_eq!(test.peek("debt").await, Code::OverLimit);
    test.peek("alone").await;
    test.ask(1, &["alone"]).await;
    test.ask(1, &["alone"]).await;
    assert_eq!([test.not_charged("debt"), test.not_charged("alone")], [None, None]);
}

#[tokio::test]
async fn what_another_limit_refuses_is_that_limits_mistake() {
    let test = Test::new(CHARGED, Modes::default());
    test.peek("plain").await;
    test.peek("fast").await;
    test.ask(60, &["plain"]).await;
    assert_eq!(test.ask(60, &["fast", "plain"]).await.code, Code::OverLimit);
    assert_eq!([test.not_charged("plain"), test.not_charged("fast")], [Some(1), Some(0)]);
}

#[tokio::test]
async fn a_refused_request_passes_when_it_was_told_to_retry() {
    let test = fresh(Modes::default());
    assert_eq!(test.ask(1, &["user"]).await.code, Code::Ok);
    let refused = test.ask(1, &["user"]).await.refused.unwrap();
    assert_eq!(refused.retry_after_s, Some(1));
    test.clock.advance(1_000_000);
    assert_eq!(test.ask(1, &["user"]).await.code, Code::Ok);
}

#[tokio::test]
async fn the_text_and_the_wait_agree_where_one_quota_never_passes_and_another_will() {
    let test = fresh(Modes::default());
    test.ask(500, &["subscription"]).await;
    let refused = test.ask(600, &["credits", "subscription"]).await.refused.unwrap();
    let retry = refused.retry_after_s.unwrap();
    assert!(refused.message.starts_with("The rate limit `credits` (500 per day) is smaller"));
    assert!(refused.message.ends_with(&format!("over too. Retry in {retry} s.\n")), "{refused:?}");
}

#[tokio::test]
async fn the_enforced_limit_is_told_even_where_a_quota_waits_longer() {
    let test = fresh(Modes::default());
    test.ask(1, &["both"]).await;
    let decision = test.ask(1, &["both"]).await;
    assert_eq!(decision.refused.unwrap().retry_after_s, Some(365 * 24 * 3600));
    assert_eq!(name(&decision.statuses[0]), Some("yearly quota"), "the longest wait");
    let enforced = decision.enforced_over.unwrap();
    assert_eq!((name(&enforced), enforced.reset_s), (Some("enforced"), Some(60)));
}

#[tokio::test]
async fn in_shadow_mode_nobody_is_refused_but_all_is_charged() {
    let test = fresh(Modes { shadow: true, ..Modes::default() });
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
    let test = fresh(Modes { standings: true, ..Modes::default() });
    let decision = test.ask(1, &["both", "alone"]).await;
    assert_eq!(standings(&decision), [("yearly quota", 0), ("enforced", 0), ("alone", 0)]);
    let refused = test.ask(1, &["both", "nothing"]).await;
    assert_eq!(standings(&refused), [("yearly quota", 0), ("enforced", 0)]);
    let mut request = request(1, &["user"]);
    request.descriptors[0].limit = Some(Override { requests_per_unit: 7, unit: Unit::Day });
    let overridden = test.decide(&request).await;
    assert_eq!(standings(&overridden), [("request", 6)]);
}

#[tokio::test]
async fn a_limit_in_shadow_mode_is_not_told() {
    let test = fresh(Modes { standings: true, ..Modes::default() });
    test.reload("name: yearly quota", "shadow_mode: true");
    assert_eq!(standings(&test.ask(1, &["both"]).await), [("enforced", 0)]);
}

#[tokio::test]
async fn what_was_used_stays_used_under_other_rules() {
    let test = fresh(Modes::default());
    assert_eq!(test.ask(400, &["credits"]).await.statuses[0].remaining, 100);
    test.reload("requests_per_unit: 500,", "requests_per_unit: 700,");
    assert_eq!(test.ask(100, &["credits"]).await.statuses[0].remaining, 200);
    // The new set replaces the first, not what had replaced it.
    test.reload("requests_per_unit: 500,", "requests_per_unit: 300,");
    assert_eq!(test.ask(1, &["credits"]).await.code, Code::OverLimit);
}

#[tokio::test]
async fn rules_that_were_replaced_are_for_the_caller_to_free() {
    let test = fresh(Modes::default());
    let in_use = test.decider.rules();
    let replaced = test.reload("max: 1,", "max: 2,");
    assert_eq!(Arc::strong_count(&replaced), 2);
    drop(in_use);
    assert_eq!(Arc::strong_count(&replaced), 1);
}

#[tokio::test]
async fn what_each_limit_did_is_counted_and_outlives_its_rules() {
    let test = fresh(Modes::default());
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
    test.decide(&Request { domain: "unheard".into(), ..request(1, &["user"]) }).await;
    assert_eq!(rules.unknown_traffic().of(false, false), 1);
}

#[tokio::test]
async fn in_shadow_mode_and_among_quotas_with_room_nothing_counts_as_refused() {
    let test = fresh(Modes { shadow: true, ..Modes::default() });
    for _ in 0..3 {
        test.ask(1, &["user"]).await;
    }
    assert_eq!(test.effects("test:user"), [1, 0, 2, 0]);
    let test = fresh(Modes { quota: true, ..Modes::default() });
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
    let test = fresh(Modes::default());
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
    let test = fresh(Modes::default());
    let named = RULES.replace("name: enforced", "name: test");
    test.decider.replace_rules(domains_of(&named));
    let switched = test.decider.switch("test", Position::Off).await;
    assert!(switched.is_ok_and(|switched| switched.scope.rule.is_none()));
    let rules = test.decider.rules();
    assert!(rules.placed().iter().all(|placed| !placed.rule.enabled));
}

const SECOND: u64 = 1_000_000;

/// 500 of 500 were used, and the limit is 10 an hour by now: what was used is to be known for as long as that takes.
#[tokio::test]
async fn what_was_used_of_a_limit_that_was_lowered_is_not_forgotten_early() {
    let rules = |rate, burst| {
        format!(
            "domain: test\ndescriptors:\n  - {{key: user, token_bucket: {{rate: {rate}, burst: {burst}}}}}\n  - {{key: other, token_bucket: {{rate: 5/s, burst: 5}}}}\n"
        )
    };
    let lower = async |test: &Test, by_file: bool| {
        if by_file {
            test.decider.replace_rules(domains_of(&rules("10/h", 10)));
        } else {
            let rate = Some(Rate::per(10, Unit::Hour));
            let setting = Setting { rate, burst: None, max: None };
            let value = ["user=x".to_owned()];
            test.decider.set_limit("test:user", &value, Some((setting, None))).await.unwrap();
        }
    };
    for (by_file, asks) in [(true, true), (true, false), (false, true), (false, false)] {
        let test = Test::new(&rules("100/s", 500), Modes::default());
        assert_eq!(test.ask(500, &["user"]).await.code, Code::Ok);
        test.clock.advance(SECOND);
        lower(&test, by_file).await;
        if asks {
            assert_eq!(test.ask(1, &["user"]).await.code, Code::OverLimit);
        }
        // By the limit before it would be full, and swept.
        test.clock.advance(5 * SECOND);
        for _ in 0..10 {
            test.ask(1, &["other"]).await;
        }
        assert_eq!(test.ask(1, &["user"]).await.code, Code::OverLimit, "{by_file} {asks}");
        // Nobody asks once it was ten tokens' time.
        test.clock.advance(3600 * SECOND);
        assert_eq!(test.ask(10, &["user"]).await.code, Code::Ok);
    }
}
