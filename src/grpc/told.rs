//! When an answer has gone out. What was taken for a request is kept only then: a caller that has left
//! meanwhile, or whose deadline is over, never hears of its lease, and would never release it.

use crate::decider::Taken;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tonic::{Response, Status};

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
pub fn keep_when_told(
    mut response: http::Response<tonic::body::Body>,
) -> http::Response<tonic::body::Body> {
    match response.extensions_mut().remove::<Arc<Taken>>() {
        None => response,
        Some(taken) => {
            response.map(|body| tonic::body::Body::new(Told { body, taken: Some(taken) }))
        }
    }
}

/// A body that keeps what was taken at its end, and gives it back where it never comes there.
struct Told {
    body: tonic::body::Body,
    taken: Option<Arc<Taken>>,
}

impl Body for Told {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let is_told = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(frame))) => frame.is_trailers(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if is_told && let Some(taken) = self.taken.take().and_then(Arc::into_inner) {
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
