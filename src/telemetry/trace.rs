//! Traces: a span for each request whose caller makes one, by its `traceparent` (W3C), and in it one for the call of
//! Redis. Whoever has no trace costs a look at his headers, and where nothing is exported not even that.

use super::{Method, otlp::Export};
use crate::{
    clock::since_1970,
    decision::{Code, Decision},
    rules::describe::printable,
    store::{Operation, StoreError},
};
use http::{HeaderMap, HeaderValue};
use opentelemetry::{
    Context, KeyValue,
    propagation::{Extractor, TextMapPropagator as _},
    trace::{Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _},
};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider},
};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// The header in which a caller says which trace a request belongs to.
const TRACEPARENT: &str = "traceparent";

/// The header fields that say which trace a request belongs to.
pub const TRACE_HEADERS: [&str; 2] = [TRACEPARENT, "tracestate"];

/// Where in it stands whether that trace is kept, as two hexadecimal digits.
const FLAGS: std::ops::Range<usize> = 53..55;
const SAMPLED: u8 = 1;

/// The longest name of a domain that is told, in bytes.
const LONGEST_DOMAIN: usize = 128;

/// Makes spans. The default makes none.
#[derive(Clone, Default)]
pub(super) struct Traces(Option<Arc<Making>>);

struct Making {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    /// Whether only requests have spans whose callers have some.
    follows: bool,
}

impl Traces {
    pub(super) fn new(export: &mut Export) -> Self {
        Self(export.tracer().map(|(provider, follows)| {
            let (tracer, propagator) = (provider.tracer("tollgate"), TraceContextPropagator::new());
            Arc::new(Making { provider, tracer, propagator, follows })
        }))
    }

    pub(super) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn provider(&self) -> Option<SdkTracerProvider> {
        self.0.as_ref().map(|making| making.provider.clone())
    }

    /// A span for a request with these headers, where there is to be one.
    pub(super) fn begin(&self, method: Method, headers: &HeaderMap) -> Option<Span> {
        let making = self.0.as_deref()?;
        if making.follows && !is_sampled(headers.get(TRACEPARENT)?) {
            return None;
        }
        // Whatever goes on in this thread has nothing to do with it.
        let parent = making.propagator.extract_with_context(&Context::new(), &Sent(headers));
        let call = method.call();
        let builder = making.tracer.span_builder(call.name).with_kind(SpanKind::Server);
        let span =
            builder.with_attributes(call.attributes()).start_with_context(&making.tracer, &parent);
        let context = Context::new().with_span(span);
        context.span().is_recording().then_some(Span(context))
    }

    /// The store was called for the request that is being worked on.
    pub(super) fn store_called(
        &self,
        operation: Operation,
        micros: u64,
        error: Option<&StoreError>,
    ) {
        let Some(making) = self.0.as_deref() else { return };
        Context::map_current(|context| {
            if !context.span().is_recording() {
                return;
            }
            let now = UNIX_EPOCH + since_1970();
            let began = now.checked_sub(Duration::from_micros(micros)).unwrap_or(now);
            let builder = making.tracer.span_builder(format!("redis {}", operation.name()));
            let builder = builder.with_kind(SpanKind::Client).with_start_time(began);
            let mut span = builder.start_with_context(&making.tracer, context);
            span.set_attribute(KeyValue::new("db.system.name", "redis"));
            span.set_attribute(KeyValue::new("db.operation.name", operation.name()));
            if let Some(error) = error {
                span.set_status(Status::error(error.to_string()));
            }
            span.end_with_timestamp(now);
        });
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

/// A span that has begun. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Span(Context);

impl Span {
    /// What is worked on for its request is worked on in this.
    pub(super) fn context(&self) -> Context {
        self.0.clone()
    }

    /// What was decided. Values of descriptors are not told: they are the callers' own.
    pub(super) fn decided(&self, domain: &[u8], decision: &Decision) {
        let span = self.0.span();
        let domain = String::from_utf8_lossy(domain.get(..LONGEST_DOMAIN).unwrap_or(domain));
        let outcome = if decision.code == Code::OverLimit { "refused" } else { "allowed" };
        span.set_attribute(KeyValue::new("tollgate.domain", printable(&domain)));
        span.set_attribute(KeyValue::new("tollgate.outcome", outcome));
        span.set_attribute(KeyValue::new("tollgate.degraded", decision.degraded));
        if let Some(rule) = decision.refused.as_ref().and_then(|refused| refused.rule.as_deref()) {
            span.set_attribute(KeyValue::new("tollgate.rule", rule.to_owned()));
        }
    }

    /// There is no answer.
    pub(super) fn failed(&self, why: String) {
        self.0.span().set_status(Status::error(why));
    }
}

/// Whether a caller keeps the trace that he names so. A text that is none is none.
fn is_sampled(traceparent: &HeaderValue) -> bool {
    let flags = traceparent.to_str().ok().and_then(|text| text.get(FLAGS));
    let flags = flags.and_then(|flags| u8::from_str_radix(flags, 16).ok());
    flags.is_some_and(|flags| flags & SAMPLED != 0)
}

/// What a caller has sent, as the library reads it.
struct Sent<'h>(&'h HeaderMap);

impl Extractor for Sent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// How a method is told in a trace.
struct Call {
    name: &'static str,
    service: Option<(&'static str, &'static str)>,
}

impl Call {
    fn attributes(&self) -> Vec<KeyValue> {
        match self.service {
            Some((service, method)) => vec![
                KeyValue::new("rpc.system", "grpc"),
                KeyValue::new("rpc.service", service),
                KeyValue::new("rpc.method", method),
            ],
            None => vec![
                KeyValue::new("http.request.method", "POST"),
                KeyValue::new("http.route", "/json"),
            ],
        }
    }
}

impl Method {
    const fn call(self) -> Call {
        const RATES: &str = crate::grpc::SERVICE;
        const LEASES: &str = crate::grpc::LEASE_SERVICE;
        const REPORTS: &str = crate::grpc::UTILIZATION_SERVICE;
        let (name, service) = match self {
            Self::Json => ("POST /json", None),
            Self::ShouldRateLimit => (
                "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
                Some((RATES, "ShouldRateLimit")),
            ),
            Self::Acquire => ("tollgate.v1.LeaseService/Acquire", Some((LEASES, "Acquire"))),
            Self::Renew => ("tollgate.v1.LeaseService/Renew", Some((LEASES, "Renew"))),
            Self::Release => ("tollgate.v1.LeaseService/Release", Some((LEASES, "Release"))),
            Self::Report => (
                "tollgate.v1.UtilizationService/ReportUtilization",
                Some((REPORTS, "ReportUtilization")),
            ),
        };
        Call { name, service }
    }
}
