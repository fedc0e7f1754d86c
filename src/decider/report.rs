//! Reports of workers: what they say goes to the store, and how it stands with their pool comes back.

use super::Decider;
use crate::{
    rules::{Reporting, Rules},
    store::StoreError,
    worker::{Instant, Load, MOST_WORKERS, Outcome, Report, Reported, Settings},
};
use bytes::Bytes;
use std::sync::{Arc, atomic::Ordering};

/// How many pools are named to somebody who named none of them.
const MOST_LISTED: usize = 10;

/// What a worker says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Saying {
    /// The domain of its pool.
    pub domain: Bytes,
    /// The pool's name.
    pub pool: Bytes,
    /// The worker's name; not empty.
    pub worker: Bytes,
    /// How busy it is; `None` where it says nothing.
    pub load: Option<Load>,
    /// When that was measured, where it says so.
    pub measured: Option<Instant>,
}

/// Why a report does not count.
#[derive(Debug, thiserror::Error)]
pub enum NotReported {
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing is known of the domain.
    #[error("there are no rules for the domain {0:?}: name the `domain` of a rule file")]
    UnknownDomain(String),
    /// The domain has no such pool.
    #[error("the domain {domain:?} has no pool {pool:?}: {known}")]
    UnknownPool {
        /// The domain.
        domain: String,
        /// The name that no pool has.
        pool: String,
        /// What to name instead.
        known: String,
    },
    /// The pool takes no reports.
    #[error(
        "the pool {0:?} takes no reports: give it `utilization:` in its rule file, below `pools`"
    )]
    NoReports(String),
    /// The worker has said something newer, or this.
    #[error(
        "`measured_at` is not after that of this worker's last report: this one came late, or twice, and changes nothing"
    )]
    NotNewer,
    /// There is no room for a further worker.
    #[error(
        "the pool has {0} workers, and there is no room for more: does every report come under a new `worker_id`?"
    )]
    TooManyWorkers(u64),
}

impl Decider {
    /// Takes in what a worker says. With how it stands with the pool come the pool's settings.
    ///
    /// # Errors
    ///
    /// Where it does not count. Then nothing has changed, unless the store may have taken it, and did not say so.
    pub async fn report(&self, saying: &Saying) -> Result<(Reported, Settings), NotReported> {
        let Saying { domain, pool, worker, load, measured } = saying;
        let rules = self.rules();
        let (name, settings) = find(&rules, domain, pool)?;
        let report = Report { settings, load: *load, measured: *measured };
        let reporting = Reporting::new(domain, name, worker, report);
        let reported = self.store.report(self.clock.now(), &reporting.keys, &report).await?;
        match reported.outcome {
            Outcome::Counted | Outcome::Absent => Ok((reported, settings)),
            Outcome::NotNewer => Err(NotReported::NotNewer),
            Outcome::TooManyWorkers => {
                self.too_many_workers.fetch_add(1, Ordering::Relaxed);
                Err(NotReported::TooManyWorkers(MOST_WORKERS))
            }
        }
    }

    /// Counts reports that are none.
    pub(super) fn count_bad_reports(&self, bad_reports: u64) {
        // Most requests bring none, and what is counted is shared by all cores.
        if bad_reports > 0 {
            self.bad_reports.fetch_add(bad_reports, Ordering::Relaxed);
        }
    }

    /// Takes in what a request says of workers, at most so many that were meant. What does not count is counted
    /// apart: whoever sent it does not wait to be told.
    pub(super) async fn report_all(self: &Arc<Self>, reports: &[Reporting]) {
        let reporting: Vec<_> = reports
            .iter()
            .map(|Reporting { keys, report }| {
                let (decider, keys, report) = (Arc::clone(self), keys.clone(), *report);
                tokio::spawn(async move {
                    let now = decider.clock.now();
                    // The store counts what it did not do, and a next report comes soon.
                    let reported = decider.store.report(now, &keys, &report).await;
                    if reported.is_ok_and(|it| it.outcome == Outcome::TooManyWorkers) {
                        decider.too_many_workers.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for reported in reporting {
            let _ = reported.await;
        }
    }
}

/// The pool of this name, and how it takes reports.
fn find<'r>(
    rules: &'r Rules,
    domain: &[u8],
    name: &[u8],
) -> Result<(&'r str, Settings), NotReported> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let found = rules.domains().iter().find(|it| it.name.as_bytes() == domain);
    let found = found.ok_or_else(|| NotReported::UnknownDomain(text(domain)))?;
    let Some(pool) = found.pools.iter().find(|pool| pool.name.as_bytes() == name) else {
        let names: Vec<_> = found.pools.iter().take(MOST_LISTED).map(|it| &it.name[..]).collect();
        let more = if found.pools.len() > MOST_LISTED { ", …" } else { "" };
        let known = match names.is_empty() {
            true => "it has none, describe one below `pools` in its rule file".to_owned(),
            false => format!("its pools are {}{more}", names.join(", ")),
        };
        return Err(NotReported::UnknownPool { domain: text(domain), pool: text(name), known });
    };
    match &pool.utilization {
        Some(utilization) => Ok((&pool.name, utilization.settings)),
        None => Err(NotReported::NoReports(pool.name.clone())),
    }
}
