//! Where the states are kept. A store runs a whole request as one atomic step; it knows keys and
//! states, and of limiters only that they have a verdict.

mod memory;
pub mod redis;

pub use memory::Memory;
pub use redis::Redis;

use crate::{
    clock::Timestamp,
    key::Key,
    verdict::{Check, Verdict},
};

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
    /// It did not answer in time. It may have decided all the same.
    #[error("the store did not answer in time")]
    Late,
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
    /// Live states that it had to forget for want of room, since it was made.
    pub forgotten_live: u64,
}

/// Requests that were not decided, by reason. Each only grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures {
    /// See [`StoreError::Unreachable`].
    pub unreachable: u64,
    /// See [`StoreError::Late`].
    pub late: u64,
    /// See [`StoreError::Refused`].
    pub refused: u64,
    /// See [`StoreError::Unreadable`].
    pub unreadable: u64,
    /// What the store said when it last refused.
    pub last_refusal: Option<String>,
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
            Self::Redis(redis) => Condition {
                down: redis.down(),
                refusing: redis.refusing(),
                cautions: redis.cautions(),
                failures: redis.failures(),
                forgotten_live: 0,
            },
        }
    }

    /// Decides the checks of one request. `keys` are the states that the checks' slots mean, no key
    /// twice. `now` is the time for a store without a clock of its own.
    ///
    /// # Errors
    ///
    /// Where the store did not decide.
    pub async fn decide(
        &self,
        now: Timestamp,
        keys: &[Key],
        checks: &[Check],
    ) -> Result<Verdict, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.decide(now, keys, checks)),
            Self::Redis(redis) => redis.decide(keys, checks).await,
        }
    }
}
