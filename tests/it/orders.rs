//! What operators say at run time: switches, limits for single callers, counters that begin anew; by the command and
//! on the admin port, on one server, on three that share a Redis, and while that is gone.

mod twins;

use crate::{
    grpc::Client,
    support::{
        self, Leases, PATIENT, Proxy, Redis, Server, Store, TempDir, a_second, acquire, on,
        on_every_store, until,
    },
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use tokio::task::JoinSet;

/// Limits that are full after a request or two, and refill in a month.
const RULES: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: month, requests_per_unit: 2}
  - key: plan
    value: free
    descriptors:
      - key: user
        limits:
          - {name: daily, rate_limit: {unit: month, requests_per_unit: 1}}
          - {name: slots, concurrency: {max: 1, lease_ttl: 10m}}
  - key: off
    rate_limit: {unit: month, requests_per_unit: 0, name: nobody}
    enabled: false
  - key: dark
    rate_limit: {unit: month, requests_per_unit: 0}
    shadow_mode: true
  - key: path
    value: /api/*
    share_threshold: true
    rate_limit: {unit: month, requests_per_unit: 1}
";

const MALL: &str = "
domain: mall
descriptors:
  - {key: user, rate_limit: {unit: month, requests_per_unit: 0}}
";

on_every_store! {
    a_rule_is_switched_by_path_and_by_name,
    a_domain_and_everything_are_main_switches,
    shadow_and_enforce_are_switches_too,
    what_is_said_is_shown_and_taken_back,
    a_limit_for_one_caller_holds_for_him_alone,
    a_limit_on_slots_can_be_set_too,
    a_counter_is_shown_and_begins_anew,
    slots_are_freed_and_who_waits_gets_them,
    what_cannot_be_meant_changes_nothing_and_says_why,
    orders_hold_on_over_a_reload,
}

async fn open(store: &Store) -> (Server, TempDir) {
    let files = TempDir::new();
    files.file("edge.yaml", RULES);
    files.file("mall.yaml", MALL);
    (Server::start_on(store, files.path()).await, files)
}

fn edge(entries: &[[&str; 2]]) -> Value {
    json!({ "domain": "edge", "descriptors": [{ "entries": entries }] })
}

/// Whether a server lets a request pass.
async fn passes(server: &Server, request: &Value) -> bool {
    let mut client = Client::connect(server.grpc).await;
    client.ask(request).await.unwrap().overall_code() == Code::Ok
}

/// What the command says to an operator, and whether it succeeds.
async fn command(server: &Server, words: &str) -> (bool, String) {
    let admin = server.admin.to_string();
    let mut arguments: Vec<&str> = words.split(' ').collect();
    arguments.extend(["--admin", &admin]);
    let output = support::run(&arguments, &[]).await;
    let said = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// The same for a command that succeeds.
async fn say(server: &Server, words: &str) -> String {
    let (is_done, said) = command(server, words).await;
    assert!(is_done, "{words}: {said}");
    said
}

/// Until when, in words.
fn how_far(store: &Store) -> &'static str {
    match store {
        Store::Memory => "for as long as this process runs",
        Store::Redis(_) => "on every replica within a second, and after a restart",
    }
}

async fn a_rule_is_switched_by_path_and_by_name(store: &Store) {
    let (server, _files) = open(store).await;
    let user = edge(&[["user", "ada"]]);
    assert!(passes(&server, &user).await && passes(&server, &user).await);
    assert!(!passes(&server, &user).await);
    let said = say(&server, "rule off edge:user").await;
    assert!(said.starts_with("edge:user: off; ") && said.contains(how_far(store)), "{said}");
    assert!(passes(&server, &user).await, "nobody limits it");
    let said = say(&server, "rule on edge:user").await;
    assert!(said.starts_with("edge:user: on; "), "{said}");
    assert!(!passes(&server, &user).await, "what was used stays used");

    let off = edge(&[["off", "x"]]);
    assert!(passes(&server, &off).await);
    say(&server, "rule on nobody").await;
    assert!(!passes(&server, &off).await, "its file says off, but the operator on");
    say(&server, "rule clear nobody").await;
    assert!(passes(&server, &off).await);
    until("it is told in the log", async || {
        server.log().contains("an operator has switched edge:off: on").then_some(())
    })
    .await;
}

async fn a_domain_and_everything_are_main_switches(store: &Store) {
    let (server, _files) = open(store).await;
    let (dark, off) = (edge(&[["dark", "x"]]), edge(&[["off", "x"]]));
    let mall = json!({ "domain": "mall", "descriptors": [{ "entries": [["user", "x"]] }] });
    say(&server, "rule enforce edge:dark").await;
    say(&server, "rule on edge:off").await;
    assert!(!passes(&server, &dark).await && !passes(&server, &off).await);
    for (switch, is_mall_off) in [("edge", false), ("--all", true)] {
        say(&server, &format!("rule off {switch}")).await;
        assert!(passes(&server, &dark).await && passes(&server, &off).await);
        assert_eq!(passes(&server, &mall).await, is_mall_off);
        let said = say(&server, "rule on edge:off").await;
        assert!(said.contains("As it is, it is off:"), "{said}");
        assert!(passes(&server, &off).await);
        say(&server, &format!("rule on {switch}")).await;
        assert!(!passes(&server, &dark).await && !passes(&server, &off).await);
        assert!(!passes(&server, &mall).await);
    }
}

async fn shadow_and_enforce_are_switches_too(store: &Store) {
    let (server, _files) = open(store).await;
    let dark = edge(&[["dark", "x"]]);
    let daily = edge(&[["plan", "free"], ["user", "ada"]]);
    assert!(passes(&server, &dark).await);
    say(&server, "rule enforce edge:dark").await;
    assert!(!passes(&server, &dark).await);
    say(&server, "rule shadow --all").await;
    assert!(passes(&server, &dark).await, "shadow mode of everything is above it");
    say(&server, "rule enforce --all").await;
    assert!(!passes(&server, &dark).await, "what was said of the rule holds");
    say(&server, "rule off slots").await;
    say(&server, "rule shadow daily").await;
    assert!(passes(&server, &daily).await && passes(&server, &daily).await);
    say(&server, "rule enforce daily").await;
    assert!(!passes(&server, &daily).await, "it was charged meanwhile");
}

async fn what_is_said_is_shown_and_taken_back(store: &Store) {
    let (server, _files) = open(store).await;
    say(&server, "rule off edge:user").await;
    say(&server, "rule shadow mall").await;
    say(&server, "limit set edge:user user=ada --rate 5/s").await;
    let list = say(&server, "rule list").await;
    let line = |text: &str, start: &str| {
        let lines = text.lines().find(|line| line.starts_with(start));
        let words: Vec<_> = lines.unwrap_or_else(|| panic!("{text}")).split("  ").collect();
        words.into_iter().filter(|it| !it.is_empty()).map(str::trim).collect::<Vec<_>>().join("|")
    };
    assert_eq!(
        line(&list, "edge:user "),
        "edge:user|token_bucket 2 per month|off [off at run time] [1 limit set at run time]"
    );
    assert_eq!(line(&list, "mall "), "mall|in shadow mode [at run time]");
    assert_eq!(
        line(&list, "mall:user "),
        "mall:user|token_bucket 0 per month|shadow [mall in shadow mode]"
    );
    assert_eq!(line(&list, "edge:off "), "edge:off|token_bucket 0 per month|off");
    let rules = support::get(server.admin, "/rlconfig", &[]).await.unwrap().body;
    assert!(
        rules.contains("[off at run time]") && rules.contains("[shadow at run time]"),
        "{rules}"
    );
    assert!(rules.contains("1 limit set at run time: see /limits"), "{rules}");
    let accept = [("accept", &b"application/json"[..])];
    let rules = support::get(server.admin, "/rlconfig", &accept).await.unwrap().body;
    let rules: Value = serde_json::from_str(&rules).unwrap();
    assert_eq!(rules["switches"]["edge:user"], json!({ "enabled": false }));
    let json: Value = serde_json::from_str(&say(&server, "rule list --json").await).unwrap();
    let user = json["rules"].as_array().unwrap().iter().find(|it| it["rule"] == "edge:user");
    let user = user.unwrap();
    assert_eq!((&user["enabled"], &user["limits_set"]), (&json!(false), &json!(1)));

    for target in ["edge:user", "mall"] {
        say(&server, &format!("rule clear {target}")).await;
    }
    let said = say(&server, "limit clear --all").await;
    assert!(said.starts_with("1 limit taken back; "), "{said}");
    let list = say(&server, "rule list").await;
    assert!(!list.contains("at run time"), "{list}");
    assert_eq!(say(&server, "limit list").await, "No limit is set at run time.\n");
}

async fn a_limit_for_one_caller_holds_for_him_alone(store: &Store) {
    let (server, _files) = open(store).await;
    let (ada, bob) = (edge(&[["user", "ada"]]), edge(&[["user", "bob"]]));
    for user in [&ada, &bob] {
        assert!(passes(&server, user).await && passes(&server, user).await);
        assert!(!passes(&server, user).await);
    }
    let said = say(&server, "limit set edge:user user=ada --rate 5/month --for 2h").await;
    assert!(said.starts_with("edge:user=ada: token_bucket 5 per month for 120 min; "), "{said}");
    for _ in 0..3 {
        assert!(passes(&server, &ada).await, "of five, two are used");
    }
    assert!(!passes(&server, &ada).await && !passes(&server, &bob).await);
    let list = say(&server, "limit list").await;
    assert!(list.starts_with("edge:user=ada   token_bucket 5 per month   for 1"), "{list}");
    assert!(!server.log().contains("ada"), "no value is in the log: {}", server.log());

    say(&server, "limit clear edge:user=ada").await;
    say(&server, "limit set edge:user user=bob --rate 1000/s --burst 3 --for 1s").await;
    assert!(passes(&server, &bob).await);
    until("it is over", async || (!passes(&server, &bob).await).then_some(())).await;
    until("nobody knows of it", async || {
        say(&server, "limit list").await.starts_with("No limit").then_some(())
    })
    .await;
    // All that match share one counter, so there is nothing to say.
    let path = |path: &str| edge(&[["path", path]]);
    assert!(passes(&server, &path("/api/a")).await && !passes(&server, &path("/api/b")).await);
    let said = say(&server, "limit set edge:path=/api/* --rate 2/month").await;
    assert!(said.starts_with("edge:path=/api/*: "), "{said}");
    assert!(passes(&server, &path("/api/c")).await && !passes(&server, &path("/api/c")).await);
}

async fn a_limit_on_slots_can_be_set_too(store: &Store) {
    let (server, _files) = open(store).await;
    say(&server, "rule off daily").await;
    let ada = edge(&[["plan", "free"], ["user", "ada"]]);
    assert!(passes(&server, &ada).await && !passes(&server, &ada).await);
    say(&server, "limit set slots user=ada --max 2").await;
    assert!(passes(&server, &ada).await && !passes(&server, &ada).await);
    let bob = edge(&[["plan", "free"], ["user", "bob"]]);
    assert!(passes(&server, &bob).await && !passes(&server, &bob).await);
}

async fn a_counter_is_shown_and_begins_anew(store: &Store) {
    let (server, _files) = open(store).await;
    let ada = edge(&[["user", "ada"]]);
    let shown = say(&server, "key show edge:user user=ada").await;
    assert_eq!(shown, "edge:user=ada: token_bucket 2 per month\nunused: 2 left\n");
    assert!(passes(&server, &ada).await && passes(&server, &ada).await);
    assert!(!passes(&server, &ada).await);
    let shown = say(&server, "key show edge:user user=ada").await;
    assert!(shown.contains("\n0 left, full again in "), "{shown}");
    let json = say(&server, "key show edge:user user=ada --json").await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["remaining"], &json["unused"]), (&json!(0), &json!(false)));
    let said = say(&server, "key reset edge:user user=ada").await;
    assert_eq!(said, "edge:user=ada begins anew\n");
    assert!(passes(&server, &ada).await && passes(&server, &ada).await);
    assert!(!passes(&server, &ada).await);
}

async fn slots_are_freed_and_who_waits_gets_them(store: &Store) {
    let (server, _files) = open(store).await;
    let leases = Leases::connect(server.grpc).await;
    say(&server, "rule off daily").await;
    let of_ada = || acquire("edge", &[&[["plan", "free"], ["user", "ada"]]]);
    let held = leases.acquired(of_ada()).await;
    assert!(!leases.is_acquired(of_ada()).await);
    let shown = say(&server, "key show slots user=ada").await;
    assert!(shown.ends_with("1 in flight, 0 left\n"), "{shown}");
    let mut waiting = of_ada();
    waiting.wait = support::span(support::PATIENCE);
    let waiter = async { leases.is_acquired(waiting).await };
    let reset = async {
        a_second().await;
        say(&server, "key reset slots user=ada").await
    };
    let (is_acquired, _) = tokio::join!(waiter, reset);
    assert!(is_acquired, "who waited has the slot");
    leases.released(&held).await;
    let shown = say(&server, "key show slots user=ada").await;
    assert!(shown.ends_with("1 in flight, 0 left\n"), "the old lease frees nobody else's: {shown}");
}

async fn what_cannot_be_meant_changes_nothing_and_says_why(store: &Store) {
    let (server, _files) = open(store).await;
    for (words, why) in [
        ("rule off edge:nobody", "no rule, name of a rule or domain is \"edge:nobody\""),
        ("rule off use", "did you mean edge:user, edge:plan=free:user#daily"),
        ("rule off", "required arguments were not provided"),
        ("limit set edge:user --rate 5/s", "edge:user counts by user: say which, as `user=VALUE`"),
        (
            "limit set edge:user user=a plan=b --rate 5/s",
            "does not count by \"plan=b\", but by user",
        ),
        ("limit set edge:user user=a --rate 5", "no rate"),
        ("limit set edge:user user=a --max 5", "edge:user is a token_bucket limit: give it --rate"),
        ("limit set slots user=a --rate 5/s", "is a concurrency limit: give it --max"),
        ("limit set edge:user user=a --rate 5/s --for soon", "no duration"),
        ("limit set edge user=a --rate 5/s", "no rule"),
        ("key show edge:path=/api/* path=/other", "does not count by \"path=/other\""),
    ] {
        let (is_done, said) = command(&server, words).await;
        assert!(!is_done && said.contains(why), "{words}: {said}");
    }
    // A form in a browser can post anything but JSON.
    let body = r#"{"rule":"edge:user"}"#;
    let answer = support::post(server.admin, "/rules/off", body).await.unwrap();
    assert_eq!(answer.status, 400, "{}", answer.body);
    let json = [("content-type", &b"application/json"[..])];
    for (path, body, status) in [
        ("/rules/sideways", body, 400),
        ("/rules/off", "{}", 400),
        ("/rules/off", r#"{"rule":"edge:user","x":1}"#, 400),
        ("/limits/set", r#"{"rule":"edge:user","values":["user=a"]}"#, 400),
        ("/limits/set", r#"{"rule":"edge:user","values":["user=a"],"rate":"1/s","max":1}"#, 400),
        ("/rules/off", r#"{"rule":"nothing"}"#, 404),
    ] {
        let length = body.len().to_string();
        let headers = [json[0], ("content-length", length.as_bytes())];
        let answer = support::send(server.admin, "POST", path, &headers, body.as_bytes()).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.body);
    }
    let answer = support::post(server.http, "/rules/off", body).await.unwrap();
    assert_eq!(answer.status, 404, "it is not for everybody");
    let list = say(&server, "rule list").await;
    assert!(!list.contains("at run time"), "{list}");
}

async fn orders_hold_on_over_a_reload(store: &Store) {
    let (server, files) = open(store).await;
    say(&server, "rule off edge:user").await;
    say(&server, "limit set mall:user user=ada --rate 1/month").await;
    files.file("edge.yaml", &RULES.replace("key: dark", "key: darker"));
    until("it is reloaded", async || server.log().contains("reloaded the rules").then_some(()))
        .await;
    let user = edge(&[["user", "ada"]]);
    for _ in 0..5 {
        assert!(passes(&server, &user).await);
    }
    let mall = json!({ "domain": "mall", "descriptors": [{ "entries": [["user", "ada"]] }] });
    assert!(passes(&server, &mall).await && !passes(&server, &mall).await);
    files.file("edge.yaml", &RULES.replace("key: user\n    rate", "key: other\n    rate"));
    until("the rule is gone", async || {
        let list = say(&server, "rule list").await;
        let is_gone =
            |line: &str| line.starts_with("edge:user ") && line.contains("(no such rule)");
        list.lines().any(is_gone).then_some(())
    })
    .await;
    say(&server, "rule clear edge:user").await;
    let list = say(&server, "rule list").await;
    assert!(!list.contains("edge:user "), "{list}");
}

/// Three servers on one Redis, and callers that ask all of them without a pause.
struct Fleet {
    redis: Redis,
    files: TempDir,
    servers: Vec<Server>,
    _callers: JoinSet<()>,
    is_over: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

impl Fleet {
    async fn start() -> Self {
        let (redis, files) = (Redis::start().await, TempDir::new());
        files.file("edge.yaml", RULES);
        files.file("mall.yaml", MALL);
        let mut servers = Vec::new();
        for _ in 0..3 {
            servers.push(Server::start_with(files.path(), &on(&redis)).await);
        }
        let (is_over, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut callers = JoinSet::new();
        for server in &servers {
            let (mut client, is_over) = (Client::connect(server.grpc).await, Arc::clone(&is_over));
            let asked = Arc::clone(&asked);
            callers.spawn(async move {
                let request = edge(&[["user", "crowd"]]);
                while !is_over.load(Relaxed) && client.ask(&request).await.is_ok() {
                    asked.fetch_add(1, Relaxed);
                }
            });
        }
        Self { redis, files, servers, _callers: callers, is_over, asked }
    }

    /// What each says to a request.
    async fn pass(&self, request: &Value) -> Vec<bool> {
        let mut pass = Vec::new();
        for server in &self.servers {
            pass.push(passes(server, request).await);
        }
        pass
    }
}

#[tokio::test]
async fn three_replicas_obey_every_order_within_a_second_under_load() {
    let mut fleet = Fleet::start().await;
    let (dark, user) = (edge(&[["dark", "x"]]), edge(&[["user", "ada"]]));
    // Each is said to another server.
    for (place, words, request, expected) in [
        (0, "rule enforce edge:dark", &dark, false),
        (1, "rule shadow edge", &dark, true),
        (2, "rule enforce edge", &dark, false),
        (0, "rule off --all", &dark, true),
        (1, "rule on --all", &dark, false),
        (2, "rule clear edge:dark", &dark, true),
    ] {
        say(&fleet.servers[place], words).await;
        a_second().await;
        assert_eq!(fleet.pass(request).await, [expected; 3], "{words}");
    }
    assert_eq!(fleet.pass(&user).await, [true, true, false]);
    say(&fleet.servers[0], "limit set edge:user user=ada --rate 5/month").await;
    a_second().await;
    assert_eq!(fleet.pass(&user).await, [true; 3]);
    assert_eq!(fleet.pass(&user).await, [false; 3]);
    say(&fleet.servers[1], "key reset edge:user user=ada").await;
    // The others may have heard just before that he is refused.
    a_second().await;
    assert_eq!(fleet.pass(&user).await, [true; 3]);
    say(&fleet.servers[2], "limit clear edge:user user=ada").await;
    a_second().await;
    assert_eq!(fleet.pass(&user).await, [false; 3], "of two, three are used");

    say(&fleet.servers[0], "rule off edge:user").await;
    let restarted = Server::start_with(fleet.files.path(), &on(&fleet.redis)).await;
    assert!(passes(&restarted, &user).await, "it obeys from its first request");
    drop(std::mem::replace(&mut fleet.servers[1], restarted));
    assert!(fleet.asked.load(Relaxed) > 0, "there was load");
}

#[tokio::test]
async fn without_the_store_an_order_is_obeyed_where_it_was_said_and_told_later() {
    let mut redis = Redis::start().await;
    let files = TempDir::new();
    let denying = RULES.replace(
        "rate_limit: {unit: month, requests_per_unit: 2}",
        "token_bucket: {rate: 2/d}\n    on_store_failure: deny",
    );
    files.file("edge.yaml", &denying);
    let mut servers = Vec::new();
    for _ in 0..2 {
        servers.push(Server::start_with(files.path(), &on(&redis)).await);
    }
    let user = edge(&[["user", "ada"]]);
    assert!(passes(&servers[0], &user).await);
    say(&servers[0], "rule shadow daily").await;
    redis.kill().await;
    until("Redis is missed", async || (!passes(&servers[0], &user).await).then_some(())).await;
    let said = say(&servers[0], "rule off edge:user").await;
    assert!(said.contains("on this process only, because the store could not be told"), "{said}");
    assert!(passes(&servers[0], &user).await, "nobody denies it");
    assert!(!passes(&servers[1], &user).await, "the other has not heard of it");
    let list = say(&servers[0], "rule list").await;
    assert!(list.contains("the store could not be told"), "{list}");
    let (is_done, said) = command(&servers[0], "key reset edge:user user=ada").await;
    assert!(!is_done && said.contains("503"), "{said}");

    // Empty, as it is not told to keep anything: what was said before is told again as well.
    redis.restart().await;
    until("all of it stands there, and the other has heard of it", async || {
        let list = say(&servers[1], "rule list --json").await;
        let list: Value = serde_json::from_str(&list).unwrap();
        let switches = &list["switches"];
        let is_shadow = switches["edge:plan=free:user#daily"]["shadow_mode"] == true;
        (is_shadow && switches["edge:user"]["enabled"] == false).then_some(())
    })
    .await;
    assert!(passes(&servers[1], &user).await);
    let newcomer = Server::start_with(files.path(), &on(&redis)).await;
    for _ in 0..3 {
        let passes = passes(&newcomer, &user).await;
        assert!(passes, "who comes later hears of it from the store: {}", newcomer.log());
    }
}

#[tokio::test]
async fn what_was_said_meanwhile_is_not_undone_by_who_could_not_be_told() {
    let redis = Redis::start_on_port(&[]).await;
    let mut way = Proxy::to(redis.port()).await;
    let files = TempDir::new();
    files.file("edge.yaml", RULES);
    let url = way.url();
    let cut_off = Server::start_with(
        files.path(),
        &[("TOLLGATE_STORE", &url), ("TOLLGATE_STORE_TIMEOUT", "200ms")],
    )
    .await;
    let other = Server::start_with(files.path(), &on(&redis)).await;
    let dark = edge(&[["dark", "x"]]);
    say(&other, "rule enforce edge:dark").await;
    until("both refuse", async || (!passes(&cut_off, &dark).await).then_some(())).await;
    way.refuse().await;
    let said = say(&cut_off, "rule off edge:dark").await;
    assert!(said.contains("on this process only"), "{said}");
    say(&other, "rule on edge:dark").await;
    // Of something else, both are obeyed.
    say(&cut_off, "rule off daily").await;
    say(&other, "rule shadow daily").await;
    way.accept().await;
    until("it hears of the other", async || {
        cut_off.log().contains("something else has been said meanwhile").then_some(())
    })
    .await;
    until("it obeys the other", async || (!passes(&cut_off, &dark).await).then_some(())).await;
    assert!(!passes(&other, &dark).await);
    for server in [&cut_off, &other] {
        until("both are in force", async || {
            let list: Value = serde_json::from_str(&say(server, "rule list --json").await).unwrap();
            let daily = &list["switches"]["edge:plan=free:user#daily"];
            (*daily == json!({ "enabled": false, "shadow_mode": true })).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn who_was_cut_off_while_redis_lost_everything_hears_what_was_said_since() {
    let redis = Redis::start_on_port(&[]).await;
    let mut way = Proxy::to(redis.port()).await;
    let files = TempDir::new();
    files.file("edge.yaml", RULES);
    let url = way.url();
    let patient = ("TOLLGATE_STORE_TIMEOUT", "200ms");
    let cut_off = Server::start_with(files.path(), &[("TOLLGATE_STORE", &url), patient]).await;
    // Known by it alone, under the first version.
    say(&cut_off, "rule off daily").await;
    way.refuse().await;
    redis.ask::<()>(&["FLUSHALL"]).await;
    let other = Server::start_with(files.path(), &on(&redis)).await;
    say(&other, "rule enforce edge:dark").await;
    way.accept().await;
    let dark = edge(&[["dark", "x"]]);
    until("it obeys", async || (!passes(&cut_off, &dark).await).then_some(())).await;
    until("the other obeys what was lost", async || {
        let list: Value = serde_json::from_str(&say(&other, "rule list --json").await).unwrap();
        let daily = &list["switches"]["edge:plan=free:user#daily"];
        (daily["enabled"] == false).then_some(())
    })
    .await;
    assert!(!passes(&other, &dark).await);
}

#[tokio::test]
async fn a_redis_that_forbids_it_is_told_and_the_order_obeyed_here() {
    let redis = Redis::start().await;
    let permissions = "~tg1:* +evalsha +eval +script|load +time +get +set +unlink";
    let user = ["ACL", "SETUSER", "tollgate", "on", ">secret"];
    let user: Vec<_> = user.into_iter().chain(permissions.split(' ')).collect();
    redis.ask::<()>(&user).await;
    let files = TempDir::new();
    files.file("edge.yaml", RULES);
    let url = format!("{}?user=tollgate&pass=secret", redis.url());
    let server = Server::start_with(files.path(), &[("TOLLGATE_STORE", &url), PATIENT]).await;
    let said = say(&server, "rule enforce edge:dark").await;
    assert!(said.contains("on this process only") && said.contains("ACL forbids"), "{said}");
    assert!(!passes(&server, &edge(&[["dark", "x"]])).await);
}

#[tokio::test]
async fn what_is_over_does_not_stay_in_redis() {
    let (redis, files) = (Redis::start().await, TempDir::new());
    files.file("edge.yaml", RULES);
    let servers = [
        Server::start_with(files.path(), &on(&redis)).await,
        Server::start_with(files.path(), &on(&redis)).await,
    ];
    say(&servers[0], "limit set edge:user user=ada --rate 5/month --for 1s").await;
    say(&servers[0], "limit set edge:user user=bob --rate 5/month --for 1h").await;
    until("only the other is left", async || {
        let fields: Vec<String> = redis.ask(&["HKEYS", "tg1:orders:"]).await;
        let limits: Vec<_> = fields.iter().filter(|field| field.contains(' ')).collect();
        (limits == ["limit edge:user=bob"]).then_some(())
    })
    .await;
    let ttl: i64 = redis.ask(&["TTL", "tg1:orders:"]).await;
    assert_eq!(ttl, -1, "what an operator says holds until it is taken back");
}

#[tokio::test]
async fn what_is_no_order_is_replaced_by_those_that_were_heard() {
    let (redis, files) = (Redis::start().await, TempDir::new());
    files.file("edge.yaml", RULES);
    let server = Server::start_with(files.path(), &on(&redis)).await;
    say(&server, "rule enforce edge:dark").await;
    for garbage in [
        &["SET", "tg1:orders:", "garbage"][..],
        &["HSET", "tg1:orders:", "version", "many"],
        &["HSET", "tg1:orders:", "version", "-1"],
        &["DEL", "tg1:orders:"],
    ] {
        redis.ask::<()>(garbage).await;
        until("it stands there again", async || {
            let kind: String = redis.ask(&["TYPE", "tg1:orders:"]).await;
            if kind != "hash" {
                return None;
            }
            let version: Option<String> = redis.ask(&["HGET", "tg1:orders:", "version"]).await;
            let dark: Option<String> =
                redis.ask(&["HGET", "tg1:orders:", "shadow edge:dark"]).await;
            let is_whole = version?.parse::<u64>().is_ok() && dark? == "false";
            is_whole.then_some(())
        })
        .await;
        assert!(!passes(&server, &edge(&[["dark", "x"]])).await, "{garbage:?}");
    }
    // What cannot be read says nothing, and does no harm to what can.
    redis.ask::<()>(&["HSET", "tg1:orders:", "on edge:user", "{", "version", "99"]).await;
    say(&server, "rule off daily").await;
    let list = say(&server, "rule list").await;
    let dark = list.lines().find(|line| line.starts_with("edge:dark "));
    assert!(dark.is_some_and(|line| line.ends_with(" on [enforced at run time]")), "{list}");
    assert!(!passes(&server, &edge(&[["dark", "x"]])).await);
}

#[tokio::test]
async fn what_repeats_the_file_of_one_replica_is_obeyed_by_all() {
    let redis = Redis::start().await;
    let (new, old) = (TempDir::new(), TempDir::new());
    old.file("edge.yaml", RULES);
    new.file("edge.yaml", &RULES.replace("- key: dark\n", "- key: dark\n    enabled: false\n"));
    let new = Server::start_with(new.path(), &on(&redis)).await;
    let old = Server::start_with(old.path(), &on(&redis)).await;
    let dark = edge(&[["dark", "x"]]);
    say(&new, "rule enforce edge:dark").await;
    until("the other refuses", async || (!passes(&old, &dark).await).then_some(())).await;
    say(&new, "rule off edge:dark").await;
    a_second().await;
    assert!(passes(&old, &dark).await);
}

#[tokio::test]
async fn a_limit_for_a_time_wants_to_know_the_time() {
    let mut redis = Redis::start_on_port(&[]).await;
    redis.kill().await;
    let files = TempDir::new();
    files.file("edge.yaml", RULES);
    let server = Server::start_with(files.path(), &on(&redis)).await;
    let set = "limit set edge:user user=ada --rate 5/month";
    let (is_done, said) = command(&server, &format!("{set} --for 2h")).await;
    assert!(!is_done && said.contains("the store has not been heard of yet"), "{said}");
    say(&server, set).await;
    redis.restart().await;
    until("it can be said", async || {
        command(&server, &format!("{set} --for 2h")).await.0.then_some(())
    })
    .await;
    let list = say(&server, "limit list").await;
    assert!(list.contains("for 1") && list.contains("min more"), "{list}");
}
