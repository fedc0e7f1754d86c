//! How it stands with the pools, as it was when they were last looked at: nobody asks the store for a metric.

use super::{Instruments, Read, Sources, Tell, number};
use crate::decider::{PoolView, WorkersView};
use opentelemetry::KeyValue;

pub(super) fn register(instruments: &Instruments) {
    let gauges: [(&str, &str, &str, Read<f64>); 6] = [
        ("tollgate.pool.capacity.slots", "", "How many slots a pool has", |sources, tell| {
            each(sources, tell, |pool| pool.capacity.map(number));
        }),
        (
            "tollgate.pool.reserved.slots",
            "",
            "How many slots of a pool are kept for critical requests",
            |sources, tell| each(sources, tell, |pool| pool.reserved().map(number)),
        ),
        (
            "tollgate.pool.utilization",
            "1",
            "How busy the workers of a pool say that they are",
            |sources, tell| each(sources, tell, |pool| workers(pool)?.utilization()),
        ),
        (
            "tollgate.pool.workers",
            "",
            "How many workers of a pool have reported of late",
            |sources, tell| each(sources, tell, |pool| Some(number(workers(pool)?.count))),
        ),
        (
            "tollgate.pool.shedding",
            "1",
            "The amount of shedding: below 0 none, at 1 all that may be shed",
            |sources, tell| each(sources, tell, |pool| Some(workers(pool)?.amount())),
        ),
        (
            "tollgate.pool.in_flight.slots",
            "",
            "Slots of a pool in flight, by whether the requests that hold them are critical",
            |sources, tell| {
                for pool in sources.pools.borrow().iter() {
                    let in_flight =
                        [("critical", pool.in_flight.critical), ("others", pool.in_flight.others)];
                    for (priority, slots) in in_flight {
                        let [domain, name] = labels(pool);
                        let priority = KeyValue::new("priority", priority);
                        tell(number(slots), &[domain, name, priority]);
                    }
                }
            },
        ),
    ];
    for (name, unit, description, read) in gauges {
        instruments.gauge(name, unit, description, read);
    }
    instruments.counter(
        "tollgate.reports.ignored",
        "Reports of workers that did not count",
        |sources, tell| {
            let counts = sources.decider.worker_counts();
            tell(counts.bad_reports, &[KeyValue::new("reason", "bad")]);
            tell(counts.too_many_workers, &[KeyValue::new("reason", "too_many_workers")]);
        },
    );
    instruments.counter(
        "tollgate.unmetered",
        "Requests that were admitted because nobody reports how many slots their pool has",
        |sources, tell| tell(sources.decider.worker_counts().unmetered, &[]),
    );
}

/// Tells a value of each pool that has one.
fn each(sources: &Sources, tell: Tell<'_, f64>, value: fn(&PoolView) -> Option<f64>) {
    for pool in sources.pools.borrow().iter() {
        if let Some(value) = value(pool) {
            tell(value, &labels(pool));
        }
    }
}

const fn workers(pool: &PoolView) -> Option<&WorkersView> {
    pool.workers.as_ref()
}

fn labels(pool: &PoolView) -> [KeyValue; 2] {
    [KeyValue::new("domain", pool.domain.clone()), KeyValue::new("pool", pool.name.clone())]
}
