//! Whether the program can go on for ever: under load, with its rules rewritten every second, for ten minutes.
//!
//! `make soak` (`SOAK_SECONDS` says how long) has the built program answer gRPC calls, once with its states in memory and once
//! on a `redis-server` of its own, both at the same time. Its rule files are two sets in turn, put in the place of each other by
//! renaming a link. Every answer is checked; what is stated at the end is how many were wrong, how often rules were
//! reloaded, and by how much the process grew.

mod support;

use envoy_types::pb::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
    service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse, rate_limit_response::Code,
        rate_limit_service_client::RateLimitServiceClient,
    },
};
use std::{
    collections::BTreeMap,
    env, fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use support::{Server as RedisServer, resident_bytes_of};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::{self, MissedTickBehavior},
};
use tonic::transport::Channel;

/// How long it takes, unless `SOAK_SECONDS` says otherwise.
const SECONDS: u64 = 600;

/// Callers of each server, and how often each asks: so much that machines have something to do, and so little that what
/// is late is late for a reason.
const CALLERS: u64 = 8;
const EVERY: Duration = Duration::from_millis(5);

/// Users whose requests come in turn. Each has two keys, which are forgotten after a minute, so that as many are made as
/// are forgotten once the first minute is over.
const USERS: u64 = 200_000;

/// Of how many requests one is about an account, each of which is asked so often, and may be so often.
const ACCOUNT_EVERY: u64 = 100;
const ASKED: u64 = 8;
const ADMITTED: u64 = 5;

/// How often the rules change and servers are looked at, and after how many of these it is told how it goes.
const CHANGE: Duration = Duration::from_secs(1);
const TELL_EVERY: u64 = 10;

/// The sizes of a burst, by set of rules: two limits of one request are never of two sets.
const BURSTS: [u32; 2] = [200, 300];

/// The most log that is kept of a server, in bytes.
const MOST_LOG: u64 = 64 << 20;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What became of requests, and what was seen of a server.
#[derive(Default)]
struct Seen {
    answers: AtomicU64,
    degraded: AtomicU64,
    /// What was wrong, and how often.
    wrong: Mutex<BTreeMap<String, u64>>,
    /// What `/ready` said that was not that all is well, and how often.
    unwell: Mutex<BTreeMap<String, u64>>,
    /// What the process had in memory, in bytes, second by second.
    resident: Mutex<Vec<usize>>,
}

fn count(what: &Mutex<BTreeMap<String, u64>>, key: String) {
    let mut counted = what.lock().unwrap_or_else(PoisonError::into_inner);
    // Whatever goes wrong, it is not this that fills the memory.
    if counted.len() < 100 || counted.contains_key(&key) {
        *counted.entry(key).or_default() += 1;
    }
}

/// The built program.
struct Program {
    name: &'static str,
    process: Child,
    grpc: String,
    http: String,
    log: PathBuf,
    seen: Arc<Seen>,
}

impl Program {
    async fn start(name: &'static str, files: &Path, store: Option<&str>) -> Result<Self, Failure> {
        let (screen, log) =
            (files.join(format!("{name}.screen")), files.join(format!("{name}.log")));
        let process = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .env_clear()
            .args(["--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"])
            .args(["--admin-addr", "127.0.0.1:0", "--store", store.unwrap_or("memory")])
            .arg("--config")
            .arg(files.join("rules"))
            .stdin(Stdio::null())
            .stdout(fs::File::create(&screen)?)
            .stderr(fs::File::create(&log)?)
            .spawn()?;
        let mut text = String::new();
        while !text.contains("Ctrl-C") {
            time::sleep(Duration::from_millis(20)).await;
            text = fs::read_to_string(&screen)?;
        }
        let address = |door: &str| {
            let mut lines = text.lines().map(str::split_whitespace);
            let mut words = lines.find(|words| words.clone().next() == Some(door))?;
            words.nth(1).map(str::to_owned)
        };
        let (grpc, http) =
            address("gRPC").zip(address("HTTP")).ok_or("it did not say where it is")?;
        Ok(Self { name, process, grpc, http, log, seen: Arc::default() })
    }

    /// Looks at it once.
    async fn look(&self) {
        let resident = resident_bytes_of(&self.process.id().to_string());
        self.seen.resident.lock().unwrap_or_else(PoisonError::into_inner).push(resident);
        match ready(&self.http).await {
            Ok(answer) if answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\nready\n") => {
            }
            Ok(answer) => count(&self.seen.unwell, answer),
            Err(error) => count(&self.seen.unwell, error.to_string()),
        }
    }

    /// How many lines of its log hold these words.
    fn logged(&self, words: &str) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(words)).count()
    }

    /// How much it had after a third of the time, and at the end, in bytes: the means of a twentieth of it each.
    fn growth(&self) -> Option<(f64, f64)> {
        let resident = self.seen.resident.lock().unwrap_or_else(PoisonError::into_inner);
        let few = (resident.len() / 20).max(1);
        let third = resident.len() / 3;
        let mean = |part: &[usize]| part.iter().sum::<usize>() as f64 / part.len() as f64;
        let early = resident.get(third..third + few)?;
        Some((mean(early), mean(resident.get(resident.len() - few..)?)))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has nothing to lose.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// All that `/ready` answers.
async fn ready(address: &str) -> io::Result<String> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = "GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    time::timeout(Duration::from_secs(5), asking).await?
}

/// A set of rules in a directory of its own. In both, accounts have the same.
fn write_rules(files: &Path, set: usize) -> io::Result<PathBuf> {
    let directory = files.join(format!("set-{set}"));
    fs::create_dir(&directory)?;
    let burst = BURSTS.get(set).copied().unwrap_or_default();
    let limit = format!("token_bucket: {{rate: 1/min, burst: {burst}}}");
    let rules = format!(
        "
domain: shop
descriptors:
  - key: user
    {limit}
  - key: plan
    descriptors:
      - key: user
        {limit}
  - key: account
    rate_limit: {{unit: year, requests_per_unit: {ADMITTED}}}
"
    );
    fs::write(directory.join("shop.yaml"), rules)?;
    Ok(directory)
}

/// Puts one set in the place of the other, by one renaming.
fn put_in_force(files: &Path, directory: &Path) -> io::Result<()> {
    let next = files.join("next");
    symlink(directory, &next)?;
    fs::rename(next, files.join("rules"))
}

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entries = entries.iter();
    let entries = entries.map(|(key, value)| Entry { key: (*key).into(), value: (*value).into() });
    RateLimitDescriptor { entries: entries.collect(), ..RateLimitDescriptor::default() }
}

fn is_degraded(answer: &RateLimitResponse) -> bool {
    answer.dynamic_metadata.as_ref().is_some_and(|it| it.fields.contains_key("degraded"))
}

/// What is wrong with an answer to a user, if anything is: two limits of one set, with room.
fn fault_of(answer: &RateLimitResponse) -> Option<String> {
    let mut bursts = Vec::new();
    for status in &answer.statuses {
        let shown = status.current_limit.as_ref().map(|limit| limit.requests_per_unit);
        bursts.push(shown.unwrap_or_default());
        if status.limit_remaining > shown.unwrap_or_default() {
            return Some("more remains than there is".to_owned());
        }
    }
    match bursts.as_slice() {
        [left, right] if left == right && BURSTS.contains(left) => {
            let is_ok = answer.overall_code() == Code::Ok;
            (!is_ok).then(|| "refused, though there is room".to_owned())
        }
        bursts => Some(format!("limits of {bursts:?}")),
    }
}

/// One caller, until it is over.
async fn call(
    mut client: RateLimitServiceClient<Channel>,
    caller: u64,
    seen: Arc<Seen>,
    is_over: Arc<AtomicBool>,
) {
    let mut ticks = time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // How often the account was asked, how often it was admitted, and whether that is sure.
    let (mut asked, mut admitted, mut is_sure) = (0, 0, true);
    for number in 0.. {
        ticks.tick().await;
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let is_account = number % ACCOUNT_EVERY == 0;
        let descriptors = if is_account {
            let account = format!("{caller}-{}", number / ACCOUNT_EVERY / ASKED);
            vec![descriptor(&[("account", &account)])]
        } else {
            let user = format!("user{}", (number * CALLERS + caller) % USERS);
            vec![descriptor(&[("user", &user)]), descriptor(&[("plan", "x"), ("user", &user)])]
        };
        let request = RateLimitRequest { domain: "shop".to_owned(), descriptors, hits_addend: 0 };
        let answer = match client.should_rate_limit(request).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => {
                count(&seen.wrong, format!("{:?}: {}", status.code(), status.message()));
                is_sure = false;
                continue;
            }
        };
        seen.answers.fetch_add(1, Ordering::Relaxed);
        let is_degraded = is_degraded(&answer);
        seen.degraded.fetch_add(u64::from(is_degraded), Ordering::Relaxed);
        let fault = match (is_degraded, is_account) {
            // The rules say nothing of it, so it passes.
            (true, _) => (answer.overall_code() != Code::Ok).then(|| "denied".to_owned()),
            (false, false) => fault_of(&answer),
            (false, true) => None,
        };
        if let Some(fault) = fault {
            count(&seen.wrong, fault);
        }
        if !is_account {
            continue;
        }
        asked += 1;
        is_sure &= !is_degraded;
        admitted += u64::from(answer.overall_code() == Code::Ok);
        if asked == ASKED {
            if is_sure && admitted != ADMITTED {
                count(&seen.wrong, format!("{admitted} admitted of an account of {ADMITTED}"));
            }
            (asked, admitted, is_sure) = (0, 0, true);
        }
    }
}

#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn tell(second: u64, programs: &[Program]) {
    for program in programs {
        let Seen { answers, degraded, wrong, resident, .. } = &*program.seen;
        let answers = answers.load(Ordering::Relaxed);
        let degraded = degraded.load(Ordering::Relaxed);
        let wrong: u64 = wrong.lock().unwrap_or_else(PoisonError::into_inner).values().sum();
        let resident = resident.lock().unwrap_or_else(PoisonError::into_inner);
        let mebibytes = resident.last().copied().unwrap_or_default() as f64 / f64::from(1 << 20);
        println!(
            "{second:>5} s  {:<7} {answers:>10} answers, {degraded} of them degraded, {wrong} wrong, {} reloads, {mebibytes:.1} MiB",
            program.name,
            program.logged("reloaded the rules"),
        );
    }
}

/// What it amounts to. Whether all was well.
#[allow(clippy::print_stdout, reason = "what it measured is for whoever ran it")]
fn sum_up(seconds: u64, changes: u64, programs: &[Program]) -> bool {
    println!("\n{seconds} s, {CALLERS} callers of each; the rules were changed {changes} times\n");
    println!(
        "| store | answers | without the store | wrong or failed | reloads | refused | unwell | MiB after a third | at the end |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut is_well = true;
    for program in programs {
        let Seen { answers, degraded, wrong, unwell, .. } = &*program.seen;
        let wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let unwell = unwell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let [wrongs, unwells] = [&wrong, &unwell].map(|counted| counted.values().sum::<u64>());
        let (early, late) = program.growth().unwrap_or_default();
        let [early, late] = [early, late].map(|bytes| bytes / f64::from(1 << 20));
        let (reloads, refused) =
            (program.logged("reloaded the rules"), program.logged("not valid"));
        println!(
            "| {} | {} | {} | {wrongs} | {reloads} | {refused} | {unwells} | {early:.1} | {late:.1} ({:+.1}) |",
            program.name,
            answers.load(Ordering::Relaxed),
            degraded.load(Ordering::Relaxed),
            late - early
        );
        for (what, times) in wrong.iter().chain(&unwell) {
            println!("\n{}: {times} times: {what}", program.name);
        }
        is_well &= wrongs == 0 && refused == 0 && reloads > 0;
        is_well &= answers.load(Ordering::Relaxed) > 0 && program.logged("this is a bug") == 0;
        is_well &= fs::metadata(&program.log).is_ok_and(|log| log.len() < MOST_LOG);
    }
    is_well
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let seconds = env::var("SOAK_SECONDS").ok().map(|text| text.parse()).transpose()?;
    let seconds = seconds.unwrap_or(SECONDS);
    let files = tempfile::tempdir()?;
    let sets = [write_rules(files.path(), 0)?, write_rules(files.path(), 1)?];
    put_in_force(files.path(), &sets[0])?;
    // Where there is no Redis, it is the store in memory alone.
    let redis = RedisServer::start().ok();
    let mut programs = vec![Program::start("memory", files.path(), None).await?];
    if let Some(redis) = &redis {
        drop(redis.connect()?);
        programs.push(Program::start("redis", files.path(), Some(&redis.url())).await?);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let mut calling = JoinSet::new();
    for program in &programs {
        let channel = Channel::from_shared(format!("http://{}", program.grpc))?.connect().await?;
        let client = RateLimitServiceClient::new(channel);
        for caller in 0..CALLERS {
            let (seen, is_over) = (Arc::clone(&program.seen), Arc::clone(&is_over));
            calling.spawn(call(client.clone(), caller, seen, is_over));
        }
    }
    let mut ticks = time::interval(CHANGE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut changes = 0;
    for (second, set) in (1..=seconds).zip(sets.iter().rev().cycle()) {
        ticks.tick().await;
        put_in_force(files.path(), set)?;
        changes += 1;
        for program in &programs {
            program.look().await;
        }
        if second % TELL_EVERY == 0 {
            tell(second, &programs);
        }
    }
    is_over.store(true, Ordering::Relaxed);
    calling.join_all().await;
    if sum_up(seconds, changes, &programs) { Ok(()) } else { Err("something was wrong".into()) }
}
