//! The way to Redis: asks for as long as the caller has time, and listens for what comes too late.
//!
//! A script that was called may run after its caller has been answered by the failure policy, or has left.
//! So there is still somebody who listens: when the answer comes after all, the rates get back what they were
//! charged. (What is held under a lease is given back by `decider/taken.rs`.)
//!
//! Everything is bounded: how long one waits, how many wait, and how many late answers are listened for.

use super::{
    Scripts,
    breaker::Breaker,
    condition::Condition,
    connection::{Connection, Manager},
    denials::Denials,
    fault,
    script::{self, Call, Reply},
};
use crate::{
    clock::{Clock, Deadline, Timestamp},
    store::{Operation, StoreError, Timing},
    verdict::{Answer, Question},
};
use bb8_redis::bb8::Pool;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, time};

/// The most requests that wait for Redis at a time. It is busy all the time with far fewer; more would only
/// wait for each other, until all are late.
const MOST_WAITING: usize = 512;

/// The most late answers that are listened for.
const MOST_LATE: usize = 4096;

/// How long a late answer is listened for.
const LONGEST_LATE: Duration = Duration::from_secs(30);

/// How often what came too late is tried to be given back, and how long after another.
const MOST_TRIES: usize = 20;
const TRY_EVERY: Duration = Duration::from_millis(100);

/// An answer that is on its way.
type Coming = Pin<Box<dyn Future<Output = Result<Value, StoreError>> + Send>>;

/// What asks.
pub(super) struct Way {
    pool: Pool<Manager>,
    scripts: Arc<Scripts>,
    /// The longest that anybody waits.
    timeout: Duration,
    clock: Clock,
    pub(super) condition: Arc<Condition>,
    pub(super) breaker: Breaker,
    pub(super) denials: Denials,
    /// Who hears how long calls take.
    timing: OnceLock<Arc<dyn Timing>>,
    waiting: Places,
    late: Places,
}

impl Way {
    pub(super) fn new(
        pool: Pool<Manager>,
        scripts: Arc<Scripts>,
        timeout: Duration,
        condition: Arc<Condition>,
    ) -> Self {
        let (waiting, late) = (Places::of(MOST_WAITING), Places::of(MOST_LATE));
        let (clock, breaker) = (Clock::monotonic(), Breaker::default());
        let (timing, denials) = (OnceLock::new(), Denials::default());
        Self { pool, scripts, timeout, clock, condition, breaker, denials, timing, waiting, late }
    }

    /// Has the durations of calls told.
    pub(super) fn time(&self, timing: Arc<dyn Timing>) {
        // Whoever is told first stays.
        let _ = self.timing.set(timing);
    }

    /// The longest that anybody waits.
    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether there is no connection, and the last attempt to have one failed.
    pub(super) fn is_down(&self) -> bool {
        self.condition.is_down() && self.pool.state().connections == 0
    }

    /// A connection, which others may take as well; `None` where none comes.
    pub(super) async fn connection(&self) -> Option<Connection> {
        self.pool.get().await.ok().map(|taken| taken.clone())
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
        done(self.reply(call, None, (Deadline::default(), self.timeout)).await?, read)
    }

    /// The same for what may take longer than a request may wait.
    pub(super) async fn ask_patiently<T>(
        self: &Arc<Self>,
        call: &Call<'_>,
        read: impl FnOnce(&Value) -> Option<Reply<T>>,
        longest: Duration,
    ) -> Result<T, StoreError> {
        let longest = longest.max(self.timeout);
        done(self.reply(call, None, (Deadline::default(), longest)).await?, read)
    }

    /// Decides a request.
    pub(super) async fn decide(
        self: &Arc<Self>,
        question: &Question,
        deadline: Deadline,
    ) -> Result<Answer, StoreError> {
        let read = |reply: &Value| script::read_answer(reply, question);
        let deciding = async {
            let within = (deadline, self.timeout);
            done(self.reply(&Call::request(question), Some(question), within).await?, read)
        };
        self.count(Operation::Decide, deciding).await
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

    /// The reply to a call, before the deadline, and within so long, after which it is Redis's fault that nothing
    /// came. What it charges where that is missed is given back to the rates of `question`.
    async fn reply(
        self: &Arc<Self>,
        call: &Call<'_>,
        question: Option<&Question>,
        (deadline, longest): (Deadline, Duration),
    ) -> Result<Value, StoreError> {
        // Whoever waited now would wait in vain.
        if self.is_down() {
            return Err(StoreError::Unreachable);
        }
        if self.breaker.is_open() {
            return Err(StoreError::Silent);
        }
        let _place = self.waiting.take().ok_or(StoreError::Busy)?;
        let began = self.clock.now();
        let patience = Deadline::after(longest);
        let deadline = deadline.or(patience);
        let Some(connection) = deadline.bound(self.connection()).await.flatten() else {
            if deadline == patience {
                self.breaker.miss();
            }
            return Err(StoreError::Unreachable);
        };
        let coming = self.send(connection, call);
        let mut awaited = Awaited { way: self, question, began, patience, coming };
        // A late answer is not the connection's fault, and others wait on it. Whether it works is for the
        // keeper to find out.
        deadline.bound(awaited.reply()).await.unwrap_or(Err(StoreError::Late))
    }

    /// Takes note of what came of a call.
    fn hear(&self, reply: &Result<Value, StoreError>) {
        match reply {
            Ok(_) | Err(StoreError::Refused(_)) => self.breaker.hit(),
            Err(_) => self.breaker.miss(),
        }
    }

    /// Calls a script by its name; where Redis has forgotten it, with its text, from which Redis knows it
    /// again. To load it and to call it again would be two steps, between which it may be forgotten once
    /// more. Nothing is sent before the answer is waited for.
    fn send(&self, mut connection: Connection, call: &Call<'_>) -> Option<Coming> {
        let place = call.script.place();
        let command: Cmd = call.by_name(connection.shas.get(place)?);
        let scripts = Arc::clone(&self.scripts);
        Some(Box::pin(async move {
            let reply = command.query_async(&mut connection.redis).await;
            let reply = match (reply, scripts.get(place)) {
                (Err(error), Some(text))
                    if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) =>
                {
                    script::by_text(&command, text).query_async(&mut connection.redis).await
                }
                (reply, _) => reply,
            };
            reply.map_err(|error| failure(&connection, &error))
        }))
    }

    /// Listens for an answer for which nobody waits any more, and has the rates of its question given back
    /// what it charged.
    fn listen(self: &Arc<Self>, late: Late) {
        // Where the runtime is gone, so is the process.
        let Ok(runtime) = Handle::try_current() else { return };
        if self.late.is_full() {
            return self.give_up(&late);
        }
        let way = Arc::clone(self);
        runtime.spawn(async move {
            let Some(_place) = way.late.take() else { return way.give_up(&late) };
            let Late { question, began, patience, mut coming } = late;
            // Whoever gave up before `--store-timeout` was over may have been in a hurry.
            let reply = patience.bound(&mut coming).await;
            match &reply {
                Some(reply) => way.hear(reply),
                None => way.breaker.miss(),
            }
            let Some(question) = question else { return };
            let reply = match reply {
                Some(reply) => Ok(reply),
                None => time::timeout(LONGEST_LATE, coming).await,
            };
            match reply {
                Ok(Ok(reply)) => way.give_back(&question, reply, began).await,
                // It was not decided.
                Ok(Err(StoreError::Refused(_))) => {}
                // Nobody will ever know.
                Ok(Err(_)) | Err(_) => way.condition.count_late_charge(false),
            }
        });
    }

    /// Does not listen for an answer: there are too many.
    fn give_up(&self, late: &Late) {
        self.breaker.miss();
        if late.question.is_some() {
            self.condition.count_late_charge(false);
        }
    }

    /// Gives back what a question was charged by an answer that came too late.
    async fn give_back(&self, question: &Question, reply: Value, began: Timestamp) {
        let read = |reply: &Value| script::read_answer(reply, question);
        let Ok(answer) = done(reply, read) else { return };
        for _ in 0..MOST_TRIES {
            let ago_us = self.clock.now() - began;
            let Some(refund) = question.giving_back(answer.clone(), ago_us) else { return };
            match self.refund(&refund).await {
                Ok(_) => return self.condition.count_late_charge(true),
                // Twice would be once too often.
                Err(error) if error.may_be_done() => break,
                Err(_) => time::sleep(TRY_EVERY).await,
            }
        }
        self.condition.count_late_charge(false);
    }

    /// Has something given back. Nobody waits for it, so it may take as long as a slow Redis takes, also
    /// while that is not asked by those who do.
    async fn refund(&self, refund: &Question) -> Result<Answer, StoreError> {
        let connection = self.connection().await.ok_or(StoreError::Unreachable)?;
        let coming = self.send(connection, &Call::request(refund));
        let coming = coming.ok_or(StoreError::Unreachable)?;
        let reply = time::timeout(LONGEST_LATE, coming).await;
        self.denials.open_all(refund);
        let reply = reply.unwrap_or(Err(StoreError::Late))?;
        done(reply, |reply: &Value| script::read_answer(reply, refund))
    }
}

/// What a script has done.
fn done<T>(reply: Value, read: impl FnOnce(&Value) -> Option<Reply<T>>) -> Result<T, StoreError> {
    match read(&reply) {
        Some(Reply::Done(answer)) => Ok(answer),
        Some(Reply::Deleted(_)) => Err(StoreError::Unreadable),
        None => Err(StoreError::Refused("the reply is not one of the script's".to_owned())),
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

/// An answer that somebody waits for. Dropped before it came, it is listened for all the same.
struct Awaited<'a> {
    way: &'a Arc<Way>,
    /// What it decides, where it does.
    question: Option<&'a Question>,
    /// When the wait began.
    began: Timestamp,
    /// Until when it is no fault of Redis's that nothing came.
    patience: Deadline,
    /// `None` once it has come.
    coming: Option<Coming>,
}

/// An answer for which nobody waits any more; with the question, where that may be charged something.
struct Late {
    question: Option<Question>,
    began: Timestamp,
    patience: Deadline,
    coming: Coming,
}

impl Awaited<'_> {
    async fn reply(&mut self) -> Result<Value, StoreError> {
        let Some(coming) = &mut self.coming else {
            return Err(StoreError::Refused("it was not told of all scripts".to_owned()));
        };
        let reply = coming.await;
        self.coming = None;
        self.way.hear(&reply);
        if matches!(reply, Err(StoreError::Lost)) && self.charged().is_some() {
            // It may have run, and nobody will ever know.
            self.way.condition.count_late_charge(false);
        }
        reply
    }

    /// The question, where it may be charged something.
    fn charged(&self) -> Option<&Question> {
        self.question.filter(|question| question.charges())
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if let Some(coming) = self.coming.take() {
            let question = self.charged().cloned();
            let Self { way, began, patience, .. } = *self;
            way.listen(Late { question, began, patience, coming });
        }
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

    fn is_full(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.most
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
