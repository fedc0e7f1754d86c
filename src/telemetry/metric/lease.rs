//! What went on with leases.

use super::{Instruments, number};
use crate::decider::LeaseEvent;
use opentelemetry::KeyValue;

pub(super) fn register(instruments: &Instruments) {
    instruments.counter(
        "tollgate.leases",
        "What became of leases through this replica",
        |sources, tell| {
            for event in LeaseEvent::ALL {
                let count = sources.decider.lease_events(event);
                tell(count, &[KeyValue::new("event", event.name())]);
            }
        },
    );
    instruments.gauge(
        "tollgate.releases.pending",
        "",
        "Releases that are kept until the store can take them",
        |sources, tell| tell(number(sources.decider.releases_pending() as u64), &[]),
    );
    instruments.counter(
        "tollgate.releases.given_up",
        "Releases that were too many to be kept",
        |sources, tell| tell(sources.decider.lease_counts().releases_given_up, &[]),
    );
    instruments.gauge("tollgate.waiting", "", "Callers that wait for slots", |sources, tell| {
        tell(number(sources.decider.store().queues().waiting() as u64), &[]);
    });
    instruments.counter(
        "tollgate.refunds.ignored",
        "Hits that were to be given back to limits on requests in flight",
        |sources, tell| tell(sources.decider.lease_counts().refunds_ignored, &[]),
    );
}
