//! The way to Redis: asks for as long as the caller has time, and listens for what comes too late.
//!
//! A request joins a round of its runtime's lane, and waits. A carrier takes the round along: calls the script, tells
//! each what became of his request, and takes the next.
//!
//! A script that was called may run after its caller has been answered by the failure policy, or has left. The carrier
//! hears the answer all the same, see `late.rs`.
//!
//! Everything is bounded: how long one waits, how many wait, and how many late answers are listened for.

use super::{
    Scripts,
    breaker::Breaker,
    condition::Condition,
    connection::{Connection, Manager},
    denials::Denials,
    fault,
    incarnation::Generations,
    lane::Lanes,
    round,
    script::{self, Call, Reply},
    seat::Seat,
};
use crate::{
    clock::{Clock, Deadline},
    store::{Operation, StoreError, Timing},
    verdict::{Answer, Question},
};
use redis::{Cmd, RedisError, ServerErrorKind, Value};
use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, sync::Semaphore};

/// The most calls that wait for Redis at a time beside those that decide requests, which are bounded by lane.
const MOST_WAITING: usize = 512;

/// The most late answers that are listened for.
const MOST_LATE: usize = 4096;

/// An answer that is on its way.
type Coming = Pin<Box<dyn Future<Output = Result<Value, StoreError>> + Send>>;

/// What asks.
pub(super) struct Way {
    pub(super) lanes: Lanes,
    scripts: Arc<Scripts>,
    /// The longest that anybody waits.
    timeout: Duration,
    pub(super) clock: Clock,
    pub(super) condition: Arc<Condition>,
    pub(super) breaker: Breaker,
    pub(super) denials: Denials,
    /// Who hears how long calls take.
    timing: OnceLock<Arc<dyn Timing>>,
    waiting: Places,
    /// The places of late answers that are listened for.
    pub(super) late: Arc<Semaphore>,
    /// The generation of the rules in force.
    generation: AtomicU64,
    /// How often connections were found broken.
    pub(super) generations: Arc<Generations>,
}

impl Way {
    /// A way of this runtime, and of those that ask.
    pub(super) fn new(
        manager: Manager,
        scripts: Arc<Scripts>,
        timeout: Duration,
        condition: Arc<Condition>,
    ) -> Self {
        let (waiting, late) = (Places::of(MOST_WAITING), Arc::new(Semaphore::new(MOST_LATE)));
        let (clock, breaker) = (Clock::monotonic(), Breaker::default());
        let generations = manager.generations();
        let (lanes, timing) = (Lanes::new(manager, timeout), OnceLock::new());
        let denials = Denials::default();
        let generation = AtomicU64::new(0);
        Self {
            lanes,
            scripts,
            timeout,
            clock,
            condition,
            breaker,
            denials,
            timing,
            waiting,
            late,
            generation,
            generations,
        }
    }

    /// Has the durations of calls told.
    pub(super) fn time(&self, timing: Arc<dyn Timing>) {
        // Whoever is told first stays.
        let _ = self.timing.set(timing);
    }

    /// The generation of the rules in force.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Takes note that rules of this generation are about to be in force.
    pub(super) fn set_generation(&self, generation: u64) {
        self.generation.store(generation, Ordering::Release);
    }

    /// The longest that anybody waits.
    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether there is no connection, and the last attempt to have one failed.
    pub(super) fn is_down(&self) -> bool {
        self.condition.is_down() && self.lanes.here().has_none()
    }

    /// A connection, which others may take as well; `None` where none comes.
    pub(super) async fn connection(&self) -> Option<Connection> {
        self.lanes.here().connection().await
    }

    /// Calls a script.
    pub(super) async fn ask<T>(
        self: &Arc<Self>,
        operation: Operation,
        call: &Call<'_>,
        read: impl FnOnce(&Value) -> Option<Reply<T>>,
    ) -> Result<T, StoreError> {
        self.count(operation, self.ask_quietly(call, read)).await
    }

    /// The same for what is no request of anybody, and does not count as one.
    pub(super) async fn ask_quietly<T>(
        self: &Arc<Self>,
        call: &Call<'_>,
        read: impl FnOnce(&Value) -> Option<Reply<T>>,
    ) -> Result<T, StoreError> {
        round::done(read(&self.reply(call, self.timeout).await?))
    }

    /// The same over a connection that was chosen already.
    pub(super) async fn ask_over<T>(
        self: &Arc<Self>,
        connection: Connection,
        call: &Call<'_>,
        read: impl FnOnce(&Value) -> Option<Reply<T>>,
    ) -> Result<T, StoreError> {
        self.may_be_asked()?;
        let _place = self.waiting.take().ok_or(StoreError::Busy)?;
        let patience = Deadline::after(self.timeout);
        round::done(read(&self.reply_over(connection, call, patience).await?))
    }

    /// The same for what may take longer than a request may wait.
    pub(super) async fn ask_patiently<T>(
        self: &Arc<Self>,
        call: &Call<'_>,
        read: impl FnOnce(&Value) -> Option<Reply<T>>,
        longest: Duration,
    ) -> Result<T, StoreError> {
        let longest = longest.max(self.timeout);
        round::done(read(&self.reply(call, longest).await?))
    }

    /// Decides a request.
    pub(super) async fn decide(
        self: &Arc<Self>,
        question: &Question,
        deadline: Deadline,
    ) -> Result<Answer, StoreError> {
        self.count(Operation::Decide, self.decided(question, deadline)).await
    }

    async fn decided(
        self: &Arc<Self>,
        question: &Question,
        deadline: Deadline,
    ) -> Result<Answer, StoreError> {
        self.may_be_asked()?;
        let patience = Deadline::after(self.timeout);
        let mut seat = Seat::take(self, question).ok_or(StoreError::Busy)?;
        let deadline = deadline.or(patience);
        let answer = match deadline.bound(seat.answer()).await {
            Some(answer) => answer,
            None => match seat.look_again().await {
                Some(answer) => answer,
                // Others wait on it as well. Whether it works is for the keeper to find out.
                None => Err(seat.leave(deadline != patience)),
            },
        };
        match &answer {
            Err(StoreError::Lost) => {
                self.breaker.miss();
                if question.charges() {
                    // It may have run, and nobody will ever know.
                    self.condition.count_late_charge(false);
                }
            }
            Err(StoreError::Late | StoreError::Unreachable) if deadline == patience => {
                self.breaker.miss();
            }
            // What Redis has said, its carrier has heard.
            _ => {}
        }
        answer
    }

    /// Whoever waited now would wait in vain.
    fn may_be_asked(&self) -> Result<(), StoreError> {
        if self.is_down() {
            Err(StoreError::Unreachable)
        } else if self.breaker.is_open() {
            Err(StoreError::Silent)
        } else {
            Ok(())
        }
    }

    /// Counts a call that fails, and tells how long it takes.
    async fn count<T>(
        &self,
        operation: Operation,
        asking: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = self.clock.now();
        let asked = asking.await;
        // What was not asked took no time, and would tell of a store that is quick.
        let error = asked.as_ref().err();
        let is_called = !error.is_some_and(StoreError::is_uncalled);
        if let Some(timing) = self.timing.get().filter(|_| is_called) {
            timing.took(operation, self.clock.now() - began, error);
        }
        asked.inspect_err(|error| self.condition.count(error))
    }

    /// The reply to a call within so long, after which it is Redis's fault that nothing came.
    async fn reply(
        self: &Arc<Self>,
        call: &Call<'_>,
        longest: Duration,
    ) -> Result<Value, StoreError> {
        self.may_be_asked()?;
        let _place = self.waiting.take().ok_or(StoreError::Busy)?;
        let patience = Deadline::after(longest);
        let Some(connection) = patience.bound(self.connection()).await.flatten() else {
            self.breaker.miss();
            return Err(StoreError::Unreachable);
        };
        self.reply_over(connection, call, patience).await
    }

    async fn reply_over(
        self: &Arc<Self>,
        connection: Connection,
        call: &Call<'_>,
        patience: Deadline,
    ) -> Result<Value, StoreError> {
        let Some(coming) = self.send(connection, call) else {
            return Err(StoreError::Refused("it was not told of all scripts".to_owned()));
        };
        let mut awaited = Awaited { way: self, patience, coming: Some(coming) };
        // A late answer is not the connection's fault, and others wait on it. Whether it works is for the
        // keeper to find out.
        patience.bound(awaited.reply()).await.unwrap_or(Err(StoreError::Late))
    }

    /// Takes note of what came of a call.
    fn hear(&self, reply: &Result<Value, StoreError>) {
        match reply {
            Ok(_) | Err(StoreError::Refused(_)) => self.breaker.hit(),
            Err(_) => self.breaker.miss(),
        }
    }

    /// Calls a script. Nothing is sent before the answer is waited for.
    pub(super) fn send(&self, connection: Connection, call: &Call<'_>) -> Option<Coming> {
        let place = call.script.place();
        let command: Cmd = call.by_name(connection.shas.get(place)?);
        let coming = self.call(connection.clone(), command, place);
        Some(Box::pin(async move {
            let reply = coming.await.and_then(Value::extract_error);
            reply.map_err(|error| failure(&connection, &error))
        }))
    }

    /// Calls a script by its name; where Redis has forgotten it, with its text, from which Redis knows it
    /// again. To load it and to call it again would be two steps, between which it may be forgotten once
    /// more.
    pub(super) fn call(
        &self,
        mut connection: Connection,
        command: Cmd,
        place: usize,
    ) -> impl Future<Output = Result<Value, RedisError>> + Send + use<> {
        let scripts = Arc::clone(&self.scripts);
        async move {
            let reply = connection.redis.send_packed_command(&command).await;
            match (reply, scripts.get(place)) {
                (Ok(Value::ServerError(error)), Some(text))
                    if error.kind() == Some(ServerErrorKind::NoScript) =>
                {
                    let command = script::by_text(&command, text);
                    connection.redis.send_packed_command(&command).await
                }
                (reply, _) => reply,
            }
        }
    }
}

/// What an error means, for the request and for the connection.
pub(super) fn failure(connection: &Connection, error: &RedisError) -> StoreError {
    let code = fault::code(error);
    if matches!(code, None | Some("LOADING" | "MASTERDOWN" | "READONLY")) {
        connection.set_broken();
    }
    match code {
        Some(_) => StoreError::Refused(fault::in_words(error)),
        None => StoreError::Lost,
    }
}

/// An answer that somebody waits for. Dropped before it came, it is still heard whether one comes in time.
struct Awaited<'a> {
    way: &'a Arc<Way>,
    /// Until when it is no fault of Redis's that nothing came.
    patience: Deadline,
    /// `None` once it has come.
    coming: Option<Coming>,
}

impl Awaited<'_> {
    async fn reply(&mut self) -> Result<Value, StoreError> {
        let Some(coming) = &mut self.coming else { return Err(StoreError::Lost) };
        let reply = coming.await;
        self.coming = None;
        self.way.hear(&reply);
        reply
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        // Where the runtime is gone, so is the process.
        let (Some(coming), Ok(runtime)) = (self.coming.take(), Handle::try_current()) else {
            return;
        };
        let (way, patience) = (Arc::clone(self.way), self.patience);
        let Ok(place) = Arc::clone(&way.late).try_acquire_owned() else {
            return way.breaker.miss();
        };
        runtime.spawn(async move {
            match patience.bound(coming).await {
                Some(reply) => way.hear(&reply),
                None => way.breaker.miss(),
            }
            drop(place);
        });
    }
}

/// So many places, and who has one.
struct Places {
    most: usize,
    taken: AtomicUsize,
}

impl Places {
    fn of(most: usize) -> Self {
        Self { most, taken: AtomicUsize::new(0) }
    }

    /// A place, for as long as it is not dropped; `None` where all are taken.
    fn take(&self) -> Option<Place<'_>> {
        // Counted first, so that two cannot take the last one; dropped where there was none.
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        let place = Place(&self.taken);
        (before < self.most).then_some(place)
    }
}

/// A place that is taken.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
