//! What became of requests, and how long they took.

use hdrhistogram::{CreationError, Histogram};
use std::collections::BTreeMap;

/// The longest time that is told apart from longer ones, in microseconds: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// The statuses of gRPC, by their numbers.
const STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It may pass.
    Ok,
    /// It may not.
    OverLimit,
    /// It was answered with an error.
    Failed(&'static str),
    /// There was no answer to it.
    Lost(&'static str),
}

impl Outcome {
    /// The deadline has passed.
    pub(super) const LATE: Self = Self::Lost("DEADLINE_EXCEEDED");
    /// The connection was lost, or closed, before the answer came.
    pub(super) const DISCONNECTED: Self = Self::Lost("connection lost");
    /// The server ended the request alone.
    pub(super) const RESET: Self = Self::Failed("stream reset");
    /// What came is no answer to ShouldRateLimit.
    pub(super) const UNREADABLE: Self = Self::Failed("not an answer");
    /// No answer had come when everything was over.
    pub(super) const UNANSWERED: Self = Self::Lost("no answer until the end");
    /// It was due, but all streams were busy until everything was over.
    pub(super) const UNSENT: Self = Self::Lost("not sent until the end");

    /// An answer with this number of a status that is not OK.
    pub(super) fn status(number: usize) -> Self {
        Self::Failed(STATUSES.get(number).copied().unwrap_or("UNKNOWN"))
    }
}

/// What became of many.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    /// How long answers took, in microseconds. How long others waited in vain is no latency of anything.
    pub(super) latencies: Histogram<u64>,
    pub(super) ok: u64,
    pub(super) over_limit: u64,
    /// The others, by what was wrong.
    pub(super) errors: BTreeMap<&'static str, u64>,
    /// How many of these had no answer at all.
    pub(super) unanswered: u64,
}

impl Tally {
    /// Of nothing yet.
    pub(super) fn new() -> Result<Self, CreationError> {
        let latencies = Histogram::new_with_bounds(1, LONGEST_US, 3)?;
        Ok(Self { latencies, ok: 0, over_limit: 0, errors: BTreeMap::new(), unanswered: 0 })
    }

    /// One more, which took so many microseconds.
    pub(super) fn count(&mut self, outcome: Outcome, took_us: u64) {
        match outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::OverLimit => self.over_limit += 1,
            Outcome::Failed(what) => *self.errors.entry(what).or_default() += 1,
            Outcome::Lost(what) => {
                *self.errors.entry(what).or_default() += 1;
                self.unanswered += 1;
                return;
            }
        }
        self.latencies.saturating_record(took_us);
    }

    /// Adds another.
    pub(super) fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.latencies.add(&other.latencies);
        self.ok += other.ok;
        self.over_limit += other.over_limit;
        self.unanswered += other.unanswered;
        for (&what, count) in &other.errors {
            *self.errors.entry(what).or_default() += count;
        }
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.latencies.reset();
        (self.ok, self.over_limit, self.unanswered) = (0, 0, 0);
        self.errors.clear();
    }

    /// How many there were.
    pub(super) fn requests(&self) -> u64 {
        self.answered() + self.unanswered
    }

    /// How many were answered, be it with an error.
    pub(super) fn answered(&self) -> u64 {
        self.latencies.len()
    }

    /// How many were not answered as they should be.
    pub(super) fn failed(&self) -> u64 {
        self.requests() - self.ok - self.over_limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_counts_once() {
        let mut tally = Tally::new().unwrap();
        let mut other = Tally::new().unwrap();
        tally.count(Outcome::Ok, 100);
        tally.count(Outcome::status(14), 300);
        other.count(Outcome::OverLimit, 200);
        other.count(Outcome::status(14), 5);
        other.count(Outcome::LATE, u64::MAX);
        tally.add(&other);
        assert_eq!((tally.requests(), tally.ok, tally.over_limit), (5, 1, 1));
        assert_eq!((tally.failed(), tally.unanswered, tally.answered()), (3, 1, 4));
        assert_eq!(tally.errors, BTreeMap::from([("UNAVAILABLE", 2), ("DEADLINE_EXCEEDED", 1)]));
        assert_eq!(tally.latencies.max(), 300, "who waited in vain is none of them");
        tally.count(Outcome::Ok, u64::MAX);
        assert!(tally.latencies.equivalent(tally.latencies.max(), LONGEST_US));
        tally.clear();
        assert_eq!((tally.requests(), tally.failed()), (0, 0));
    }

    #[test]
    fn a_status_that_nobody_knows_is_unknown() {
        assert_eq!(Outcome::status(14), Outcome::Failed("UNAVAILABLE"));
        assert_eq!(Outcome::status(99), Outcome::Failed("UNKNOWN"));
    }
}
