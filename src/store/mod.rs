//! Where the states are kept. A store runs a whole request as one atomic step; it knows keys and
//! states, and of limiters only that they have a verdict.

mod draw;
mod memory;
pub mod orders;
mod queue;
pub mod redis;
mod shards;
mod timing;

pub use draw::draw;
pub use memory::Memory;
pub use queue::{Place, Queues};
pub use redis::{Listening, Redis};
pub use timing::{Operation, Timing};

use crate::{
    clock::{Clock, Deadline, Timestamp},
    key::Key,
    lease::{LeaseId, Release, Released, Renewed, Term},
    limiter::State,
    shadow::{Seen, Slots},
    verdict::{Question, Verdict},
    worker::{Report, Reported},
};
use std::sync::Arc;

/// A store.
#[derive(Debug)]
pub enum Store {
    /// In this process, for this process alone.
    Memory(Memory),
    /// In a Redis, for all processes that use it.
    Redis(Box<Redis>),
}

/// Why a store did not decide a request. The text is for callers: it names nothing that is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no way to it.
    #[error("the store cannot be reached")]
    Unreachable,
    /// It was not asked: it has given no answer to those who asked before.
    #[error("the store does not answer")]
    Silent,
    /// The way to it was lost before it answered. It may have decided all the same.
    #[error("the store cannot be reached")]
    Lost,
    /// It did not answer in time. It may have decided all the same.
    #[error("the store did not answer in time")]
    Late,
    /// Too many requests wait for it already.
    #[error("too many requests wait for the store")]
    Busy,
    /// It will not do it; why, in its own words, for the operator.
    #[error("the store refuses to decide")]
    Refused(String),
    /// It held something that is no state, where a state should be; now it does not any more.
    #[error("the store held what is no state of a limit")]
    Unreadable,
}

/// How it stands with a store, for its operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// Why it cannot be used; `None` where it can.
    pub down: Option<String>,
    /// Why it has refused requests in the last seconds; `None` where it has not.
    pub refusing: Option<String>,
    /// What had better be changed.
    pub cautions: Vec<String>,
    /// Requests that were not decided, since it was made.
    pub failures: Failures,
    /// Whether it is not asked at present, for it gives no answer.
    pub is_silent: bool,
    /// How often it was not asked any more for a while, for it gave no answer, since it was made.
    pub openings: u64,
    /// What became of charges that came too late, since it was made.
    pub late_charges: LateCharges,
    /// How often it was found to have lost states, since it was made.
    pub losses: Losses,
    /// Live states that it had to forget for want of room, since it was made.
    pub forgotten_live: u64,
    /// Requests that were refused without asking it, for it had refused as much just before.
    pub denials: u64,
}

/// What went on with tokens that were taken out of shared buckets ahead of need, since the store was made. Each only
/// grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GrantCounts {
    /// Requests that were decided by what was in hand.
    pub served: u64,
    /// Tokens that were taken.
    pub taken: u64,
    /// Those that were spent.
    pub spent: u64,
    /// Those that were given back, for they were too old or the process ended.
    pub returned: u64,
    /// Those that are gone: the limit was changed or the counter reset, or nobody knows whether they came back.
    pub lost: u64,
}

impl GrantCounts {
    /// Tokens in hand.
    pub const fn in_hand(&self) -> u64 {
        self.taken.saturating_sub(self.spent + self.returned + self.lost)
    }
}

/// Charges of requests that the store decided after their caller had been answered. Each only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LateCharges {
    /// Requests that were given back what they were charged.
    pub given_back: u64,
    /// Requests that may have been charged all the same: their answer was lost, or there were too many.
    pub kept: u64,
}

/// How often a store was found to have lost states. Each only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// All of them: it was emptied, or another took its place that was empty.
    pub all: u64,
    /// What was written last: one took its place that had not heard of it yet.
    pub last: u64,
}

/// What went on with leases, since the process began. Each only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// Releases that the store could not take, and that were too many to be kept.
    pub releases_given_up: u64,
    /// Hits that were to be given back to limits on requests in flight, which take back leases.
    pub refunds_ignored: u64,
}

/// What went on with the reports of workers, since the process began. Each only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Reports with a request that were none: without a number or a worker, or too high to be believed.
    pub bad_reports: u64,
    /// Reports that found no room for a further worker.
    pub too_many_workers: u64,
    /// Requests of pools whose workers do not say what they can take, and that were admitted for that.
    pub unmetered: u64,
}

/// Requests that were not decided, by reason. Each only grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures {
    /// See [`StoreError::Unreachable`] and [`StoreError::Lost`].
    pub unreachable: u64,
    /// See [`StoreError::Silent`].
    pub silent: u64,
    /// See [`StoreError::Late`].
    pub late: u64,
    /// See [`StoreError::Busy`].
    pub busy: u64,
    /// See [`StoreError::Refused`].
    pub refused: u64,
    /// See [`StoreError::Unreadable`].
    pub unreadable: u64,
    /// What the store said when it last refused.
    pub last_refusal: Option<String>,
}

impl StoreError {
    /// Whether the store was not even asked.
    pub const fn is_uncalled(&self) -> bool {
        matches!(self, Self::Unreachable | Self::Silent | Self::Busy)
    }

    /// Whether the store may have done what it was asked all the same.
    pub const fn may_be_done(&self) -> bool {
        matches!(self, Self::Lost | Self::Late)
    }
}

impl Store {
    /// Which it is, for people. Holds no password.
    pub fn name(&self) -> String {
        match self {
            Self::Memory(_) => "memory".to_owned(),
            Self::Redis(redis) => redis.address().to_string(),
        }
    }

    /// How it stands with it.
    pub fn condition(&self) -> Condition {
        match self {
            Self::Memory(memory) => {
                Condition { forgotten_live: memory.forgotten_live(), ..Condition::default() }
            }
            Self::Redis(redis) => redis.condition(),
        }
    }

    /// Has the durations of its calls told from now on, where they go anywhere. Whoever is told first stays.
    pub fn time(&self, timing: Arc<dyn Timing>) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(redis) => redis.time(timing),
        }
    }

    /// The clock by which it is to be told the time.
    pub fn clock(&self) -> Clock {
        match self {
            Self::Memory(_) => Clock::monotonic(),
            Self::Redis(redis) => redis.clock(),
        }
    }

    /// What went on with tokens that were taken ahead of need, where they are.
    pub fn grants(&self) -> Option<GrantCounts> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(redis) => Some(redis.grants()),
        }
    }

    /// Gives back what was taken ahead of need. Nothing more is.
    pub async fn finish_grants(&self) {
        if let Self::Redis(redis) = self {
            redis.finish_grants().await;
        }
    }

    /// Takes note that rules of this generation are about to be in force: what was charged under others is not given back
    /// any more. What was taken ahead of need under others is dropped as spent where their limits have changed.
    pub fn expect_rules(&self, generation: u64, outdates_grants: bool) {
        if let Self::Redis(redis) = self {
            redis.expect_rules(generation, outdates_grants);
        }
    }

    /// How many processes use it, this one included, as far as that is known.
    pub fn replicas(&self) -> Option<u32> {
        match self {
            Self::Memory(_) => Some(1),
            Self::Redis(redis) => redis.replicas(),
        }
    }

    /// Decides a request before the deadline. `now` is the time for a store without a clock of its own, and for what
    /// is known of the others. What
    /// rates are charged after the deadline, or after the caller has left, is given back to them.
    ///
    /// # Errors
    ///
    /// Where the store did not decide.
    pub async fn decide(
        &self,
        now: Timestamp,
        question: &Question,
        deadline: Deadline,
    ) -> Result<Verdict, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.decide(now, question)),
            // What it waits with would make every decision large, also those that do not wait.
            Self::Redis(redis) => Box::pin(redis.decide(now, question, deadline)).await,
        }
    }

    /// Releases what a lease holds.
    ///
    /// # Errors
    ///
    /// Where the store did not do it, or did not say so.
    pub async fn release(
        &self,
        now: Timestamp,
        id: &LeaseId,
        what: Release,
    ) -> Result<Released, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.release(now, id, what)),
            Self::Redis(redis) => redis.release(id, what).await,
        }
    }

    /// Renews a lease: it lasts for `term` from now on, or as long as a new one, which is the most.
    ///
    /// # Errors
    ///
    /// Where the store did not do it, or did not say so.
    pub async fn renew(
        &self,
        now: Timestamp,
        id: &LeaseId,
        term: Option<Term>,
    ) -> Result<Renewed, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.renew(now, id, term)),
            Self::Redis(redis) => redis.renew(id, term).await,
        }
    }

    /// Takes in what a worker says. The keys are those of its pool's workers and its own.
    ///
    /// # Errors
    ///
    /// Where the store did not do it, or did not say so.
    pub async fn report(
        &self,
        now: Timestamp,
        keys: &[Key; 2],
        report: &Report,
    ) -> Result<Reported, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.report(now, keys, report)),
            Self::Redis(redis) => redis.report(keys, report).await,
        }
    }

    /// Reads states for people, not to decide anything: `None` where nothing stands, or nothing that can be
    /// read. With them comes the time by the store's clock.
    ///
    /// # Errors
    ///
    /// Where the store cannot be asked.
    pub async fn look(
        &self,
        now: Timestamp,
        keys: &[Key],
    ) -> Result<(Timestamp, Vec<Option<State>>), StoreError> {
        match self {
            Self::Memory(memory) => Ok((now, memory.look(keys))),
            Self::Redis(redis) => redis.look(keys).await,
        }
    }

    /// Forgets states, and tells those who wait for them.
    ///
    /// # Errors
    ///
    /// Where the store did not say that it has.
    pub async fn forget(&self, keys: &[Key]) -> Result<(), StoreError> {
        match self {
            Self::Memory(memory) => {
                memory.forget(keys);
                Ok(())
            }
            Self::Redis(redis) => redis.forget(keys).await,
        }
    }

    /// Tells of orders, and hears of them.
    ///
    /// # Errors
    ///
    /// Where the store did not say what stands there now. It may have taken in what it was told.
    pub async fn tell_orders(
        &self,
        now: Timestamp,
        telling: orders::Telling<'_>,
    ) -> Result<orders::Told, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.tell_orders(now, telling)),
            Self::Redis(redis) => redis.tell_orders(telling).await,
        }
    }

    /// Whether what is kept there is shared with other processes, and outlives this one.
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Redis(_))
    }

    /// Adds what a rule in shadow did since this was last told.
    ///
    /// # Errors
    ///
    /// Where the store did not do it, or did not say so.
    pub async fn tell_shadow(
        &self,
        now: Timestamp,
        rule: &str,
        seen: &Seen,
    ) -> Result<(), StoreError> {
        match self {
            Self::Memory(memory) => {
                memory.tell_shadow(now, rule, seen);
                Ok(())
            }
            Self::Redis(redis) => redis.tell_shadow(rule, seen).await,
        }
    }

    /// What a rule in shadow did of late, and the time by the store's clock.
    ///
    /// # Errors
    ///
    /// Where the store cannot be asked.
    pub async fn shadow(
        &self,
        now: Timestamp,
        rule: &str,
    ) -> Result<(Timestamp, Slots), StoreError> {
        match self {
            Self::Memory(memory) => Ok((now, memory.shadow(rule))),
            Self::Redis(redis) => redis.shadow(rule).await,
        }
    }

    /// Who waits for slots.
    pub fn queues(&self) -> &Queues {
        match self {
            Self::Memory(memory) => memory.queues(),
            Self::Redis(redis) => redis.queues(),
        }
    }

    /// Has releases announced of these states, until what it returns is dropped. It comes when they are.
    pub async fn listen(&self, keys: &[Key]) -> Option<Listening> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(redis) => Some(redis.listen(keys).await),
        }
    }
}
