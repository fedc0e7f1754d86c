//! Who may send next, and since when: at once, in a closed loop; when it is due, in an open one.

use super::{schedule::Schedule, timer::Timer};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    convert::Infallible,
    future::pending,
    io,
    ops::Range,
};
use tokio::sync::Semaphore;
use tollgate::clock::{Clock, Timestamp};

/// The turns of one thread's streams.
pub(super) struct Pace {
    clock: Clock,
    begin: Timestamp,
    /// From when on nothing is due any more.
    end: Cell<Timestamp>,
    /// Turns that were given back, and since when they are due: at most as many as there are streams.
    returned: RefCell<VecDeque<Timestamp>>,
    form: Form,
}

enum Form {
    Closed {
        over: Cell<bool>,
    },
    Open {
        schedule: Schedule,
        /// Requests that are due and not taken by a stream. Nothing is kept of them but how many there are: when each
        /// was due, the schedule says.
        due: Semaphore,
        taken: Cell<u64>,
    },
}

impl Pace {
    /// Turns within this time, in an open loop where there is a schedule.
    pub(super) fn new(clock: Clock, time: Range<Timestamp>, schedule: Option<Schedule>) -> Self {
        let form = match schedule {
            None => Form::Closed { over: Cell::new(false) },
            Some(schedule) => Form::Open { schedule, due: Semaphore::new(0), taken: Cell::new(0) },
        };
        let returned = RefCell::default();
        Self { clock, begin: time.start, end: Cell::new(time.end), returned, form }
    }

    /// Waits for a turn: since when the request has been due; `None` when all is over.
    pub(super) async fn turn(&self) -> Option<Timestamp> {
        if let Some(since) = self.returned.borrow_mut().pop_front() {
            return Some(since);
        }
        match &self.form {
            Form::Closed { over } => (!over.get()).then(|| self.clock.now()),
            Form::Open { schedule, due, taken } => {
                // What was due before the end is taken after it as well.
                if let Ok(permit) = due.acquire().await {
                    permit.forget();
                } else if taken.get() >= self.due_by(*schedule, self.clock.now()) {
                    return None;
                }
                let index = taken.replace(taken.get() + 1);
                Some(self.begin + schedule.due_us(index))
            }
        }
    }

    /// Gives back a turn of which nothing became: whoever comes next takes it.
    pub(super) fn give_back(&self, since: Timestamp) {
        self.returned.borrow_mut().push_back(since);
    }

    /// Gives out turns as they become due, for ever. Without a schedule there is nothing to do.
    ///
    /// # Errors
    ///
    /// Where the operating system has no timers.
    pub(super) async fn give_out(&self) -> io::Result<Infallible> {
        let Form::Open { schedule, due, .. } = &self.form else { return pending().await };
        let timer = Timer::new()?;
        let mut given = 0;
        loop {
            let by_now = self.due_by(*schedule, self.clock.now());
            if by_now > given {
                due.add_permits(usize::try_from(by_now - given).unwrap_or(usize::MAX));
                given = by_now;
            }
            let next = self.begin + schedule.due_us(given);
            if next >= self.end.get() {
                return pending().await;
            }
            timer.wait(next - self.clock.now()).await?;
        }
    }

    /// How many have become due by this instant.
    fn due_by(&self, schedule: Schedule, now: Timestamp) -> u64 {
        let last = now.min(Timestamp::from_micros(self.end.get().as_micros().saturating_sub(1)));
        // Nothing is due before the beginning, not even the first.
        if last < self.begin { 0 } else { schedule.due_by(last - self.begin) }
    }

    /// Has nothing more become due.
    pub(super) fn end(&self) {
        self.end.set(self.end.get().min(self.clock.now()));
        match &self.form {
            Form::Closed { over } => over.set(true),
            Form::Open { due, .. } => due.close(),
        }
    }

    /// Whether it has ended, and nobody has given back what he had.
    pub(super) fn is_over(&self) -> bool {
        let ended = match &self.form {
            Form::Closed { over } => over.get(),
            Form::Open { due, .. } => due.is_closed(),
        };
        ended && self.returned.borrow().is_empty()
    }

    /// Since when requests have been due that no stream has taken, or that were given back.
    pub(super) fn untaken(&self) -> impl Iterator<Item = Timestamp> {
        let (schedule, indexes) = match &self.form {
            Form::Closed { .. } => (None, 0..0),
            Form::Open { schedule, taken, .. } => {
                (Some(*schedule), taken.get()..self.due_by(*schedule, self.clock.now()))
            }
        };
        let begin = self.begin;
        let never_taken = indexes.filter_map(move |index| Some(begin + schedule?.due_us(index)));
        self.returned.take().into_iter().chain(never_taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time;
    use tollgate::clock::ManualClock;

    /// A pace by a clock of its own, of 1,000 requests a second.
    fn open() -> (Pace, ManualClock) {
        let clock = ManualClock::default();
        clock.advance(1_000_000);
        let schedule = Schedule::new(1000, 1, 0);
        let time = clock.now()..clock.now() + 3500;
        (Pace::new(Clock::Manual(clock.clone()), time, Some(schedule)), clock)
    }

    /// Gives out what is due.
    async fn give_out(pace: &Pace) {
        // It waits for what is due next for ever: the clock stands still.
        tokio::select! {
            biased;
            given = pace.give_out() => drop(given.unwrap()),
            () = async { for _ in 0..10 { tokio::task::yield_now().await } } => {}
        }
    }

    #[tokio::test]
    async fn who_takes_his_turn_late_has_waited_since_it_was_due() {
        let (pace, clock) = open();
        clock.advance(2500);
        give_out(&pace).await;
        for due_us in [0, 1000, 2000] {
            assert_eq!(pace.turn().await, Some(pace.begin + due_us));
        }
        let fourth = time::timeout(time::Duration::ZERO, pace.turn()).await;
        assert!(fourth.is_err(), "nothing more is due");
    }

    #[tokio::test]
    async fn what_was_due_before_the_end_is_taken_after_it_and_no_more() {
        let (pace, clock) = open();
        clock.advance(9000);
        assert_eq!(pace.untaken().count(), 4, "later than the end nothing is due");
        pace.end();
        for due_us in [0, 1000] {
            assert_eq!(pace.turn().await, Some(pace.begin + due_us));
        }
        let untaken: Vec<_> = pace.untaken().map(|due| due - pace.begin).collect();
        assert_eq!(untaken, [2000, 3000]);
        while pace.turn().await.is_some() {}
        assert_eq!(pace.untaken().count(), 0);
    }

    #[tokio::test]
    async fn what_is_given_back_is_taken_first_and_has_waited_since_it_was_due() {
        let (pace, clock) = open();
        clock.advance(1500);
        give_out(&pace).await;
        let first = pace.turn().await.unwrap();
        pace.give_back(first);
        assert_eq!(pace.turn().await, Some(first));
        pace.give_back(first);
        pace.end();
        assert!(!pace.is_over(), "somebody is to take it yet");
        assert_eq!(pace.untaken().count(), 2);
        assert!(pace.is_over());
    }

    #[tokio::test]
    async fn who_ends_it_early_has_nothing_more_become_due() {
        let (pace, clock) = open();
        clock.advance(1500);
        pace.end();
        clock.advance(9000);
        assert_eq!(pace.untaken().count(), 2);
    }

    #[tokio::test]
    async fn a_closed_loop_gives_a_turn_to_whoever_asks_until_it_ends() {
        let clock = ManualClock::default();
        let pace = Pace::new(Clock::Manual(clock.clone()), clock.now()..clock.now() + 100, None);
        clock.advance(77);
        assert_eq!(pace.turn().await, Some(clock.now()));
        pace.end();
        assert_eq!(pace.turn().await, None);
        assert_eq!(pace.untaken().count(), 0);
    }
}
