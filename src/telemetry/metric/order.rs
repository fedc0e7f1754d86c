//! What operators say at run time.

use super::{Instruments, number};
use crate::decider::OrderCounts;
use opentelemetry::KeyValue;

pub(super) fn register(instruments: &Instruments) {
    instruments.gauge(
        "tollgate.orders",
        "",
        "What operators have said at run time, and holds",
        |sources, tell| {
            let rules = sources.decider.rules();
            let orders = rules.orders();
            for (kind, count) in [("switch", orders.switches.len()), ("limit", orders.limits.len())]
            {
                tell(number(count as u64), &[KeyValue::new("kind", kind)]);
            }
        },
    );
    instruments.counter(
        "tollgate.order.changes",
        "What operators have said to this process",
        |sources, tell| {
            let OrderCounts { switches, limits, resets } = sources.decider.order_counts();
            for (kind, count) in [("switch", switches), ("limit", limits), ("reset", resets)] {
                tell(count, &[KeyValue::new("kind", kind)]);
            }
        },
    );
}
