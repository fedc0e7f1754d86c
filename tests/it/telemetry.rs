//! What the server says of itself: metrics, traces and logs.

mod otlp;

use crate::{
    grpc::Client,
    support::{
        self, Leases, Metrics, Redis, Reports, Server, Store, TempDir, acquire, on_every_store,
        report, until,
    },
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};
use tollgate::grpc::proto::tollgate::v1::{
    ReportUtilizationRequest, report_utilization_request::Load,
};

const RULES: &str = "
domain: shop
pools:
  api:
    capacity: 10
    reserved: 20%
    lease_ttl: 10m
    utilization: {report_ttl: 10m, shed: [test]}
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: plan
    value: free
    rate_limit: {unit: year, requests_per_unit: 1}
    descriptors:
      - key: user
        limits:
          - rate_limit: {unit: year, requests_per_unit: 3}
            name: yearly
          - rate_limit: {unit: year, requests_per_unit: 1}
            name: dark
            shadow_mode: true
  - key: job
    concurrency: {max: 1, lease_ttl: 10m}
  - key: request
    fleet: {pool: api}
  - key: class
    utilization: {pool: api}
";

on_every_store! {
    what_happened_is_counted_by_rule_and_outcome,
    leases_and_pools_are_told,
}

struct Shop {
    server: Server,
    client: Client,
    rules: PathBuf,
    _files: TempDir,
}

impl Shop {
    async fn open(environment: &[(&str, &str)]) -> Self {
        let files = TempDir::new();
        let rules = files.file("shop.yaml", RULES);
        let server = Server::start_with(&rules, environment).await;
        let client = Client::connect(server.grpc).await;
        Self { server, client, rules, _files: files }
    }

    async fn on(store: &Store) -> Self {
        Self::open(&store.environment()).await
    }

    async fn ask(&mut self, entries: &[[&str; 2]]) {
        self.client.ask(&request("shop", entries)).await.unwrap();
    }

    async fn metrics(&self) -> Metrics {
        Metrics::of(self.server.http).await
    }

    /// What a rule did: allowed, refused, would refuse, degraded.
    async fn effects(&self, rule: &str) -> [f64; 4] {
        let metrics = self.metrics().await;
        ["allowed", "refused", "would_refuse", "degraded"].map(|outcome| {
            let labels = [("domain", "shop"), ("rule", rule), ("outcome", outcome)];
            metrics.value("tollgate_decisions_total", &labels).unwrap()
        })
    }

    /// Waits until a metric has this value.
    async fn until(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        until(&format!("{name} is {value}"), async || {
            (self.metrics().await.value(name, labels) == Some(value)).then_some(())
        })
        .await;
    }
}

fn request(domain: &str, entries: &[[&str; 2]]) -> Value {
    json!({ "domain": domain, "descriptors": [{ "entries": entries }] })
}

async fn what_happened_is_counted_by_rule_and_outcome(store: &Store) {
    let mut shop = Shop::on(store).await;
    for _ in 0..3 {
        shop.ask(&[["user", "alice"]]).await;
    }
    for _ in 0..5 {
        shop.ask(&[["plan", "free"], ["user", "alice"]]).await;
    }
    shop.ask(&[["plan", "free"]]).await;
    shop.client.ask(&request("unheard-of", &[["user", "alice"]])).await.unwrap();
    let json = crate::http::to_json(&json!({
        "domain": "shop", "descriptors": [{ "entries": [["user", "bob"]] }],
    }));
    support::post(shop.server.http, "/json", &json.to_string()).await.unwrap();

    // All levels of a rule are told apart, and so are the limits on one descriptor.
    assert_eq!(shop.effects("shop:user").await, [3.0, 1.0, 0.0, 0.0]);
    assert_eq!(shop.effects("shop:plan=free").await, [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(shop.effects("shop:plan=free:user#yearly").await, [3.0, 2.0, 0.0, 0.0]);
    assert_eq!(shop.effects("shop:plan=free:user#dark").await, [1.0, 0.0, 4.0, 0.0]);
    let metrics = shop.metrics().await;
    let requests = |labels: &[_]| metrics.value("tollgate_requests_total", labels);
    assert_eq!(requests(&[("domain", "shop"), ("outcome", "allowed")]), Some(7.0));
    assert_eq!(requests(&[("domain", "shop"), ("outcome", "refused")]), Some(3.0));
    assert_eq!(requests(&[("domain", "(unknown)"), ("outcome", "allowed")]), Some(1.0));
    assert_eq!(requests(&[("degraded", "true")]), Some(0.0));
    let count = "tollgate_request_duration_seconds_count";
    assert_eq!(metrics.value(count, &[("method", "ShouldRateLimit")]), Some(10.0));
    assert_eq!(metrics.value(count, &[("method", "json")]), Some(1.0));
    let limits = [("limiter", "token_bucket"), ("rule", "shop:user"), ("outcome", "allowed")];
    assert_eq!(metrics.value("tollgate_decisions_total", &limits), Some(3.0));
    assert_eq!(metrics.value("tollgate_rules", &[("domain", "shop")]), Some(7.0));
    let (is_memory, calls) = match store {
        Store::Memory => (true, None),
        // With no limit there is nothing to ask, and what was just refused is known.
        Store::Redis(_) => (false, Some(10.0)),
    };
    let decide = [("operation", "decide")];
    let called = metrics.value("tollgate_store_call_duration_seconds_count", &decide);
    let known = metrics.value("tollgate_store_denials_total", &[]).unwrap();
    assert_eq!(called.map(|called| called + known), calls);
    let kind = if is_memory { "memory" } else { "redis" };
    assert_eq!(metrics.value("tollgate_store_up", &[("store", kind)]), Some(1.0));
    assert_eq!(metrics.value("tollgate_keys", &[]), is_memory.then_some(5.0));
    assert_eq!(metrics.value("tollgate_keys_limit", &[]).is_some(), is_memory);
    assert!(!metrics.text.contains("alice"), "{}", metrics.text);
}

async fn leases_and_pools_are_told(store: &Store) {
    let shop = Shop::on(store).await;
    let leases = Leases::connect(shop.server.grpc).await;
    let id = leases.acquired(acquire("shop", &[&[["job", "a"]]])).await;
    leases.renewed(&id).await;
    leases.released(&id).await;
    leases.released(&id).await;
    leases.acquired(acquire("shop", &[&[["request", "a"]]])).await;
    let events = [("taken", 2.0), ("renewed", 1.0), ("released", 1.0), ("already_gone", 1.0)];
    for (event, count) in events {
        shop.until("tollgate_leases_total", &[("event", event)], count).await;
    }
    let reports = Reports::connect(shop.server.grpc).await;
    let half = ReportUtilizationRequest {
        total_slots: 10,
        ..report("shop", "worker-1", Load::BusySlots(5))
    };
    reports.say(half).await.unwrap();
    let pool = [("domain", "shop"), ("pool", "api")];
    shop.until("tollgate_pool_workers", &pool, 1.0).await;
    shop.until("tollgate_pool_utilization_ratio", &pool, 0.5).await;
    let metrics = shop.metrics().await;
    assert_eq!(metrics.value("tollgate_pool_capacity_slots", &pool), Some(10.0));
    assert_eq!(metrics.value("tollgate_pool_reserved_slots", &pool), Some(2.0));
    let others = [("pool", "api"), ("priority", "others")];
    assert_eq!(metrics.value("tollgate_pool_in_flight_slots", &others), Some(1.0));
    assert!(metrics.value("tollgate_pool_shedding_ratio", &pool).unwrap() <= 0.0);
}

#[tokio::test]
async fn who_waits_for_slots_is_counted() {
    let shop = Shop::open(&[]).await;
    let leases = Leases::connect(shop.server.grpc).await;
    let id = leases.acquired(acquire("shop", &[&[["job", "a"]]])).await;
    let waits = leases.clone();
    let waiting = tokio::spawn(async move {
        let mut request = acquire("shop", &[&[["job", "a"]]]);
        request.wait = support::span(support::PATIENCE);
        waits.acquire(request).await.unwrap()
    });
    shop.until("tollgate_waiting", &[], 1.0).await;
    leases.released(&id).await;
    waiting.await.unwrap();
    shop.until("tollgate_waiting", &[], 0.0).await;
}

#[tokio::test]
async fn counts_outlive_a_reload_and_a_refused_one_is_told() {
    let mut shop = Shop::open(&[]).await;
    for _ in 0..3 {
        shop.ask(&[["user", "alice"]]).await;
    }
    let more =
        format!("{RULES}  - key: more\n    rate_limit: {{unit: day, requests_per_unit: 1}}\n");
    fs::write(&shop.rules, more).unwrap();
    shop.until("tollgate_reloads_total", &[("outcome", "loaded")], 1.0).await;
    assert_eq!(shop.effects("shop:user").await, [2.0, 1.0, 0.0, 0.0]);
    assert_eq!(shop.effects("shop:more").await, [0.0; 4]);
    shop.ask(&[["user", "alice"]]).await;
    assert_eq!(shop.effects("shop:user").await, [2.0, 2.0, 0.0, 0.0]);

    assert_eq!(shop.metrics().await.value("tollgate_rules_valid", &[]), Some(1.0));
    fs::write(&shop.rules, "domain: [").unwrap();
    shop.until("tollgate_rules_valid", &[], 0.0).await;
    // What is gone from the rules is gone from the metrics.
    fs::write(&shop.rules, RULES).unwrap();
    shop.until("tollgate_rules_valid", &[], 1.0).await;
    let metrics = shop.metrics().await;
    assert_eq!(metrics.value("tollgate_decisions_total", &[("rule", "shop:more")]), None);
    assert_eq!(metrics.value("tollgate_reloads_total", &[("outcome", "refused")]), Some(1.0));
}

#[tokio::test]
async fn a_lost_store_is_told_and_so_is_what_was_decided_without_it() {
    let mut redis = Redis::start().await;
    let mut shop =
        Shop::open(&[("TOLLGATE_STORE", redis.url()), ("TOLLGATE_STORE_TIMEOUT", "1s")]).await;
    shop.ask(&[["user", "alice"]]).await;
    assert_eq!(shop.effects("shop:user").await, [1.0, 0.0, 0.0, 0.0]);
    redis.kill().await;
    shop.until("tollgate_store_up", &[("store", "redis")], 0.0).await;
    shop.ask(&[["user", "alice"]]).await;
    assert_eq!(shop.effects("shop:user").await, [1.0, 0.0, 0.0, 1.0]);
    let metrics = shop.metrics().await;
    let degraded = [("domain", "shop"), ("degraded", "true"), ("outcome", "allowed")];
    assert_eq!(metrics.value("tollgate_requests_total", &degraded), Some(1.0));
    let unreachable = [("class", "unreachable")];
    assert_eq!(metrics.value("tollgate_store_errors_total", &unreachable), Some(1.0));
    let leases = Leases::connect(shop.server.grpc).await;
    leases.released("lease-00000000000000000000000000000000").await;
    shop.until("tollgate_releases_pending", &[], 1.0).await;
    // Nobody knows how it stands with the pools.
    let capacity = "tollgate_pool_capacity_slots";
    until("no pool is told of", async || {
        shop.metrics().await.value(capacity, &[]).is_none().then_some(())
    })
    .await;
    redis.restart().await;
    shop.until("tollgate_store_up", &[("store", "redis")], 1.0).await;
    shop.until("tollgate_releases_pending", &[], 0.0).await;
    shop.until(capacity, &[], 10.0).await;
}

#[tokio::test]
async fn a_store_that_hangs_opens_the_breaker() {
    let redis = Redis::start().await;
    let shop =
        Shop::open(&[("TOLLGATE_STORE", redis.url()), ("TOLLGATE_STORE_TIMEOUT", "10ms")]).await;
    let mut clients = Vec::new();
    for _ in 0..60 {
        clients.push(Client::connect(shop.server.grpc).await);
    }
    until("the breaker is open", async || {
        redis.signal("STOP").await;
        // At once: soon its connections are found dead, and then there is nobody to ask.
        let request = request("shop", &[["user", "alice"]]);
        let asked = clients.iter_mut().map(|client| client.ask(&request));
        futures_util::future::join_all(asked).await;
        let metrics = shop.metrics().await;
        if metrics.value("tollgate_store_breaker_open", &[]) == Some(1.0) {
            return Some(());
        }
        redis.signal("CONT").await;
        shop.until("tollgate_store_up", &[("store", "redis")], 1.0).await;
        None
    })
    .await;
    let metrics = shop.metrics().await;
    assert!(metrics.value("tollgate_store_breaker_openings_total", &[]) >= Some(1.0));
    assert!(metrics.value("tollgate_store_errors_total", &[]) >= Some(20.0));
    redis.signal("CONT").await;
    shop.until("tollgate_store_breaker_open", &[], 0.0).await;
}

#[tokio::test]
async fn the_operators_port_tells_the_same_with_its_protection() {
    let token = ("TOLLGATE_ADMIN_TOKEN", "correct-horse-battery-staple");
    let mut shop = Shop::open(&[token]).await;
    shop.ask(&[["user", "alice"]]).await;
    let bare = support::get(shop.server.admin, "/metrics", &[]).await.unwrap();
    assert_eq!(bare.status, 401);
    let bearer: &[(&str, &[u8])] = &[("authorization", b"Bearer correct-horse-battery-staple")];
    let shown = support::get(shop.server.admin, "/metrics", bearer).await.unwrap();
    assert_eq!(shown.status, 200);
    assert_eq!(shown.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(shown.body.contains("tollgate_decisions_total{"), "{}", shown.body);
}

#[tokio::test]
async fn the_process_its_doors_and_its_version_are_told() {
    let shop = Shop::open(&[]).await;
    let metrics = shop.metrics().await;
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(metrics.value("tollgate_build_info", &version), Some(1.0));
    assert_eq!(metrics.value("tollgate_connections", &[("door", "grpc")]), Some(1.0));
    assert_eq!(metrics.value("tollgate_connections", &[("door", "admin")]), Some(0.0));
    assert_eq!(metrics.value("tollgate_connections_refused_total", &[]), Some(0.0));
    for task in tollgate::task::Task::ALL {
        let task = [("task", task.name())];
        assert_eq!(metrics.value("tollgate_task_restarts_total", &task), Some(0.0), "{task:?}");
    }
    assert!(metrics.value("process_resident_memory_bytes", &[]) > Some(1e6));
    assert!(metrics.value("process_cpu_seconds_total", &[]) >= Some(0.0));
    let (open, most) =
        (metrics.value("process_open_fds", &[]), metrics.value("process_max_fds", &[]));
    assert!(open > Some(3.0) && open < most, "{open:?} of {most:?}");
    let began = metrics.value("process_start_time_seconds", &[]).unwrap();
    let now = tollgate::clock::since_1970().as_secs_f64();
    assert!(began <= now + 2.0 && began > now - 3600.0, "{began} of {now}");
}

#[tokio::test]
async fn the_log_tells_of_refusals_by_rule_in_json_and_never_whom() {
    let mut shop = Shop::open(&[("TOLLGATE_LOG_FORMAT", "json")]).await;
    for _ in 0..5 {
        shop.ask(&[["user", "secretive"]]).await;
        shop.ask(&[["plan", "free"], ["user", "secretive"]]).await;
    }
    shop.client.ask(&request("unheard-of", &[["user", "secretive"]])).await.unwrap();
    let wanted = ["requests refused: ", "requests would have been refused: ", "named a domain"];
    until("all is told", async || {
        wanted.iter().all(|words| shop.server.log().contains(words)).then_some(())
    })
    .await;
    let log = shop.server.log();
    assert!(!log.contains("secretive"), "{log}");
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(event["level"].is_string() && event["message"].is_string(), "{line}");
    }
    assert!(log.contains("by shop:user"), "{log}");
}

#[tokio::test]
async fn at_debug_each_refusal_is_told_by_its_rule() {
    let mut shop = Shop::open(&[("TOLLGATE_LOG", "debug")]).await;
    for _ in 0..3 {
        shop.ask(&[["user", "alice"]]).await;
    }
    until("it is told", async || shop.server.log().contains("refused by shop:user").then_some(()))
        .await;
}

/// With limits that are told by value.
const VALUED: &str = r#"
domain: valued
descriptors:
  - key: plan
    value_to_metric: true
    descriptors:
      - key: user
        rate_limit: {unit: day, requests_per_unit: 1}
      - key: path
        value: "/api/*"
        share_threshold: true
        detailed_metric: true
        rate_limit: {unit: day, requests_per_unit: 1}
  - key: user
    detailed_metric: true
    rate_limit: {unit: day, requests_per_unit: 1}
"#;

const BY_VALUE: &str = "tollgate_decisions_by_value_total";

async fn open_valued(environment: &[(&str, &str)]) -> (Server, Client, TempDir) {
    let files = TempDir::new();
    let server = Server::start_with(&files.file("valued.yaml", VALUED), environment).await;
    let client = Client::connect(server.grpc).await;
    (server, client, files)
}

#[tokio::test]
async fn values_are_told_where_a_rule_asks_for_it() {
    let (server, mut client, _files) = open_valued(&[]).await;
    for entries in [
        [["plan", "free"], ["user", "alice"]],
        [["plan", "free"], ["user", "bob"]],
        [["plan", "free"], ["path", "/api/one"]],
        [["plan", "free"], ["path", "/api/two"]],
    ] {
        client.ask(&request("valued", &entries)).await.unwrap();
    }
    for user in ["alice", "alice", "a,b\u{1}"] {
        client.ask(&request("valued", &[["user", user]])).await.unwrap();
    }
    let metrics = Metrics::of(server.http).await;
    let told = metrics.series(BY_VALUE).into_iter().map(|(labels, value)| {
        let [rule, values, outcome] = ["rule", "values", "outcome"].map(|label| labels[label]);
        (format!("{rule} {values} {outcome}"), value)
    });
    let mut told: Vec<_> = told.collect();
    told.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        ("valued:plan:path=/api/* plan=free,path=/api/* allowed", 1.0),
        ("valued:plan:path=/api/* plan=free,path=/api/* refused", 1.0),
        ("valued:plan:user plan=free allowed", 2.0),
        ("valued:user user=a%2Cb%01 allowed", 1.0),
        ("valued:user user=alice allowed", 1.0),
        ("valued:user user=alice refused", 1.0),
    ];
    assert_eq!(told, expected.map(|(series, value)| (series.to_owned(), value)));
}

#[tokio::test]
async fn however_many_values_come_memory_and_series_are_bounded() {
    const AT_A_TIME: usize = 100;
    let (server, mut client, _files) = open_valued(&[("TOLLGATE_MAX_KEYS", "1000")]).await;
    let mut ask = async |from: usize| {
        let descriptors = (from..from + AT_A_TIME)
            .map(|user| json!({ "entries": [["user", format!("{user:0>200}")]] }))
            .collect::<Vec<_>>();
        let request = json!({ "domain": "valued", "descriptors": descriptors });
        client.ask_within(&request, support::PATIENCE).await.unwrap();
    };
    // All that is ever kept, and what it takes to answer.
    for times in 0..100 {
        ask(times * AT_A_TIME).await;
    }
    Metrics::of(server.http).await;
    let before = server.memory_kib("VmRSS");
    for times in 100..1_500 {
        ask(times * AT_A_TIME).await;
    }
    let metrics = Metrics::of(server.http).await;
    let grown = server.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB");
    let series = metrics.series(BY_VALUE);
    assert!((1_000..=2_000 + 2).contains(&series.len()), "{}", series.len());
    let allowed = metrics.value("tollgate_decisions_total", &[("rule", "valued:user")]).unwrap();
    assert_eq!(metrics.value(BY_VALUE, &[("rule", "valued:user")]), Some(allowed));
    let others = metrics.value(BY_VALUE, &[("values", "(other)")]).unwrap();
    assert!(others >= 149_000.0, "{others}");
}

/// How many rules there are where there are many.
const MANY: usize = 10_000;

#[tokio::test]
async fn ten_thousand_rules_are_told_apart_and_scrapes_at_a_time_are_bounded() {
    let files = TempDir::new();
    let mut rules = "domain: many\ndescriptors:\n".to_owned();
    for rule in 0..MANY {
        let limit = "rate_limit: {unit: day, requests_per_unit: 1}";
        writeln!(rules, "  - {{key: user, value: user-{rule}, {limit}}}").unwrap();
    }
    let server = Server::start(&files.file("many.yaml", &rules)).await;
    let mut client = Client::connect(server.grpc).await;
    let last = format!("user-{}", MANY - 1);
    client.ask(&request("many", &[["user", &last]])).await.unwrap();
    let metrics = Metrics::of(server.http).await;
    let series = metrics.series("tollgate_decisions_total");
    assert_eq!(series.len(), 4 * MANY);
    let rules: BTreeSet<_> = series.iter().map(|(labels, _)| labels["rule"]).collect();
    assert_eq!(rules.len(), MANY);
    let last = format!("many:user={last}");
    let labels = [("rule", last.as_str()), ("outcome", "allowed")];
    assert_eq!(metrics.value("tollgate_decisions_total", &labels), Some(1.0));

    let scrapes = (0..30).map(|_| support::get(server.http, "/metrics", &[]));
    let scrapes = futures_util::future::join_all(scrapes).await;
    let statuses: Vec<u16> = scrapes.into_iter().map(|scrape| scrape.unwrap().status).collect();
    assert!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
}

#[tokio::test]
async fn many_domains_are_told_apart() {
    let files = TempDir::new();
    for domain in 0..600 {
        let rules = "descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 5}}]";
        files.file(&format!("{domain}.yaml"), &format!("domain: d{domain}\n{rules}\n"));
    }
    let server = Server::start(files.path()).await;
    let mut client = Client::connect(server.grpc).await;
    for domain in 0..600 {
        client.ask(&request(&format!("d{domain}"), &[["user", "ada"]])).await.unwrap();
    }
    let metrics = Metrics::of(server.http).await;
    let sum: f64 = metrics.series("tollgate_requests_total").iter().map(|(_, value)| value).sum();
    assert_eq!(sum, 600.0);
}
