//! `GET /pools`: how it stands with the pools, a few lines for each, or as JSON.

#[cfg(test)]
mod tests;

use super::answer;
use crate::{
    decider::{Decider, PoolView, WorkersView, pools_text},
    unit::WHOLE_PARTS,
};
use axum::{extract::State, http::HeaderMap, response::Response};
use serde_json::{Value, json};
use std::sync::Arc;
use tonic::Status;

/// Shows all pools; 503 where the store that knows of them cannot be asked.
pub(super) async fn show(State(decider): State<Arc<Decider>>, headers: HeaderMap) -> Response {
    let pools = decider.pools().await;
    let shown = pools.map(|pools| (pools_json(&pools), pools_text(&pools)));
    answer(&headers, shown.map_err(|error| Status::unavailable(decider.in_words(&error))))
}

/// The pools as JSON. Shares and amounts are numbers of which 1 is all.
fn pools_json(pools: &[PoolView]) -> Value {
    let pool = |pool: &PoolView| {
        json!({
            "domain": pool.domain,
            "pool": pool.name,
            "capacity": pool.capacity,
            "capacity_reported": pool.is_reported,
            "reserved_slots": pool.reserved(),
            "in_flight": {
                "critical": pool.in_flight.critical,
                "others": pool.in_flight.others,
            },
            "workers": pool.workers.as_ref().map(workers_json),
            "shedding": pool.workers.as_ref().map(shedding_json),
        })
    };
    json!({ "pools": pools.iter().map(pool).collect::<Vec<_>>() })
}

fn workers_json(workers: &WorkersView) -> Value {
    json!({
        "count": workers.count,
        "slots": workers.slots,
        "utilization": workers.utilization(),
        "last_report_seconds_ago": workers.last_report_us.map(seconds),
        "report_ttl_seconds": seconds(workers.settings.report_ttl.as_micros()),
    })
}

fn shedding_json(workers: &WorkersView) -> Value {
    let classes = workers.classes.iter().map(|(class, chance)| {
        // To a millionth, as all shares are: the rest is rounding of doubles.
        let parts = f64::from(WHOLE_PARTS);
        json!({ "class": class, "drop_chance": (chance * parts).round() / parts })
    });
    json!({ "amount": workers.amount(), "enforced": workers.is_enforced, "classes": classes.collect::<Vec<_>>() })
}

#[expect(clippy::cast_precision_loss, reason = "2^53 microseconds are 285 years")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1_000_000.0
}
