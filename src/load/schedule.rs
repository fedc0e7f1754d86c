//! When requests of an open loop are due: evenly spaced, whatever becomes of those before.

/// The requests of one thread of several, which take turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    /// Requests per second, of all threads.
    rate: u32,
    threads: u32,
    /// Which of the threads this is, from 0 on.
    thread: u32,
}

const SECOND_US: u128 = 1_000_000;

impl Schedule {
    pub(super) const fn new(rate: u32, threads: u32, thread: u32) -> Self {
        Self { rate, threads, thread }
    }

    /// When request number `index` is due, in microseconds from the beginning.
    pub(super) fn due_us(self, index: u64) -> u64 {
        let of_all = u128::from(index) * u128::from(self.threads) + u128::from(self.thread);
        u64::try_from(of_all * SECOND_US / u128::from(self.rate)).unwrap_or(u64::MAX)
    }

    /// How many are due within so many microseconds from the beginning.
    pub(super) fn due_by(self, us: u64) -> u64 {
        // Of all threads, those up to and with this one.
        let of_all = ((u128::from(us) + 1) * u128::from(self.rate)).div_ceil(SECOND_US);
        let mine = of_all.saturating_sub(self.thread.into()).div_ceil(self.threads.into());
        u64::try_from(mine).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_due_has_come_and_what_comes_is_not_yet_due(
            rate in 1..10_000_000_u32,
            threads in 1..256_u32,
            thread in 0..256_u32,
            us in 0..100_000_000_000_u64,
        ) {
            let schedule = Schedule::new(rate, threads, thread % threads);
            let due = schedule.due_by(us);
            prop_assert!(schedule.due_us(due) > us);
            prop_assert!(due == 0 || schedule.due_us(due - 1) <= us);
        }

        #[test]
        fn threads_together_make_the_rate(rate in 1..10_000_000_u32, threads in 1..256_u32, seconds in 1..1000_u64) {
            let before_the_end = seconds * 1_000_000 - 1;
            let due = (0..threads).map(|thread| Schedule::new(rate, threads, thread).due_by(before_the_end));
            prop_assert_eq!(due.sum::<u64>(), u64::from(rate) * seconds);
        }
    }

    #[test]
    fn requests_are_evenly_spaced_over_all_threads() {
        let due = |thread| (0..3).map(move |index| Schedule::new(1000, 2, thread).due_us(index));
        assert_eq!(due(0).collect::<Vec<_>>(), [0, 2000, 4000]);
        assert_eq!(due(1).collect::<Vec<_>>(), [1000, 3000, 5000]);
    }
}
