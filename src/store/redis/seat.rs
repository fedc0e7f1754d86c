//! A seat in a round, for as long as somebody waits there.

use super::{
    lane::Lane,
    round::{Late, Leaving, Round},
    way::Way,
};
use crate::{
    clock,
    store::StoreError,
    verdict::{Answer, Question},
};
use std::{future, pin::pin, sync::Arc};
use tokio::task;

/// How often everybody has to run until an answer that lies in the socket is told: who reads it, who carries the round,
/// who waits.
const TURNS_OF_AN_ANSWER: usize = 3;

/// A request that waits for its round. Dropped before it was answered, it is left, and given back what it is charged.
pub(super) struct Seat<'a> {
    way: &'a Arc<Way>,
    lane: Arc<Lane>,
    round: Arc<Round>,
    place: usize,
    question: &'a Question,
    /// Whether it is answered, or left.
    has_left: bool,
}

impl<'a> Seat<'a> {
    /// A seat for a request; `None` where too many wait already.
    pub(super) fn take(way: &'a Arc<Way>, question: &'a Question) -> Option<Self> {
        let lane = way.lanes.here();
        let (round, place, calls_carrier) = lane.join(question)?;
        if calls_carrier {
            way.start_carrier(&lane);
        }
        Some(Self { way, lane, round, place, question, has_left: false })
    }

    /// What became of the request.
    pub(super) async fn answer(&mut self) -> Result<Answer, StoreError> {
        let answer =
            future::poll_fn(|context| self.round.poll(self.place, self.question, context)).await;
        self.has_left = true;
        answer
    }

    /// What became of the request, where that is there but was not told yet. When this process has stood still, timers go
    /// off before anybody has run who reads what Redis said long ago.
    pub(super) async fn look_again(&mut self) -> Option<Result<Answer, StoreError>> {
        for _ in 0..TURNS_OF_AN_ANSWER {
            task::yield_now().await;
            if let Some(answer) = clock::at_once(pin!(self.answer())).await {
                return Some(answer);
            }
        }
        None
    }

    /// Does not wait any more, though Redis may still have had time where it `is_hurried`. Returns why.
    pub(super) fn leave(&mut self, is_hurried: bool) -> StoreError {
        self.has_left = true;
        let Self { way, question, .. } = *self;
        let leaving = self.round.leave(self.place, is_hurried, || {
            if !question.charges() {
                return None;
            }
            let Ok(place) = Arc::clone(&way.late).try_acquire_owned() else {
                way.condition.count_late_charge(false);
                return None;
            };
            Some(Late { question: question.clone(), is_hurried, _place: place })
        });
        match leaving {
            Leaving::Sent => StoreError::Late,
            Leaving::Answered(late, answer) => {
                way.hear_late(*late, answer);
                StoreError::Late
            }
            Leaving::Unsent => {
                self.lane.forget_empty();
                if self.lane.has_none() { StoreError::Unreachable } else { StoreError::Busy }
            }
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if !self.has_left {
            self.leave(true);
        }
    }
}
