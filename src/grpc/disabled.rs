//! What stands in the place of a gRPC service that is switched off: each call is UNIMPLEMENTED, with the reason.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    marker::PhantomData,
    sync::Arc,
    task::{Context, Poll},
};
use tonic::{Status, body::Body, server::NamedService};
use tower::Service;

/// Stands in the place of `S`.
#[derive(Debug)]
pub struct Disabled<S> {
    why: Arc<str>,
    service: PhantomData<fn() -> S>,
}

impl<S> Disabled<S> {
    /// Answers every call with this text.
    pub fn new(why: String) -> Self {
        Self { why: why.into(), service: PhantomData }
    }
}

impl<S> Clone for Disabled<S> {
    fn clone(&self) -> Self {
        Self { why: Arc::clone(&self.why), service: PhantomData }
    }
}

impl<S: NamedService> NamedService for Disabled<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Disabled<S> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        ready(Ok(Status::unimplemented(&*self.why).into_http()))
    }
}
