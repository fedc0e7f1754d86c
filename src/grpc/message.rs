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
    task::{Context, Poll, ready},
};
use tokio::sync::OwnedSemaphorePermit;
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
    /// Its place among the calls that are streams.
    place: Option<OwnedSemaphorePermit>,
}

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
            place: None,
        }
    }

    /// Keeps a place for as long as there may be more messages.
    pub(super) fn keep(&mut self, place: OwnedSemaphorePermit) {
        self.place = Some(place);
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
