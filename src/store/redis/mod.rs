//! States in a Redis, shared by any number of replicas: requests that come together are decided by one call of one
//! script.
//!
//! The script reads the states, decides and writes, with Redis's own clock, while Redis does nothing
//! else; so replicas need not know of each other. `lua/` is what it is made of, [`script`] how it is
//! called, `docs/redis.md` what is stored.
//!
//! Whatever goes wrong ends in a [`StoreError`] within the timeout. A lost Redis is looked for in the
//! background, and connections that nobody uses are tried there too, so that it is not the next request
//! that finds out. One that gives no answer is not asked (`breaker.rs`) until it does.

mod address;
pub mod batch;
mod breaker;
mod carrier;
mod condition;
mod connection;
mod denials;
mod fault;
mod fetcher;
mod grants;
mod heartbeat;
mod incarnation;
mod lane;
mod late;
mod listener;
mod round;
pub mod script;
mod seat;
pub mod shadow;
pub mod stored;
mod survey;
#[cfg(test)]
mod twins;
mod way;

pub use address::{Address, AddressError, Certificates};
pub use listener::Listening;

use crate::{
    clock::{Clock, Deadline, Timestamp},
    key::{Key, Path},
    lease::{LeaseId, Leased, Release, Released, Renewed, Term},
    limiter::State,
    store::{
        self, GrantCounts, Operation, Queues, StoreError, Timing,
        orders::{Telling, Told},
    },
    task::{Task, supervise},
    verdict::{Answer, Question, Verdict},
    worker::{Report, Reported},
};
use condition::Condition;
use connection::Manager;
use denials::Denials;
use fetcher::Fetcher;
use grants::Grants;
use heartbeat::Beats;
use lane::TRY_EVERY;
use listener::Listener;
use redis::{Pipeline, Value};
use script::{Call, Script};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{self, MissedTickBehavior},
};
use way::Way;

/// Connections of each lane. One carries any number of requests, and more gain nothing (`docs/redis.md` has the
/// figures).
const CONNECTIONS: u32 = 1;

/// How soon it is tried again whether a Redis answers that is not asked any more.
const PROBE_EVERY: Duration = Duration::from_millis(50);

/// How long it may take to hear of all orders: up to [`store::orders::MOST_LIMITS`] limits, and nobody's request waits.
const LONGEST_TOLD: Duration = Duration::from_millis(500);

/// What the key of the orders has in the place of a limiter.
const ORDERS: &str = "orders";

/// How long a connection takes that is there.
const AT_ONCE: Duration = Duration::from_millis(10);

/// The texts of all scripts, each at its place.
type Scripts = [String; Script::ALL.len()];

/// The store.
pub struct Redis {
    address: Address,
    way: Arc<Way>,
    grants: Arc<Grants>,
    fetcher: Arc<Fetcher>,
    listener: Listener,
    /// What goes on in the background, for as long as there is the store.
    _tasks: JoinSet<()>,
}

impl Redis {
    /// A store in the Redis at this address. No answer is waited for longer than `timeout`.
    ///
    /// It comes whether or not Redis is there, as soon as it is known which, within a second.
    ///
    /// # Errors
    ///
    /// Where the address or the certificates are not fit to be used.
    pub async fn open(
        address: Address,
        certificates: Certificates,
        timeout: Duration,
    ) -> Result<Self, AddressError> {
        let client = address.client(certificates)?;
        let condition = Arc::new(Condition::default());
        let listener = Listener::new(client.clone());
        let scripts = Arc::new(Script::ALL.map(|script| script.join(script::CLOCK)));
        let (texts, told) = (Arc::clone(&scripts), Arc::clone(&condition));
        let manager = Manager::new(client, address.is_tls(), texts, told);
        let way = Arc::new(Way::new(manager, scripts, timeout, Arc::clone(&condition)));
        while !condition.is_down() && !is_there(&way).await {}
        let mut tasks = JoinSet::new();
        let (ticking, probing) = (Arc::clone(&way), Arc::clone(&way));
        tasks.spawn(supervise(Task::RedisHealth, async move || tick(&ticking).await));
        tasks.spawn(supervise(Task::RedisProbe, async move || probe(&probing).await));
        let mut beats = Beats::new(Arc::clone(&way));
        tasks.spawn(supervise(Task::RedisHeartbeat, async move || beats.beat().await));
        let grants = Arc::new(Grants::default());
        let fetcher = Arc::new(Fetcher::new(Arc::clone(&way), Arc::clone(&grants)));
        let fetching = Arc::clone(&fetcher);
        tasks.spawn(supervise(Task::RedisPrefetch, async move || fetching.fetch().await));
        Ok(Self { address, way, grants, fetcher, listener, _tasks: tasks })
    }

    /// Where it is.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// How it stands with it.
    pub fn condition(&self) -> store::Condition {
        let Way { condition, breaker, denials, .. } = &*self.way;
        let silent = breaker.is_open().then(|| "it does not answer in time".to_owned());
        store::Condition {
            down: condition.down().filter(|_| self.way.is_down()).or(silent),
            refusing: condition.refusing(),
            cautions: condition.cautions(),
            failures: condition.failures(),
            is_silent: breaker.is_open(),
            openings: breaker.openings(),
            late_charges: condition.late_charges(),
            losses: condition.losses(),
            forgotten_live: 0,
            denials: denials.answered(),
        }
    }

    /// Has the durations of its calls told from now on. Whoever is told first stays.
    pub fn time(&self, timing: Arc<dyn Timing>) {
        self.way.time(timing);
    }

    /// The clock by which it is told the time.
    pub fn clock(&self) -> Clock {
        self.way.clock.clone()
    }

    /// What went on with tokens that were taken ahead of need.
    pub fn grants(&self) -> GrantCounts {
        self.grants.counts()
    }

    /// Takes note that rules of this generation are about to be in force.
    pub fn expect_rules(&self, generation: u64, outdates_grants: bool) {
        self.way.set_generation(generation);
        if outdates_grants {
            self.grants.follow(generation);
        }
    }

    /// Gives back what was taken ahead of need. Nothing more is.
    pub async fn finish_grants(&self) {
        self.fetcher.finish().await;
    }

    /// How many processes use it, this one included, where it has told.
    pub fn replicas(&self) -> Option<u32> {
        self.way.condition.replicas()
    }

    /// Decides a request, as one atomic step. What is in hand is spent without asking Redis, and what it has refused just
    /// before is refused; both are known by `now`, the time by [`Redis::clock`].
    ///
    /// # Errors
    ///
    /// Where Redis did not decide before the deadline. It may have, where the answer was only late or lost.
    /// What is charged to rates by a late one is given back when it comes.
    pub async fn decide(
        &self,
        now: Timestamp,
        question: &Question,
        deadline: Deadline,
    ) -> Result<Verdict, StoreError> {
        let (checks, denials) = (&question.checks, &self.way.denials);
        if checks.is_empty() && question.taking.is_none() {
            let answer = Answer { outcomes: Vec::new(), leased: Leased::Nothing };
            return Ok(Verdict::of(checks, answer));
        }
        let known = self.grants.serve(now, question).or_else(|| denials.answer(now, question));
        if let Some(verdict) = known {
            return Ok(verdict);
        }
        let asked = denials.asked(now);
        let opening = Opening { denials, question };
        let answered = self.way.decide(question, deadline).await;
        drop(opening);
        let answer = answered?;
        denials.learn(asked, question, &answer);
        Ok(Verdict::of(checks, answer))
    }

    /// Releases what a lease holds.
    ///
    /// # Errors
    ///
    /// As for [`Redis::decide`].
    pub async fn release(&self, id: &LeaseId, what: Release) -> Result<Released, StoreError> {
        let call = Call::release(id, what);
        self.way.ask(Operation::Release, &call, script::read_released).await
    }

    /// Renews a lease.
    ///
    /// # Errors
    ///
    /// As for [`Redis::decide`].
    pub async fn renew(&self, id: &LeaseId, term: Option<Term>) -> Result<Renewed, StoreError> {
        let call = Call::renew(id, term);
        self.way.ask(Operation::Renew, &call, script::read_renewed).await
    }

    /// Takes in what a worker says.
    ///
    /// # Errors
    ///
    /// As for [`Redis::decide`].
    pub async fn report(&self, keys: &[Key; 2], report: &Report) -> Result<Reported, StoreError> {
        let call = Call::report(keys, report);
        self.way.ask(Operation::Report, &call, script::read_reported).await
    }

    /// Tells of orders, and hears of them.
    ///
    /// # Errors
    ///
    /// As for [`Redis::decide`], but it waits for longer.
    pub async fn tell_orders(&self, telling: Telling<'_>) -> Result<Told, StoreError> {
        // No domain has no name, so it is nobody's.
        let key = Key::new(ORDERS, &Path::of_domain(b""));
        let call = Call::orders(&key, telling);
        let read = |reply: &Value| script::read_told(reply, telling.known);
        self.way.ask_patiently(&call, read, LONGEST_TOLD).await
    }

    /// What stands under these keys, and the time by Redis's clock.
    ///
    /// # Errors
    ///
    /// Where Redis cannot be asked.
    pub async fn look(&self, keys: &[Key]) -> Result<(Timestamp, Vec<Option<State>>), StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("TIME");
        for key in keys {
            pipe.cmd("GET").arg(key.as_str());
        }
        let replies = self.all_of(&pipe, self.way.timeout()).await?;
        let (now, states) = stored::read_all(keys, &replies)
            .ok_or_else(|| StoreError::Refused("the reply is not what was asked for".to_owned()))?;
        Ok((now, states))
    }

    /// Forgets states, and tells those who wait for them.
    ///
    /// # Errors
    ///
    /// Where Redis did not say that it has.
    pub async fn forget(&self, keys: &[Key]) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("UNLINK").arg(key.as_str());
            pipe.cmd("PUBLISH").arg(key.as_str()).arg("");
        }
        let forgotten = self.all_of(&pipe, self.way.timeout()).await;
        self.grants.forget(keys);
        keys.iter().for_each(|key| self.way.denials.open(key));
        forgotten.map(drop)
    }

    /// The replies to several commands, none of which decides anything, within so long.
    async fn all_of(&self, pipe: &Pipeline, longest: Duration) -> Result<Vec<Value>, StoreError> {
        let asking = async {
            let mut connection = self.way.connection().await.ok_or(StoreError::Unreachable)?;
            let replies: Result<Vec<Value>, _> = pipe.query_async(&mut connection.redis).await;
            replies.map_err(|error| way::failure(&connection, &error))
        };
        let replies = time::timeout(longest, asking).await;
        replies.unwrap_or(Err(StoreError::Late))
    }

    /// Who waits for slots.
    pub fn queues(&self) -> &Queues {
        self.listener.queues()
    }

    /// Has releases announced of these states, until what it returns is dropped.
    pub async fn listen(&self, keys: &[Key]) -> Listening {
        self.listener.listen(keys).await
    }
}

/// Lets time pass for what is news.
async fn tick(way: &Way) {
    let mut ticks = time::interval(TRY_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        way.condition.tick();
    }
}

/// Finds out when a Redis answers again that is not asked any more.
async fn probe(way: &Way) {
    loop {
        way.breaker.until_open().await;
        let probed = async {
            let mut connection = way.connection().await?;
            let error = connection.try_script().await.err();
            // Any answer will do: whatever it is, those who ask get it in time.
            error.is_none_or(|error| error.code().is_some()).then_some(())
        };
        match time::timeout(way.timeout(), probed).await {
            Ok(Some(())) => way.breaker.close(),
            _ => time::sleep(PROBE_EVERY).await,
        }
    }
}

/// Whether there is a connection.
async fn is_there(way: &Way) -> bool {
    time::timeout(AT_ONCE, way.connection()).await.is_ok_and(|taken| taken.is_some())
}

/// Opens what a question gives back to, when it is over: also where nobody waited for the answer, for Redis may have
/// given it back all the same.
struct Opening<'q> {
    denials: &'q Denials,
    question: &'q Question,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.denials.open_all(self.question);
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("address", &self.address).finish_non_exhaustive()
    }
}
