//! How it stands with the pools, for people: read from the store, and decided nothing by.

mod describe;
#[cfg(test)]
mod tests;

pub use describe::text;

use super::Decider;
use crate::{
    clock::Timestamp,
    key::Key,
    lease::{InFlight, Slots},
    limiter::{
        State,
        utilization::{Draw, Limit},
    },
    rules::{Capacity, Pool, describe::printable, pool_keys},
    store::{Condition, StoreError},
    unit::WHOLE_PARTS,
    worker::{Settings, Workers},
};

/// How it stands with a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolView {
    /// The domain of its rules.
    pub domain: String,
    /// Its name.
    pub name: String,
    /// How many slots it has; `None` where its workers should say, and have not.
    pub capacity: Option<u64>,
    /// Whether its workers say that.
    pub is_reported: bool,
    /// The share of the slots that is kept for critical requests, in millionths.
    pub reserved_parts: u32,
    /// Slots in flight.
    pub in_flight: Slots,
    /// What its workers report; `None` where they are not asked.
    pub workers: Option<WorkersView>,
}

/// How it stands with the workers of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkersView {
    /// How their reports are taken.
    pub settings: Settings,
    /// How busy they are, in millionths; `None` where no report is fresh.
    pub utilization_parts: Option<u64>,
    /// How many have reported of late.
    pub count: u64,
    /// How many slots these have.
    pub slots: u64,
    /// How long ago the last of them reported, in microseconds; `None` where nobody has, or it is forgotten.
    pub last_report_us: Option<u64>,
    /// Whether any limit drops requests of it, and not all of them are in shadow mode.
    pub is_enforced: bool,
    /// The amount of shedding, in millionths: see [`Workers::amount`].
    pub amount_parts: i64,
    /// The classes that may be dropped, in order, each with its chance to be, from 0 to 1.
    pub classes: Vec<(String, f64)>,
}

impl PoolView {
    /// How many slots are kept for critical requests, as [`Limit::reserved`](crate::limiter::fleet::Limit::reserved) counts them.
    pub fn reserved(&self) -> Option<u64> {
        let parts = u64::from(self.reserved_parts);
        self.capacity.map(|slots| slots * parts / u64::from(WHOLE_PARTS))
    }
}

impl WorkersView {
    /// How busy they are, 1 being wholly; `None` where no report is fresh.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub fn utilization(&self) -> Option<f64> {
        self.utilization_parts.map(|parts| parts as f64 / f64::from(WHOLE_PARTS))
    }

    /// The amount of shedding, 1 being all that may be shed.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub fn amount(&self) -> f64 {
        self.amount_parts as f64 / f64::from(WHOLE_PARTS)
    }

    /// The classes of which requests are dropped now, each with the chance.
    pub fn shed(&self) -> impl Iterator<Item = &(String, f64)> {
        self.classes.iter().filter(|(_, chance)| *chance > 0.0)
    }
}

impl Decider {
    /// Why the store did not do what it was asked. The operator is told more than callers are.
    pub fn in_words(&self, error: &StoreError) -> String {
        why(error, &self.store.condition())
    }

    /// How it stands with all pools, in the order of the rules.
    ///
    /// # Errors
    ///
    /// Where the store cannot be asked.
    pub async fn pools(&self) -> Result<Vec<PoolView>, StoreError> {
        let rules = self.rules();
        let pools = rules.domains().iter();
        let pools: Vec<(&str, &Pool)> = pools
            .flat_map(|domain| domain.pools.iter().map(|pool| (&domain.name[..], pool)))
            .collect();
        if pools.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<Key> = pools
            .iter()
            .flat_map(|(domain, pool)| pool_keys(domain.as_bytes(), &pool.name))
            .collect();
        let (now, states) = self.store.look(self.clock.now(), &keys).await?;
        let mut states = states.into_iter();
        let views = pools.into_iter().map(|(domain, pool)| {
            let (in_flight, workers) = (states.next().flatten(), states.next().flatten());
            let mut view = view(domain, pool, in_flight.as_ref(), workers.as_ref(), now);
            if let Some(workers) = &mut view.workers {
                workers.is_enforced = !self.modes.shadow && rules.sheds(domain, &pool.name);
            }
            view
        });
        Ok(views.collect())
    }
}

fn why(error: &StoreError, condition: &Condition) -> String {
    let reason = match error {
        StoreError::Refused(reason) => Some(reason),
        _ => condition.down.as_ref(),
    };
    reason.map_or_else(|| error.to_string(), |reason| format!("{error}: {}", printable(reason)))
}

fn view(
    domain: &str,
    pool: &Pool,
    in_flight: Option<&State>,
    workers: Option<&State>,
    now: Timestamp,
) -> PoolView {
    let stored = workers.and_then(State::workers);
    let settings = pool.utilization.as_ref().map(|it| it.settings).unwrap_or_default();
    PoolView {
        domain: domain.to_owned(),
        name: pool.name.clone(),
        capacity: match pool.capacity {
            Capacity::Slots(slots) => Some(slots.into()),
            Capacity::Reported => Workers::capacity(stored, settings.report_ttl.as_micros(), now),
        },
        is_reported: pool.capacity == Capacity::Reported,
        reserved_parts: pool.reserved_parts,
        in_flight: InFlight::live(in_flight.and_then(State::in_flight), now).slots(),
        workers: pool
            .utilization
            .as_ref()
            .map(|it| workers_view(it.settings, &it.shed, stored, now)),
    }
}

fn workers_view(
    settings: Settings,
    shed: &[String],
    stored: Option<&Workers>,
    now: Timestamp,
) -> WorkersView {
    let workers = Workers::at(stored, &settings, now);
    let counts = workers.counts();
    let classes = u32::try_from(shed.len()).unwrap_or(u32::MAX);
    let chances = (0..).zip(shed).map(|(class, name)| {
        let limit = Limit { settings, classes, class, draw: Draw::Request(0) };
        (name.clone(), limit.chance(&workers))
    });
    WorkersView {
        settings,
        utilization_parts: counts.utilization(),
        count: counts.workers,
        slots: counts.slots,
        last_report_us: stored.map(|stored| now - stored.updated),
        is_enforced: true,
        amount_parts: workers.amount(),
        classes: chances.collect(),
    }
}
