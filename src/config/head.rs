//! What is said once for a whole domain, at the top of its files. It is read before any descriptor, because
//! limits name pools, also those of other files.

use super::{
    Diagnostic, Place,
    diagnostic::{Report, shown},
    lease,
    node::Mapping,
    pool::Pools,
};
use crate::rules::LEASE_KEY;

/// What is said of a domain.
#[derive(Debug, Default)]
pub(super) struct Head {
    lease_key: Option<(String, Place)>,
    pub(super) pools: Pools,
}

impl Head {
    /// Reads the top of a file.
    pub(super) fn read(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Self {
        Self { lease_key: lease::key(mapping, report), pools: Pools::read(mapping, report) }
    }

    /// Adds what another file of the domain says.
    pub(super) fn join(&mut self, other: Self, report: &mut Report<'_>) {
        self.pools.join(other.pools, report);
        match (&self.lease_key, other.lease_key) {
            (None, second) => self.lease_key = second,
            (Some((first, place)), Some((second, second_place))) if *first != second => {
                report.push(two_lease_keys(first, *place, second_place, report));
            }
            _ => {}
        }
    }

    /// What leases are called.
    pub(super) fn lease_key(&self) -> &str {
        self.lease_key.as_ref().map_or(LEASE_KEY, |(key, _)| key)
    }
}

fn two_lease_keys(first: &str, place: Place, second: Place, report: &Report<'_>) -> Diagnostic {
    let where_first = report.describe(place, second);
    Diagnostic::error(second, format!("`lease_key` is {} {where_first}", shown(first)))
        .help("say the same in all files of the domain, or say it in one")
        .key("lease_key")
        .related(place, "the domain's other `lease_key`")
}
