//! The ways to a Redis: addresses, passwords, permissions, certificates. And what is told where there is
//! no way, or where a Redis cannot serve.

use crate::support::{self, Authority, PATIENT, Redis, Server, TempDir, free_port, until};
use std::{fs, path::Path};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1000}
";

const REQUEST: &str =
    r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ada"}]}]}"#;

/// Where the state of that request is.
const KEY: &str = "tg1:token_bucket:shop:user=ada";

/// Begins what is told, in the log and by `/ready`, of a store that cannot be used.
const DOWN: &str = "the store cannot be used: ";

/// What must be escaped in a URL, and not in the environment.
const PASSWORD: &str = "p@ss/w:rd %41#?&=+é";
const ESCAPED: &str = "p%40ss%2Fw%3Ard%20%2541%23%3F%26%3D%2B%C3%A9";

/// A server, and its rules.
struct Opened {
    server: Server,
    _files: TempDir,
}

/// A server with this store, and with these variables in its environment.
async fn open_with(store: &str, environment: &[(&str, &str)]) -> Opened {
    let files = TempDir::new();
    let rules = files.file("shop.yaml", RULES);
    let all = [&[("TOLLGATE_STORE", store), PATIENT], environment].concat();
    Opened { server: Server::start_with(&rules, &all).await, _files: files }
}

async fn open(store: &str) -> Opened {
    open_with(store, &[]).await
}

impl Opened {
    async fn ready(&self) -> String {
        let ready = support::get(self.server.http, "/ready", &[]).await.unwrap();
        assert_eq!(ready.status, 200, "a store is no reason to be sent no requests");
        ready.body
    }

    /// Whether a request is decided by the store.
    async fn asks_the_store(&self) -> bool {
        let answer = support::post(self.server.http, "/json", REQUEST).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        !answer.body.contains("degraded")
    }

    /// It decides, as soon as it is connected.
    async fn decides(&self) {
        until("it decides", async || self.asks_the_store().await.then_some(())).await;
        assert_eq!(self.ready().await, "ready\n");
    }

    /// It lives, but does not decide, and says why in these words, once.
    async fn tells(&self, words: &[&str]) {
        // A busy machine may be too slow at first.
        let told = until(&format!("it tells {words:?}"), async || {
            let ready = self.ready().await;
            words.iter().all(|word| ready.contains(word)).then_some(ready)
        })
        .await;
        assert!(!self.asks_the_store().await);
        let reason = told.strip_prefix("ready\n").unwrap().trim_end();
        assert!(reason.starts_with(DOWN) && !reason.contains('\n'), "{told}");
        until("it is logged", async || self.server.log().contains(reason).then_some(())).await;
        assert_eq!(self.server.log().matches(reason).count(), 1, "{}", self.server.log());
        let alive = support::get(self.server.http, "/healthcheck", &[]).await.unwrap();
        assert_eq!(alive.status, 200);
    }
}

/// Adds a user who may do everything, with [`PASSWORD`].
async fn add_user(redis: &Redis, name: &str) {
    let password = format!(">{PASSWORD}");
    redis.ask::<()>(&["ACL", "SETUSER", name, "on", &password, "~*", "+@all"]).await;
}

#[tokio::test]
async fn states_land_in_the_redis_and_the_database_of_the_address() {
    let socket = Redis::start().await;
    let port = Redis::start_on_port(&[]).await;
    let cases = [
        (&socket, String::new(), "db0:keys="),
        (&socket, "?db=3".to_owned(), "db3:keys="),
        (&port, String::new(), "db0:keys="),
        (&port, "/5".to_owned(), "db5:keys="),
    ];
    for (redis, suffix, database) in cases {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let opened = open(&format!("{}{suffix}", redis.url())).await;
        opened.decides().await;
        let keyspace: String = redis.ask(&["INFO", "keyspace"]).await;
        assert!(keyspace.contains(database), "{suffix}: {keyspace}");
        assert!(opened.server.screen.contains(redis.url()), "{}", opened.server.screen);
    }
}

#[tokio::test]
async fn a_user_gets_in_with_a_password_of_any_characters() {
    let port = Redis::start_on_port(&[]).await;
    let socket = Redis::start().await;
    add_user(&port, "ada").await;
    add_user(&socket, "ada").await;
    // An empty variable counts as none.
    let cases = [
        (&port, format!("redis://ada:{ESCAPED}@127.0.0.1:{}", port.port()), ""),
        (&port, format!("redis://ada@127.0.0.1:{}", port.port()), PASSWORD),
        (&port, format!("redis://ada:other@127.0.0.1:{}", port.port()), PASSWORD),
        (&socket, format!("{}?user=ada&pass={ESCAPED}", socket.url()), ""),
        (&socket, format!("{}?user=ada", socket.url()), PASSWORD),
    ];
    for (redis, store, password) in cases {
        let opened = open_with(&store, &[("TOLLGATE_STORE_PASSWORD", password)]).await;
        opened.decides().await;
        let clients: String = redis.ask(&["CLIENT", "LIST"]).await;
        assert!(clients.contains("user=ada"), "{store}: {clients}");
    }
}

#[tokio::test]
async fn a_user_without_a_password_is_not_taken_for_another() {
    let redis = Redis::start().await;
    redis.ask::<()>(&["ACL", "SETUSER", "ada", "on", "nopass", "~*", "+@all"]).await;
    let opened = open(&format!("{}?user=ada", redis.url())).await;
    opened.decides().await;
    let clients: String = redis.ask(&["CLIENT", "LIST"]).await;
    assert!(clients.contains("user=ada"), "{clients}");
    let opened = open(&format!("{}?user=bob", redis.url())).await;
    opened.tells(&["does not accept the user and the password"]).await;
}

#[tokio::test]
async fn everybody_s_password_is_given_without_a_user() {
    let redis = Redis::start_on_port(&["--requirepass", PASSWORD]).await;
    let port = redis.port();
    open(&format!("redis://:{ESCAPED}@127.0.0.1:{port}")).await.decides().await;
    let password = [("TOLLGATE_STORE_PASSWORD", PASSWORD)];
    open_with(redis.url(), &password).await.decides().await;
    open_with(redis.url(), &[]).await.tells(&["password", "TOLLGATE_STORE_PASSWORD"]).await;
}

#[tokio::test]
async fn a_wrong_password_is_told_and_a_corrected_one_serves() {
    let redis = Redis::start().await;
    add_user(&redis, "ada").await;
    let store = format!("{}?user=ada", redis.url());
    let opened = open_with(&store, &[("TOLLGATE_STORE_PASSWORD", "wrong")]).await;
    opened.tells(&["the user and the password", "--store", "TOLLGATE_STORE_PASSWORD"]).await;
    redis.ask::<()>(&["ACL", "SETUSER", "ada", ">wrong"]).await;
    opened.decides().await;
}

#[tokio::test]
async fn a_replica_is_told_with_its_primary_and_serves_when_it_is_one() {
    let primary = Redis::start_on_port(&[]).await;
    let port = primary.port().to_string();
    let redis = Redis::start().await;
    redis.ask::<()>(&["REPLICAOF", "127.0.0.1", &port]).await;
    let opened = open(redis.url()).await;
    opened.tells(&["replica", "address of its primary", &format!("127.0.0.1:{port}")]).await;
    redis.ask::<()>(&["REPLICAOF", "NO", "ONE"]).await;
    opened.decides().await;
}

#[tokio::test]
async fn a_node_of_a_cluster_is_told() {
    let redis = Redis::start_on_port(&["--cluster-enabled", "yes"]).await;
    open(redis.url()).await.tells(&["Redis Cluster", "without cluster mode"]).await;
}

#[tokio::test]
async fn a_sentinel_is_told() {
    let redis = Redis::start_sentinel().await;
    open(redis.url()).await.tells(&["Sentinel", "address of the primary"]).await;
}

#[tokio::test]
async fn what_is_not_there_is_told() {
    let redis = Redis::start().await;
    let free = format!("redis://127.0.0.1:{}", free_port());
    open(&free).await.tells(&["refused"]).await;
    open(&format!("{}.not", redis.url())).await.tells(&["No such file"]).await;
    open(&format!("{}?db=99", redis.url())).await.tells(&["no database", "--store"]).await;
    // A server, but no Redis.
    let other = open("memory").await.server;
    open(&format!("redis://{}", other.http)).await.tells(&["no Redis"]).await;
}

#[tokio::test]
async fn a_fault_is_logged_once_however_often_it_is_met() {
    let redis = Redis::start().await;
    let opened = open(&format!("{}?user=nobody", redis.url())).await;
    let mut connection = redis.connect().await;
    let met = async || {
        opened.asks_the_store().await;
        let mut ask = redis::cmd("INFO");
        let stats: String = ask.arg("stats").query_async(&mut connection).await.unwrap();
        let count = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        (count.unwrap().parse::<u32>().unwrap() >= 12).then_some(())
    };
    until("it has been met often", met).await;
    opened.tells(&["the user and the password"]).await;
}

/// Permissions that `docs/redis.md` calls dispensable.
const DISPENSABLE: [&str; 15] = [
    "&tg1:*",
    "+type",
    "+hget",
    "+hset",
    "+hdel",
    "+hlen",
    "+hgetall",
    "+publish",
    "+subscribe",
    "+unsubscribe",
    "+mget",
    "+pttl",
    "+info",
    "+config|get",
    "+ping",
];

/// The permissions that `docs/redis.md` lists, as the words of an ACL rule.
fn documented() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/redis.md");
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("user tollgate on >"));
    let (_password, rules) = line.expect("the line of an ACL").split_once(' ').unwrap();
    rules.split(' ').map(str::to_owned).collect()
}

/// Those that it cannot do without.
fn needed() -> Vec<String> {
    let all = documented().into_iter();
    all.filter(|permission| !DISPENSABLE.contains(&permission.as_str())).collect()
}

/// A Redis with a user `tollgate` of these permissions, and its address.
async fn restricted(permissions: &[String]) -> (Redis, String) {
    let redis = Redis::start().await;
    let permissions: Vec<_> = permissions.iter().map(String::as_str).collect();
    let command = ["ACL", "SETUSER", "tollgate", "on", ">secret"];
    redis.ask::<()>(&[&command, &permissions[..]].concat()).await;
    let store = format!("{}?user=tollgate&pass=secret", redis.url());
    (redis, store)
}

/// Has a server do all that it ever does in a Redis. Whether it could.
async fn does_everything(redis: &Redis, opened: &Opened) -> bool {
    redis.ask::<()>(&["SET", KEY, "no state"]).await;
    redis.ask::<()>(&["SCRIPT", "FLUSH"]).await;
    // It meets what is no state, and deletes it.
    opened.asks_the_store().await;
    opened.asks_the_store().await && opened.asks_the_store().await
}

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    assert!(DISPENSABLE.iter().all(|some| documented().iter().any(|word| word == some)));
    for permissions in [documented(), needed()] {
        let (redis, store) = restricted(&permissions).await;
        let opened = open(&store).await;
        opened.decides().await;
        let works = async || does_everything(&redis, &opened).await.then_some(());
        until("it does everything", works).await;
        assert!(!opened.server.log().contains("ACL"), "{}", opened.server.log());
    }
}

#[tokio::test]
async fn another_database_takes_one_permission_more() {
    let (redis, store) = restricted(&[needed(), vec!["+select".to_owned()]].concat()).await;
    let opened = open(&format!("{store}&db=2")).await;
    opened.decides().await;
    let keyspace: String = redis.ask(&["INFO", "keyspace"]).await;
    assert!(keyspace.contains("db2:keys="), "{keyspace}");
    redis.ask::<()>(&["ACL", "SETUSER", "tollgate", "-select"]).await;
    open(&format!("{store}&db=2")).await.tells(&["ACL forbids", "select"]).await;
}

#[tokio::test]
async fn each_documented_permission_is_needed_and_told_where_it_lacks() {
    for lacks in needed() {
        let mut rest = needed();
        rest.retain(|permission| *permission != lacks);
        let (redis, store) = restricted(&rest).await;
        let opened = open(&store).await;
        // A new connection loads the script, so one that comes just now does without some.
        let fails = async || (!does_everything(&redis, &opened).await).then_some(());
        until(&format!("it cannot do without {lacks}"), fails).await;
        let told = async || {
            let log = opened.server.log();
            (log.contains("ACL forbids") && log.contains("docs/redis.md")).then_some(())
        };
        until(&format!("it is told that {lacks} lacks"), told).await;
    }
}

#[tokio::test]
async fn whoever_may_not_call_the_script_is_told_before_anybody_asks() {
    for (documented, other) in [("~tg1:*", "~tg2:*"), ("+evalsha", "+echo"), ("+time", "+echo")] {
        let needed = needed().join(" ").replace(documented, other);
        let permissions: Vec<_> = needed.split(' ').map(str::to_owned).collect();
        let (_redis, store) = restricted(&permissions).await;
        let opened = open(&store).await;
        let told = async || opened.ready().await.contains("ACL forbids").then_some(());
        until(&format!("it is told that {documented} lacks"), told).await;
        opened.tells(&["docs/redis.md"]).await;
    }
}

#[tokio::test]
async fn settings_that_do_harm_are_warned_of_once() {
    let settings = ["--lazyfree-lazy-expire", "no", "--maxmemory-policy", "allkeys-lru"];
    let mut redis = Redis::start_with(&settings).await;
    let opened = open(redis.url()).await;
    let warned = async || opened.server.log().contains("set it to yes").then_some(());
    until("it warns", warned).await;
    redis.kill().await;
    until("it is told", async || opened.server.log().contains(DOWN).then_some(())).await;
    redis.restart().await;
    let back = async || opened.server.log().contains("can be used again").then_some(());
    until("it is back", back).await;
    let log = opened.server.log();
    for warning in ["lazyfree-lazy-expire is off", "maxmemory-policy is allkeys-lru"] {
        assert_eq!(log.matches(warning).count(), 1, "{log}");
    }
    assert!(log.contains("set it to noeviction"), "{log}");
}

#[tokio::test]
async fn settings_that_suit_are_not_warned_of() {
    let settings = ["--lazyfree-lazy-expire", "yes", "--maxmemory-policy", "noeviction"];
    let mut redis = Redis::start_with(&settings).await;
    let opened = open(redis.url()).await;
    opened.decides().await;
    // What would be warned of is, by when something else is logged.
    redis.kill().await;
    until("it is told", async || opened.server.log().contains(DOWN).then_some(())).await;
    assert!(!opened.server.log().contains("set up better"), "{}", opened.server.log());
}

/// A Redis that speaks TLS on one port and nothing else on another; and what belongs to it.
struct Tls {
    tls_port: u16,
    plain_port: u16,
    files: TempDir,
    authority: Authority,
    ca: String,
    _redis: Redis,
}

impl Tls {
    /// `clients` is `yes` where they must show a certificate.
    async fn start(clients: &str) -> Self {
        let files = TempDir::new();
        let authority = Authority::new("authority");
        let ca = authority.written(&files, "ca.pem");
        let (certificate, key) = authority.issue("redis").written(&files, "redis");
        let (tls_port, plain_port) = (free_port(), free_port());
        let settings = [
            ["--tls-port", &tls_port.to_string()],
            ["--port", &plain_port.to_string()],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &ca],
            ["--tls-auth-clients", clients],
        ];
        let redis = Redis::start_with(&settings.concat()).await;
        Self { tls_port, plain_port, files, authority, ca, _redis: redis }
    }

    async fn open(&self, environment: &[(&str, &str)]) -> Opened {
        open_with(&format!("rediss://localhost:{}", self.tls_port), environment).await
    }
}

#[tokio::test]
async fn it_speaks_tls_to_a_redis_that_is_trusted() {
    let tls = Tls::start("no").await;
    tls.open(&[("TOLLGATE_STORE_CA", &tls.ca)]).await.decides().await;
}

#[tokio::test]
async fn it_shows_its_certificate_to_a_redis_that_asks_for_one() {
    let tls = Tls::start("yes").await;
    let (certificate, key) = tls.authority.issue("tollgate").written(&tls.files, "tollgate");
    let ca = ("TOLLGATE_STORE_CA", tls.ca.as_str());
    let shown = [ca, ("TOLLGATE_STORE_CERT", &certificate), ("TOLLGATE_STORE_KEY", &key)];
    tls.open(&shown).await.decides().await;

    tls.open(&[ca]).await.tells(&["certificate", "--store-cert", "--store-key"]).await;
    let (certificate, key) = Authority::new("other").issue("other").written(&tls.files, "other");
    let shown = [ca, ("TOLLGATE_STORE_CERT", &certificate), ("TOLLGATE_STORE_KEY", &key)];
    tls.open(&shown).await.tells(&["--store-cert"]).await;
}

#[tokio::test]
async fn a_redis_that_is_not_trusted_is_told() {
    let tls = Tls::start("no").await;
    let other = Authority::new("other").written(&tls.files, "other.pem");
    tls.open(&[("TOLLGATE_STORE_CA", &other)]).await.tells(&["signed", "--store-ca"]).await;
    tls.open(&[]).await.tells(&["signed", "--store-ca"]).await;
    let ca = [("TOLLGATE_STORE_CA", tls.ca.as_str())];
    let opened = open_with(&format!("rediss://127.0.0.2:{}", tls.tls_port), &ca).await;
    opened.tells(&["not valid for name", "127.0.0.2", "localhost"]).await;
}

#[tokio::test]
async fn tls_on_one_side_only_is_told() {
    let tls = Tls::start("no").await;
    let plain = format!("redis://localhost:{}", tls.tls_port);
    open(&plain).await.tells(&["hangs up", "rediss://"]).await;
    let ca = [("TOLLGATE_STORE_CA", tls.ca.as_str())];
    let encrypted = format!("rediss://localhost:{}", tls.plain_port);
    open_with(&encrypted, &ca).await.tells(&["TLS", "write redis://"]).await;
}

#[tokio::test]
async fn a_certificate_and_the_key_of_another_are_an_error_at_once() {
    let (files, authority) = (TempDir::new(), Authority::new("authority"));
    let (certificate, _key) = authority.issue("one").written(&files, "one");
    let (_certificate, other) = authority.issue("two").written(&files, "two");
    for (key, fault) in [(&other, "not its certificate's"), (&certificate, "no key in PEM")] {
        let environment = [
            ("TOLLGATE_STORE", "rediss://localhost"),
            ("TOLLGATE_STORE_CERT", &certificate),
            ("TOLLGATE_STORE_KEY", key),
            ("TOLLGATE_GRPC_ADDR", "127.0.0.1:0"),
            ("TOLLGATE_HTTP_ADDR", "127.0.0.1:0"),
            ("TOLLGATE_ADMIN_ADDR", "127.0.0.1:0"),
        ];
        let rules = files.file("shop.yaml", RULES).display().to_string();
        let output = support::run(&["--config", &rules], &environment).await;
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(fault), "{told}");
    }
}

#[tokio::test]
async fn no_password_is_ever_shown() {
    const SECRET: &str = "hunter2";
    let redis = Redis::start_on_port(&["--requirepass", SECRET]).await;
    let (files, port) = (TempDir::new(), redis.port());
    let rules = files.file("shop.yaml", RULES).display().to_string();
    let right = format!("redis://:{SECRET}@127.0.0.1:{port}");
    let wrong = format!("redis://ada:{SECRET}x@127.0.0.1:{port}/2");

    // Whoever serves, at the most talkative.
    let verbose = ("TOLLGATE_LOG", "trace");
    let given = ("TOLLGATE_STORE_PASSWORD", SECRET);
    let cases = [
        (right.as_str(), vec![verbose]),
        (redis.url(), vec![verbose, given]),
        (&wrong, vec![verbose]),
    ];
    for (store, environment) in cases {
        let opened = open_with(store, &environment).await;
        let answer = support::post(opened.server.http, "/json", REQUEST).await.unwrap().body;
        let ready = opened.ready().await;
        let shown = [&opened.server.screen[..], &ready, &answer, &opened.server.log()].concat();
        assert!(!shown.contains(SECRET), "{shown}");
    }

    // Whoever asks for help, or made a mistake.
    let unreadable = [
        format!("redis://:{SECRET}@"),
        format!("redis://:{SECRET}@h:port"),
        format!("redis://:{SECRET}@h/database"),
        format!("redis://:{SECRET}@0.0.0.0"),
        format!("redis://:{SECRET}@h?protocol={SECRET}"),
        format!("redis://:{SECRET}#@h"),
        format!("redis:/{SECRET}@h"),
        format!("rediss://:{SECRET}@h#insecure"),
        format!("http://:{SECRET}@h"),
        format!("unix://:{SECRET}@h"),
        format!("unix:///h?db={SECRET}"),
        format!("memory://:{SECRET}@h"),
        SECRET.to_owned(),
    ];
    let fails: Vec<Vec<&str>> =
        unreadable.iter().map(|store| vec!["--config", &rules, "--store", store]).collect();
    let others = [
        vec!["--help"],
        vec!["serve", "--help"],
        vec!["--store-password", SECRET, "--store-timeout", "0"],
        vec!["--store-password", SECRET, "--store-password", SECRET],
        vec!["--store", &right, "serve"],
        vec!["--store", &right, "--store-cert", &rules],
    ];
    let settings = [("TOLLGATE_STORE", right.as_str()), given];
    for arguments in fails.iter().chain(&others) {
        let output = support::run(arguments, &settings).await;
        let shown = [output.stdout, output.stderr].concat();
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.len() > 20, "{arguments:?} shows nothing");
        assert!(!shown.contains(SECRET), "{arguments:?}: {shown}");
    }
    for store in &unreadable {
        let environment = [("TOLLGATE_STORE", store.as_str()), ("TOLLGATE_CONFIG", &rules)];
        let output = support::run(&[], &environment).await;
        let shown = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(shown.contains("--store"), "{store}: {shown}");
        assert!(!shown.contains(SECRET), "{store}: {shown}");
    }
}
