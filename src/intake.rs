//! How much of what callers send may be there at a time without being whole. Every message has a bound, but
//! each of thousands of streams on each of thousands of connections may begin one; all of them together have a
//! bound here. What is as small as Envoy's usually is needs no room, so nobody who sends only that notices
//! somebody who takes it all.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// How much of a message needs no room, in bytes: of 4096 streams on a connection, 16 MiB.
pub const FREE: usize = 4 << 10;

/// How much room there is, in bytes.
const ROOM: usize = 256 << 20;

/// Room for messages that are not whole. Clones share it.
#[derive(Debug, Clone)]
pub struct Intake(Arc<Semaphore>);

impl Default for Intake {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM)))
    }
}

impl Intake {
    /// The same body, which takes room as it comes, and gives it back when it is dropped. Where there is none,
    /// it ends with [`Status::resource_exhausted`].
    pub fn count<B>(&self, body: B) -> Counted<B> {
        Counted { body, free: FREE, room: Arc::clone(&self.0), taken: None }
    }
}

/// A body that is counted.
#[derive(Debug)]
pub struct Counted<B> {
    body: B,
    /// How many more bytes need no room.
    free: usize,
    room: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl<B> Counted<B> {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        let more = bytes.saturating_sub(self.free);
        self.free = self.free.saturating_sub(bytes);
        if more == 0 {
            return Ok(());
        }
        let more = u32::try_from(more).ok();
        let taken = more.and_then(|more| Arc::clone(&self.room).try_acquire_many_owned(more).ok());
        let taken = taken.ok_or_else(|| {
            Status::resource_exhausted(
                "too many large messages come in at once: send less in one, or fewer at a time",
            )
        })?;
        match &mut self.taken {
            Some(before) => before.merge(taken),
            None => self.taken = Some(taken),
        }
        Ok(())
    }
}

impl<B> Body for Counted<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let came = frame.as_ref().and_then(|it| it.as_ref().ok()).and_then(Frame::data_ref);
        if let Err(status) = self.take(came.map_or(0, Bytes::len)) {
            return Poll::Ready(Some(Err(status.into())));
        }
        Poll::Ready(frame.map(|it| it.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
