//! Which Redis a connection leads to, and for how long without a break.
//!
//! Behind one name another primary may answer after a failover, which may not know the last writes of the one before. To
//! give back there what was never taken there is over-admission. So chunks that were taken ahead of need are spent, and given
//! back, only while connections are of the same incarnation as the one over which they were taken: the same run of the same
//! process, as Redis calls it, and no connection found broken in between. (What was charged too late is given back over the
//! very connection on which it was.)
//!
//! A primary that was demoted and promoted again keeps its run id, but it has taken over another's states meanwhile: so a
//! generation is part of it, which each broken connection raises.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The incarnation of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Incarnation {
    run: Run,
    generation: u64,
}

/// A run of a Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Run {
    /// As Redis calls it.
    Named(Arc<str>),
    /// It does not say: each connection is one of its own.
    Unnamed(u64),
}

/// How often a connection was found broken, and how many were opened without a name.
#[derive(Debug, Default)]
pub(super) struct Generations {
    broken: AtomicU64,
    unnamed: AtomicU64,
}

impl Generations {
    /// A connection was found broken, or leads to a Redis that cannot be written.
    pub(super) fn raise(&self) {
        self.broken.fetch_add(1, Ordering::AcqRel);
    }

    /// How often that was so.
    pub(super) fn current(&self) -> u64 {
        self.broken.load(Ordering::Acquire)
    }

    /// The incarnation of a connection that is open now, to a run of this name.
    pub(super) fn of(&self, run_id: Option<&str>) -> Incarnation {
        let run = match run_id {
            Some(id) => Run::Named(id.into()),
            None => Run::Unnamed(self.unnamed.fetch_add(1, Ordering::Relaxed)),
        };
        Incarnation { run, generation: self.current() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_connections_are_the_same_only_in_one_run_and_without_a_break() {
        let generations = Generations::default();
        let first = generations.of(Some("a"));
        assert_eq!(first, generations.of(Some("a")));
        assert_ne!(first, generations.of(Some("b")));
        assert_ne!(first, generations.of(None));
        assert_ne!(generations.of(None), generations.of(None), "it may be another one");
        generations.raise();
        assert_ne!(first, generations.of(Some("a")));
        assert_eq!(first, first.clone(), "one that was not broken stays what it is");
    }
}
