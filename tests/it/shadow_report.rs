//! The report of a dark launch: what limits in shadow would have refused, through the admin port and the command,
//! summed over all servers of a store.

use crate::{
    grpc::Client,
    support::{self, PATIENT, Proxy, Redis, Server, Store, TempDir, on, on_every_store, until},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::SocketAddr, process::Output, sync::Arc};
use tokio::task::JoinSet;

/// Of each user `BURST` requests pass, and none comes back within a test.
const BURST: u64 = 2;

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    token_bucket: {rate: 1/year, burst: 2}
    shadow_mode: true
  - key: silent
    token_bucket: {rate: 1/year}
    shadow_mode: true
  - key: enforced
    token_bucket: {rate: 1/year, burst: 2}
";

on_every_store! {
    the_port_and_the_command_show_shares_and_keys,
    what_cannot_be_meant_is_refused_with_a_reason,
    a_limit_is_launched_by_three_commands,
}

async fn ask(client: &mut Client, key: &str, value: &str) {
    let request = json!({ "domain": "shop", "descriptors": [{ "entries": [[key, value]] }] });
    client.ask(&request).await.unwrap();
}

/// What `GET /shadow-report` says, as JSON.
async fn shown(admin: SocketAddr, query: &str) -> Value {
    let accept = [("accept", &b"application/json"[..])];
    let path = format!("/shadow-report{query}");
    let answer = support::get(admin, &path, &accept).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

/// What it says of the rule for users, in one window.
async fn of_users(server: &Server, window: &str) -> Value {
    let report = shown(server.admin, &format!("?rule=shop:user&window={window}&top=10")).await;
    report["rules"][0]["windows"][0].clone()
}

/// Runs the command.
async fn report(admin: SocketAddr, arguments: &[&str]) -> Output {
    let admin = admin.to_string();
    support::run(&[&["shadow-report", "--admin", &admin], arguments].concat(), &[]).await
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

async fn the_port_and_the_command_show_shares_and_keys(store: &Store) {
    let files = TempDir::new();
    let server = Server::start_on(store, &files.file("shop.yaml", RULES)).await;
    let mut client = Client::connect(server.grpc).await;
    for (user, times) in [("ada", 3), ("bob&100%", 5), ("eve", 2)] {
        for _ in 0..times {
            ask(&mut client, "user", user).await;
        }
    }
    let day = json!({
        "window": "day", "requests": 10, "would_refuse": 4, "degraded": 0, "share": 0.4,
        "top": [
            { "key": "shop:user=bob&100%25", "would_refuse": 3 },
            { "key": "shop:user=ada", "would_refuse": 1 },
        ],
    });
    assert_eq!(of_users(&server, "day").await, day);
    let report_all = shown(server.admin, "").await;
    let rules = report_all["rules"].as_array().unwrap();
    let names: Vec<_> = rules.iter().map(|it| (&it["rule"], &it["standing"])).collect();
    let (users, silent) = (json!("shop:user"), json!("shop:silent"));
    assert_eq!(names, [(&users, &json!("in_shadow")), (&silent, &json!("in_shadow"))]);
    assert_eq!(rules[0]["windows"][2], day);
    assert_eq!(rules[1]["windows"][2]["share"], Value::Null);
    assert_eq!((&report_all["rules_left_out"], &report_all["untold"]), (&json!(0), &Value::Null));

    let output = report(server.admin, &["shop:user", "--window", "day"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = "shop:user   in shadow
  last day      10 requests, 4 would be refused (40 %)
  most often in the last day:
    3   shop:user=bob&100%25
    1   shop:user=ada
";
    assert_eq!(stdout(&output), text);
    let output = report(server.admin, &["--top", "0"]).await;
    assert_eq!(stdout(&output).matches("last hour ").count(), 2, "{output:?}");
    assert!(!stdout(&output).contains("ada"), "{output:?}");
    let output = report(server.admin, &["--json", "--top", "10"]).await;
    let document: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(document["rules"][0]["windows"][2], day);

    // What callers sent is shown here alone.
    let answer = support::get(server.http, "/shadow-report", &[]).await.unwrap();
    assert_eq!(answer.status, 404);
    for (door, path) in
        [(server.admin, "/rlconfig"), (server.admin, "/metrics"), (server.http, "/metrics")]
    {
        let answer = support::get(door, path, &[]).await.unwrap();
        assert!(!answer.body.contains("bob"), "{path}: {}", answer.body);
    }
    assert!(!server.log().contains("bob"), "{}", server.log());
}

async fn what_cannot_be_meant_is_refused_with_a_reason(store: &Store) {
    let files = TempDir::new();
    let server = Server::start_on(store, &files.file("shop.yaml", RULES)).await;
    for (query, status, words) in [
        ("?window=week", 400, "minute, hour or day"),
        ("?top=-1", 400, "`top`"),
        ("?top=100000", 400, "`top`"),
        ("?user=ada", 400, "`rule`, `window` and `top`"),
        ("?rule=shop:nobody", 404, "no rule, name of a rule or domain is"),
        ("?rule=%ff%00", 404, "no rule, name of a rule or domain is"),
    ] {
        let path = format!("/shadow-report{query}");
        let answer = support::get(server.admin, &path, &[]).await.unwrap();
        assert!(answer.status == status && answer.body.contains(words), "{query}: {answer:?}");
    }
    let output = report(server.admin, &["shop:nobody"]).await;
    let text = std::str::from_utf8(&output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && text.contains("no rule, name of a rule or domain is"),
        "{text}"
    );
    let output = report(server.admin, &["--window", "week"]).await;
    assert_eq!(output.status.code(), Some(2));
}

/// Traffic of known composition: how many requests each user sends. A thousand users by Zipf's law, and ten heavy
/// ones among them.
fn composition() -> BTreeMap<String, u64> {
    let zipf = (1..=1000).map(|rank| (format!("zipf-{rank}"), 660 / rank + 1));
    let heavy = (0..10).map(|place| (format!("heavy-{place}"), 200 + 41 * place));
    zipf.chain(heavy).collect()
}

/// The same requests in an order that looks like chance, and is the same each time.
fn shuffled(composition: &BTreeMap<String, u64>) -> Vec<String> {
    let users = composition.iter();
    let mut requests: Vec<String> =
        users.flat_map(|(user, times)| (0..*times).map(|_| user.clone())).collect();
    let mut state = 1_u64;
    for place in (1..requests.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        requests.swap(place, (state >> 33) as usize % (place + 1));
    }
    requests
}

#[tokio::test]
async fn replicas_add_up_to_the_truth_and_a_restart_forgets_nothing() {
    let (redis, files) = (Redis::start().await, TempDir::new());
    let rules = files.file("shop.yaml", RULES);
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start_with(&rules, &on(&redis)).await);
    }
    let composition = composition();
    let requests = Arc::new(shuffled(&composition));
    let mut callers = JoinSet::new();
    let number = 2 * servers.len();
    for caller in 0..number {
        let mut client = Client::connect(servers[caller % servers.len()].grpc).await;
        let requests = Arc::clone(&requests);
        callers.spawn(async move {
            for user in requests.iter().skip(caller).step_by(number) {
                ask(&mut client, "user", user).await;
            }
        });
    }
    callers.join_all().await;

    let refused = |times: &u64| times.saturating_sub(BURST);
    let (sent, over) = (requests.len() as u64, composition.values().map(refused).sum::<u64>());
    let mut heaviest: Vec<(u64, String)> = composition
        .iter()
        .map(|(user, times)| (refused(times), format!("shop:user={user}")))
        .collect();
    heaviest.sort_by(|one, other| other.cmp(one));
    let truth: Vec<&str> = heaviest.iter().take(10).map(|(_, key)| &**key).collect();
    let told_all = async |server: &Server| {
        until("all is told", async || {
            let hour = of_users(server, "hour").await;
            (hour["requests"].as_u64().unwrap() + hour["degraded"].as_u64().unwrap() >= sent)
                .then_some(hour)
        })
        .await
    };
    for server in &servers {
        let hour = told_all(server).await;
        let share = hour["share"].as_f64().unwrap();
        assert!((share - over as f64 / sent as f64).abs() < 0.01, "{hour} of {over} in {sent}");
        let top = hour["top"].as_array().unwrap();
        let keys: Vec<&str> = top.iter().map(|it| it["key"].as_str().unwrap()).collect();
        assert_eq!(keys, truth, "{hour}");
        for (told, (count, _)) in top.iter().zip(&heaviest) {
            assert!(told["would_refuse"].as_u64().unwrap() <= *count, "never more than the truth");
        }
        assert_eq!(of_users(server, "day").await["share"], hour["share"]);
    }
    let before = of_users(&servers[0], "day").await;
    drop(servers);
    let server = Server::start_with(&rules, &on(&redis)).await;
    assert_eq!(of_users(&server, "day").await, before);
}

#[tokio::test]
async fn who_leaves_tells_first_what_he_has_counted() {
    let (redis, files) = (Redis::start().await, TempDir::new());
    let rules = files.file("shop.yaml", RULES);
    let environment = [&on(&redis)[..], &[("TOLLGATE_DRAIN", "0s")]].concat();
    let leaving = Server::start_with(&rules, &environment).await;
    let staying = Server::start_with(&rules, &on(&redis)).await;
    let mut client = Client::connect(leaving.grpc).await;
    for _ in 0..5 {
        ask(&mut client, "user", "ada").await;
    }
    leaving.signal("TERM").await;
    leaving.last_log().await;
    let day = of_users(&staying, "day").await;
    assert_eq!((&day["requests"], &day["would_refuse"]), (&json!(5), &json!(3)));
}

#[tokio::test]
async fn without_redis_the_report_says_so_and_what_was_not_decided_is_told_later() {
    let (redis, files) = (Redis::start_on_port(&[]).await, TempDir::new());
    let rules = files.file("shop.yaml", RULES);
    let mut proxy = Proxy::to(redis.port()).await;
    let environment = [("TOLLGATE_STORE", &*proxy.url()), PATIENT];
    let server = Server::start_with(&rules, &environment).await;
    let mut client = Client::connect(server.grpc).await;
    for _ in 0..5 {
        ask(&mut client, "user", "ada").await;
    }
    assert_eq!(of_users(&server, "day").await["requests"], 5);
    proxy.refuse().await;
    proxy.reset();
    let body = until("the store cannot be asked", async || {
        let answer = support::get(server.admin, "/shadow-report", &[]).await.unwrap();
        (answer.status == 503).then_some(answer.body)
    })
    .await;
    assert!(body.starts_with("the store cannot be reached"), "{body}");
    let output = report(server.admin, &[]).await;
    assert_eq!(output.status.code(), Some(1));
    for _ in 0..3 {
        ask(&mut client, "user", "ada").await;
    }
    proxy.accept().await;
    let day = until("all is told", async || {
        let answer = support::get(server.admin, "/shadow-report", &[]).await.unwrap();
        if answer.status != 200 {
            return None;
        }
        let day = of_users(&server, "day").await;
        (day["degraded"] == 3).then_some(day)
    })
    .await;
    assert_eq!((&day["requests"], &day["share"]), (&json!(5), &json!(0.6)));
}

async fn a_limit_is_launched_by_three_commands(store: &Store) {
    let files = TempDir::new();
    let server = Server::start_on(store, &files.file("shop.yaml", RULES)).await;
    let admin = server.admin.to_string();
    let switch = async |position: &str| {
        let command = ["rule", position, "shop:enforced", "--admin", &admin];
        let output = support::run(&command, &[]).await;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    };
    let mut client = Client::connect(server.grpc).await;
    switch("shadow").await;
    for _ in 0..4 {
        ask(&mut client, "enforced", "ada").await;
    }
    let enforced = async || {
        let report = shown(server.admin, "?window=day").await;
        report["rules"].as_array().unwrap().iter().find(|it| it["rule"] == "shop:enforced").cloned()
    };
    let in_shadow = enforced().await.unwrap();
    assert_eq!(in_shadow["standing"], "in_shadow");
    assert_eq!(in_shadow["windows"][0]["share"], 0.5);

    switch("enforce").await;
    for _ in 0..4 {
        ask(&mut client, "enforced", "ada").await;
    }
    let left = enforced().await.unwrap();
    assert_eq!(left["standing"], "left_shadow");
    assert_eq!(left["windows"], in_shadow["windows"], "what it refuses is no part of it");
    // Another server has not met it in shadow, but finds what is told of it.
    if let Store::Redis(_) = store {
        let other = Server::start_on(store, &files.file("shop.yaml", RULES)).await;
        let report = shown(other.admin, "?window=day&rule=shop:enforced").await;
        assert_eq!(report["rules"][0], left);
    }
}
