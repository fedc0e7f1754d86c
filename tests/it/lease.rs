//! `LeaseService`: to acquire, renew, release and hold, through the gRPC port.

use crate::support::{
    Leases, PATIENCE, Server, Store, TempDir, acquire, on_every_store, span, until,
};
use std::time::Duration;
use tokio::{task::JoinSet, time};
use tollgate::grpc::proto::tollgate::v1::{
    AcquireRequest, Held, LeaseState, RenewRequest, acquire_response::Outcome, hold_response::Event,
};
use tonic::Code;

const RULES: &str = "
domain: shop
pools:
  api: {capacity: 10, reserved: 20%, lease_ttl: 60s}
descriptors:
  - key: user
    concurrency: {max: 3, lease_ttl: 60s}
    name: in flight
  - key: short
    concurrency: {max: 1, lease_ttl: 300ms}
  - key: alone
    concurrency: {max: 1, lease_ttl: 60s}
  - key: batch
    concurrency: {max: 10, lease_ttl: 60s}
    weight: hits
  - key: both
    limits:
      - rate_limit: {unit: year, requests_per_unit: 2}
      - concurrency: {max: 1, lease_ttl: 60s}
  - key: rate
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: priority
    fleet: {pool: api}
  - key: priority
    value: critical
    fleet: {pool: api, critical: true}
  - key: dark
    concurrency: {max: 1, lease_ttl: 60s}
    shadow_mode: true
  - key: off
    concurrency: {max: 1, lease_ttl: 60s}
    enabled: false
  - key: free
    rate_limit: {unlimited: true}
  - key: job
    value: nightly
    descriptors:
      - key: cluster
        concurrency: {max: 1, lease_ttl: 60s}
        name: one nightly job
";

on_every_store! {
    acquires_and_releases,
    a_refusal_says_which_limit_and_when_to_retry,
    a_fleet_sheds_all_but_what_is_critical,
    all_or_nothing_with_rates_among_it,
    weighs_hits_where_the_rule_says_so,
    who_asks_again_under_an_id_of_his_own_gets_the_same_lease,
    ids_that_cannot_be_are_refused,
    releasing_what_is_not_there_is_no_error,
    a_lease_ends_by_itself,
    a_lease_lasts_as_long_as_all_its_limits_allow,
    a_renewed_lease_does_not,
    a_lease_that_is_gone_is_taken_again_if_there_is_room,
    what_is_taken_again_charges_no_rate,
    waits_until_a_slot_is_released,
    waits_no_longer_than_it_was_told,
    all_who_wait_are_served_one_after_the_other,
    who_leaves_the_line_is_not_served,
    one_who_waits_for_himself_holds_up_nobody_else,
    one_who_is_held_up_elsewhere_lets_others_pass,
    does_not_wait_for_a_rate,
    a_stream_holds_a_lease_as_long_as_it_is_open,
    a_stream_that_is_closed_has_released_when_it_ends,
    a_stream_that_is_refused_ends,
    a_shadowed_limit_holds_nothing_and_can_be_released,
    the_answer_lists_what_is_held,
    a_repeated_acquire_lists_the_same,
    a_repeated_acquire_lists_what_was_taken_under_other_rules,
    a_misspelt_descriptor_matches_no_limit,
    a_required_limit_that_does_not_match_is_an_error,
    an_error_for_want_of_a_limit_releases_nothing,
}

struct Shop {
    leases: Leases,
    server: Server,
    files: TempDir,
}

impl Shop {
    async fn open(store: &Store) -> Self {
        let files = TempDir::new();
        let rules = files.file("shop.yaml", RULES);
        let server = Server::start_on(store, &rules).await;
        Self { leases: Leases::connect(server.grpc).await, server, files }
    }

    /// How many more could be acquired of this.
    async fn free(&self, key: &str, value: &str) -> u32 {
        let mut peek = one(key, value);
        peek.descriptors[0].hits_addend = Some(0);
        self.leases.acquire(peek).await.unwrap().statuses[0].limit_remaining
    }

    async fn until_free(&self, key: &str, count: u32) {
        until(&format!("{count} are free"), async || {
            (self.free(key, "x").await == count).then_some(())
        })
        .await;
    }
}

/// Slots that a lease holds of the limit that a descriptor reaches.
fn held(descriptor: u32, limit: &str, limiter: &str, slots: u64) -> Held {
    Held {
        descriptor: Some(descriptor),
        limit: limit.to_owned(),
        limiter: limiter.to_owned(),
        slots,
    }
}

/// To acquire what one entry meets.
fn one(key: &str, value: &str) -> AcquireRequest {
    acquire("shop", &[&[[key, value]]])
}

fn waiting(request: AcquireRequest) -> AcquireRequest {
    AcquireRequest { wait: span(Duration::from_secs(30)), ..request }
}

async fn acquires_and_releases(store: &Store) {
    let shop = Shop::open(store).await;
    let answer = shop.leases.acquire(one("user", "x")).await.unwrap();
    assert_eq!(answer.outcome(), Outcome::Acquired);
    assert!(answer.lease_id.starts_with("lease-"), "{answer:?}");
    let expires_in = Duration::try_from(answer.expires_in.unwrap()).unwrap();
    assert!((Duration::from_secs(59)..Duration::from_secs(62)).contains(&expires_in));
    let [status] = &answer.statuses[..] else { panic!("{answer:?}") };
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (3, 0, "in flight"));
    assert_eq!(status.limit_remaining, 2);
    assert_eq!(answer.refusal, None);
    assert_eq!(shop.leases.renewed(&answer.lease_id).await, LeaseState::Live);
    assert_eq!(shop.leases.released(&answer.lease_id).await, LeaseState::Live);
    assert_eq!(shop.free("user", "x").await, 3);
    assert_eq!(shop.leases.released(&answer.lease_id).await, LeaseState::AlreadyGone);
    assert_eq!(shop.leases.renewed(&answer.lease_id).await, LeaseState::AlreadyGone);
}

async fn a_refusal_says_which_limit_and_when_to_retry(store: &Store) {
    let shop = Shop::open(store).await;
    for _ in 0..3 {
        shop.leases.acquired(one("user", "x")).await;
    }
    let answer = shop.leases.acquire(one("user", "x")).await.unwrap();
    assert_eq!((answer.outcome(), &*answer.lease_id), (Outcome::Refused, ""));
    let refusal = answer.refusal.unwrap();
    assert_eq!((&*refusal.limit_name, refusal.http_status), ("in flight", 429));
    assert_eq!(refusal.retry_after, span(Duration::from_secs(1)));
    let text = "The concurrency limit `in flight` (3 in flight) is reached. Retry in 1 s.\n";
    assert_eq!(refusal.message, text);
    assert!(shop.leases.is_acquired(one("user", "another")).await);
}

async fn a_fleet_sheds_all_but_what_is_critical(store: &Store) {
    let shop = Shop::open(store).await;
    let (usual, critical) = (one("priority", "usual"), one("priority", "critical"));
    for _ in 0..8 {
        shop.leases.acquired(usual.clone()).await;
    }
    let refusal = shop.leases.acquire(usual.clone()).await.unwrap().refusal.unwrap();
    assert_eq!(refusal.http_status, 503, "it is the service that is short of room");
    assert_eq!(refusal.message, "The service is short of room. Retry in 1 s.\n");
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(shop.leases.acquired(critical.clone()).await);
    }
    for id in &held {
        assert_eq!(shop.leases.released(id).await, LeaseState::Live);
    }
    assert!(!shop.leases.is_acquired(usual).await);
}

async fn all_or_nothing_with_rates_among_it(store: &Store) {
    let shop = Shop::open(store).await;
    let id = shop.leases.acquired(one("both", "x")).await;
    // The slot is taken, so the rate is not charged.
    for _ in 0..5 {
        let answer = shop.leases.acquire(one("both", "x")).await.unwrap();
        assert_eq!(answer.outcome(), Outcome::Refused);
    }
    shop.leases.released(&id).await;
    let id = shop.leases.acquired(one("both", "x")).await;
    shop.leases.released(&id).await;
    // The rate is spent, so the slot is not taken.
    let refusal = shop.leases.acquire(one("both", "x")).await.unwrap().refusal.unwrap();
    assert!(refusal.message.contains("2 per year"), "{refusal:?}");
    let descriptors: [&[[&str; 2]]; 2] = [&[["user", "x"]], &[["both", "x"]]];
    let refused = shop.leases.acquire(acquire("shop", &descriptors)).await.unwrap();
    assert_eq!((refused.outcome(), refused.statuses.len()), (Outcome::Refused, 2));
    assert_eq!(shop.free("user", "x").await, 3);
}

async fn weighs_hits_where_the_rule_says_so(store: &Store) {
    let shop = Shop::open(store).await;
    let batch = |hits: u64| {
        let mut request = one("batch", "x");
        request.descriptors[0].hits_addend = Some(hits);
        request
    };
    let id = shop.leases.acquired(batch(7)).await;
    assert!(!shop.leases.is_acquired(batch(4)).await);
    assert!(shop.leases.is_acquired(batch(3)).await);
    shop.leases.released(&id).await;
    assert_eq!(shop.free("batch", "x").await, 7);
    let refusal = shop.leases.acquire(batch(11)).await.unwrap().refusal.unwrap();
    assert_eq!(refusal.retry_after, None, "it can never pass: {refusal:?}");
}

async fn who_asks_again_under_an_id_of_his_own_gets_the_same_lease(store: &Store) {
    let shop = Shop::open(store).await;
    let mine = AcquireRequest { lease_id: "nightly".to_owned(), ..one("user", "x") };
    for _ in 0..5 {
        assert_eq!(shop.leases.acquired(mine.clone()).await, "nightly");
    }
    assert_eq!(shop.free("user", "x").await, 2);
    let other = AcquireRequest { lease_id: "nightly".to_owned(), ..one("user", "y") };
    let error = shop.leases.acquire(other.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::AlreadyExists, "{error:?}");
    assert_eq!(shop.leases.released("nightly").await, LeaseState::Live);
    assert!(shop.leases.is_acquired(other).await);
}

async fn ids_that_cannot_be_are_refused(store: &Store) {
    let shop = Shop::open(store).await;
    let long = "x".repeat(129);
    for lease_id in ["a b", "edge:7", "50%", &long] {
        let request = AcquireRequest { lease_id: lease_id.to_owned(), ..one("user", "x") };
        let error = shop.leases.acquire(request).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{lease_id}");
    }
    assert_eq!(shop.leases.release("").await.unwrap_err().code(), Code::InvalidArgument);
    let negative = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    for request in [
        AcquireRequest { ttl: negative, ..one("user", "x") },
        AcquireRequest { ttl: span(Duration::ZERO), ..one("user", "x") },
        AcquireRequest { wait: negative, ..one("user", "x") },
        acquire("shop", &[]),
        acquire("", &[&[["user", "x"]]]),
        AcquireRequest {
            ttl: Some(prost_types::Duration { seconds: i64::MIN, nanos: i32::MIN }),
            ..one("user", "x")
        },
    ] {
        let error = shop.leases.acquire(request).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
    }
    assert_eq!(shop.free("user", "x").await, 3);
    let nowhere = shop.leases.acquire(acquire("shopp", &[&[["user", "x"]]])).await;
    assert_eq!(nowhere.unwrap_err().code(), Code::NotFound, "it would hold nothing");
}

async fn releasing_what_is_not_there_is_no_error(store: &Store) {
    let shop = Shop::open(store).await;
    assert_eq!(shop.leases.released("nobodys").await, LeaseState::AlreadyGone);
    assert_eq!(shop.leases.renewed("nobodys").await, LeaseState::Lost);
}

async fn a_lease_ends_by_itself(store: &Store) {
    let shop = Shop::open(store).await;
    let id = shop.leases.acquired(one("short", "x")).await;
    shop.until_free("short", 1).await;
    assert_eq!(shop.leases.renewed(&id).await, LeaseState::Expired);
    assert_eq!(shop.leases.released(&id).await, LeaseState::Expired);
    assert_eq!(shop.leases.released(&id).await, LeaseState::AlreadyGone);
    // A caller may want less than the rule allows, and no more.
    let brief = |ttl| AcquireRequest { ttl: span(ttl), ..one("user", "y") };
    let answer = shop.leases.acquire(brief(Duration::from_secs(3))).await.unwrap();
    assert_eq!(answer.expires_in.unwrap().seconds, 3);
    let answer = shop.leases.acquire(brief(Duration::from_secs(3000))).await.unwrap();
    assert!(answer.expires_in.unwrap().seconds < 62);
}

async fn a_lease_lasts_as_long_as_all_its_limits_allow(store: &Store) {
    let shop = Shop::open(store).await;
    let both = acquire("shop", &[&[["user", "x"]], &[["short", "x"]]]);
    let answer = shop.leases.acquire(both).await.unwrap();
    assert_eq!(answer.expires_in.unwrap().seconds, 0, "{answer:?}");
    shop.until_free("short", 1).await;
    shop.until_free("user", 3).await;
}

async fn a_renewed_lease_does_not(store: &Store) {
    let shop = Shop::open(store).await;
    let brief = AcquireRequest { ttl: span(Duration::from_secs(2)), ..one("alone", "x") };
    let answer = shop.leases.acquire(brief).await.unwrap();
    let renew = |ttl| RenewRequest {
        lease_id: answer.lease_id.clone(),
        ttl: span(ttl),
        ..RenewRequest::default()
    };
    let longer = shop.leases.renew(renew(Duration::from_secs(60))).await.unwrap();
    assert_eq!(longer.state(), LeaseState::Live);
    let lasts = longer.expires_in.unwrap().seconds;
    assert!((1..3).contains(&lasts), "as long as a new one: {longer:?}");
    let shorter = shop.leases.renew(renew(Duration::from_millis(1))).await.unwrap();
    assert!(shorter.expires_in.unwrap().seconds >= 1, "no sooner than before: {shorter:?}");
}

async fn a_lease_that_is_gone_is_taken_again_if_there_is_room(store: &Store) {
    let shop = Shop::open(store).await;
    let id = shop.leases.acquired(one("short", "x")).await;
    shop.until_free("short", 1).await;
    let AcquireRequest { domain, descriptors, .. } = one("short", "x");
    let again = RenewRequest { lease_id: id.clone(), ttl: None, domain, descriptors };
    assert_eq!(shop.leases.renew(again.clone()).await.unwrap().state(), LeaseState::Retaken);
    assert_eq!(shop.free("short", "x").await, 0);
    shop.until_free("short", 1).await;
    shop.leases
        .acquired(AcquireRequest { lease_id: "another".to_owned(), ..one("short", "x") })
        .await;
    let answer = shop.leases.renew(again).await.unwrap();
    assert_eq!((answer.state(), answer.expires_in), (LeaseState::Lost, None));
}

async fn what_is_taken_again_charges_no_rate(store: &Store) {
    let shop = Shop::open(store).await;
    let AcquireRequest { domain, descriptors, .. } = one("both", "x");
    for lease_id in ["one", "two", "three"] {
        let (domain, descriptors) = (domain.clone(), descriptors.clone());
        let again = RenewRequest { lease_id: lease_id.to_owned(), ttl: None, domain, descriptors };
        assert_eq!(shop.leases.renew(again).await.unwrap().state(), LeaseState::Retaken);
        assert_eq!(shop.leases.released(lease_id).await, LeaseState::Live);
    }
    let id = shop.leases.acquired(one("both", "x")).await;
    assert_eq!(shop.leases.released(&id).await, LeaseState::Live);
}

async fn waits_until_a_slot_is_released(store: &Store) {
    let shop = Shop::open(store).await;
    let id = shop.leases.acquired(one("alone", "x")).await;
    let leases = shop.leases.clone();
    let waiter = tokio::spawn(async move { leases.acquired(waiting(one("alone", "x"))).await });
    assert!(!shop.leases.is_acquired(one("alone", "x")).await);
    shop.leases.released(&id).await;
    let id = waiter.await.unwrap();
    assert_eq!(shop.leases.released(&id).await, LeaseState::Live);
}

async fn waits_no_longer_than_it_was_told(store: &Store) {
    let shop = Shop::open(store).await;
    shop.leases.acquired(one("alone", "x")).await;
    let wait = span(Duration::from_millis(50));
    let answer = shop.leases.acquire(AcquireRequest { wait, ..one("alone", "x") }).await.unwrap();
    assert_eq!(answer.outcome(), Outcome::Refused);
    assert_eq!(answer.statuses.len(), 1);
}

/// As many who wait for the one slot.
fn line(shop: &Shop, count: usize) -> JoinSet<String> {
    let mut line = JoinSet::new();
    for _ in 0..count {
        let leases = shop.leases.clone();
        line.spawn(async move { leases.acquired(waiting(one("alone", "x"))).await });
    }
    line
}

async fn all_who_wait_are_served_one_after_the_other(store: &Store) {
    let shop = Shop::open(store).await;
    let mut id = shop.leases.acquired(one("alone", "x")).await;
    let mut line = line(&shop, 30);
    let served = async {
        loop {
            shop.leases.released(&id).await;
            let Some(served) = line.join_next().await else { break };
            id = served.unwrap();
            assert!(!shop.leases.is_acquired(one("alone", "x")).await, "one at a time");
        }
    };
    // Who does not hear of releases looks once a second.
    time::timeout(Duration::from_secs(20), served).await.expect("they are told");
}

async fn who_leaves_the_line_is_not_served(store: &Store) {
    let shop = Shop::open(store).await;
    let id = shop.leases.acquired(one("alone", "x")).await;
    let mut line = line(&shop, 5);
    shop.free("user", "x").await;
    line.abort_all();
    while line.join_next().await.is_some() {}
    shop.leases.released(&id).await;
    let id = shop.leases.acquired(waiting(one("alone", "x"))).await;
    assert_eq!(shop.leases.released(&id).await, LeaseState::Live);
}

async fn one_who_waits_for_himself_holds_up_nobody_else(store: &Store) {
    let shop = Shop::open(store).await;
    let both =
        |value: &'static str| acquire("shop", &[&[["alone", value]], &[["priority", "usual"]]]);
    shop.leases.acquired(one("alone", "x")).await;
    let leases = shop.leases.clone();
    let waiter = tokio::spawn(async move { leases.acquired(waiting(both("x"))).await });
    shop.free("user", "x").await;
    assert!(!waiter.is_finished());
    // The pool has room, and who waits in it waits for something else.
    shop.leases.acquired(waiting(both("y"))).await;
    waiter.abort();
}

async fn one_who_is_held_up_elsewhere_lets_others_pass(store: &Store) {
    let shop = Shop::open(store).await;
    shop.leases.acquired(one("alone", "user")).await;
    let pool = shop.leases.acquired(one("alone", "pool")).await;
    let waiter = |request: AcquireRequest| {
        let leases = shop.leases.clone();
        tokio::spawn(async move { leases.acquired(waiting(request)).await })
    };
    let first = waiter(one("alone", "user"));
    shop.free("user", "x").await;
    let both = waiter(acquire("shop", &[&[["alone", "user"]], &[["alone", "pool"]]]));
    shop.free("user", "x").await;
    let last = waiter(one("alone", "pool"));
    shop.free("user", "x").await;
    shop.leases.released(&pool).await;
    last.await.unwrap();
    assert!(!first.is_finished() && !both.is_finished());
    first.abort();
    both.abort();
}

async fn does_not_wait_for_a_rate(store: &Store) {
    let shop = Shop::open(store).await;
    for _ in 0..2 {
        shop.leases.acquired(one("rate", "x")).await;
    }
    let answer = shop.leases.acquire(waiting(one("rate", "x"))).await.unwrap();
    assert_eq!(answer.outcome(), Outcome::Refused);
    let id = shop.leases.acquired(one("alone", "x")).await;
    let both = acquire("shop", &[&[["alone", "x"]], &[["rate", "x"]]]);
    assert!(!shop.leases.is_acquired(waiting(both)).await);
    shop.leases.released(&id).await;
}

async fn a_stream_holds_a_lease_as_long_as_it_is_open(store: &Store) {
    let shop = Shop::open(store).await;
    let mut hold = shop.leases.hold(one("short", "x")).await;
    assert_eq!(hold.acquired().await.outcome(), Outcome::Acquired);
    // Five renewals in a row are longer than the lease would last by itself. A machine that stands still for that long
    // loses it; then the stream takes it again.
    let mut live = 0;
    while live < 5 {
        let renewed = time::timeout(PATIENCE, hold.renewed()).await.expect("a renewal");
        match renewed {
            LeaseState::Live => live += 1,
            LeaseState::Retaken => live = 0,
            other => panic!("{other:?}"),
        }
        shop.until_free("short", 0).await;
    }
    let mut long = shop.leases.hold(one("alone", "x")).await;
    assert_eq!(long.acquired().await.outcome(), Outcome::Acquired);
    assert_eq!(shop.free("alone", "x").await, 0);
    drop(long);
    shop.until_free("alone", 1).await;
}

async fn a_stream_that_is_closed_has_released_when_it_ends(store: &Store) {
    let shop = Shop::open(store).await;
    let mut hold = shop.leases.hold(one("alone", "x")).await;
    assert_eq!(hold.acquired().await.outcome(), Outcome::Acquired);
    drop(hold.requests);
    assert_eq!(hold.answers.message().await.unwrap(), None);
    assert_eq!(shop.free("alone", "x").await, 1);
}

async fn a_stream_that_is_refused_ends(store: &Store) {
    let shop = Shop::open(store).await;
    shop.leases.acquired(one("alone", "x")).await;
    let mut hold = shop.leases.hold(one("alone", "x")).await;
    assert_eq!(hold.acquired().await.outcome(), Outcome::Refused);
    assert_eq!(hold.next().await.unwrap(), None);
    let mut nothing = shop.leases.hold(AcquireRequest::default()).await;
    assert_eq!(nothing.next().await.unwrap_err().code(), Code::InvalidArgument);
}

async fn a_shadowed_limit_holds_nothing_and_can_be_released(store: &Store) {
    let shop = Shop::open(store).await;
    let first = shop.leases.acquired(one("dark", "x")).await;
    let second = shop.leases.acquired(one("dark", "x")).await;
    for id in [second, first] {
        assert_eq!(shop.leases.renewed(&id).await, LeaseState::Live);
        assert_eq!(shop.leases.released(&id).await, LeaseState::Live);
    }
    assert_eq!(shop.free("dark", "x").await, 1);
}

async fn the_answer_lists_what_is_held(store: &Store) {
    let shop = Shop::open(store).await;
    let acquired = async |request| {
        let answer = shop.leases.acquire(request).await.unwrap();
        assert_eq!((answer.outcome(), answer.limit_matched), (Outcome::Acquired, true));
        answer.held
    };
    let mut many = acquire(
        "shop",
        &[&[["rate", "x"]], &[["user", "x"]], &[["batch", "x"]], &[["priority", "critical"]]],
    );
    many.descriptors[2].hits_addend = Some(7);
    assert_eq!(
        acquired(many).await,
        [
            held(1, "in flight", "concurrency", 1),
            held(2, "batch", "concurrency", 7),
            held(3, "priority", "fleet", 1),
        ]
    );
    let twice = acquire("shop", &[&[["user", "y"]], &[["user", "y"]]]);
    let both = [held(0, "in flight", "concurrency", 1), held(1, "in flight", "concurrency", 1)];
    assert_eq!(acquired(twice).await, both);
    let below = acquire("shop", &[&[["job", "nightly"], ["cluster", "c1"]]]);
    assert_eq!(acquired(below).await, [held(0, "one nightly job", "concurrency", 1)]);

    assert_eq!(acquired(one("rate", "y")).await, [], "a rate holds nothing");
    let mut peek = one("user", "x");
    peek.descriptors[0].hits_addend = Some(0);
    assert_eq!(acquired(peek).await, [], "nor does a peek");
    assert_eq!(acquired(one("dark", "x")).await, [held(0, "dark", "concurrency", 1)]);
    assert_eq!(acquired(one("dark", "x")).await, [], "there was no room in the dark");

    for _ in 0..2 {
        shop.leases.acquire(one("user", "x")).await.unwrap();
    }
    let refused = shop.leases.acquire(one("user", "x")).await.unwrap();
    assert_eq!(refused.outcome(), Outcome::Refused);
    assert!(refused.limit_matched && refused.held.is_empty(), "{refused:?}");
}

async fn a_repeated_acquire_lists_the_same(store: &Store) {
    let shop = Shop::open(store).await;
    // The slot in the dark is taken, so the lease holds none of it, now or later.
    let dark = shop.leases.acquired(one("dark", "x")).await;
    let mut mine = acquire("shop", &[&[["dark", "x"]], &[["batch", "x"]], &[["user", "x"]]]);
    mine.descriptors[1].hits_addend = Some(3);
    let mine = AcquireRequest { lease_id: "nightly".to_owned(), ..mine };
    let what = [held(1, "batch", "concurrency", 3), held(2, "in flight", "concurrency", 1)];
    assert_eq!(shop.leases.acquire(mine.clone()).await.unwrap().held, what);
    shop.leases.released(&dark).await;
    for _ in 0..3 {
        let again = shop.leases.acquire(mine.clone()).await.unwrap();
        assert_eq!((again.lease_id.as_str(), again.limit_matched), ("nightly", true));
        assert_eq!(again.held, what);
    }
    assert_eq!(shop.free("user", "x").await, 2);
}

async fn a_repeated_acquire_lists_what_was_taken_under_other_rules(store: &Store) {
    let shop = Shop::open(store).await;
    let mine = acquire("shop", &[&[["alone", "x"]], &[["user", "x"]]]);
    let mine = AcquireRequest { lease_id: "nightly".to_owned(), ..mine };
    shop.leases.acquired(mine.clone()).await;
    // One of the limits goes while its slot is held.
    shop.files.file("shop.yaml", &RULES.replace("- key: alone", "- key: not alone"));
    let of_nothing = Held { descriptor: None, ..held(0, "", "concurrency", 1) };
    let what = [of_nothing, held(1, "in flight", "concurrency", 1)];
    until("the rules are in force", async || {
        let again = shop.leases.acquire(mine.clone()).await.unwrap();
        (again.held == what).then_some(())
    })
    .await;
}

async fn a_misspelt_descriptor_matches_no_limit(store: &Store) {
    let shop = Shop::open(store).await;
    for request in [one("usr", "x"), one("job", "nightly"), one("off", "x"), one("free", "x")] {
        let request = AcquireRequest { require_limit: false, ..request };
        let answer = shop.leases.acquire(request).await.unwrap();
        assert_eq!(answer.outcome(), Outcome::Acquired);
        assert!(!answer.limit_matched && answer.held.is_empty(), "{answer:?}");
        assert!(answer.lease_id.starts_with("lease-"), "old clients go on: {answer:?}");
    }
}

async fn a_required_limit_that_does_not_match_is_an_error(store: &Store) {
    let shop = Shop::open(store).await;
    let refused = async |request: AcquireRequest| {
        let error = shop.leases.acquire(request).await.unwrap_err();
        assert_eq!(error.code(), Code::NotFound, "{error:?}");
        error.message().to_owned()
    };
    let text = refused(one("usr", "ada")).await;
    let expected = "`require_limit` is set, and no limit matches: descriptors[0]: no rule is for the key of entries[0], where the rules have `alone`, `batch`, ";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("leave `require_limit` out to go ahead and hold nothing"), "{text}");
    let misspelt = acquire("shop", &[&[["job", "nightly"], ["clutser", "c1"]]]);
    let text = refused(misspelt.clone()).await;
    assert!(text.contains("no rule is for the key of entries[1], where the rules have `cluster`."));
    for request in [one("job", "hourly"), one("job", "nightly"), one("off", "x"), one("free", "x")]
    {
        let text = refused(request).await;
        assert!(!text.contains("hourly") && !text.contains("nightly"), "no values: {text}");
    }
    // A stream is refused alike.
    let mut hold = shop.leases.hold(misspelt).await;
    assert_eq!(hold.next().await.unwrap_err().code(), Code::NotFound);

    // One that matches is enough, and whatever it is, it is asked.
    for request in [
        one("user", "x"),
        one("rate", "x"),
        one("dark", "x"),
        acquire("shop", &[&[["usr", "x"]], &[["user", "x"]]]),
    ] {
        let answer = shop.leases.acquire(request).await.unwrap();
        assert!(answer.outcome() == Outcome::Acquired && answer.limit_matched, "{answer:?}");
    }
    let mut hold = shop.leases.hold(one("alone", "x")).await;
    assert_eq!(hold.acquired().await.held, [held(0, "alone", "concurrency", 1)]);
}

async fn an_error_for_want_of_a_limit_releases_nothing(store: &Store) {
    let shop = Shop::open(store).await;
    let id = shop.leases.acquired(one("alone", "x")).await;
    let release = acquire("shop", &[&[["lease_id", &id]], &[["usr", "x"]]]);
    let error = shop.leases.acquire(release).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound, "{error:?}");
    assert_eq!(shop.leases.released(&id).await, LeaseState::Live);
}

/// The slots of streams are there for others as soon as the server has gone, if it was told to go.
#[tokio::test]
async fn streams_release_when_the_server_leaves() {
    let store = Store::redis().await;
    let (shop, other) = (Shop::open(&store).await, Shop::open(&store).await);
    let mut hold = shop.leases.hold(one("alone", "x")).await;
    assert_eq!(hold.acquired().await.outcome(), Outcome::Acquired);
    assert_eq!(other.free("alone", "x").await, 0);
    shop.server.signal("INT").await;
    while let Ok(Some(event)) = hold.next().await {
        assert!(matches!(event, Event::Renewed(_)), "{event:?}");
    }
    assert!(shop.server.ended().await.success());
    assert_eq!(other.free("alone", "x").await, 1);
}

#[tokio::test]
async fn hears_of_what_is_released_through_another_replica() {
    let store = Store::redis().await;
    let (shop, other) = (Shop::open(&store).await, Shop::open(&store).await);
    let id = shop.leases.acquired(one("alone", "x")).await;
    let leases = other.leases.clone();
    let waiter = tokio::spawn(async move { leases.acquired(waiting(one("alone", "x"))).await });
    assert_eq!(shop.leases.released(&id).await, LeaseState::Live);
    waiter.await.unwrap();
}
