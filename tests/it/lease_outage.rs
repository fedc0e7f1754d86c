//! Leases while Redis is gone, hangs, forgets its scripts or comes back empty: what is released meanwhile is
//! released, what is held is taken again, and nobody is promised more than there is for longer than a lease
//! lasts.

use crate::{
    grpc::Client,
    support::{Leases, PATIENT, Redis, Server, TempDir, a_second, acquire, span, until},
};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::task::JoinSet;
use tollgate::grpc::proto::tollgate::v1::{
    AcquireRequest, LeaseState, RenewRequest, acquire_response::Outcome,
};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    concurrency: {max: 3, lease_ttl: 60s}
  - key: brief
    concurrency: {max: 3, lease_ttl: 2s}
";

struct Shop {
    leases: Leases,
    client: Client,
    server: Server,
    _files: TempDir,
}

impl Shop {
    async fn open(redis: &Redis) -> Self {
        Self::open_with(redis, "100ms").await
    }

    async fn open_with(redis: &Redis, timeout: &str) -> Self {
        let files = TempDir::new();
        let rules = files.file("shop.yaml", RULES);
        let environment = [("TOLLGATE_STORE", redis.url()), ("TOLLGATE_STORE_TIMEOUT", timeout)];
        let server = Server::start_with(&rules, &environment).await;
        let leases = Leases::connect(server.grpc).await;
        let client = Client::connect(server.grpc).await;
        Self { leases, client, server, _files: files }
    }

    /// How many more could be acquired; `None` where the store does not decide.
    async fn free(&self, key: &str) -> Option<u32> {
        let mut peek = one(key);
        peek.descriptors[0].hits_addend = Some(0);
        let answer = self.leases.acquire(peek).await.unwrap();
        (!answer.degraded).then(|| answer.statuses[0].limit_remaining)
    }

    async fn until_free(&self, key: &str, count: u32) {
        let is_free = async || (self.free(key).await == Some(count)).then_some(());
        until(&format!("{count} are free"), is_free).await;
    }

    /// Until the store does not decide any more.
    async fn until_lost(&self) {
        until("the store is lost", async || self.free("user").await.is_none().then_some(())).await;
    }

    /// Gives back a lease as Envoy does, who never asks again.
    async fn release_once(&mut self, id: &str) {
        let entries = [["lease_id", id]];
        let request = json!({ "domain": "shop", "descriptors": [{ "entries": entries }] });
        let answer = self.client.ask(&request).await;
        assert!(answer.is_ok(), "a release always succeeds: {answer:?}");
    }
}

fn one(key: &str) -> AcquireRequest {
    acquire("shop", &[&[[key, "ada"]]])
}

#[tokio::test]
async fn what_is_released_while_redis_hangs_is_released_when_it_goes_on() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(&redis).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(shop.leases.acquired(one("user")).await);
    }
    redis.signal("STOP").await;
    shop.until_lost().await;
    shop.release_once(&ids[0]).await;
    assert_eq!(shop.leases.released(&ids[1]).await, LeaseState::Pending);
    for _ in 0..5 {
        a_second().await;
    }
    redis.signal("CONT").await;
    shop.until_free("user", 2).await;
    assert_eq!(shop.leases.released(&ids[2]).await, LeaseState::Live);
}

#[tokio::test]
async fn what_is_held_is_taken_again_from_a_redis_that_is_empty() {
    let mut redis = Redis::start().await;
    let shop = Shop::open(&redis).await;
    let mut holds = Vec::new();
    for _ in 0..2 {
        let mut hold = shop.leases.hold(one("brief")).await;
        assert_eq!(hold.acquired().await.outcome(), Outcome::Acquired);
        holds.push(hold);
    }
    let by_hand = shop.leases.acquired(one("brief")).await;
    redis.kill().await;
    shop.until_lost().await;
    for _ in 0..5 {
        a_second().await;
    }
    redis.restart().await;
    for hold in &mut holds {
        while hold.renewed().await != LeaseState::Retaken {}
    }
    let AcquireRequest { domain, descriptors, .. } = one("brief");
    let again = RenewRequest { lease_id: by_hand.clone(), ttl: None, domain, descriptors };
    let retaken = until("the store decides", async || shop.leases.renew(again.clone()).await.ok());
    assert_eq!(retaken.await.state(), LeaseState::Retaken);
    assert_eq!(shop.free("brief").await, Some(0), "as many as before");
    assert_eq!(shop.leases.released(&by_hand).await, LeaseState::Live);
    drop(holds);
    shop.until_free("brief", 3).await;
}

/// Others may take slots of an empty Redis before their holders have renewed. Then there is no room for
/// these, who are told.
#[tokio::test]
async fn whoever_comes_too_late_to_an_empty_redis_is_told_that_his_lease_is_lost() {
    let redis = Redis::start().await;
    let shop = Shop::open(&redis).await;
    let mut hold = shop.leases.hold(one("brief")).await;
    assert_eq!(hold.acquired().await.outcome(), Outcome::Acquired);
    redis.ask::<()>(&["FLUSHALL"]).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(shop.leases.acquired(one("brief")).await);
    }
    // Renewed, so that they last.
    let renewing = async {
        loop {
            for id in &others {
                shop.leases.renewed(id).await;
            }
            tokio::task::yield_now().await;
        }
    };
    let told = async {
        assert_eq!(hold.renewed().await, LeaseState::Lost);
        assert_eq!(hold.next().await.unwrap(), None);
    };
    tokio::select! {
        () = renewing => unreachable!(),
        () = told => {}
    }
    assert_eq!(shop.free("brief").await, Some(0), "who lost his gives back nobody else's");
}

/// Requests may share a name. A release that may have been made is not made again: it would give back what
/// another request of that name holds.
#[tokio::test]
async fn a_release_that_is_late_gives_back_one_and_not_two() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(&redis).await;
    let entries = [["user", "ada"], ["acquire_lease_id", "7"]];
    let request = json!({ "domain": "shop", "descriptors": [{ "entries": entries }] });
    for _ in 0..2 {
        shop.client.ask(&request).await.unwrap();
    }
    assert_eq!(shop.free("user").await, Some(1));
    redis.signal("STOP").await;
    shop.release_once("7").await;
    redis.signal("CONT").await;
    shop.until_free("user", 2).await;
    a_second().await;
    assert_eq!(shop.free("user").await, Some(2));
}

#[tokio::test]
async fn who_waits_waits_for_the_store_too() {
    let redis = Redis::start().await;
    let shop = Shop::open(&redis).await;
    let id = shop.leases.acquired(one("user")).await;
    for _ in 0..2 {
        shop.leases.acquired(one("user")).await;
    }
    let leases = shop.leases.clone();
    let request = AcquireRequest { wait: span(Duration::from_secs(30)), ..one("user") };
    let waiter = tokio::spawn(async move { leases.acquired(request).await });
    redis.signal("STOP").await;
    shop.until_lost().await;
    assert!(!waiter.is_finished());
    redis.signal("CONT").await;
    until("it is released", async || shop.leases.release(&id).await.ok()).await;
    let id = waiter.await.unwrap();
    assert_eq!(shop.leases.released(&id).await, LeaseState::Live);
}

#[tokio::test]
async fn nothing_fails_while_scripts_are_forgotten_all_the_time() {
    let redis = Redis::start().await;
    let shop = Shop::open_with(&redis, PATIENT.1).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let (leases, is_over) = (shop.leases.clone(), Arc::clone(&is_over));
        callers.spawn(async move {
            let mut rounds = 0;
            while !is_over.load(Relaxed) || rounds < 100 {
                let answer = leases.acquire(one("user")).await.unwrap();
                if answer.outcome() == Outcome::Acquired {
                    assert_eq!(leases.renewed(&answer.lease_id).await, LeaseState::Live);
                    assert_eq!(leases.released(&answer.lease_id).await, LeaseState::Live);
                }
                rounds += 1;
            }
        });
    }
    let mut connection = redis.connect().await;
    for _ in 0..300 {
        redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await.unwrap();
    }
    is_over.store(true, Relaxed);
    callers.join_all().await;
    assert_eq!(shop.free("user").await, Some(3));
}

/// A connection that is lost tells nobody whether the script ran.
#[tokio::test]
async fn what_was_taken_by_a_call_whose_answer_was_lost_is_given_back() {
    let redis = Redis::start().await;
    let shop = Shop::open(&redis).await;
    assert_eq!(shop.free("user").await, Some(3));
    // The script waits in Redis's socket; nobody waits for it any more.
    redis.signal("STOP").await;
    for _ in 0..3 {
        assert!(shop.leases.acquire(one("user")).await.unwrap().degraded);
    }
    redis.signal("CONT").await;
    shop.until_free("user", 3).await;
    // Whichever came first, the script or what gave back: nothing is left over.
    a_second().await;
    assert_eq!(shop.free("user").await, Some(3), "{}", shop.server.log());
    let held: usize = redis.ask(&["EXISTS", "tg1:concurrency:shop:user=ada"]).await;
    assert_eq!(held, 0);
}
