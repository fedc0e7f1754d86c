//! How long calls of a store take, for whoever wants to know: the store does not know what becomes of it.

use super::StoreError;
use std::fmt::Debug;

/// What a store is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// To decide a request.
    Decide,
    /// To release a lease.
    Release,
    /// To renew one.
    Renew,
    /// To take in what a worker says.
    Report,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Decide, Self::Release, Self::Renew, Self::Report];

    /// Its name, in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Release => "release",
            Self::Renew => "renew",
            Self::Report => "report",
        }
    }
}

/// Hears how long calls took.
pub trait Timing: Debug + Send + Sync {
    /// A call took so many microseconds, from asking to the answer, or to the error. It is told where it was asked
    /// for, within the same future.
    fn took(&self, operation: Operation, micros: u64, error: Option<&StoreError>);
}
