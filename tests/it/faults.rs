//! Every fault of a store that we know how to make, on a real Redis behind a way that can be disturbed: what
//! becomes of requests that come 500 times a second under each policy, with Envoy's deadline of 20 ms.
//!
//! Nothing here waits for a clock's opinion: that answers are right, and that service goes on by itself, is
//! asserted; how fast is measured. `make faults` has longer faults, and writes what it measured to
//! `docs/faults.md`.

#![expect(clippy::disallowed_methods, reason = "how long it took is what is measured")]

use crate::{
    grpc::{Client, is_degraded},
    support::{PATIENCE, Proxy, Redis, Server, TempDir, until},
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use serde_json::json;
use std::{env, fmt::Write as _, fs, time::Duration};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{self, Instant},
};

/// A limit for each policy: so many requests a second, and as many at once.
fn rules(rate: u32) -> String {
    let limits = POLICIES.map(|policy| {
        format!(
            "  - key: {policy}\n    token_bucket: {{rate: {rate}/s, burst: {rate}}}\n    \
             on_store_failure: {policy}\n"
        )
    });
    format!("domain: shop\ndescriptors:\n{}", limits.concat())
}

const POLICIES: [&str; 3] = ["allow", "deny", "local"];

/// How fast all goes. The tests share two cores with all others, and must be right however slow those make them;
/// what is measured is what users have.
#[derive(Clone, Copy)]
struct Pace {
    /// How long a fault lasts.
    lasting: Duration,
    /// How many requests a second the limits let pass, and how many at once.
    rate: u32,
    /// Between two requests under one policy. They are five times as many.
    every: Duration,
    /// The callers'.
    deadline: Duration,
    /// As `--store-timeout`.
    timeout: Duration,
    /// What is too slow for that.
    slow: Duration,
}

impl Pace {
    /// What Envoy gives, and our own defaults.
    const MEASURED: Self = Self {
        lasting: Duration::from_secs(4),
        rate: 100,
        every: Duration::from_millis(2),
        deadline: Duration::from_millis(20),
        timeout: Duration::from_millis(10),
        slow: Duration::from_millis(50),
    };

    const PATIENT: Self = Self {
        lasting: Duration::from_secs(2),
        rate: 20,
        every: Duration::from_millis(10),
        deadline: Duration::from_secs(2),
        timeout: Duration::from_millis(250),
        slow: Duration::from_millis(1000),
    };
}

/// How long all must be decided by the store again before the fault counts as over.
const QUIET: Duration = Duration::from_millis(500);

/// What writes the table, if it is set: where to.
const TABLE: &str = "TOLLGATE_FAULTS_TABLE";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    SmallLatency,
    GreatLatency,
    Hang,
    Silence,
    Reset,
    Refuse,
    HalfOpen,
    Drip,
    ReadOnly,
    OutOfMemory,
    WrongTypes,
    ScriptFlush,
    KillAndRestart,
}

impl Fault {
    const ALL: [Self; 13] = [
        Self::SmallLatency,
        Self::GreatLatency,
        Self::Hang,
        Self::Silence,
        Self::Reset,
        Self::Refuse,
        Self::HalfOpen,
        Self::Drip,
        Self::ReadOnly,
        Self::OutOfMemory,
        Self::WrongTypes,
        Self::ScriptFlush,
        Self::KillAndRestart,
    ];

    const fn in_words(self) -> &'static str {
        match self {
            Self::SmallLatency => "answers come 3 ms later",
            Self::GreatLatency => "answers come 50 ms later",
            Self::Hang => "Redis is stopped (SIGSTOP)",
            Self::Silence => "questions arrive, answers are kept back",
            Self::Reset => "all connections are reset, every 50 ms",
            Self::Refuse => "connections are refused",
            Self::HalfOpen => "connections stay up and nothing passes",
            Self::Drip => "answers come byte by byte, 5 ms each",
            Self::ReadOnly => "Redis becomes a replica (READONLY)",
            Self::OutOfMemory => "Redis is out of memory (OOM)",
            Self::WrongTypes => "lists stand under our keys, every 100 ms",
            Self::ScriptFlush => "SCRIPT FLUSH without pause",
            Self::KillAndRestart => "Redis is killed, and comes back empty",
        }
    }

    /// Whether all requests are decided by the store all the same.
    const fn is_overcome(self) -> bool {
        matches!(self, Self::SmallLatency | Self::ScriptFlush)
    }
}

/// A store that can be disturbed.
struct Stage {
    pace: Pace,
    redis: Redis,
    proxy: Proxy,
    /// How often states were lost, for each policy at most.
    losses: usize,
}

impl Stage {
    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::SmallLatency => self.proxy.delay(Duration::from_millis(3)),
            Fault::GreatLatency => self.proxy.delay(self.pace.slow),
            Fault::Hang => self.redis.signal("STOP").await,
            Fault::Silence => self.proxy.hold(),
            Fault::Refuse => self.proxy.refuse().await,
            Fault::HalfOpen => self.proxy.freeze_all(),
            Fault::Drip => self.proxy.drip(self.pace.timeout / 2),
            Fault::ReadOnly => self.redis.ask(&["REPLICAOF", "127.0.0.1", "1"]).await,
            Fault::OutOfMemory => self.redis.ask(&["CONFIG", "SET", "maxmemory", "1"]).await,
            Fault::KillAndRestart => {
                self.redis.kill().await;
                self.losses += 1;
            }
            Fault::Reset | Fault::WrongTypes | Fault::ScriptFlush => {}
        }
    }

    /// What is done for as long as it lasts.
    async fn go_on(&mut self, fault: Fault) {
        loop {
            match fault {
                Fault::Reset => {
                    self.proxy.reset();
                    time::sleep(Duration::from_millis(50)).await;
                }
                Fault::WrongTypes => {
                    // On a busy machine all may have expired since Redis was last asked.
                    let keys = until("there are states", async || {
                        let keys: Vec<String> =
                            self.redis.ask(&["KEYS", "tg1:token_bucket:*"]).await;
                        (!keys.is_empty()).then_some(keys)
                    });
                    let keys = keys.await;
                    let mut planting = redis::pipe();
                    for key in keys {
                        planting.atomic().del(&key).rpush(&key, "planted");
                    }
                    let mut connection = self.redis.connect().await;
                    planting.exec_async(&mut connection).await.unwrap();
                    self.losses += 1;
                    time::sleep(Duration::from_millis(100)).await;
                }
                Fault::ScriptFlush => self.redis.ask::<()>(&["SCRIPT", "FLUSH"]).await,
                _ => std::future::pending().await,
            }
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::SmallLatency
            | Fault::GreatLatency
            | Fault::Silence
            | Fault::HalfOpen
            | Fault::Drip => self.proxy.release(),
            Fault::Hang => self.redis.signal("CONT").await,
            Fault::Refuse => self.proxy.accept().await,
            Fault::ReadOnly => self.redis.ask(&["REPLICAOF", "NO", "ONE"]).await,
            Fault::OutOfMemory => self.redis.ask(&["CONFIG", "SET", "maxmemory", "0"]).await,
            Fault::KillAndRestart => self.redis.restart().await,
            Fault::Reset | Fault::WrongTypes | Fault::ScriptFlush => {}
        }
    }
}

/// A request, and what became of it.
struct Asked {
    policy: usize,
    sent: Instant,
    took: Duration,
    /// Whether it passed, and whether without the store; an error is its text.
    answer: Result<(bool, bool), String>,
}

/// Asks for each policy, at its pace, whatever becomes of it.
async fn load(client: Client, pace: Pace, told: mpsc::UnboundedSender<Asked>) {
    let mut ticks = time::interval(pace.every);
    let mut asking = JoinSet::new();
    loop {
        ticks.tick().await;
        while asking.try_join_next().is_some() {}
        for (policy, name) in POLICIES.iter().enumerate() {
            let entries = json!({ "entries": [[name, "x"]] });
            let request = json!({ "domain": "shop", "descriptors": [entries] });
            let (mut client, told) = (client.clone(), told.clone());
            asking.spawn(async move {
                let sent = Instant::now();
                let answer = client.ask_within(&request, pace.deadline).await;
                let took = sent.elapsed();
                let answer = answer
                    .map(|answer| (answer.overall_code() == Code::Ok, is_degraded(&answer)))
                    .map_err(|status| status.to_string());
                drop(told.send(Asked { policy, sent, took, answer }));
            });
        }
    }
}

/// What became of the requests of one policy.
#[derive(Default)]
struct Figures {
    asked: usize,
    in_time: usize,
    by_store: usize,
    admitted: usize,
    refused: usize,
}

/// What became of one fault.
struct Outcome {
    fault: Fault,
    by_policy: [Figures; 3],
    recovery: Duration,
}

async fn suffer(fault: Fault, pace: Pace) -> Outcome {
    let redis = Redis::start_on_port(&[]).await;
    let proxy = Proxy::to(redis.port()).await;
    let mut stage = Stage { pace, redis, proxy, losses: 0 };
    let files = TempDir::new();
    let rules = files.file("shop.yaml", &rules(pace.rate));
    let url = stage.proxy.url();
    let timeout = format!("{}ms", pace.timeout.as_millis());
    let store = [("TOLLGATE_STORE", &url[..]), ("TOLLGATE_STORE_TIMEOUT", &timeout)];
    let server = Server::start_with(&rules, &store).await;
    let client = Client::connect(server.grpc).await;
    let (told, mut asked) = mpsc::unbounded_channel();
    let begun = Instant::now();
    let mut loading = JoinSet::new();
    loading.spawn(load(client, pace, told));
    time::sleep(QUIET).await;

    let began = Instant::now();
    stage.begin(fault).await;
    let _ = time::timeout(pace.lasting, stage.go_on(fault)).await;
    stage.end(fault).await;
    let ended = Instant::now();

    // Until all are decided by the store again, and have been for a while.
    let mut all = Vec::new();
    let mut last_without = ended;
    let recovered = async {
        while let Some(asked) = asked.recv().await {
            let is_decided = matches!(asked.answer, Ok((_, false)));
            let is_over = asked.sent > last_without + QUIET && asked.sent > ended + QUIET;
            if !is_decided && asked.sent > last_without {
                last_without = asked.sent;
            }
            all.push(asked);
            if is_decided && is_over {
                return;
            }
        }
    };
    let recovered = time::timeout(PATIENCE, recovered).await;
    assert!(recovered.is_ok(), "{fault:?}: it does not recover: {}", server.log());
    loading.shutdown().await;
    while let Ok(more) = asked.try_recv() {
        all.push(more);
    }
    let lasted = begun.elapsed().as_secs_f64();

    is_right(fault, &all);
    let rate = f64::from(pace.rate);
    let most = (stage.losses + 1) as f64 * rate + rate * lasted;
    for (policy, name) in POLICIES.iter().enumerate() {
        let admitted = |without: bool| {
            let passed = Ok((true, without));
            all.iter().filter(|it| it.policy == policy && it.answer == passed).count() as f64
        };
        let by_store = admitted(false);
        assert!(by_store <= most, "{fault:?}, {name}: {by_store} of {most}");
        if *name == "local" {
            let here = admitted(true);
            let most = rate + rate * lasted;
            assert!(here <= most, "{fault:?}: {here} of {most}");
        }
    }
    let mut by_policy: [Figures; 3] = Default::default();
    for Asked { policy, took, answer, .. } in
        all.iter().filter(|asked| (began..ended).contains(&asked.sent))
    {
        let figures = &mut by_policy[*policy];
        figures.asked += 1;
        figures.in_time += usize::from(answer.is_ok() && *took <= pace.deadline);
        figures.by_store += usize::from(matches!(answer, Ok((_, false))));
        figures.admitted += usize::from(matches!(answer, Ok((true, _))));
        figures.refused += usize::from(matches!(answer, Ok((false, _))));
    }
    assert!(by_policy.iter().all(|figures| figures.asked > 0), "{fault:?}: nothing was asked");
    Outcome { fault, by_policy, recovery: last_without - ended }
}

/// Each answer is by the store, or as the rule wants it without one; and where the store cannot answer, there
/// are some of those.
fn is_right(fault: Fault, all: &[Asked]) {
    let mut without = [0; 3];
    for Asked { policy, answer, .. } in all {
        let Ok((passed, is_degraded)) = *answer else {
            // The caller's own deadline, on a machine that stood still.
            continue;
        };
        if is_degraded {
            without[*policy] += 1;
            match POLICIES[*policy] {
                "allow" => assert!(passed, "{fault:?}"),
                "deny" => assert!(!passed, "{fault:?}"),
                _ => {}
            }
        }
    }
    if !fault.is_overcome() {
        assert!(without.iter().all(|count| *count > 0), "{fault:?}: {without:?}");
    }
}

fn table(outcomes: &[Outcome], pace: Pace) -> String {
    let mut text = format!(
        "<!-- Written by `make faults`; tests/it/faults.rs measures it. -->\n\n\
         # What becomes of requests while Redis fails\n\n\
         Each fault lasts {} s, in which 500 requests a second come under each `on_store_failure`, for a limit \
         of 100 a second, with the deadline that Envoy has by default, 20 ms. One server, a real Redis, \
         `--store-timeout` 10 ms. *In time* are those that had an answer within 20 ms, measured by the caller. \
         *Back after* is when the last request was answered without Redis, counted from the end of the fault.\n\n\
         Every answer was checked to be what the policy wants, and what the store admits to be within the limit.\n\n\
         | fault | policy | asked | in time | decided by Redis | passed | refused | back after |\n\
         |---|---|---|---|---|---|---|---|\n",
        pace.lasting.as_secs()
    );
    for Outcome { fault, by_policy, recovery } in outcomes {
        for (place, figures) in by_policy.iter().enumerate() {
            let Figures { asked, in_time, by_store, admitted, refused } = *figures;
            let share = |count: usize| {
                // Rounded down: only all of them are 100 %.
                let tenths = count * 1000 / asked;
                format!("{}.{} %", tenths / 10, tenths % 10)
            };
            let (what, back) = match place {
                0 => (fault.in_words(), format!("{} ms", recovery.as_millis())),
                _ => ("", String::new()),
            };
            let (in_time, by_store) = (share(in_time), share(by_store));
            let policy = POLICIES[place];
            let _ = writeln!(
                text,
                "| {what} | `{policy}` | {asked} | {in_time} | {by_store} | {admitted} | {refused} | {back} |"
            );
        }
    }
    text
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "what was measured is for whoever wants to know")]
async fn whatever_becomes_of_the_store_requests_are_answered_by_it_or_by_policy() {
    let target = env::var_os(TABLE);
    let pace = if target.is_some() { Pace::MEASURED } else { Pace::PATIENT };
    let mut outcomes = Vec::new();
    for fault in Fault::ALL {
        outcomes.push(suffer(fault, pace).await);
    }
    let table = table(&outcomes, pace);
    match target {
        Some(path) => fs::write(path, table).unwrap(),
        None => println!("{table}"),
    }
}
