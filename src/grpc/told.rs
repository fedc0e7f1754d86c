//! When an answer has gone out. What was taken for a request is kept only then: a caller that has left
//! meanwhile, or whose deadline is over, never hears of its lease, and would never release it.

use crate::decider::Taken;
use http_body::{Body, Frame, SizeHint};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tonic::Response;

#[cfg(test)]
mod tests;

/// A response that carries what was taken, until [`keep_when_told`] sees to it.
pub fn until_told<T>(message: T, taken: Option<Taken>) -> Response<T> {
    let mut response = Response::new(message);
    if let Some(taken) = taken {
        response.extensions_mut().insert(Arc::new(taken));
    }
    response
}

/// Keeps what was taken for a response when all of it has gone to the connection.
pub fn keep_when_told<B>(mut response: http::Response<B>) -> http::Response<Told<B>> {
    let taken = response.extensions_mut().remove::<Arc<Taken>>();
    response.map(|body| Told::new(body, taken.and_then(Arc::into_inner)))
}

/// A body that keeps what was taken at its end, and gives it back where it never comes there.
#[derive(Debug)]
pub struct Told<B> {
    body: B,
    taken: Option<Taken>,
}

impl<B> Told<B> {
    /// The body of an answer to a request for which this was taken.
    pub const fn new(body: B, taken: Option<Taken>) -> Self {
        Self { body, taken }
    }
}

impl<B: Body + Unpin> Body for Told<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let is_told = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(frame))) => frame.is_trailers(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if is_told && let Some(taken) = self.taken.take() {
            taken.keep();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
