//! `Hold`: a stream whose life is a lease.

use super::{read_acquire, write_acquired, write_renewed};
use crate::{
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

/// Where a stream's events go.
type Events = Sender<Result<HoldResponse, Status>>;

/// Acquires a lease, and holds it until the stream ends, or the server stops.
pub(super) async fn hold(
    decider: Arc<Decider>,
    mut requests: Streaming<HoldRequest>,
    events: Events,
    mut stopped: watch::Receiver<()>,
) {
    let acquire = match first(&mut requests).await {
        Ok(acquire) => acquire,
        Err(status) => return tell(&events, Err(status)).await,
    };
    let acquired = tokio::select! {
        acquired = decider.acquire(&acquire) => acquired,
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
    let held = Held { decider, acquire, lease, taken };
    tokio::select! {
        // What is held under its id now is not this stream's.
        () = held.keep_alive(&events) => held.keep(),
        () = ended(&mut requests, &events) => held.release().await,
        () = until_closed(&mut stopped) => {
            held.release().await;
            tell(&events, Err(leaving())).await;
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
    /// Where this task itself is cut off, the lease is released all the same.
    taken: Option<Taken>,
}

impl Held {
    /// Renews the lease in time, until it is lost for good.
    async fn keep_alive(&self, events: &Events) {
        let mut left_us = self.lease.left_us;
        // A third of the way, so that it may fail twice.
        let mut sleep = Duration::from_micros(left_us / 3);
        loop {
            time::sleep(sleep).await;
            let Acquire { request, term, .. } = &self.acquire;
            match self.decider.renew(&self.lease.id, *term, Some(request)).await {
                Ok(renewal) => {
                    // Whoever does not read what is told of his lease is not waited for.
                    let event =
                        HoldResponse { event: Some(Event::Renewed(write_renewed(renewal))) };
                    match renewal {
                        Renewal::Live { left_us: left } | Renewal::Retaken { left_us: left } => {
                            left_us = left;
                            let _ = events.try_send(Ok(event));
                        }
                        Renewal::Expired | Renewal::AlreadyGone | Renewal::Lost => {
                            let _ = events.send(Ok(event)).await;
                            return;
                        }
                    }
                    sleep = Duration::from_micros(left_us / 3);
                }
                // Nobody can take the slots meanwhile.
                Err(_) => sleep = TRY_EVERY.min(Duration::from_micros(left_us / 3)),
            }
        }
    }

    async fn release(self) {
        // Where the store does not take it, it is kept.
        let _ = self.decider.release(&self.lease.id).await;
        self.keep();
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

async fn until_closed(stopped: &mut watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
}

async fn tell(events: &Events, event: Result<Event, Status>) {
    let response = event.map(|event| HoldResponse { event: Some(event) });
    // Where nobody listens, there is nobody to tell.
    let _ = events.send(response).await;
}

fn leaving() -> Status {
    Status::unavailable("the server is leaving, and has released the lease: hold another")
}
