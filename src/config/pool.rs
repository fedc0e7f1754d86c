//! `pools`: capacity that the limits of a domain share.

use super::{
    Diagnostic, Place,
    diagnostic::{Report, shown},
    lease,
    node::{Entry, Mapping, Value},
    share,
    usage::{self, Usage},
    value,
    vocabulary::{self, Home},
    worker,
};
use crate::{
    rules::{Capacity, Descriptor, Pool, Utilization},
    unit::WHOLE_PARTS,
};
use std::collections::{HashMap, hash_map};

/// How to describe a pool.
const EXAMPLE: &str = "{capacity: 1000, reserved: 20%, lease_ttl: 60s}";

/// How many slots a pool has, where its workers say it.
const REPORTED: &str = "reported";

/// How to say how many slots a pool has.
const CAPACITY_HELP: &str =
    "`capacity: 1000`, or `capacity: reported` for as many as its workers report";

/// How many pools are named to somebody who named none of them.
const MOST_LISTED: usize = 10;

/// The pools of a domain, also those with mistakes in them: their names are known all the same.
#[derive(Debug, Default)]
pub(super) struct Pools {
    known: Vec<Known>,
    /// Where each is among the known, by its name.
    by_name: HashMap<String, usize>,
    /// Whether there may be others, in what could not be read.
    pub(super) may_be_more: bool,
}

/// A pool, and where it is.
#[derive(Debug)]
struct Known {
    name: String,
    place: Place,
    /// `None` where something is wrong with it.
    pool: Option<Pool>,
    /// Whether it is written how many slots it has.
    says_capacity: bool,
}

/// A pool without mistakes, and where it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located<'p> {
    pub(super) pool: &'p Pool,
    pub(super) place: Place,
}

impl Pools {
    /// Reads the pools at the top of a file.
    pub(super) fn read(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Self {
        let mut pools = Self::default();
        let Some(entry) = mapping.get("pools") else { return pools };
        if matches!(entry.node.value, Value::Null) {
            return pools;
        }
        match value::mapping(entry, &format!("{{api: {EXAMPLE}}}"), report) {
            Some(mapping) => {
                for entry in &mapping.entries {
                    pools.add(Known {
                        name: entry.key.clone().into_owned(),
                        place: entry.key_place,
                        pool: read(entry, report),
                        says_capacity: says_capacity(entry),
                    });
                }
            }
            None => pools.may_be_more = true,
        }
        pools
    }

    /// Adds those of another file of the domain.
    pub(super) fn join(&mut self, others: Self, report: &mut Report<'_>) {
        self.may_be_more |= others.may_be_more;
        for other in others.known {
            let (name, second) = (other.name.clone(), other.place);
            if let Some(first) = self.add(other) {
                report.push(twice(&name, second, first, report));
            }
        }
    }

    /// Adds a pool, or says where one of its name is.
    fn add(&mut self, pool: Known) -> Option<Place> {
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
    pub(super) fn find(&self, entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Located<'_>> {
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
        match vocabulary::closest(name, &names) {
            Some(close) => format!("did you mean {}?\nits pools are {list}{more}", shown(close)),
            None if names.is_empty() => {
                format!("describe it at the top of the file: `pools: {{api: {EXAMPLE}}}`")
            }
            None => format!("its pools are {list}{more}"),
        }
    }

    /// Warns of pools that no limit is about, and of what they say for nobody.
    pub(super) fn check_used(&self, descriptors: &[Descriptor], report: &mut Report<'_>) {
        let usages = Usage::of_pools(descriptors);
        for Known { name, place, pool, says_capacity } in &self.known {
            let Some(pool) = pool else { continue };
            let usage = usages.get(name.as_str()).copied().unwrap_or_default();
            if let Some(warning) = usage::check(pool, *place, *says_capacity, usage) {
                report.push(warning);
            }
        }
    }

    /// Those without mistakes, in the order of the files.
    pub(super) fn into_valid(self) -> Vec<Pool> {
        self.known.into_iter().filter_map(|known| known.pool).collect()
    }
}

fn read(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Pool> {
    let name = name(entry, report);
    let mapping = value::mapping(entry, EXAMPLE, report)?;
    vocabulary::check(mapping, Home::Pool, report);
    let utilization = mapping.get("utilization");
    let capacity = match (mapping.get("capacity"), utilization) {
        (Some(entry), _) => capacity(entry, report),
        // What only sheds load needs no slots.
        (None, Some(_)) => Some(Capacity::Reported),
        (None, None) => {
            report.push(
                Diagnostic::error(entry.key_place, "`capacity` is missing")
                    .help(format!("say how many requests the pool takes at once: {CAPACITY_HELP}"))
                    .key("capacity"),
            );
            None
        }
    };
    let utilization = match utilization {
        Some(entry) => worker::read(entry, report).map(Some),
        None => Some((capacity == Some(Capacity::Reported)).then(Utilization::default)),
    };
    let reserved = mapping.get("reserved");
    let reserved_parts = reserved.map_or(Some(0), |entry| share::read(entry, report));
    let term = lease::term(mapping, report);
    let (name, capacity, reserved_parts) = (name?, capacity?, reserved_parts?);
    check_room(mapping, capacity, reserved_parts, report);
    Some(Pool { name, capacity, reserved_parts, term, utilization: utilization? })
}

fn says_capacity(entry: &Entry<'_>) -> bool {
    matches!(&entry.node.value, Value::Mapping(mapping) if mapping.get("capacity").is_some())
}

/// A pool's name, which is a key here.
fn name(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<String> {
    let name = &entry.key;
    let message = if name.is_empty() {
        "a pool without a name".to_owned()
    } else if name.len() > value::LONGEST_TEXT {
        format!("the name of a pool is longer than {} bytes", value::LONGEST_TEXT)
    } else {
        return Some(name.clone().into_owned());
    };
    report.push(
        Diagnostic::error(entry.key_place, message)
            .help(format!("call it something short: `api: {EXAMPLE}`"))
            .key("pools"),
    );
    None
}

fn capacity(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Capacity> {
    match &entry.node.value {
        Value::Text(text) if text == REPORTED => Some(Capacity::Reported),
        Value::Text(text) if !value::is_whole(text) => {
            let meant = vocabulary::closest(text, &[REPORTED]).is_some();
            let meant = if meant { "did you mean `reported`?\n" } else { "" };
            let message = format!("`capacity` is {}, which is no number of slots", shown(text));
            report.push(value::wrong(entry, message).help(format!("{meant}write {CAPACITY_HELP}")));
            None
        }
        _ => value::whole(entry, report).map(Capacity::Slots),
    }
}

/// Warns of a pool that has no room for requests that are not critical.
fn check_room(
    mapping: &Mapping<'_>,
    capacity: Capacity,
    reserved_parts: u32,
    report: &mut Report<'_>,
) {
    let (key, what) = match (capacity, reserved_parts) {
        (Capacity::Slots(0), _) => ("capacity", "`capacity: 0`"),
        (_, WHOLE_PARTS) => ("reserved", "a reserve of 100 %"),
        _ => return,
    };
    if let Some(entry) = mapping.get(key) {
        report.push(
            Diagnostic::warning(
                entry.place(),
                format!("{what} refuses everything that is not critical"),
            )
            .help("leave it if nothing else is to pass; otherwise leave room for the others")
            .key(key),
        );
    }
}

fn twice(name: &str, second: Place, first: Place, report: &Report<'_>) -> Diagnostic {
    let where_first = report.describe(first, second);
    Diagnostic::error(second, format!("the pool {} stands twice, first {where_first}", shown(name)))
        .help("describe it in one file: limits in all files of the domain may name it")
        .key(name)
        .related(first, "first here")
}
