//! States in a Redis, shared by any number of replicas: one call of one script for each request.
//!
//! The script reads the states, decides and writes, with Redis's own clock, while Redis does nothing
//! else; so replicas need not know of each other. `lua/` is what it is made of, [`script`] how it is
//! called, `docs/redis.md` what is stored.
//!
//! Whatever goes wrong ends in a [`StoreError`] within the timeout. A lost Redis is looked for in the
//! background, and connections that nobody uses are tried there too, so that it is not the next request
//! that finds out.

mod address;
mod condition;
mod connection;
mod fault;
mod listener;
pub mod script;
pub mod stored;
mod survey;

pub use address::{Address, AddressError, Certificates};
pub use listener::Listening;

use crate::{
    clock::Timestamp,
    key::Key,
    lease::{LeaseId, Leased, Release, Released, Renewed, Term},
    limiter::State,
    store::{Failures, Queues, StoreError},
    verdict::{Answer, Question, Verdict},
    worker::{Report, Reported},
};
use bb8_redis::bb8::{Pool, QueueStrategy};
use condition::Condition;
use connection::{Connection, LONGEST_CONNECT, Manager};
use listener::Listener;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use script::{Call, Reply, Script};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{self, MissedTickBehavior},
};

/// Connections to Redis. One carries any number of requests; a second lets answers be read while others
/// are written. More gain nothing (`docs/redis.md` has the figures).
const CONNECTIONS: u32 = 2;

/// How often connections are tried, and a lost Redis is looked for.
const TRY_EVERY: Duration = Duration::from_millis(250);

/// How long a connection takes that is there.
const AT_ONCE: Duration = Duration::from_millis(10);

/// The texts of all scripts, each at its place.
type Scripts = [String; Script::ALL.len()];

/// The store.
pub struct Redis {
    address: Address,
    pool: Pool<Manager>,
    scripts: Arc<Scripts>,
    timeout: Duration,
    condition: Arc<Condition>,
    keeper: AbortHandle,
    listener: Listener,
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
        let pool = Pool::builder()
            .max_size(CONNECTIONS)
            .min_idle(CONNECTIONS)
            .queue_strategy(QueueStrategy::Fifo)
            // Not a question to Redis, only whether it is known to be broken.
            .test_on_check_out(true)
            // Where no connection comes in that time, none is coming.
            .connection_timeout(timeout.min(LONGEST_CONNECT))
            .retry_connection(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .build_unchecked(manager);
        while !condition.is_down() && !is_there(&pool).await {}
        let keeper = tokio::spawn(keep(pool.clone(), Arc::clone(&condition)));
        let keeper = keeper.abort_handle();
        Ok(Self { address, pool, scripts, timeout, condition, keeper, listener })
    }

    /// Where it is.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Why it cannot be used; `None` where it can.
    pub fn down(&self) -> Option<String> {
        self.condition.down().filter(|_| self.is_down())
    }

    /// Whether there is no connection, and the last attempt to have one failed.
    fn is_down(&self) -> bool {
        self.condition.is_down() && self.pool.state().connections == 0
    }

    /// Why it has refused requests in the last seconds; `None` where it has not.
    pub fn refusing(&self) -> Option<String> {
        self.condition.refusing()
    }

    /// What its operator had better change.
    pub fn cautions(&self) -> Vec<String> {
        self.condition.cautions()
    }

    /// How many requests it did not decide, and why.
    pub fn failures(&self) -> Failures {
        self.condition.failures()
    }

    /// Decides a request, as one atomic step.
    ///
    /// # Errors
    ///
    /// Where Redis did not decide. It may have, where the answer was only late or lost.
    pub async fn decide(&self, question: &Question) -> Result<Verdict, StoreError> {
        let checks = &question.checks;
        if checks.is_empty() && question.taking.is_none() {
            let answer = Answer { outcomes: Vec::new(), leased: Leased::Nothing };
            return Ok(Verdict::of(checks, answer));
        }
        let read = |reply: &Value| script::read_answer(reply, question);
        let answer = self.ask(&Call::request(question), read).await?;
        Ok(Verdict::of(checks, answer))
    }
    /// Releases what a lease holds.
    ///
    /// # Errors
    ///
    /// As for [`Redis::decide`].
    pub async fn release(&self, id: &LeaseId, what: Release) -> Result<Released, StoreError> {
        self.ask(&Call::release(id, what), script::read_released).await
    }

    /// Renews a lease.
    ///
    /// # Errors
    ///
    /// As for [`Redis::decide`].
    pub async fn renew(&self, id: &LeaseId, term: Option<Term>) -> Result<Renewed, StoreError> {
        self.ask(&Call::renew(id, term), script::read_renewed).await
    }

    /// Takes in what a worker says.
    ///
    /// # Errors
    ///
    /// As for [`Redis::decide`].
    pub async fn report(&self, keys: &[Key; 2], report: &Report) -> Result<Reported, StoreError> {
        self.ask(&Call::report(keys, report), script::read_reported).await
    }

    /// What stands under these keys, and the time by Redis's clock.
    ///
    /// # Errors
    ///
    /// Where Redis cannot be asked.
    pub async fn look(&self, keys: &[Key]) -> Result<(Timestamp, Vec<Option<State>>), StoreError> {
        let looking = async {
            let mut connection = take(&self.pool).await.ok_or(StoreError::Unreachable)?;
            let mut pipe = redis::pipe();
            pipe.cmd("TIME");
            for key in keys {
                pipe.cmd("GET").arg(key.as_str());
            }
            let replies: Result<Vec<Value>, _> = pipe.query_async(&mut connection.redis).await;
            replies.map_err(|error| failure(&connection, &error))
        };
        let replies = time::timeout(self.timeout, looking).await;
        let replies = replies.unwrap_or(Err(StoreError::Late))?;
        let (now, states) = stored::read_all(keys, &replies)
            .ok_or_else(|| StoreError::Refused("the reply is not what was asked for".to_owned()))?;
        Ok((now, states))
    }

    /// Who waits for slots.
    pub fn queues(&self) -> &Queues {
        self.listener.queues()
    }

    /// Has releases announced of these states, until what it returns is dropped.
    pub async fn listen(&self, keys: &[Key]) -> Listening {
        self.listener.listen(keys).await
    }

    /// Calls a script, within the timeout.
    async fn ask<T>(
        &self,
        call: &Call<'_>,
        read: impl FnOnce(&Value) -> Option<Reply<T>>,
    ) -> Result<T, StoreError> {
        let reply = self.reply(call).await.and_then(|reply| match read(&reply) {
            Some(Reply::Done(answer)) => Ok(answer),
            Some(Reply::Deleted(_)) => Err(StoreError::Unreadable),
            None => Err(StoreError::Refused("the reply is not one of the script's".to_owned())),
        });
        reply.inspect_err(|error| self.condition.count(error))
    }

    async fn reply(&self, call: &Call<'_>) -> Result<Value, StoreError> {
        // Whoever waited for a connection now would wait in vain.
        if self.is_down() {
            return Err(StoreError::Unreachable);
        }
        let mut is_asked = false;
        let asking = async {
            let mut connection = take(&self.pool).await.ok_or(StoreError::Unreachable)?;
            is_asked = true;
            let reply = self.call(&mut connection, call).await;
            reply.map_err(|error| failure(&connection, &error))
        };
        time::timeout(self.timeout, asking).await.unwrap_or_else(|_| {
            // A late answer is thrown away when it comes, and nobody else's. Whether another will come
            // is for the keeper to find out: to give the connection up for one that is late would fail
            // all those behind it, who then wait for a new one.
            Err(if is_asked { StoreError::Late } else { StoreError::Unreachable })
        })
    }

    /// Calls a script; where Redis has forgotten it, with its text, from which Redis knows it again. To
    /// load it and to call it again would be two steps, between which it may be forgotten once more.
    async fn call(
        &self,
        connection: &mut Connection,
        call: &Call<'_>,
    ) -> Result<Value, RedisError> {
        let place = call.script.place();
        let Some(sha) = connection.shas.get(place) else { return Ok(Value::Nil) };
        let reply = call.by_name(sha).query_async(&mut connection.redis).await;
        match (reply, self.scripts.get(place)) {
            (Err(error), Some(text))
                if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) =>
            {
                call.by_text(text).query_async(&mut connection.redis).await
            }
            (reply, _) => reply,
        }
    }
}

/// What an error means, for the request and for the connection.
fn failure(connection: &Connection, error: &RedisError) -> StoreError {
    let code = fault::code(error);
    if matches!(code, None | Some("LOADING" | "MASTERDOWN" | "READONLY")) {
        connection.set_broken();
    }
    match code {
        Some(_) => StoreError::Refused(fault::in_words(error)),
        None => StoreError::Lost,
    }
}

/// Tries connections now and then, and has the pool replace those that do not work.
async fn keep(pool: Pool<Manager>, condition: Arc<Condition>) {
    let mut ticks = time::interval(TRY_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        condition.tick();
        let mut tried = JoinSet::new();
        for _ in 0..CONNECTIONS {
            // To take one is to have broken ones replaced. Where there is none, trying again helps more
            // than waiting does.
            if let Ok(Some(connection)) = time::timeout(TRY_EVERY, take(&pool)).await {
                tried.spawn(try_out(connection));
            }
        }
        tried.join_all().await;
    }
}

/// A connection, which others may take as well; `None` where none comes.
async fn take(pool: &Pool<Manager>) -> Option<Connection> {
    pool.get().await.ok().map(|taken| taken.clone())
}

/// Whether there is a connection.
async fn is_there(pool: &Pool<Manager>) -> bool {
    time::timeout(AT_ONCE, take(pool)).await.is_ok_and(|taken| taken.is_some())
}

async fn try_out(mut connection: Connection) {
    let ping = redis::cmd("PING");
    let answered = time::timeout(TRY_EVERY, ping.query_async::<Value>(&mut connection.redis)).await;
    // That it may not be asked this is an answer, too.
    let is_alive =
        answered.is_ok_and(|answer| answer.err().is_none_or(|error| error.code().is_some()));
    if !is_alive {
        connection.set_broken();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("address", &self.address).finish_non_exhaustive()
    }
}
