//! Whether Redis is worth asking. After some requests in a row to which it gave no answer, nobody is made to
//! wait for it any more; it is tried in the background, and asked again as soon as it answers that.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use tokio::sync::Notify;

/// Requests without an answer after which it is not asked any more. Enough that a pause between two answers
/// does not do it, few enough that hardly anybody waits in vain.
const MOST_MISSES: u32 = 20;

/// Lets requests through while Redis answers, and none while it does not.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    is_open: AtomicBool,
    /// Requests without an answer since the last one.
    misses: AtomicU32,
    openings: AtomicU64,
    opened: Notify,
}

impl Breaker {
    /// Whether it lets nothing through.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Redis has answered, whatever it was.
    pub(super) fn hit(&self) {
        // Most of the time it says 0 already, and writing it would cost all cores.
        if self.misses.load(Ordering::Relaxed) > 0 {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// It has not, though it had all the time that it may take.
    pub(super) fn miss(&self) {
        let misses = self.misses.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if misses >= MOST_MISSES && !self.is_open.swap(true, Ordering::Relaxed) {
            self.openings.fetch_add(1, Ordering::Relaxed);
            self.opened.notify_one();
        }
    }

    /// It answers again.
    pub(super) fn close(&self) {
        self.misses.store(0, Ordering::Relaxed);
        self.is_open.store(false, Ordering::Relaxed);
    }

    /// How often it has opened.
    pub(super) fn openings(&self) -> u64 {
        self.openings.load(Ordering::Relaxed)
    }

    /// Completes when it is open.
    pub(super) async fn until_open(&self) {
        while !self.is_open() {
            self.opened.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_after_misses_in_a_row_and_only_then() {
        let breaker = Breaker::default();
        for _ in 0..10 {
            (1..MOST_MISSES).for_each(|_| breaker.miss());
            assert!(!breaker.is_open());
            breaker.hit();
        }
        (0..MOST_MISSES).for_each(|_| breaker.miss());
        assert!(breaker.is_open());
    }

    #[test]
    fn a_late_answer_does_not_close_it() {
        let breaker = Breaker::default();
        (0..2 * MOST_MISSES).for_each(|_| breaker.miss());
        breaker.hit();
        assert!(breaker.is_open());
        assert_eq!(breaker.openings(), 1);
        breaker.close();
        (1..MOST_MISSES).for_each(|_| breaker.miss());
        assert!(!breaker.is_open(), "misses of before do not count");
    }

    #[tokio::test]
    async fn whoever_waits_for_it_to_open_is_told() {
        let breaker = Breaker::default();
        (0..MOST_MISSES).for_each(|_| breaker.miss());
        breaker.until_open().await;
    }
}
