//! Looks on while requests are answered: how long it takes, what comes of it, and which trace it belongs to.

use super::{
    Durations, Method, Timed,
    trace::{Span, Traces},
};
use crate::{
    decision::Decision,
    store::{Operation, StoreError, Timing},
};
use http::HeaderMap;
use opentelemetry::context::FutureExt as _;
use std::fmt::Display;
use tokio_util::either::Either;

/// Looks on. The default does not.
#[derive(Debug, Clone, Default)]
pub struct Observer {
    pub(super) durations: Durations,
    pub(super) traces: Traces,
}

impl Observer {
    /// Whether requests may have spans, for which their headers are read.
    pub const fn is_tracing(&self) -> bool {
        self.traces.is_on()
    }

    /// A request with these headers was read. It is answered when what this returns is dropped.
    pub fn begin(&self, method: Method, headers: &HeaderMap) -> Underway<'_> {
        let span = self.traces.begin(method, headers);
        Underway { _timed: self.durations.begin(method), span }
    }
}

impl Timing for Observer {
    fn took(&self, operation: Operation, micros: u64, error: Option<&StoreError>) {
        self.durations.store_call(operation, micros);
        self.traces.store_called(operation, micros, error);
    }
}

/// A request that is not answered yet.
#[derive(Debug)]
#[must_use = "the request ends when it is dropped"]
pub struct Underway<'o> {
    _timed: Timed<'o>,
    span: Option<Span>,
}

impl Underway<'_> {
    /// Does something for the request.
    pub fn during<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        match &self.span {
            Some(span) => Either::Left(work.with_context(span.context())),
            None => Either::Right(work),
        }
    }

    /// What was decided of it.
    pub fn decided(&self, domain: &[u8], decision: &Decision) {
        if let Some(refused) = &decision.refused {
            let rule = refused.rule.as_deref().unwrap_or("a limit that came with the request");
            tracing::debug!(degraded = decision.degraded, "refused by {rule}");
        }
        if let Some(span) = &self.span {
            span.decided(domain, decision);
        }
    }

    /// Why there is no answer.
    pub fn failed(&self, why: &dyn Display) {
        if let Some(span) = &self.span {
            span.failed(why.to_string());
        }
    }
}
