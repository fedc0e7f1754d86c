//! Time as a value. This is the only file that reads a clock; everything else is told the time.

use std::{
    future::poll_fn,
    ops::{Add, Sub},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::time;

/// An instant, in microseconds since 1970 by the clock that told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The instant `micros` microseconds after 1970.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }
}

/// Later by so many microseconds; the end of time is the limit.
impl Add<u64> for Timestamp {
    type Output = Self;

    fn add(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

/// Microseconds from the other instant to this one; 0 where the other is later.
impl Sub for Timestamp {
    type Output = u64;

    fn sub(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// When somebody stops waiting; by default never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deadline(Option<time::Instant>);

impl Deadline {
    /// So long from now.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
    pub fn after(patience: Duration) -> Self {
        Self(time::Instant::now().checked_add(patience))
    }

    /// Whichever comes first.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(deadline), Some(other)) => Self(Some(deadline.min(other))),
            (deadline, other) => Self(deadline.or(other)),
        }
    }

    /// How long until then; `None` where it never comes.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
    pub fn left(self) -> Option<Duration> {
        self.0.map(|deadline| deadline.saturating_duration_since(time::Instant::now()))
    }

    /// Waits for something until then. `None` where it did not come.
    pub async fn bound<T>(self, something: impl Future<Output = T>) -> Option<T> {
        let Some(deadline) = self.0 else { return Some(something.await) };
        let mut something = pin!(something);
        match at_once(something.as_mut()).await {
            Some(done) => Some(done),
            None => time::timeout_at(deadline, something).await.ok(),
        }
    }
}

/// Waits for something for so long. `None` where it did not come.
pub async fn within<T>(patience: Duration, something: impl Future<Output = T>) -> Option<T> {
    let mut something = pin!(something);
    match at_once(something.as_mut()).await {
        Some(done) => Some(done),
        None => time::timeout(patience, something).await.ok(),
    }
}

/// What needs not be waited for, and so no timer and no look at the clock; `None` where it does.
pub async fn at_once<F: Future>(mut something: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match something.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Where the time comes from.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The process's monotonic clock, anchored to UTC when it was made. It never runs backwards, and does not follow when
    /// the machine's calendar is set: so no limit is refilled by a jump, and calendar units keep to the calendar of the
    /// start, less what the machine's clock drifts.
    Monotonic {
        /// When it was made.
        start: Instant,
        /// The time that it showed then.
        anchor: Timestamp,
    },
    /// A clock that a test moves by hand.
    Manual(ManualClock),
}

impl Clock {
    /// A clock of this process, anchored to UTC now.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
    pub fn monotonic() -> Self {
        Self::Monotonic { start: Instant::now(), anchor: Timestamp(micros(since_1970())) }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Monotonic { start, anchor } => *anchor + micros(start.elapsed()),
            Self::Manual(clock) => clock.now(),
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// How long it is since 1970, by the machine's calendar, which may be wrong and jump. Certificates expire by
/// it, and clocks are anchored to it when they are made; nothing else is limited by it.
#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A clock that stands still until it is moved. Clones show the same time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves it by so many microseconds.
    pub fn advance(&self, micros: u64) {
        self.0.fetch_add(micros, Ordering::Relaxed);
    }

    /// The time it shows.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_utc_and_goes_on_from_there() {
        let before = micros(since_1970());
        let clock = Clock::monotonic();
        let (first, after) = (clock.now(), micros(since_1970()));
        assert!((before..=after).contains(&first.as_micros()), "{before} {first:?} {after}");
        assert!(clock.now() >= first);
    }

    #[test]
    fn a_clock_keeps_its_anchor() {
        let Clock::Monotonic { start, .. } = Clock::monotonic() else { unreachable!() };
        let anchor = Timestamp::from_micros(86_400_000_000);
        let clock = Clock::Monotonic { start, anchor };
        // Whatever the calendar says.
        assert!(clock.now() >= anchor && clock.now() < anchor + micros(since_1970()));
    }
}
