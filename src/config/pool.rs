//! `pools`: capacity that the limits of a domain share.

use super::{
    usage::{self, Usage},
    worker,
};
use crate::{
    limiter::{
        pool::{Capacity, EXAMPLE, Pool, Utilization},
        scope::{Known, Pools},
    },
    rules::Descriptor,
    unit::WHOLE_PARTS,
    yaml::{
        Diagnostic, Entry, Mapping, Report, Table, Value, duration, share, shown, value, words,
    },
};

pub(super) const TABLE: Table = Table {
    name: "a pool",
    place: "in the pool, under `pools`",
    near: None,
    keys: &[&[
        ("capacity", "How many slots it has, or that its workers report it."),
        ("reserved", "The share of them that is kept for critical requests."),
        ("lease_ttl", "How long a lease on it lasts unless it is renewed."),
        ("utilization", "How the reports of its workers are taken."),
    ]],
};

/// How many slots a pool has, where its workers say it.
const REPORTED: &str = "reported";

/// How to say how many slots a pool has.
const CAPACITY_HELP: &str =
    "`capacity: 1000`, or `capacity: reported` for as many as its workers report";

/// Reads the pools at the top of a file.
pub(super) fn read_all(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Pools {
    let mut pools = Pools::default();
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

/// Warns of pools that no limit is about, and of what they say in vain.
pub(super) fn check_used(pools: &Pools, descriptors: &[Descriptor], report: &mut Report<'_>) {
    let usages = Usage::of_pools(descriptors);
    for Known { name, place, pool, says_capacity } in pools.iter() {
        let Some(pool) = pool else { continue };
        let usage = usages.get(name.as_str()).copied().unwrap_or_default();
        if let Some(warning) = usage::check(pool, *place, *says_capacity, usage) {
            report.push(warning);
        }
    }
}

fn read(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Pool> {
    let name = name(entry, report);
    let mapping = value::table(entry, &TABLE, EXAMPLE, report)?;
    let utilization = mapping.get("utilization");
    let capacity = match (mapping.get("capacity"), utilization) {
        (Some(entry), _) => capacity(entry, report),
        // What only sheds load needs no slots.
        (None, Some(_)) => Some(Capacity::Reported),
        (None, None) => {
            let help = format!("say how many requests the pool takes at once: {CAPACITY_HELP}");
            value::required(mapping, "capacity", entry, help, report);
            None
        }
    };
    let utilization = match utilization {
        Some(entry) => worker::read(entry, report).map(Some),
        None => Some((capacity == Some(Capacity::Reported)).then(Utilization::default)),
    };
    let reserved_parts = mapping.read_or("reserved", 0, |entry| share::read(entry, report));
    let term = duration::lease_ttl(mapping, report);
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
    report.reject(
        Diagnostic::error(entry.key_place, message)
            .help(format!("call it something short: `api: {EXAMPLE}`"))
            .key("pools"),
    )
}

fn capacity(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Capacity> {
    match &entry.node.value {
        Value::Text(text) if text == REPORTED => Some(Capacity::Reported),
        Value::Text(text) if !value::is_whole(text) => {
            let meant = words::closest(text, &[REPORTED]).is_some();
            let meant = if meant { "did you mean `reported`?\n" } else { "" };
            let message = format!("`capacity` is {}, which is no number of slots", shown(text));
            report
                .reject(value::wrong(entry, message).help(format!("{meant}write {CAPACITY_HELP}")))
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
