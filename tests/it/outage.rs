//! What happens while Redis is gone, hangs, refuses or holds what is no state: requests are answered without
//! it, the log says why in a few lines, and service goes on by itself.

use crate::{
    grpc::{Client, is_degraded},
    support::{self, PATIENCE, Proxy, Redis, Server, TempDir, a_second, until},
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code as WireCode;
use serde_json::{Value, json};
use std::{
    fs,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{task::JoinSet, time};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1000000000}
  - key: account
    rate_limit: {unit: year, requests_per_unit: 5}
";

/// An answer that was given without the store. Nothing says why to callers: that is for the log.
#[derive(Debug, PartialEq, Eq)]
struct Degraded;

/// More lines than this are a flood. A log has three or four after an outage, and one every ten seconds
/// while the tests of a slow machine go on failing requests; those are hundreds.
const FEW: usize = 10;

/// Asks over gRPC. What remains of the first limit.
async fn ask(client: &mut Client, entries: &[[&str; 2]]) -> Result<u32, Degraded> {
    let descriptors: Vec<_> = entries.iter().map(|entry| json!({ "entries": [entry] })).collect();
    let request = json!({ "domain": "shop", "descriptors": descriptors });
    let answer = time::timeout(PATIENCE, client.ask(&request)).await.expect("no answer").unwrap();
    if !is_degraded(&answer) {
        return Ok(answer.statuses[0].limit_remaining);
    }
    // The rules say nothing of it, so it passes.
    assert_eq!(answer.overall_code(), WireCode::Ok, "{answer:?}");
    Err(Degraded)
}

/// Asks as JSON.
async fn ask_json(to: SocketAddr, user: &str) -> Result<(), Degraded> {
    let entry = json!({ "key": "user", "value": user });
    let request = json!({ "domain": "shop", "descriptors": [{ "entries": [entry] }] });
    let answer = support::post(to, "/json", &request.to_string()).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    match &body["dynamicMetadata"] {
        Value::Null => Ok(()),
        metadata => {
            assert_eq!(*metadata, json!({ "degraded": true }));
            Err(Degraded)
        }
    }
}

/// A server whose states are in a Redis.
struct Shop {
    server: Server,
    client: Client,
    _files: TempDir,
}

impl Shop {
    /// On the Redis at an address, for which it waits this long.
    async fn open(url: &str, timeout_ms: &str) -> Self {
        let files = TempDir::new();
        let rules = files.file("shop.yaml", RULES);
        let environment = [("TOLLGATE_STORE", url), ("TOLLGATE_STORE_TIMEOUT", timeout_ms)];
        let server = Server::start_with(&rules, &environment).await;
        Self { client: Client::connect(server.grpc).await, server, _files: files }
    }

    /// Asks for one user.
    async fn ask(&mut self, user: &str) -> Result<u32, Degraded> {
        ask(&mut self.client, &[["user", user]]).await
    }

    /// Asks for an account, of which there are five requests a year: what remains.
    async fn ask_account(&mut self, account: &str) -> Result<u32, Degraded> {
        ask(&mut self.client, &[["account", account]]).await
    }

    /// Asks so often, one after the other: all are decided.
    async fn decides(&mut self, times: usize) {
        for time in 0..times {
            let answer = self.ask("ada").await;
            assert!(answer.is_ok(), "request {time}: {answer:?}, {}", self.server.log());
        }
    }

    /// What `/ready` says: that it is, always, and more where the store cannot be used.
    async fn ready(&self) -> String {
        let answer = support::get(self.server.http, "/ready", &[]).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// Waits until the store can be used, without asking for a decision.
    async fn until_usable(&self) {
        until("the store can be used", async || (self.ready().await == "ready\n").then_some(()))
            .await;
    }

    async fn until_logged(&self, text: &str) {
        until(&format!("the log says {text}"), async || {
            self.server.log().contains(text).then_some(())
        })
        .await;
    }

    /// How many lines of the log hold a text.
    fn lines(&self, text: &str) -> usize {
        self.server.log().lines().filter(|line| line.contains(text)).count()
    }

    fn has_logged_little(&self) {
        assert!(self.lines("") <= FEW, "{}", self.server.log());
    }
}

/// What became of requests. Clones count together.
#[derive(Clone, Default)]
struct Tally(Arc<Mutex<Answers>>);

#[derive(Clone, Default)]
struct Answers {
    decided: usize,
    degraded: usize,
}

impl Tally {
    fn add(&self, answer: Result<(), Degraded>) {
        let mut answers = self.0.lock().unwrap();
        match answer {
            Ok(()) => answers.decided += 1,
            Err(Degraded) => answers.degraded += 1,
        }
    }

    fn answers(&self) -> Answers {
        self.0.lock().unwrap().clone()
    }

    async fn until_answered(&self, count: usize) -> Answers {
        until(&format!("{count} requests are answered"), async || {
            let answers = self.answers();
            (answers.decided + answers.degraded >= count).then_some(answers)
        })
        .await
    }
}

/// Callers that ask without pause, over gRPC and as JSON.
struct Callers {
    tally: Arc<Mutex<Tally>>,
    is_over: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Callers {
    async fn start(server: &Server) -> Self {
        let tally = Arc::<Mutex<Tally>>::default();
        let is_over = Arc::<AtomicBool>::default();
        let mut tasks = JoinSet::new();
        for caller in 0..6 {
            let (tally, is_over) = (Arc::clone(&tally), Arc::clone(&is_over));
            let mut client = Client::connect(server.grpc).await;
            let http = server.http;
            tasks.spawn(async move {
                let user = format!("caller{caller}");
                while !is_over.load(Ordering::Relaxed) {
                    let tally = tally.lock().unwrap().clone();
                    tally.add(if caller % 3 == 0 {
                        ask_json(http, &user).await
                    } else {
                        ask(&mut client, &[["user", &user]]).await.map(|_| ())
                    });
                }
            });
        }
        Self { tally, is_over, tasks }
    }

    /// The tally of requests that begin from now on, until another is asked for.
    fn afresh(&self) -> Tally {
        let tally = Tally::default();
        *self.tally.lock().unwrap() = tally.clone();
        tally
    }

    /// Of the next requests, so many at least, not one fails. Their tally, in which those that are under
    /// way are still missing.
    async fn are_all_decided(&self, count: usize) -> Tally {
        let tally = self.afresh();
        assert_eq!(tally.until_answered(count).await.degraded, 0);
        tally
    }

    /// Of the next requests, so many at least, each is answered, and none by the store.
    async fn are_all_degraded(&self, count: usize) {
        assert_eq!(self.afresh().until_answered(count).await.decided, 0);
    }

    async fn until_one_is_decided(&self) {
        let tally = self.afresh();
        until("a request is decided", async || (tally.answers().decided > 0).then_some(())).await;
    }

    /// Waits for the last answers.
    async fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

#[tokio::test]
async fn a_server_starts_while_redis_is_down_says_so_once_and_recovers_by_itself() {
    let mut redis = Redis::start().await;
    redis.kill().await;
    let mut shop = Shop::open(redis.url(), "30000").await;
    let body = shop.ready().await;
    assert!(body.starts_with("ready\nthe store cannot be used: "), "{body}");
    assert!(body.contains("Connection refused"), "{body}");
    for _ in 0..100 {
        assert_eq!(shop.ask("ada").await.unwrap_err(), Degraded);
        assert_eq!(ask_json(shop.server.http, "ada").await.unwrap_err(), Degraded);
    }
    shop.until_logged("ERROR the store cannot be used: Connection refused").await;

    redis.restart().await;
    shop.until_usable().await;
    shop.decides(20).await;
    let undecided = "requests not decided: 200 for want of a connection store=";
    shop.until_logged(&format!("INFO the store can be used again; {undecided}")).await;
    assert_eq!(shop.lines("cannot be used"), 1, "{}", shop.server.log());
    assert_eq!(shop.lines("can be used again"), 1, "{}", shop.server.log());
    shop.has_logged_little();
}

#[tokio::test]
async fn a_server_starts_while_redis_hangs() {
    let redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    proxy.hold();
    let mut shop = Shop::open(&proxy.url(), "30000").await;
    assert_eq!(shop.ready().await, "ready\nthe store cannot be used: it does not answer\n");
    assert_eq!(shop.ask("ada").await.unwrap_err(), Degraded);
    proxy.release();
    shop.until_usable().await;
    shop.decides(20).await;
}

#[tokio::test]
async fn a_redis_killed_under_load_leaves_no_failure_behind_when_it_is_back() {
    let mut redis = Redis::start_on_port(&[]).await;
    let shop = Shop::open(redis.url(), "2000").await;
    let callers = Callers::start(&shop.server).await;
    callers.are_all_decided(500).await;
    redis.kill().await;
    callers.are_all_degraded(1000).await;
    shop.until_logged("ERROR the store cannot be used: Connection refused").await;

    redis.restart().await;
    callers.until_one_is_decided().await;
    a_second().await;
    callers.are_all_decided(3000).await;
    callers.stop().await;
    shop.until_logged("can be used again; requests not decided: ").await;
    shop.has_logged_little();
}

#[tokio::test]
async fn a_redis_restarted_while_nobody_asks_is_found_before_anybody_does() {
    let mut redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), "2000").await;
    shop.decides(20).await;
    let clients =
        async |redis: &Redis| redis.ask::<String>(&["CLIENT", "LIST"]).await.lines().count();
    let before = clients(&redis).await;
    redis.kill().await;
    redis.restart().await;
    until("all connections are there again", async || {
        (clients(&redis).await >= before).then_some(())
    })
    .await;
    a_second().await;
    shop.decides(20).await;
    assert_eq!(shop.lines("not decided"), 0, "{}", shop.server.log());
}

#[tokio::test]
async fn a_redis_gone_behind_a_proxy_that_accepts_and_hangs_up_is_found_when_it_is_back() {
    let mut redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    let shop = Shop::open(&proxy.url(), "2000").await;
    let callers = Callers::start(&shop.server).await;
    callers.are_all_decided(200).await;
    redis.kill().await;
    callers.are_all_degraded(1000).await;
    shop.until_logged("ERROR the store cannot be used: ").await;

    redis.restart().await;
    callers.until_one_is_decided().await;
    a_second().await;
    callers.are_all_decided(1000).await;
    callers.stop().await;
    shop.has_logged_little();
}

#[tokio::test]
async fn however_often_redis_forgets_the_script_no_request_fails() {
    let redis = Redis::start().await;
    let shop = Shop::open(redis.url(), "30000").await;
    let callers = Callers::start(&shop.server).await;
    let tally = callers.afresh();
    let mut connection = redis.connect().await;
    until("many requests are decided", async || {
        for _ in 0..20 {
            let mut flush = redis::cmd("SCRIPT");
            flush.arg("FLUSH").exec_async(&mut connection).await.unwrap();
        }
        (tally.answers().decided >= 2000).then_some(())
    })
    .await;
    callers.stop().await;
    assert_eq!(tally.answers().degraded, 0);
}

#[tokio::test]
async fn what_is_no_state_fails_one_request_and_is_deleted_and_nothing_else_is_touched() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), "30000").await;
    let mut connection = redis.connect().await;
    let mut failed = 0;
    for (command, value) in [
        ("SET", &b"planted"[..]),
        ("SET", b""),
        ("SET", &[b'x'; 24]),
        ("SET", &[0; 24]),
        ("SET", &[0xFF; 24]),
        ("RPUSH", b"planted"),
        ("SADD", b"planted"),
    ] {
        redis.ask::<()>(&["FLUSHALL"]).await;
        assert_eq!(shop.ask_account("ada").await, Ok(4));
        assert_eq!(shop.ask_account("bob").await, Ok(4));
        let [bob] = redis.ask::<[String; 1]>(&["KEYS", "*bob*"]).await;
        let mut plant = async || {
            redis::cmd("DEL").arg(&bob).exec_async(&mut connection).await.unwrap();
            redis::cmd(command).arg(&bob).arg(value).exec_async(&mut connection).await.unwrap();
            failed += 1;
        };

        plant().await;
        assert_eq!(shop.ask_account("eve").await, Ok(4), "{command} {value:?}");
        assert_eq!(shop.ask_account("bob").await.unwrap_err(), Degraded, "{command} {value:?}");
        assert_eq!(shop.ask_account("bob").await, Ok(4), "{command} {value:?}");

        for (left, both) in [(3, ["ada", "bob"]), (2, ["bob", "ada"])] {
            plant().await;
            let both = both.map(|account| ["account", account]);
            let answer = ask(&mut shop.client, &both).await;
            assert_eq!(answer.unwrap_err(), Degraded, "{command} {value:?}");
            assert_eq!(shop.ask_account("ada").await, Ok(left), "{command} {value:?}");
            assert_eq!(shop.ask_account("bob").await, Ok(4), "{command} {value:?}");
        }
    }
    until("all that failed are told", async || {
        let log = shop.server.log();
        let told = log.lines().filter_map(|line| {
            let reason = " because a key held what is no state of a limit, and was deleted store=";
            let (told, _) = line.split_once(reason)?;
            told.rsplit_once("WARN the store fails: requests not decided: ")?.1.parse::<u32>().ok()
        });
        (told.sum::<u32>() == failed).then_some(())
    })
    .await;
    let log = shop.server.log();
    for word in ["tg1", "shop", "account", "ada", "bob", "planted"] {
        assert!(!log.contains(word), "{word}: {log}");
    }
    shop.has_logged_little();
}

#[tokio::test]
async fn a_redis_that_hangs_is_waited_for_no_longer_than_the_timeout_and_used_when_it_goes_on() {
    let redis = Redis::start_on_port(&[]).await;
    let shop = Shop::open(redis.url(), "1000").await;
    let callers = Callers::start(&shop.server).await;
    callers.are_all_decided(200).await;
    redis.signal("STOP").await;
    callers.are_all_degraded(1000).await;
    shop.until_logged("ERROR the store cannot be used: it does not answer").await;

    redis.signal("CONT").await;
    callers.until_one_is_decided().await;
    a_second().await;
    callers.are_all_decided(2000).await;
    callers.stop().await;
    shop.until_logged("can be used again; requests not decided: ").await;
    shop.until_logged("for want of an answer in time").await;
    shop.has_logged_little();
}

#[tokio::test]
async fn late_answers_end_requests_and_their_connections_and_are_nobody_elses() {
    let redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    let mut shop = Shop::open(&proxy.url(), "1000").await;
    let callers = Callers::start(&shop.server).await;
    callers.are_all_decided(200).await;
    let opened_before = proxy.accepted();
    proxy.hold();
    callers.are_all_degraded(1000).await;
    shop.until_logged("ERROR the store cannot be used: it does not answer").await;
    let opened = proxy.accepted() - opened_before;
    assert!((1..250).contains(&opened), "{opened}, but not one for each request");

    proxy.release();
    callers.until_one_is_decided().await;
    for left in [4, 3, 2, 1, 0] {
        assert_eq!(shop.ask_account("ada").await, Ok(left));
    }
    a_second().await;
    callers.are_all_decided(2000).await;
    callers.stop().await;
    shop.until_logged("can be used again; requests not decided: ").await;
    shop.has_logged_little();
}

#[tokio::test]
async fn connections_that_died_unnoticed_are_replaced_before_anybody_asks() {
    let redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    let mut shop = Shop::open(&proxy.url(), "2000").await;
    shop.decides(20).await;
    let connections = proxy.accepted();
    for disturb in [Proxy::freeze, Proxy::reset] {
        let before = proxy.accepted();
        disturb(&proxy);
        let are_replaced = async || (proxy.accepted() >= before + connections).then_some(());
        until("all are replaced", are_replaced).await;
        a_second().await;
        shop.decides(20).await;
    }
    assert_eq!(shop.lines("not decided"), 0, "{}", shop.server.log());
    shop.has_logged_little();
}

#[tokio::test]
async fn connections_that_are_cut_under_load_are_replaced() {
    let redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    let shop = Shop::open(&proxy.url(), "1000").await;
    let callers = Callers::start(&shop.server).await;
    callers.are_all_decided(200).await;
    let connections = proxy.accepted();
    for disturb in [Proxy::freeze, Proxy::reset] {
        let before = proxy.accepted();
        disturb(&proxy);
        let are_replaced = async || (proxy.accepted() >= before + connections).then_some(());
        until("all are replaced", are_replaced).await;
        callers.until_one_is_decided().await;
        a_second().await;
        callers.are_all_decided(1000).await;
    }
    callers.stop().await;
    shop.has_logged_little();
}

/// A Redis that refuses with these words after the first commands, until after the second.
async fn refuses(redis: &Redis, words: &str, begin: &[&[&str]], end: &[&[&str]]) {
    let mut shop = Shop::open(redis.url(), "30000").await;
    shop.decides(1).await;
    for command in begin {
        redis.ask::<()>(command).await;
    }
    until("it refuses", async || shop.ask("ada").await.err()).await;
    for _ in 0..100 {
        assert_eq!(shop.ask("ada").await.unwrap_err(), Degraded);
        assert_eq!(ask_json(shop.server.http, "ada").await.unwrap_err(), Degraded);
    }
    shop.until_logged(&format!("because it refused ({words}")).await;
    let body = shop.ready().await;
    assert!(body.starts_with(&format!("ready\nthe store refuses requests: {words}")), "{body}");
    for command in end {
        redis.ask::<()>(command).await;
    }
    shop.decides(20).await;
    assert!(!shop.server.log().contains("ada"), "{}", shop.server.log());
    shop.has_logged_little();
}

#[tokio::test]
async fn a_redis_without_memory_refuses_and_the_log_says_why() {
    let redis = Redis::start().await;
    let [begin, end] = ["1", "0"].map(|most| ["CONFIG", "SET", "maxmemory", most]);
    refuses(&redis, "OOM command not allowed when used memory > 'maxmemory'", &[&begin], &[&end])
        .await;
}

#[tokio::test]
async fn a_redis_that_cannot_save_refuses_and_the_log_says_why() {
    let redis = Redis::start().await;
    // Where the dump should go, there is a directory.
    fs::create_dir(redis.files().path().join("dump.rdb")).unwrap();
    let save = ["CONFIG", "SET", "save", "3600 1"];
    let mend = ["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"];
    // What follows names the product, which may be Valkey.
    refuses(&redis, "MISCONF ", &[&save, &["BGSAVE"]], &[&mend]).await;
}

#[tokio::test]
async fn a_redis_that_becomes_a_replica_is_left_and_taken_again_when_it_is_a_primary() {
    let redis = Redis::start().await;
    let mut shop = Shop::open(redis.url(), "30000").await;
    shop.decides(20).await;
    let port = support::free_port().to_string();
    redis.ask::<()>(&["REPLICAOF", "127.0.0.1", &port]).await;
    let told = until("its connections are dropped", async || {
        shop.ask("ada").await.unwrap_err();
        let body = shop.ready().await;
        body.contains("cannot be used").then_some(body)
    })
    .await;
    let reason = "the store cannot be used: this is a replica, which cannot be written: give the address of \
                  its primary";
    assert_eq!(told, format!("ready\n{reason}, 127.0.0.1:{port}\n"));
    assert_eq!(shop.ask("ada").await.unwrap_err(), Degraded);
    shop.until_logged(&format!("ERROR {reason}, 127.0.0.1:{port} store=")).await;

    redis.ask::<()>(&["REPLICAOF", "NO", "ONE"]).await;
    shop.until_usable().await;
    a_second().await;
    shop.decides(20).await;
    shop.until_logged("because it refused (READONLY You can't write against a read only replica")
        .await;
    shop.has_logged_little();
}

#[tokio::test]
async fn a_redis_that_loads_its_data_is_waited_for() {
    let redis = Redis::start_with(&["--enable-debug-command", "yes"]).await;
    let mut shop = Shop::open(redis.url(), "30000").await;
    shop.decides(20).await;
    for [name, value] in [
        ["rdbcompression", "no"],
        ["loading-process-events-interval-bytes", "1024"],
        ["key-load-delay", "20000"],
    ] {
        redis.ask::<()>(&["CONFIG", "SET", name, value]).await;
    }
    redis.ask::<()>(&["DEBUG", "POPULATE", "2000", "fill", "1024"]).await;
    // This would take 40 seconds.
    let mut connection = redis.connect().await;
    let loading =
        tokio::spawn(
            async move { redis::cmd("DEBUG").arg("RELOAD").exec_async(&mut connection).await },
        );
    until("its connections are dropped", async || {
        drop(shop.ask("ada").await);
        shop.ready()
            .await
            .contains("the store cannot be used: it is loading its data\n")
            .then_some(())
    })
    .await;
    assert_eq!(shop.ask("ada").await.unwrap_err(), Degraded);

    redis.ask::<()>(&["CONFIG", "SET", "key-load-delay", "0"]).await;
    loading.await.unwrap().unwrap();
    shop.until_usable().await;
    a_second().await;
    shop.decides(20).await;
    shop.has_logged_little();
}
