//! Where the states are kept. A store runs a whole request as one atomic step; it knows keys and
//! states, and of limiters only that they have a verdict.

mod memory;

pub use memory::Memory;

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
}

/// Why a store could not decide. Memory always can, so there is nothing here yet; a store across a
/// network will bring its reasons, and what to answer then is the decider's to say.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {}

impl Store {
    /// How many live states it has had to forget, for want of room, since it was made.
    pub fn forgotten_live(&self) -> u64 {
        match self {
            Self::Memory(memory) => memory.forgotten_live(),
        }
    }

    /// Decides the checks of one request. `keys` are the states that the checks' slots mean, no key
    /// twice. `now` is the time for a store without a clock of its own.
    ///
    /// # Errors
    ///
    /// Where the store cannot answer; nothing is written then.
    pub async fn decide(
        &self,
        now: Timestamp,
        keys: &[Key],
        checks: &[Check],
    ) -> Result<Verdict, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.decide(now, keys, checks)),
        }
    }
}
