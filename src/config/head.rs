//! What is said once for a whole domain, at the top of its files. It is read before any descriptor, because
//! limits name pools, also those of other files.

use super::{flag, lease, pool};
use crate::{
    limiter::scope::Pools,
    rules::{LEASE_KEY, OnStoreFailure},
    yaml::{Diagnostic, Entry, Mapping, Place, Report, shown},
};

/// What is said of a domain.
#[derive(Debug, Default)]
pub(super) struct Head {
    lease_key: Option<(String, Place)>,
    on_store_failure: Option<(OnStoreFailure, Place)>,
    pub(super) pools: Pools,
}

impl Head {
    /// Reads the top of a file.
    pub(super) fn read(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Self {
        let on_store_failure = flag::on_store_failure(mapping, report);
        let place = mapping.get("on_store_failure").map(Entry::place);
        Self {
            lease_key: lease::key(mapping, report),
            on_store_failure: on_store_failure.zip(place),
            pools: pool::read_all(mapping, report),
        }
    }

    /// Adds what another file of the domain says.
    pub(super) fn join(&mut self, other: Self, report: &mut Report<'_>) {
        self.pools.join(other.pools, report);
        let key = Said {
            key: "lease_key",
            elsewhere: "the domain's other `lease_key`",
            show: |key: &String| shown(key),
        };
        key.join(&mut self.lease_key, other.lease_key, report);
        let policy = Said {
            key: "on_store_failure",
            elsewhere: "the domain's other `on_store_failure`",
            show: |policy: &OnStoreFailure| shown(policy.name()),
        };
        policy.join(&mut self.on_store_failure, other.on_store_failure, report);
    }

    /// What leases are called.
    pub(super) fn lease_key(&self) -> &str {
        self.lease_key.as_ref().map_or(LEASE_KEY, |(key, _)| key)
    }

    /// What limits do when the store cannot decide.
    pub(super) fn on_store_failure(&self) -> Option<OnStoreFailure> {
        self.on_store_failure.map(|(policy, _)| policy)
    }
}

/// What files say under one key of the whole domain: it may be said twice, but not in two ways.
struct Said<F> {
    key: &'static str,
    elsewhere: &'static str,
    show: F,
}

impl<F> Said<F> {
    fn join<T: PartialEq>(
        &self,
        first: &mut Option<(T, Place)>,
        second: Option<(T, Place)>,
        report: &mut Report<'_>,
    ) where
        F: Fn(&T) -> String,
    {
        let Some((other, other_place)) = second else { return };
        let Some((said, place)) = first else {
            *first = Some((other, other_place));
            return;
        };
        if *said == other {
            return;
        }
        let (key, said) = (self.key, (self.show)(said));
        let where_first = report.describe(*place, other_place);
        report.push(
            Diagnostic::error(other_place, format!("`{key}` is {said} {where_first}"))
                .help("say the same in all files of the domain, or say it in one")
                .key(key)
                .related(*place, self.elsewhere),
        );
    }
}
