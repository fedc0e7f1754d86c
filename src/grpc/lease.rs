//! `LeaseService`: acquire, renew, release; `hold.rs` is the stream that is a lease.

mod hold;

use super::{
    LARGEST_OTHER_MESSAGE, Undecided, Unsent, deadline,
    proto::{
        envoy::extensions::common::ratelimit::v3::RateLimitDescriptor,
        tollgate::v1::{
            AcquireRequest, AcquireResponse, Held, HoldRequest, HoldResponse, LeaseState, Refusal,
            ReleaseRequest, ReleaseResponse, RenewRequest, RenewResponse,
            acquire_response::Outcome, lease_service_server,
        },
    },
    request::{InvalidRequest, read_parts},
    response::{write_duration, write_status},
    told::until_told,
    unsent,
};
use crate::{
    decider::{Acquire, Decider, Renewal},
    decision::{Decision, HeldSlots},
    lease::{LeaseId, Released, Term},
    request::Request as Question,
    telemetry::{Method, Observer},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

/// The full name of the service.
pub const SERVICE: &str = lease_service_server::SERVICE_NAME;

/// The server of the service.
pub type Server = lease_service_server::LeaseServiceServer<Leases>;

/// Answers for leases.
#[derive(Debug, Clone)]
pub struct Leases {
    decider: Arc<Decider>,
    /// Closed when the server stops: streams end then.
    stopped: watch::Receiver<()>,
    observer: Observer,
}

impl Leases {
    /// A service that asks this decider. Its streams end when `stopped` closes.
    pub fn new(decider: Arc<Decider>, stopped: watch::Receiver<()>) -> Self {
        Self { decider, stopped, observer: Observer::default() }
    }

    /// The same with somebody who looks on.
    #[must_use]
    pub fn observed(self, observer: Observer) -> Self {
        Self { observer, ..self }
    }

    /// The service for a gRPC server.
    pub fn into_server(self) -> Server {
        Server::new(self).max_decoding_message_size(LARGEST_OTHER_MESSAGE)
    }
}

#[tonic::async_trait]
impl lease_service_server::LeaseService for Leases {
    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        let underway = self.observer.begin(Method::Acquire, request.metadata().as_ref());
        let deadline = deadline::noted(request.extensions());
        let acquire = read_acquire(request.into_inner()).map_err(Undecided::from)?;
        let mut stopped = self.stopped.clone();
        let acquired = tokio::select! {
            acquired = underway.during(self.decider.acquire(&acquire, deadline)) => acquired,
            // Whoever only waits can wait elsewhere.
            () = until_closed(&mut stopped), if !acquire.wait.is_zero() => return Err(leaving()),
        };
        let (decision, taken) = acquired.map_err(Undecided::from)?;
        underway.decided(&acquire.request.domain, &decision);
        Ok(until_told(write_acquired(decision), taken))
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        let underway = self.observer.begin(Method::Renew, request.metadata().as_ref());
        let (id, term, again) = read_renew(request.into_inner()).map_err(Undecided::from)?;
        let renewing = self.decider.renew_for_its_holder(&id, term, again.as_ref());
        let renewal = underway.during(renewing).await;
        Ok(Response::new(write_renewed(renewal.map_err(Undecided::from)?)))
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        let _underway = self.observer.begin(Method::Release, request.metadata().as_ref());
        let id = read_id(&request.into_inner().lease_id).map_err(Undecided::from)?;
        // Whatever becomes of this call, the release is made.
        let decider = Arc::clone(&self.decider);
        let released = tokio::spawn(async move { decider.release(&id).await }).await;
        let state = match released {
            Ok(Ok(Released::Live)) => LeaseState::Live,
            Ok(Ok(Released::Expired)) => LeaseState::Expired,
            Ok(Ok(Released::AlreadyGone)) => LeaseState::AlreadyGone,
            Ok(Err(_)) | Err(_) => LeaseState::Pending,
        };
        Ok(Response::new(ReleaseResponse { state: state.into() }))
    }

    type HoldStream = Unsent<Result<HoldResponse, Status>>;

    async fn hold(
        &self,
        request: Request<Streaming<HoldRequest>>,
    ) -> Result<Response<Self::HoldStream>, Status> {
        /// A caller that does not read hears the latest late.
        const UNREAD: usize = 4;
        let (events, sent) = unsent(UNREAD);
        let Self { decider, stopped, .. } = self.clone();
        tokio::spawn(hold::hold(decider, request.into_inner(), events, stopped));
        Ok(Response::new(sent))
    }
}

pub(super) async fn until_closed(stopped: &mut watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
}

fn leaving() -> Status {
    Status::unavailable("the server is leaving, and holds nothing for this call: ask another")
}

fn read_acquire(message: AcquireRequest) -> Result<Acquire, InvalidRequest> {
    let id = match message.lease_id.as_str() {
        "" => None,
        chosen => Some(LeaseId::chosen(chosen)?),
    };
    Ok(Acquire {
        request: read_parts(message.domain, message.descriptors, 0)?,
        id,
        term: read_ttl(message.ttl)?,
        wait: read_duration("wait", message.wait)?.unwrap_or_default(),
        requires_limit: message.require_limit,
    })
}

/// Which lease, how long, and what to take again where it was lost.
type Renew = (LeaseId, Option<Term>, Option<Question>);

fn read_renew(message: RenewRequest) -> Result<Renew, InvalidRequest> {
    let descriptors: Vec<RateLimitDescriptor> = message.descriptors;
    let says_what = !message.domain.is_empty() || !descriptors.is_empty();
    let again = says_what.then(|| read_parts(message.domain, descriptors, 0)).transpose()?;
    Ok((read_id(&message.lease_id)?, read_ttl(message.ttl)?, again))
}

fn read_id(text: &str) -> Result<LeaseId, InvalidRequest> {
    if text.is_empty() {
        return Err(InvalidRequest::NoLeaseId);
    }
    Ok(LeaseId::known(text)?)
}

fn read_ttl(ttl: Option<prost_types::Duration>) -> Result<Option<Term>, InvalidRequest> {
    match read_duration("ttl", ttl)? {
        Some(Duration::ZERO) => Err(InvalidRequest::NoTime { field: "ttl" }),
        ttl => {
            Ok(ttl.map(|ttl| Term::of_micros(u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX))))
        }
    }
}

fn read_duration(
    field: &'static str,
    duration: Option<prost_types::Duration>,
) -> Result<Option<Duration>, InvalidRequest> {
    let Some(duration) = duration else { return Ok(None) };
    // What is negative is no span, and the smallest second has no positive to be made of.
    let is_negative = duration.seconds < 0 || duration.nanos < 0;
    let read = if is_negative { None } else { Duration::try_from(duration).ok() };
    read.map(Some).ok_or(InvalidRequest::NoTime { field })
}

fn write_acquired(decision: Decision) -> AcquireResponse {
    let outcome = if decision.refused.is_some() { Outcome::Refused } else { Outcome::Acquired };
    let lease = decision.lease.as_ref();
    AcquireResponse {
        outcome: outcome.into(),
        degraded: decision.degraded,
        limit_matched: decision.limit_matched,
        lease_id: lease.map(|lease| lease.id.as_str().to_owned()).unwrap_or_default(),
        expires_in: lease.map(|lease| write_duration(lease.left_us)),
        held: decision.lease.into_iter().flat_map(|lease| lease.held).map(write_held).collect(),
        statuses: decision.statuses.into_iter().map(write_status).collect(),
        delay: (decision.delay_us > 0).then(|| write_duration(decision.delay_us)),
        refusal: decision.refused.map(|refused| Refusal {
            http_status: if refused.sheds_load { 503 } else { 429 },
            limit_name: refused.limit_name.unwrap_or_default(),
            message: refused.message,
            retry_after: refused
                .retry_after_s
                .map(|it| write_duration(it.saturating_mul(1_000_000))),
        }),
    }
}

fn write_held(held: HeldSlots) -> Held {
    let HeldSlots { descriptor, limit, limiter, slots } = held;
    let descriptor = descriptor.and_then(|place| u32::try_from(place).ok());
    Held { descriptor, limit, limiter, slots }
}

fn write_renewed(renewal: Renewal) -> RenewResponse {
    let (state, left_us) = match renewal {
        Renewal::Live { left_us } => (LeaseState::Live, Some(left_us)),
        Renewal::Retaken { left_us } => (LeaseState::Retaken, Some(left_us)),
        Renewal::Expired => (LeaseState::Expired, None),
        Renewal::AlreadyGone => (LeaseState::AlreadyGone, None),
        Renewal::Lost => (LeaseState::Lost, None),
    };
    RenewResponse { state: state.into(), expires_in: left_us.map(write_duration) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::headers::tests::decision;

    #[test]
    fn a_delay_is_told_where_there_is_one() {
        let delay = |delay_us| write_acquired(Decision { delay_us, ..decision(Vec::new()) }).delay;
        assert_eq!(delay(0), None);
        let told = prost_types::Duration { seconds: 1, nanos: 250_000_000 };
        assert_eq!(delay(1_250_000), Some(told));
    }
}
