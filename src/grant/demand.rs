//! How much is asked for of late.

use crate::clock::Timestamp;

/// How many are asked for in a time of one window, weighed so that each window counts half as much as the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    window_us: u64,
    /// When the window began.
    began: Timestamp,
    /// What was asked for in it so far.
    count: u64,
    /// The average of the windows before, in 256ths.
    average: u64,
}

/// The average counts parts, so that what is little does not vanish.
const PARTS: u64 = 256;

impl Demand {
    pub(super) const fn new(window_us: u64, now: Timestamp) -> Self {
        Self { window_us, began: now, count: 0, average: 0 }
    }

    /// So many are asked for.
    pub(super) fn note(&mut self, now: Timestamp, count: u64) {
        self.pass(now);
        self.count = self.count.saturating_add(count);
    }

    /// How many are asked for in a time of so many microseconds, as it goes. A window that has hardly begun counts as
    /// well, where it has seen more than those before: who comes all at once is not to wait for its end.
    pub(super) fn within(&mut self, now: Timestamp, micros: u64) -> u64 {
        self.pass(now);
        let parts = self.average.max(self.count.saturating_mul(PARTS));
        let parts = u128::from(parts) * u128::from(micros) / u128::from(self.window_us.max(1));
        u64::try_from(parts / u128::from(PARTS)).unwrap_or(u64::MAX)
    }

    /// Lets time pass.
    fn pass(&mut self, now: Timestamp) {
        let windows = (now - self.began) / self.window_us.max(1);
        if windows == 0 {
            return;
        }
        let last = self.count.saturating_mul(PARTS);
        self.average = self.average / 2 + last / 2;
        // In those after it nothing was asked for.
        self.average = u32::try_from(windows - 1)
            .ok()
            .and_then(|empty| self.average.checked_shr(empty))
            .unwrap_or(0);
        (self.began, self.count) = (self.began + windows * self.window_us, 0);
    }
}
