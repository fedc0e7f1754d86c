//! Leases: what a request holds while it is in flight.
//!
//! A concurrency limit and a fleet limit count slots. An admitted request takes slots, and gives them back
//! when it has ended; where nobody gives them back, they come back by themselves at the lease's deadline.
//! Everything that one request holds it holds under one id, and it is taken and given back together.
//!
//! Two things are kept, each under a key of its own:
//!
//! ```text
//! tg1:concurrency:edge:user=alice   in flight: how many slots come back at which instant   [InFlight]
//! tg1:lease:lease-5e0f…             the record: which slots of which states, and until when  [Record]
//! ```
//!
//! **No list of leases is kept beside the slots.** What is in flight is a handful of numbers: deadlines
//! are rounded up to steps of about a 32nd of the time that a lease lasts, and all slots of one step are
//! one number. So a decision costs the same with three leases and with a million; and when a million
//! callers vanish at once, there is no set of a million members to purge: one number is dropped. What one
//! lease holds stands in its record, so to give back is to subtract.
//!
//! A record is the proof that slots are held: it is written by the same atomic step that takes them and
//! removed by the one that gives them back, so nothing is given back twice. An [`InFlight`] that was lost
//! or deleted and begun anew is told from the old one by the instant at which it began, [`InFlight::since`].

mod attempt;
mod fingerprint;
mod id;
mod in_flight;
mod record;
#[cfg(test)]
pub(crate) mod samples;
mod term;

#[cfg(test)]
mod tests;

pub use attempt::Attempt;
pub use fingerprint::Fingerprint;
pub use id::{LeaseId, UnusableId};
pub use in_flight::{Bucket, InFlight, Slots};
pub use record::{
    Entry, Found, Hold, Kind, MARK_US, MOST_ENTRIES, Record, Release, Released, Renewed,
};
pub use term::{LONGEST_TERM_US, Term};

/// Under which lease a request takes what it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taking {
    /// Which of the request's keys is the record's.
    pub slot: usize,
    /// Whose the id is.
    pub by: By,
    /// Which of the calls that may take under this id.
    pub attempt: Attempt,
    /// How long the lease lasts.
    pub term: Term,
    /// What was asked for, where the caller may ask again; `None` where only slots make a lease.
    pub fingerprint: Option<Fingerprint>,
}

/// Whose a lease's id is, and so what it means to find a record under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Drawn for this request. Nobody else knows it; but what cancels the request may come first.
    Server,
    /// Chosen by the caller, for one lease: to ask again is to repeat the question.
    Caller,
    /// A name that requests share, such as `x-request-id`: to ask again is to take more.
    Request,
}

/// What became of the lease that a request asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leased {
    /// There is none: the request is refused, or holds nothing.
    Nothing,
    /// It is held, and so long.
    For {
        /// Microseconds until its deadline.
        left_us: u64,
    },
    /// It was held already, for this request: nothing was charged or taken.
    Again {
        /// Microseconds until its deadline.
        left_us: u64,
    },
    /// Its id is held for another request.
    Conflict,
}

impl Leased {
    /// Microseconds until its deadline, where it is held.
    pub const fn left_us(self) -> Option<u64> {
        match self {
            Self::For { left_us } | Self::Again { left_us } => Some(left_us),
            Self::Nothing | Self::Conflict => None,
        }
    }
}
