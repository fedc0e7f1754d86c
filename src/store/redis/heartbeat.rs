//! Who else is there, and whether the states still are.
//!
//! Each process says every second that it is there, and hears how many are: what a limit is divided by where
//! each must limit for itself. With it stands the name of an epoch, which was drawn when there was none. So
//! when all is gone (FLUSHALL, a failover to an empty Redis), the next epoch has another name; and when only
//! the last writes are, because a replica took over that had not got them yet, this process finds an older
//! deadline of its own than the one that it was told of.

use super::{
    Way,
    script::{self, Beat, Call, Heard},
};
use crate::{
    key::{Key, Path},
    store::draw,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{self, MissedTickBehavior};

/// How often a process says that it is there.
const EVERY: Duration = Duration::from_secs(1);

/// How long it counts when it says nothing more.
const TTL: Duration = Duration::from_secs(5);

/// What the key has in the place of a limiter.
const REPLICAS: &str = "replicas";

/// States that are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// All of them.
    All,
    /// What was written last.
    Last,
}

/// Beats in a row that must tell of fewer processes before that is believed. In a Redis that has lost its states
/// the first to beat is alone, until the others have.
const BELIEVED: u32 = TTL.as_secs() as u32 + 1;

/// What was heard.
#[derive(Debug, Default)]
struct Remembered {
    last: Option<Heard>,
    /// How many processes there are.
    replicas: u32,
    /// Beats in a row that told of fewer.
    fewer: u32,
}

impl Remembered {
    /// How many processes there are, as far as that can be believed.
    fn replicas(&mut self, heard: u32) -> u32 {
        self.fewer = if heard < self.replicas { self.fewer + 1 } else { 0 };
        if self.fewer == 0 || self.fewer >= BELIEVED {
            (self.replicas, self.fewer) = (heard, 0);
        }
        self.replicas
    }

    /// What is gone since then.
    fn hear(&mut self, heard: Heard) -> Option<Loss> {
        let before = self.last.replace(heard)?;
        if heard.epoch != before.epoch {
            self.fewer = 0;
            return Some(Loss::All);
        }
        // Whoever was silent for long is forgotten, and nothing lost.
        let is_older = heard.known > 0 && heard.known < before.deadline;
        is_older.then_some(Loss::Last)
    }
}

/// The heartbeats of this process.
pub(super) struct Beats {
    way: Arc<Way>,
    /// What tells this process from others; `None` until it is drawn.
    id: Option<u64>,
    remembered: Remembered,
}

impl Beats {
    /// Those that go this way.
    pub(super) fn new(way: Arc<Way>) -> Self {
        Self { way, id: None, remembered: Remembered::default() }
    }

    /// Beats for as long as it is polled. Polled anew, it is the same process.
    pub(super) async fn beat(&mut self) {
        let Self { way, id, remembered } = self;
        // No domain has no name, so it is nobody's.
        let key = Key::new(REPLICAS, &Path::of_domain(b""));
        let mut ticks = time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Without random numbers there is no telling processes apart.
        let Some(id) = id.or_else(|| draw().ok()).inspect(|drawn| *id = Some(*drawn)) else {
            return;
        };
        loop {
            ticks.tick().await;
            let Ok(epoch) = draw() else { continue };
            let ttl_us = TTL.as_micros() as u64;
            let beat = Beat { id, epoch, ttl_us };
            let call = Call::heartbeat(&key, &beat);
            // Where it is not heard, the next one will be. What goes wrong is told by those who ask for more.
            if let Ok(heard) = way.ask_quietly(&call, script::read_heard).await {
                if let Some(loss) = remembered.hear(heard) {
                    way.condition.count_loss(loss);
                }
                way.condition.set_replicas(remembered.replicas(heard.replicas));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Heard = Heard { epoch: 7, replicas: 1, known: 0, deadline: 5_000_000 };

    #[test]
    fn a_new_epoch_is_a_loss_of_all_but_not_the_first_one() {
        let mut remembered = Remembered::default();
        assert_eq!(remembered.hear(FIRST), None);
        let next = Heard { known: FIRST.deadline, deadline: 6_000_000, ..FIRST };
        assert_eq!(remembered.hear(next), None);
        let other = Heard { epoch: 8, known: 0, ..next };
        assert_eq!(remembered.hear(other), Some(Loss::All));
        assert_eq!(remembered.hear(Heard { known: other.deadline, ..other }), None, "told once");
    }

    #[test]
    fn an_older_deadline_of_its_own_is_a_loss_of_what_was_written_last() {
        let mut remembered = Remembered::default();
        remembered.hear(Heard { deadline: 9_000_000, ..FIRST });
        let older = Heard { known: 8_000_000, deadline: 10_000_000, ..FIRST };
        assert_eq!(remembered.hear(older), Some(Loss::Last));
    }

    #[test]
    fn more_are_believed_at_once_and_fewer_when_they_were_told_for_a_while() {
        let mut remembered = Remembered::default();
        assert_eq!(remembered.replicas(1), 1);
        assert_eq!(remembered.replicas(3), 3);
        for _ in 1..BELIEVED {
            assert_eq!(remembered.replicas(1), 3);
        }
        assert_eq!(remembered.replicas(3), 3);
        for _ in 1..BELIEVED {
            assert_eq!(remembered.replicas(2), 3);
        }
        assert_eq!(remembered.replicas(2), 2);
    }

    #[test]
    fn a_redis_that_comes_back_empty_again_and_again_makes_nobody_alone() {
        let mut remembered = Remembered::default();
        remembered.hear(FIRST);
        assert_eq!(remembered.replicas(3), 3);
        for epoch in 8..100 {
            remembered.hear(Heard { epoch, ..FIRST });
            assert_eq!(remembered.replicas(1), 3);
        }
    }

    #[test]
    fn a_beat_whose_answer_was_lost_and_a_long_silence_are_no_loss() {
        let mut remembered = Remembered::default();
        remembered.hear(FIRST);
        assert_eq!(remembered.hear(Heard { known: 6_000_000, deadline: 7_000_000, ..FIRST }), None);
        assert_eq!(remembered.hear(Heard { known: 0, deadline: 90_000_000, ..FIRST }), None);
    }
}
