//! What a limit may name: the pools of its domain, and the entries that lead to it.

use super::pool::{EXAMPLE, Pool};
use crate::yaml::{Diagnostic, Entry, Mapping, Place, Report, shown, value, words};
use std::{
    collections::{HashMap, hash_map},
    iter,
};

/// The most pools that are listed for a limit that names none of them.
const MOST_LISTED: usize = 10;

/// The pools of a domain, also those with mistakes in them: their names are known all the same.
#[derive(Debug, Default)]
pub struct Pools {
    known: Vec<Known>,
    /// Where each is among the known, by its name.
    by_name: HashMap<String, usize>,
    /// Whether there may be others, in what could not be read.
    pub may_be_more: bool,
}

/// A pool, and where it is.
#[derive(Debug)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Where its name is.
    pub place: Place,
    /// The pool; `None` where something is wrong with it.
    pub pool: Option<Pool>,
    /// Whether the file says how many slots it has.
    pub says_capacity: bool,
}

/// A pool without mistakes, and where it is.
#[derive(Debug, Clone, Copy)]
pub struct Located<'p> {
    /// The pool.
    pub pool: &'p Pool,
    /// Where its name is.
    pub place: Place,
}

impl Pools {
    /// Adds a pool. If there is one of its name, returns where that is.
    pub fn add(&mut self, pool: Known) -> Option<Place> {
        match self.by_name.entry(pool.name.clone()) {
            hash_map::Entry::Vacant(vacant) => {
                vacant.insert(self.known.len());
                self.known.push(pool);
                None
            }
            hash_map::Entry::Occupied(first) => self.known.get(*first.get()).map(|it| it.place),
        }
    }

    /// The pool that a limit names. Reports it where there is none of this name.
    pub fn find(&self, entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Located<'_>> {
        let name = value::name(entry, report)?;
        let known = self.by_name.get(&name).and_then(|place| self.known.get(*place));
        if known.is_none() && !self.may_be_more {
            let message = format!("this domain has no pool {}", shown(&name));
            report.push(value::wrong(entry, message).help(self.instead_of(&name)));
        }
        let Known { place, pool, .. } = known?;
        pool.as_ref().map(|pool| Located { pool, place: *place })
    }

    /// What to write in place of a name that no pool has.
    fn instead_of(&self, name: &str) -> String {
        let names = self.known.iter().map(|it| it.name.as_str()).filter(|name| !name.is_empty());
        let names: Vec<&str> = names.take(MOST_LISTED).collect();
        let list = names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ");
        let more = if self.known.len() > MOST_LISTED { ", …" } else { "" };
        match words::closest(name, &names) {
            Some(close) => format!("did you mean {}?\nits pools are {list}{more}", shown(close)),
            None if names.is_empty() => {
                format!("describe it at the top of the file: `pools: {{api: {EXAMPLE}}}`")
            }
            None => format!("its pools are {list}{more}"),
        }
    }

    /// All of them, in the order of the files.
    pub fn iter(&self) -> impl Iterator<Item = &Known> {
        self.known.iter()
    }

    /// Those without mistakes, in the order of the files.
    pub fn into_valid(self) -> Vec<Pool> {
        self.known.into_iter().filter_map(|known| known.pool).collect()
    }

    /// Adds those of another file of the domain.
    pub fn join(&mut self, others: Self, report: &mut Report<'_>) {
        self.may_be_more |= others.may_be_more;
        for other in others.known {
            let (name, second) = (other.name.clone(), other.place);
            if let Some(first) = self.add(other) {
                report.push(twice(&name, second, first, report));
            }
        }
    }
}

fn twice(name: &str, second: Place, first: Place, report: &Report<'_>) -> Diagnostic {
    let where_first = report.describe(first, second);
    Diagnostic::error(second, format!("the pool {} stands twice, first {where_first}", shown(name)))
        .help("describe it in one file: limits in all files of the domain may name it")
        .key(name)
        .related(first, "first here")
}

/// What a limit may name.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The pools of its domain.
    pub pools: &'a Pools,
    /// The entry of its own descriptor.
    pub step: &'a Step<'a>,
}

/// An entry on the way to a limit.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    above: Option<&'a Self>,
    /// Which of a request's entries it is, the first being 0.
    pub place: usize,
    /// Its key; `None` where that could not be read.
    key: Option<&'a str>,
    /// Its value, in which `*` stands for any text; `None` where it may have any.
    value: Option<&'a str>,
}

impl<'a> Step<'a> {
    /// The entry of a descriptor, below those of the descriptors that it stands in.
    pub fn new(above: Option<&'a Self>, key: Option<&'a str>, value: Option<&'a str>) -> Self {
        Self { above, place: above.map_or(0, |above| above.place + 1), key, value }
    }

    /// The one value that it always has, if it has one.
    pub fn fixed(&self) -> Option<&'a str> {
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
    pub fn pool<'m>(
        &self,
        entry: &Entry<'_>,
        mapping: &'m Mapping<'m>,
        help: &str,
        report: &mut Report<'_>,
    ) -> Option<(&'m Entry<'m>, Located<'a>)> {
        let named = value::required(mapping, "pool", entry, help, report)?;
        Some((named, self.pools.find(named, report)?))
    }

    /// The entry on the way to a limit that a key inside it names; the limit's own where there is no such
    /// key.
    pub fn named(
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
    pub fn find(
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
        let meant = words::closest(key, &keys)
            .map(|close| format!("did you mean {}?\n", shown(close)))
            .unwrap_or_default();
        let keys: Vec<String> = keys.into_iter().map(shown).collect();
        format!("{meant}name the key of an entry on the way here: {}", keys.join(", "))
    }
}
