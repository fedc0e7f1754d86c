//! What a limit may name: the pools of its domain, and the entries that lead to it.

use super::{
    Diagnostic,
    diagnostic::{Report, shown},
    node::{Entry, Mapping},
    pool::{Located, Pools},
    value, vocabulary,
};
use std::iter;

/// What a limit may name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The pools of its domain.
    pub(super) pools: &'a Pools,
    /// The entry of its own descriptor.
    pub(super) step: &'a Step<'a>,
}

/// An entry on the way to a limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step<'a> {
    above: Option<&'a Self>,
    /// Which of a request's entries it is, the first being 0.
    pub(super) place: usize,
    /// Its key; `None` where that could not be read.
    key: Option<&'a str>,
    /// Its value, in which `*` stands for any text; `None` where it may have any.
    value: Option<&'a str>,
}

impl<'a> Step<'a> {
    /// The entry of a descriptor, below those of the descriptors that it stands in.
    pub(super) fn new(
        above: Option<&'a Self>,
        key: Option<&'a str>,
        value: Option<&'a str>,
    ) -> Self {
        Self { above, place: above.map_or(0, |above| above.place + 1), key, value }
    }

    /// The one value that it always has, if it has one.
    pub(super) fn fixed(&self) -> Option<&'a str> {
        self.value.filter(|value| !value.contains('*'))
    }

    /// The way from here to the top.
    fn way(&'a self) -> impl Iterator<Item = &'a Self> {
        iter::successors(Some(self), |step| step.above)
    }
}

impl<'a> Scope<'a> {
    /// The pool that a limit is about, and where it names it. Reports it where it names none, with what to write, or
    /// one that is not there.
    pub(super) fn pool<'m>(
        &self,
        entry: &Entry<'_>,
        mapping: &'m Mapping<'m>,
        help: &str,
        report: &mut Report<'_>,
    ) -> Option<(&'m Entry<'m>, Located<'a>)> {
        let Some(named) = mapping.get("pool") else {
            report.push(
                Diagnostic::error(entry.key_place, "`pool` is missing").help(help).key("pool"),
            );
            return None;
        };
        Some((named, self.pools.find(named, report)?))
    }

    /// The entry on the way to a limit that a key inside it names; the limit's own where there is no such
    /// key.
    pub(super) fn named(
        &self,
        entry: Option<&Entry<'_>>,
        report: &mut Report<'_>,
    ) -> Option<&'a Step<'a>> {
        match entry {
            None => Some(self.step),
            Some(entry) => self.find(entry, &value::name(entry, report)?, report),
        }
    }

    /// The entry on the way that has a key; of several the innermost. Reports it where there is none.
    pub(super) fn find(
        &self,
        entry: &Entry<'_>,
        key: &str,
        report: &mut Report<'_>,
    ) -> Option<&'a Step<'a>> {
        let found = self.step.way().find(|step| step.key == Some(key));
        let is_all_known = self.step.way().all(|step| step.key.is_some());
        if found.is_none() && is_all_known {
            let message = format!("no entry {} leads here", shown(key));
            report.push(value::wrong(entry, message).help(self.instead_of(key)));
        }
        found
    }

    /// What to write in place of a key that no entry on the way has.
    fn instead_of(&self, key: &str) -> String {
        let mut keys: Vec<&str> = self.step.way().filter_map(|step| step.key).collect();
        keys.reverse();
        let meant = vocabulary::closest(key, &keys)
            .map(|close| format!("did you mean {}?\n", shown(close)))
            .unwrap_or_default();
        let keys: Vec<String> = keys.into_iter().map(shown).collect();
        format!("{meant}name the key of an entry on the way here: {}", keys.join(", "))
    }
}
