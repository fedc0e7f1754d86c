//! `Hold`: a stream whose life is a lease.

use super::{leaving, read_acquire, until_closed, write_acquired, write_renewed};
use crate::{
    clock::Deadline,
    decider::{Acquire, Decider, Renewal, Taken},
    decision::Lease,
    grpc::{
        InvalidRequest, Undecided,
        proto::tollgate::v1::{HoldRequest, HoldResponse, hold_response::Event},
    },
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc::Sender, watch},
    time,
};
use tonic::{Status, Streaming};

/// How long the first message may take.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);

/// How soon a renewal is repeated that the store did not make.
const TRY_EVERY: Duration = Duration::from_millis(250);

/// The least time between two renewals, however short the lease.
const LEAST_SLEEP: Duration = Duration::from_millis(20);

/// Where a stream's events go.
type Events = Sender<Box<Result<HoldResponse, Status>>>;

/// Acquires a lease, and holds it until the stream ends, or the server stops.
pub(super) async fn hold(
    decider: Arc<Decider>,
    mut requests: Streaming<HoldRequest>,
    events: Events,
    mut stopped: watch::Receiver<()>,
) {
    let acquire = tokio::select! {
        first = first(&mut requests) => match first {
            Ok(acquire) => acquire,
            Err(status) => return tell(&events, Err(status)).await,
        },
        () = events.closed() => return,
        () = until_closed(&mut stopped) => return tell(&events, Err(leaving())).await,
    };
    let acquired = tokio::select! {
        // Boxed, as this is not to keep room for it while the lease is held.
        acquired = Box::pin(decider.acquire(&acquire, Deadline::default())) => acquired,
        () = ended(&mut requests, &events) => return,
        () = until_closed(&mut stopped) => return tell(&events, Err(leaving())).await,
    };
    let (decision, taken) = match acquired {
        Ok(acquired) => acquired,
        Err(error) => return tell(&events, Err(Undecided::from(error).into())).await,
    };
    let lease = decision.lease.clone();
    tell(&events, Ok(Event::Acquired(write_acquired(decision)))).await;
    let Some(lease) = lease else { return };
    let left_us = lease.left_us;
    let mut held = Held { decider, acquire, left_us, lease, taken, is_unsure: false };
    let mut sleep = held.until_renewal();
    let mut unsure = Duration::ZERO;
    loop {
        // A renewal that has begun is waited for: it may take the lease again, and only then can that be
        // released.
        tokio::select! {
            () = time::sleep(sleep) => {}
            () = ended(&mut requests, &events) => return held.end().await,
            () = until_closed(&mut stopped) => {
                held.end().await;
                return tell(&events, Err(leaving())).await;
            }
        }
        let renewal = Box::pin(held.renew()).await;
        held.is_unsure = renewal.is_none();
        match renewal {
            Some(renewal) => {
                let event = Event::Renewed(write_renewed(renewal));
                match renewal {
                    Renewal::Live { left_us } | Renewal::Retaken { left_us } => {
                        held.left_us = left_us;
                        tell_if_heard(&events, event);
                    }
                    Renewal::Expired | Renewal::AlreadyGone | Renewal::Lost => {
                        // What is held under its id now is not this stream's.
                        held.keep();
                        return tell(&events, Ok(event)).await;
                    }
                }
                (sleep, unsure) = (held.until_renewal(), Duration::ZERO);
            }
            None => {
                let left = Duration::from_micros(held.left_us);
                let was_left = unsure < left;
                unsure += sleep;
                if was_left && unsure >= left {
                    // Where only this server has lost the store, others may take the slots from now on.
                    tell_if_heard(&events, Event::Renewed(write_renewed(Renewal::Expired)));
                }
                sleep = TRY_EVERY.min(held.until_renewal());
            }
        }
    }
}

/// What the stream is to hold.
async fn first(requests: &mut Streaming<HoldRequest>) -> Result<Acquire, Status> {
    let message = time::timeout(FIRST_MESSAGE, requests.message()).await;
    let message = message.map_err(|_| Undecided::from(InvalidRequest::NothingToHold))??;
    let acquire = message.and_then(|message| message.acquire);
    let acquire = acquire.ok_or(Undecided::from(InvalidRequest::NothingToHold))?;
    Ok(read_acquire(acquire).map_err(Undecided::from)?)
}

/// A lease that is held.
struct Held {
    decider: Arc<Decider>,
    acquire: Acquire,
    lease: Lease,
    /// How long it was to last when that was last known, in microseconds.
    left_us: u64,
    /// Where this task itself is cut off, it is given back all the same.
    taken: Option<Taken>,
    /// Whether nobody knows what became of the last renewal.
    is_unsure: bool,
}

impl Held {
    /// A third of the way, so that it may fail twice.
    fn until_renewal(&self) -> Duration {
        Duration::from_micros(self.left_us / 3).max(LEAST_SLEEP)
    }

    /// Renews it; `None` where the store did not.
    async fn renew(&self) -> Option<Renewal> {
        let Acquire { request, term, .. } = &self.acquire;
        let (decider, id) = (&self.decider, &self.lease.id);
        let renewal = match self.taken.as_ref().and_then(Taken::attempt) {
            Some(attempt) => decider.renew(id, *term, Some((request, attempt))).await,
            None => decider.renew_for_its_holder(id, *term, Some(request)).await,
        };
        renewal.ok()
    }

    async fn end(self) {
        if let Some(taken) = self.taken {
            taken.end(self.is_unsure).await;
        }
    }

    fn keep(self) {
        if let Some(taken) = self.taken {
            taken.keep();
        }
    }
}

/// Completes when the caller has no more to say, or is gone.
async fn ended(requests: &mut Streaming<HoldRequest>, events: &Events) {
    let silent = async { while let Ok(Some(_)) = requests.message().await {} };
    tokio::select! {
        () = silent => {}
        () = events.closed() => {}
    }
}

async fn tell(events: &Events, event: Result<Event, Status>) {
    let response = event.map(|event| HoldResponse { event: Some(event) });
    // Where nobody listens, there is nobody to tell.
    let _ = events.send(Box::new(response)).await;
}

/// Whoever does not read what he is told of his lease is not waited for.
fn tell_if_heard(events: &Events, event: Event) {
    let _ = events.try_send(Box::new(Ok(HoldResponse { event: Some(event) })));
}
