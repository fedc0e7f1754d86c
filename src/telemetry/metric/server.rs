//! How it stands with the process as a server: its rules on disk, its doors, its bugs, its version.

use super::{Instruments, flag, number};
use crate::task::Task;
use opentelemetry::KeyValue;

pub(super) fn register(instruments: &Instruments) {
    instruments.gauge(
        "tollgate.rules.valid",
        "",
        "0 while the rules on disk are refused and older ones serve, else 1",
        |sources, tell| tell(flag(sources.reloads.condition().refusal.is_none()), &[]),
    );
    instruments.counter(
        "tollgate.reloads",
        "How often other rules were found on disk",
        |sources, tell| {
            let counts = sources.reloads.condition().counts;
            tell(counts.loaded, &[KeyValue::new("outcome", "loaded")]);
            tell(counts.refused, &[KeyValue::new("outcome", "refused")]);
        },
    );
    instruments.gauge(
        "tollgate.orders",
        "",
        "What operators have said at run time and is in force",
        |sources, tell| {
            let rules = sources.decider.rules();
            let orders = rules.orders();
            tell(number(orders.switches.len() as u64), &[KeyValue::new("kind", "switch")]);
            tell(number(orders.limits.len() as u64), &[KeyValue::new("kind", "limit")]);
        },
    );
    instruments.counter(
        "tollgate.order.changes",
        "What operators have said to this process at run time",
        |sources, tell| {
            let counts = sources.decider.order_counts();
            tell(counts.switches, &[KeyValue::new("kind", "switch")]);
            tell(counts.limits, &[KeyValue::new("kind", "limit")]);
            tell(counts.resets, &[KeyValue::new("kind", "reset")]);
        },
    );
    instruments.gauge("tollgate.connections", "", "Open connections", |sources, tell| {
        for door in &sources.doors {
            tell(number(door.open() as u64), &[KeyValue::new("door", door.name)]);
        }
    });
    instruments.counter(
        "tollgate.connections.refused",
        "Callers that were not let in",
        |sources, tell| {
            for door in &sources.doors {
                tell(door.counts.borrow().refused(), &[KeyValue::new("door", door.name)]);
            }
        },
    );
    instruments.counter(
        "tollgate.connections.evicted",
        "Idle connections that were closed to make room for new ones",
        |sources, tell| {
            for door in &sources.doors {
                tell(door.counts.borrow().evicted, &[KeyValue::new("door", door.name)]);
            }
        },
    );
    instruments.counter(
        "tollgate.requests.oversized",
        "Requests that were refused because their header fields are larger than 256 KiB",
        |sources, tell| {
            for door in &sources.doors {
                tell(door.counts.borrow().large_heads, &[KeyValue::new("door", door.name)]);
            }
        },
    );
    instruments.counter(
        "tollgate.requests.reset",
        "Requests that were reset because too many were pending",
        |sources, tell| {
            for door in &sources.doors {
                tell(door.counts.borrow().crowded, &[KeyValue::new("door", door.name)]);
            }
        },
    );
    instruments.counter(
        "tollgate.requests.revoked",
        "Requests that stayed unfinished and were given up because their memory was wanted for others",
        |sources, tell| tell(sources.budget.revoked(), &[]),
    );
    instruments.counter("tollgate.bugs", "Requests that met a bug of tollgate", |sources, tell| {
        tell(sources.decider.degraded_counts().bugs, &[]);
    });
    instruments.counter(
        "tollgate.task.restarts",
        "Background tasks that were started again after a panic",
        |_, tell| {
            for task in Task::ALL {
                tell(task.restarts(), &[KeyValue::new("task", task.name())]);
            }
        },
    );
    instruments.gauge("tollgate.build.info", "", "1, for the version", |_, tell| {
        tell(1.0, &[KeyValue::new("version", env!("CARGO_PKG_VERSION"))]);
    });
}
