//! Whole messages out of the body of a call. A message is gathered within the memory budget, measured and counted
//! before anything decodes it, and given on as one piece; then its room is free again, however long the call lasts.

use super::{request::InvalidRequest, shape::Shape};
use crate::budget::{self, Budget, Reservation, Revoked};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// What stands before a message: whether it is compressed, in a byte, and its length, in four.
pub(super) const PREFIX: usize = 5;

/// The largest message that is counted, decoded and decided on the core that read it, in bytes. It holds any header
/// that Envoy takes by default (60 KiB); to decide it takes a fraction of a millisecond. What is larger, only a decision
/// can be, and is worked on elsewhere.
pub(super) const LARGEST_ON_CORE: usize = 72 << 10;

/// The body of a call, message by message.
#[derive(Debug)]
pub(super) struct Messages<B> {
    body: B,
    shape: &'static Shape,
    budget: Budget,
    /// What is gathered; `None` between messages.
    reservation: Option<Reservation>,
    gathered: BytesMut,
    /// Whether the message that has begun was found to be one that may be decoded.
    is_checked: bool,
    trailers: Option<HeaderMap>,
    /// Whether the body has ended.
    is_over: bool,
    /// Whether a message was given on. Until then it is not known what the call wants, so that it has begun takes
    /// room of the budget.
    has_begun: bool,
    /// What the call takes while it lasts.
    kept: Option<Kept>,
}

/// Room of a call that may last: of a stream, or of one that waits. What it has asked stays with it until it ends.
#[derive(Debug)]
struct Kept {
    /// In KiB.
    room: Arc<Semaphore>,
    taken: OwnedSemaphorePermit,
    shape: &'static Shape,
}

/// How often the longest message of a call that may last is kept: as it came and as it was decoded.
const COPIES: usize = 2;

/// The length of a message that is small beside what its call takes anyway, in bytes.
const SMALL: usize = 1 << 10;

impl<B> Messages<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// The messages of a body, of which nothing has come.
    pub(super) fn new(body: B, shape: &'static Shape, budget: Budget) -> Self {
        Self {
            body,
            shape,
            budget,
            reservation: None,
            gathered: BytesMut::new(),
            is_checked: false,
            trailers: None,
            is_over: false,
            has_begun: false,
            kept: None,
        }
    }

    /// Takes of this room, which is counted in KiB, until the call ends.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub(super) fn keep(&mut self, room: &Arc<Semaphore>) -> Result<(), Status> {
        let taken = Arc::clone(room).try_acquire_many_owned(kib(self.shape, self.gathered.len()));
        let taken = taken.map_err(|_| too_many_calls())?;
        self.kept = Some(Kept { room: Arc::clone(room), taken, shape: self.shape });
        Ok(())
    }

    /// Takes in a part of the body that has come.
    pub(super) fn put(&mut self, frame: Frame<Bytes>) {
        match frame.into_data() {
            Ok(data) if self.gathered.is_empty() => {
                // Where nothing else holds these bytes, they need not be copied.
                self.gathered = data.try_into_mut().unwrap_or_else(|data| data[..].into());
            }
            Ok(data) => self.gathered.extend_from_slice(&data),
            Err(frame) => self.trailers = frame.into_trailers().ok(),
        }
    }

    /// Waits until the first message has come as a whole, or the body has ended.
    ///
    /// # Errors
    ///
    /// Where the message is too long or holds too much, where its room is wanted for others, and where the body
    /// breaks off.
    pub(super) async fn first(&mut self) -> Result<(), Status> {
        std::future::poll_fn(|context| {
            loop {
                self.check()?;
                if self.whole().is_some() || self.is_over {
                    return Poll::Ready(Ok(()));
                }
                ready!(self.poll_more(context))?;
            }
        })
        .await
    }

    /// The only message of a body, with its prefix, once all of the body has come. `None` where there is something
    /// unusual about it: then what has come is still here. Its room stays reserved until this is dropped.
    ///
    /// # Errors
    ///
    /// Where the message is too long or holds too much, where its room is wanted for others, and where the body
    /// breaks off.
    pub(super) async fn only(&mut self) -> Result<Option<Bytes>, Status> {
        std::future::poll_fn(|context| self.poll_only(context)).await
    }

    fn poll_only(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        loop {
            self.check()?;
            match self.whole() {
                Some(length) if length < self.gathered.len() => return Poll::Ready(Ok(None)),
                Some(_) if self.is_over || self.body.is_end_stream() => {
                    return Poll::Ready(Ok(Some(std::mem::take(&mut self.gathered).freeze())));
                }
                None if self.is_over => return Poll::Ready(Ok(None)),
                _ => {}
            }
            ready!(self.poll_more(context))?;
        }
    }

    /// Completes where the room of what was gathered is wanted for others.
    pub(super) async fn revoked(&self) -> Status {
        match &self.reservation {
            Some(reservation) => exhausted(reservation.revoked().await),
            None => std::future::pending().await,
        }
    }

    /// What is wrong with the message that has begun, as far as that can be said. Each message is counted once.
    fn check(&mut self) -> Result<(), Status> {
        if self.is_checked {
            return Ok(());
        }
        let Some(&[_, a, b, c, d]) = self.gathered.first_chunk::<PREFIX>() else { return Ok(()) };
        let (length, longest) = (u32::from_be_bytes([a, b, c, d]), self.shape.longest);
        if length as usize > longest {
            return Err(too_long(length, longest));
        }
        let whole = self.whole().and_then(|end| self.gathered.get(PREFIX..end));
        if let Some(message) = whole {
            if message.len() <= LARGEST_ON_CORE {
                self.shape.check(message).map_err(invalid)?;
            }
            self.is_checked = true;
        }
        Ok(())
    }

    /// The length of the first message that has come as a whole, with its prefix.
    fn whole(&self) -> Option<usize> {
        let &[_, a, b, c, d] = self.gathered.first_chunk::<PREFIX>()?;
        let end = PREFIX + u32::from_be_bytes([a, b, c, d]) as usize;
        (end <= self.gathered.len()).then_some(end)
    }

    /// Waits for more of the body.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.reserve()?;
        if let Some(reservation) = &self.reservation
            && let Poll::Ready(revoked) = reservation.poll_revoked(context)
        {
            return Poll::Ready(Err(exhausted(revoked)));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match frame {
            Some(Ok(frame)) => self.put(frame),
            Some(Err(error)) => return Poll::Ready(Err(failed(error.into()))),
            None => self.is_over = true,
        }
        Poll::Ready(self.reserve())
    }

    /// Reserves room for what is not whole.
    fn reserve(&mut self) -> Result<(), Status> {
        if self.has_begun && self.gathered.is_empty() {
            self.reservation = None;
            return Ok(());
        }
        let needed = self.gathered.capacity().max(budget::STREAM);
        match &mut self.reservation {
            Some(reservation) => reservation.set(needed).map_err(exhausted),
            none => {
                *none = Some(self.budget.reserve(needed));
                Ok(())
            }
        }
    }
}

/// One frame for each message, so that what reads it need gather nothing.
impl<B> Body for Messages<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            this.check()?;
            let whole = this.whole();
            if whole.is_some() || (this.is_over && !this.gathered.is_empty()) {
                // What is no message at the end of a body is judged by what reads it.
                let message = this.gathered.split_to(whole.unwrap_or(this.gathered.len()));
                if this.gathered.is_empty() {
                    // It would keep the message's bytes.
                    this.gathered = BytesMut::new();
                }
                if let Some(kept) = &mut this.kept {
                    kept.hold(message.len())?;
                }
                (this.reservation, this.is_checked, this.has_begun) = (None, false, true);
                return Poll::Ready(Some(Ok(Frame::data(message.freeze()))));
            }
            if let Some(trailers) = this.trailers.take() {
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            if this.is_over {
                this.reservation = None;
                return Poll::Ready(None);
            }
            ready!(this.poll_more(context))?;
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_empty = self.gathered.is_empty() && self.trailers.is_none();
        is_empty && (self.is_over || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Kept {
    /// Takes as much as a message of this length needs.
    fn hold(&mut self, length: usize) -> Result<(), Status> {
        let taken = u32::try_from(self.taken.num_permits()).unwrap_or(u32::MAX);
        let more = kib(self.shape, length).saturating_sub(taken);
        if more > 0 {
            let more = Arc::clone(&self.room).try_acquire_many_owned(more);
            self.taken.merge(more.map_err(|_| too_many_calls())?);
        }
        Ok(())
    }
}

/// What a call takes while it lasts whose longest message has this length.
fn kib(shape: &Shape, length: usize) -> u32 {
    let copies = if length > SMALL { COPIES * length.div_ceil(1 << 10) } else { 0 };
    u32::try_from(shape.call_kib + copies).unwrap_or(u32::MAX)
}

fn too_many_calls() -> Status {
    Status::resource_exhausted(
        "as many calls are under way as may be that last (Hold, Acquire, reports): ask another replica, or later",
    )
}

fn too_long(length: u32, longest: usize) -> Status {
    Status::resource_exhausted(format!(
        "a message of {length} bytes: this call takes {longest} at most"
    ))
}

fn exhausted(revoked: Revoked) -> Status {
    Status::resource_exhausted(revoked.to_string())
}

pub(super) fn invalid(error: InvalidRequest) -> Status {
    super::Undecided::from(error).into()
}

fn failed(error: Box<dyn Error + Send + Sync>) -> Status {
    Status::from_error(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::{collections::VecDeque, convert::Infallible, future::poll_fn};
    use tonic::Code;

    /// A body that comes in pieces; behind the last piece nothing more comes, or the end.
    struct Pieces {
        pieces: VecDeque<Bytes>,
        ends: bool,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.pieces.pop_front() {
                Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
                None if self.ends => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    const HOLD: &str = "/tollgate.v1.LeaseService/Hold";

    fn framed(length: usize) -> Vec<u8> {
        let prefix = u32::try_from(length).unwrap().to_be_bytes();
        // A field that means nothing, over and over.
        [&[0][..], &prefix, &[0x78, 0x01].repeat(length / 2)].concat()
    }

    fn messages(path: &str, pieces: &[&[u8]], ends: bool, budget: &Budget) -> Messages<Pieces> {
        let pieces = pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect();
        Messages::new(Pieces { pieces, ends }, Shape::of(path), budget.clone())
    }

    fn next(messages: &mut Messages<Pieces>) -> Option<Option<Result<Bytes, Code>>> {
        let frame = poll_fn(|context| Pin::new(&mut *messages).poll_frame(context));
        let frame = frame.now_or_never()?;
        Some(frame.map(|it| match it {
            Ok(frame) => Ok(frame.into_data().unwrap()),
            Err(status) => Err(status.code()),
        }))
    }

    #[test]
    fn messages_are_given_on_one_by_one_and_as_a_whole() {
        let (budget, one, other) = (Budget::default(), framed(100), framed(40));
        let all = [&one[..], &other, &other[..7]].concat();
        let pieces: Vec<&[u8]> = all.chunks(3).collect();
        let mut messages = messages(HOLD, &pieces, true, &budget);
        assert_eq!(next(&mut messages), Some(Some(Ok(one.into()))));
        assert_eq!(next(&mut messages), Some(Some(Ok(other.clone().into()))));
        assert_eq!(next(&mut messages), Some(Some(Ok(other[..7].to_vec().into()))), "as it is");
        assert_eq!(next(&mut messages), Some(None));
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_before_it_comes() {
        let budget = Budget::default();
        let mut messages = messages(HOLD, &[&framed(LARGEST_ON_CORE)[..PREFIX]], false, &budget);
        assert_eq!(next(&mut messages), Some(Some(Err(Code::ResourceExhausted))));
    }

    #[test]
    fn what_is_not_whole_takes_room_and_what_waits_for_the_next_message_does_not() {
        let (budget, message) = (Budget::of(120_000), framed(50_000));
        let mut messages = messages(HOLD, &[&message[..40_000]], false, &budget);
        assert_eq!(next(&mut messages), None);
        drop(budget.reserve(10_000));
        assert_eq!(budget.revoked(), 0);
        messages.body.pieces.push_back(Bytes::copy_from_slice(&message[40_000..]));
        assert!(next(&mut messages) == Some(Some(Ok(message.clone().into()))));
        assert_eq!(next(&mut messages), None, "it waits for the next");
        drop(budget.reserve(120_000));
        assert_eq!(budget.revoked(), 0, "all of the room is free");
        messages.body.pieces.push_back(Bytes::copy_from_slice(&message[..40_000]));
        assert_eq!(next(&mut messages), None);
        drop(budget.reserve(120_000));
        assert_eq!(next(&mut messages), Some(Some(Err(Code::ResourceExhausted))));
    }

    #[test]
    fn a_call_keeps_room_for_its_longest_message() {
        let (budget, room) = (Budget::default(), Arc::new(Semaphore::new(100)));
        let (short, long) = (framed(100), framed(30 << 10));
        let mut messages =
            messages(HOLD, &[&short, &long, &short, &framed(60 << 10)], false, &budget);
        messages.keep(&room).unwrap();
        for left in [96, 34, 34] {
            assert!(matches!(next(&mut messages), Some(Some(Ok(_)))));
            assert_eq!(room.available_permits(), left);
        }
        assert_eq!(next(&mut messages), Some(Some(Err(Code::ResourceExhausted))));
        let mut others = Vec::new();
        for _ in 0..8 {
            let mut other = self::messages(HOLD, &[], false, &budget);
            other.keep(&room).unwrap();
            others.push(other);
        }
        let mut one_more = self::messages(HOLD, &[], false, &budget);
        assert_eq!(one_more.keep(&room).unwrap_err().code(), Code::ResourceExhausted);
        drop(messages);
        one_more.keep(&room).unwrap();
    }

    #[test]
    fn the_only_message_of_a_call_is_given_with_the_end_of_its_body() {
        let (budget, message) = (Budget::default(), framed(100));
        let path = crate::grpc::SHOULD_RATE_LIMIT;
        let mut waits = messages(path, &[&message], false, &budget);
        assert!(waits.only().now_or_never().is_none());
        let mut ends = messages(path, &[&message[..50], &message[50..]], true, &budget);
        assert_eq!(ends.only().now_or_never().unwrap().unwrap().unwrap(), message);
        // Two of them, or a part of one, are for what reads them.
        for pieces in [[&message[..], &message], [&message[..50], b""]] {
            let mut other = messages(path, &pieces, true, &budget);
            assert_eq!(other.only().now_or_never().unwrap().unwrap(), None);
            assert!(matches!(next(&mut other), Some(Some(Ok(_)))));
        }
    }
}
