//! A batch of requests, and those who wait for what becomes of them.
//!
//! It is gathered, then under way, then done. Whoever leaves before it is under way is not sent with it. Whoever
//! leaves later may be charged all the same: so he leaves his question behind, by which he is given back what he was
//! charged.

use super::{
    batch::{Batch, Said},
    connection::Connection,
    fault,
    script::Reply,
};
use crate::{
    clock::Timestamp,
    store::StoreError,
    verdict::{Answer, Question},
};
use redis::Cmd;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};
use tokio::sync::OwnedSemaphorePermit;

/// A batch, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Round(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    batch: Batch,
    seats: Vec<Seat>,
    stage: Stage,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Gathering,
    UnderWay,
    Done(Result<Told, StoreError>),
}

/// What a call said, and over which connection.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) said: Said,
    pub(super) connection: Connection,
}

/// A place for somebody who waits.
#[derive(Debug)]
enum Seat {
    /// He does; with what wakes him, once he has looked in vain.
    Taken(Option<Waker>),
    /// He has left, and did not wait as long as Redis may take.
    Hurried,
    /// He has left, and what he is charged is to be given back.
    Late(Late),
    /// There is nothing more to do for him.
    Empty,
}

/// A question that may be charged though nobody waits for its answer any more.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) question: Question,
    /// Whether it was left before Redis had had its time.
    pub(super) is_hurried: bool,
    /// Those that are listened for are bounded.
    pub(super) _place: OwnedSemaphorePermit,
}

/// What was answered to a request that was left.
#[derive(Debug)]
pub(super) struct LateAnswer {
    pub(super) answer: Answer,
    /// When it was decided, by Redis's clock.
    pub(super) decided: Timestamp,
    /// Over which connection the answer came: whatever others lead to by now, this one leads to the Redis that decided.
    pub(super) connection: Connection,
}

/// What is to be given back, and what was answered.
pub(super) type Left = Vec<(Late, Result<LateAnswer, StoreError>)>;

/// When somebody left.
#[derive(Debug)]
pub(super) enum Leaving {
    /// It had not been sent, and will not be.
    Unsent,
    /// It is under way, or was answered and nothing has to be given back.
    Sent,
    /// It was answered, and what was charged is to be given back.
    Answered(Box<Late>, Result<LateAnswer, StoreError>),
}

impl Round {
    /// Takes in a request. Returns its place; `None` where there is no room for it.
    pub(super) fn join(&self, question: &Question) -> Option<usize> {
        let mut inner = self.inner();
        let place = inner.batch.push(question)?;
        inner.seats.push(Seat::Taken(None));
        Some(place)
    }

    /// Whether nobody waits for it any more, while it is gathered.
    pub(super) fn is_empty(&self) -> bool {
        self.inner().batch.is_empty()
    }

    /// Puts it under way: the command for a Redis that knows the script by this name. `None` where nobody waits for it
    /// any more.
    pub(super) fn depart(&self, sha: &str) -> Option<Cmd> {
        let mut inner = self.inner();
        inner.stage = Stage::UnderWay;
        (!inner.batch.is_empty()).then(|| inner.batch.by_name(sha))
    }

    /// What became of a request, as soon as that is known.
    pub(super) fn poll(
        &self,
        place: usize,
        question: &Question,
        context: &Context<'_>,
    ) -> Poll<Result<Answer, StoreError>> {
        let mut inner = self.inner();
        let Inner { stage, seats, .. } = &mut *inner;
        if let Stage::Done(told) = stage {
            return Poll::Ready(answer(told, place, question));
        }
        match seats.get_mut(place) {
            Some(Seat::Taken(Some(waker))) if waker.will_wake(context.waker()) => {}
            Some(seat) => *seat = Seat::Taken(Some(context.waker().clone())),
            None => {}
        }
        Poll::Pending
    }

    /// Somebody does not wait any more. Where he may be charged all the same, `late` says what for.
    pub(super) fn leave(
        &self,
        place: usize,
        is_hurried: bool,
        late: impl FnOnce() -> Option<Late>,
    ) -> Leaving {
        let mut inner = self.inner();
        let Inner { stage, seats, batch } = &mut *inner;
        match stage {
            Stage::Gathering => {
                batch.remove(place);
                if let Some(seat) = seats.get_mut(place) {
                    *seat = Seat::Empty;
                }
                Leaving::Unsent
            }
            Stage::UnderWay => {
                let seat_left = match late() {
                    Some(late) => Seat::Late(late),
                    None if is_hurried => Seat::Hurried,
                    None => Seat::Empty,
                };
                if let Some(seat) = seats.get_mut(place) {
                    *seat = seat_left;
                }
                Leaving::Sent
            }
            Stage::Done(told) => {
                let Some(late) = late() else { return Leaving::Sent };
                let answer = late_answer(told, place, &late.question);
                Leaving::Answered(late.into(), answer)
            }
        }
    }

    /// Tells all who wait what came of it. Returns what those are to be given back who do not
    /// wait any more.
    pub(super) fn settle(&self, told: impl FnOnce(&Batch) -> Result<Told, StoreError>) -> Left {
        let mut inner = self.inner();
        let told = told(&inner.batch);
        let (mut wakers, mut left) = (Vec::with_capacity(inner.seats.len()), Left::new());
        for (place, seat) in inner.seats.iter_mut().enumerate() {
            match std::mem::replace(seat, Seat::Empty) {
                Seat::Taken(waker) => wakers.extend(waker),
                Seat::Late(late) => {
                    let answer = late_answer(&told, place, &late.question);
                    left.push((late, answer));
                }
                Seat::Hurried | Seat::Empty => {}
            }
        }
        inner.stage = Stage::Done(told);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        left
    }

    /// Redis has had its time. How many had left before, who did not see that; and whether anything may still have to
    /// be given back.
    pub(super) fn is_overdue(&self) -> (usize, bool) {
        let (mut hurried, mut is_awaited) = (0, false);
        for seat in &mut self.inner().seats {
            match seat {
                Seat::Taken(_) => is_awaited = true,
                Seat::Late(late) => {
                    hurried += usize::from(std::mem::take(&mut late.is_hurried));
                    is_awaited = true;
                }
                Seat::Hurried => {
                    hurried += 1;
                    *seat = Seat::Empty;
                }
                Seat::Empty => {}
            }
        }
        (hurried, is_awaited)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of one request.
fn answer(
    told: &Result<Told, StoreError>,
    place: usize,
    question: &Question,
) -> Result<Answer, StoreError> {
    let told = told.as_ref().map_err(Clone::clone)?;
    done(told.said.of(place, question))
}

/// The same of a request that was left.
fn late_answer(
    told: &Result<Told, StoreError>,
    place: usize,
    question: &Question,
) -> Result<LateAnswer, StoreError> {
    let answer = answer(told, place, question)?;
    let Told { said, connection } = told.as_ref().map_err(Clone::clone)?;
    Ok(LateAnswer { answer, decided: said.now(), connection: connection.clone() })
}

/// What a script has done.
pub(super) fn done<T>(reply: Option<Reply<T>>) -> Result<T, StoreError> {
    match reply {
        Some(Reply::Done(answer)) => Ok(answer),
        Some(Reply::Deleted(_)) => Err(StoreError::Unreadable),
        Some(Reply::Failed(error)) => Err(StoreError::Refused(fault::in_words(&error.into()))),
        None => Err(StoreError::Refused("the reply is not one of the script's".to_owned())),
    }
}
