use super::*;
use crate::{
    decider::{
        Modes,
        tests::support::{Test, request},
    },
    store::{
        Memory, Redis, Store,
        redis::{Address, Certificates},
    },
};
use std::time::Duration;

const RULES: &str = "
domain: test
descriptors:
  - key: unsaid
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: allow
    rate_limit: {unit: minute, requests_per_unit: 5}
    on_store_failure: allow
  - key: deny
    rate_limit: {unit: minute, requests_per_unit: 5, name: strict}
    on_store_failure: deny
  - key: local
    rate_limit: {unit: minute, requests_per_unit: 10}
    on_store_failure: local
  - key: once
    rate_limit: {unit: minute, requests_per_unit: 1}
    on_store_failure: local
  - key: shadow
    rate_limit: {unit: minute, requests_per_unit: 5}
    shadow_mode: true
    on_store_failure: deny
  - key: spent
    rate_limit: {unit: minute, requests_per_unit: 10}
    overdraw: true
    on_store_failure: local
  - key: slots
    concurrency: {max: 5}
  - key: few slots
    concurrency: {max: 5}
    on_store_failure: deny
  - key: local quota
    rate_limit: {unit: minute, requests_per_unit: 1}
    quota_mode: true
    on_store_failure: local
  - key: quota
    rate_limit: {unit: minute, requests_per_unit: 1}
    quota_mode: true
";

/// A decider whose store is not there.
async fn without_store(rules: &str, modes: Modes) -> Test {
    let address = Address::parse("redis://127.0.0.1:1").unwrap();
    let timeout = Duration::from_millis(10);
    let store = Redis::open(address, Certificates::default(), timeout).await.unwrap();
    Test::on(Store::Redis(Box::new(store)), rules, modes)
}

impl Test {
    /// How many of a hundred requests pass.
    async fn passes(&self, keys: &[&'static str]) -> usize {
        let mut passed = 0;
        for _ in 0..100 {
            passed += usize::from(self.ask(1, keys).await.code == Code::Ok);
        }
        passed
    }
}

#[tokio::test]
async fn each_rule_does_what_it_says() {
    let test = without_store(RULES, Modes::default()).await;
    assert_eq!(test.passes(&["unsaid"]).await, 100);
    assert_eq!(test.passes(&["allow"]).await, 100);
    assert_eq!(test.passes(&["deny"]).await, 0);
    assert_eq!(test.passes(&["local"]).await, 10);
    assert_eq!(test.passes(&["shadow"]).await, 100);
    assert_eq!(test.passes(&["slots"]).await, 100);
    assert_eq!(test.passes(&["few slots"]).await, 0);
    let counts = test.decider.degraded_counts();
    assert_eq!(counts, DegradedCounts { allowed: 410, refused: 290, bugs: 0 });
}

#[tokio::test]
async fn what_is_only_let_pass_shows_no_number() {
    let test = without_store(RULES, Modes { standings: true, ..Modes::default() }).await;
    let decision = test.ask(1, &["allow", "nothing", "local"]).await;
    assert!(decision.degraded);
    let bare = Status { code: Code::Ok, limit: None, remaining: 0, reset_s: None };
    assert_eq!(decision.statuses[..2], [bare.clone(), bare]);
    assert_eq!(decision.statuses[2].remaining, 9);
    assert_eq!(decision.standings.len(), 1, "the one that is limited here");
}

#[tokio::test]
async fn who_is_denied_is_told_why_and_to_come_again() {
    let test = without_store(RULES, Modes::default()).await;
    let decision = test.ask(1, &["allow", "deny"]).await;
    let refused = decision.refused.unwrap();
    assert_eq!(refused.retry_after_s, Some(1));
    assert_eq!(
        refused.message,
        "The rate limit `strict` cannot be asked at present. Retry in 1 s.\n"
    );
    assert!(refused.sheds_load, "it is not the caller's fault");
    let codes: Vec<_> = decision.statuses.iter().map(|status| status.code).collect();
    assert_eq!(codes, [Code::Ok, Code::OverLimit]);
}

#[tokio::test]
async fn a_request_without_limits_passes_and_is_not_marked() {
    let test = without_store(RULES, Modes::default()).await;
    let decision = test.ask(1, &["nothing"]).await;
    assert_eq!((decision.code, decision.degraded), (Code::Ok, false));
}

#[tokio::test]
async fn a_local_limit_refills_and_is_shared_by_the_replicas() {
    let modes = Modes { replicas: Some(3), ..Modes::default() };
    let test = without_store(RULES, modes).await;
    assert_eq!(test.passes(&["local"]).await, 4, "a third of 10, rounded up");
    assert_eq!(test.passes(&["once"]).await, 1);
    test.clock.advance(18_000_000 - 1);
    assert_eq!(test.passes(&["local"]).await, 0);
    test.clock.advance(1);
    assert_eq!(test.passes(&["local"]).await, 1, "a third of 10 a minute: one in 18 s");
}

#[tokio::test]
async fn a_cost_above_the_share_may_pass_later() {
    let modes = Modes { replicas: Some(3), ..Modes::default() };
    let test = without_store(RULES, modes).await;
    let refused = test.decide(&request(5, &["local"])).await.refused.unwrap();
    assert_eq!(refused.retry_after_s, Some(1), "the whole of it lets 5 pass");
    let refused = test.decide(&request(11, &["local"])).await.refused.unwrap();
    assert_eq!(refused.retry_after_s, None, "and 11 never");
}

/// All or nothing, as ever.
#[tokio::test]
async fn a_request_that_another_limit_refuses_is_charged_nothing() {
    let test = without_store(RULES, Modes::default()).await;
    assert_eq!(test.passes(&["local", "deny"]).await, 0);
    assert_eq!(test.passes(&["local", "once"]).await, 1);
    assert_eq!(test.passes(&["local"]).await, 9);
    // But for costs that have arisen already.
    test.decide(&request(4, &["spent", "deny"])).await;
    assert_eq!(test.ask(1, &["spent"]).await.statuses[0].remaining, 5);
}

#[tokio::test]
async fn quotas_refuse_only_when_all_of_them_are_over() {
    let test = without_store(RULES, Modes::default()).await;
    assert_eq!(test.passes(&["local quota"]).await, 1);
    assert_eq!(test.passes(&["local quota", "quota"]).await, 100, "one of them allows");
    assert_eq!(test.passes(&["local", "local quota", "quota"]).await, 10, "and is charged");
}

#[tokio::test]
async fn domains_and_processes_have_defaults() {
    let domain = format!("on_store_failure: deny\n{}", RULES.trim_start());
    let test = without_store(&domain, Modes::default()).await;
    assert_eq!(test.passes(&["unsaid"]).await, 0);
    assert_eq!(test.passes(&["allow"]).await, 100);
    assert_eq!(test.passes(&["slots"]).await, 0);

    let modes = Modes { on_store_failure: OnStoreFailure::Local, ..Modes::default() };
    let test = without_store(RULES, modes).await;
    assert_eq!(test.passes(&["unsaid"]).await, 5);
    assert_eq!(test.passes(&["slots"]).await, 100, "one process does not know");
    let test = without_store(&domain, modes).await;
    assert_eq!(test.passes(&["unsaid"]).await, 0, "the domain's word comes first");
}

#[tokio::test]
async fn in_shadow_mode_nobody_is_denied() {
    let test = without_store(RULES, Modes { shadow: true, ..Modes::default() }).await;
    let decision = test.ask(1, &["deny"]).await;
    assert_eq!((decision.code, decision.refused, decision.degraded), (Code::Ok, None, true));
}

#[tokio::test]
async fn a_lease_that_nobody_holds_is_granted_and_denied_by_the_rules() {
    let test = without_store(RULES, Modes::default()).await;
    let acquired = test.acquire(&["slots"], Duration::ZERO).await;
    assert!(acquired.0.degraded && acquired.0.lease.is_some());
    let denied = test.acquire(&["few slots"], Duration::ZERO).await;
    assert!(denied.0.degraded && denied.0.lease.is_none() && denied.0.refused.is_some());
}

#[tokio::test]
async fn a_bug_is_answered_by_the_rules_too() {
    let test = Test::on(Store::Memory(Memory::new(100)), RULES, Modes::default());
    assert!(!test.ask(1, &["deny"]).await.degraded);
    test.decider.has_a_bug.store(true, Ordering::Relaxed);
    let decision = test.ask(1, &["allow"]).await;
    assert_eq!((decision.code, decision.degraded), (Code::Ok, true));
    assert_eq!(test.ask(1, &["deny"]).await.code, Code::OverLimit);
    let acquired = test.acquire(&["slots"], Duration::ZERO).await.0;
    assert!(acquired.degraded);
    let counts = test.decider.degraded_counts();
    assert_eq!(counts, DegradedCounts { allowed: 2, refused: 1, bugs: 3 });
}

#[test]
fn where_not_even_the_rules_can_be_asked_the_process_decides() {
    let memory = || Store::Memory(Memory::new(100));
    let request = request(1, &["a", "b"]);
    let test = Test::on(memory(), RULES, Modes::default());
    let decision = test.decider.bare(&request);
    assert_eq!((decision.code, decision.statuses.len()), (Code::Ok, 2));
    let modes = Modes { on_store_failure: OnStoreFailure::Deny, ..Modes::default() };
    let decision = Test::on(memory(), RULES, modes).decider.bare(&request);
    assert_eq!(decision.code, Code::OverLimit);
    assert!(decision.degraded && decision.refused.is_some());
}
