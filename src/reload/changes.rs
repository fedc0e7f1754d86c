//! What is different about other rules, in a line.

use crate::{
    rules::{Descriptor, Domain, describe::printable},
    unit::count,
};
use std::collections::HashMap;

/// The most domains that are named for one reason.
const MOST_NAMED: usize = 5;

/// `12 limits in 2 domains (changed: shop; new: mall)`.
pub(super) fn in_words(before: &[Domain], after: &[Domain]) -> String {
    let limits: u64 = after.iter().flat_map(|domain| &domain.descriptors).map(limits).sum();
    let all = format!("{} in {}", count(limits, "limit"), count(after.len() as u64, "domain"));

    let mut gone: HashMap<&str, &Domain> =
        before.iter().map(|domain| (&*domain.name, domain)).collect();
    let (mut changed, mut new) = (Vec::new(), Vec::new());
    for domain in after {
        match gone.remove(&*domain.name) {
            None => new.push(&*domain.name),
            Some(before) if before != domain => changed.push(&*domain.name),
            Some(_) => {}
        }
    }
    let gone: Vec<&str> =
        before.iter().map(|it| &*it.name).filter(|it| gone.contains_key(it)).collect();

    let kinds = [("changed", changed), ("new", new), ("gone", gone)];
    let kinds = kinds.into_iter().filter(|(_, domains)| !domains.is_empty());
    let kinds: Vec<_> =
        kinds.map(|(what, domains)| format!("{what}: {}", names(&domains))).collect();
    let kinds = if kinds.is_empty() { "none of them changed".to_owned() } else { kinds.join("; ") };
    format!("{all} ({kinds})")
}

/// How many limits stand on a descriptor and below.
fn limits(descriptor: &Descriptor) -> u64 {
    descriptor.limits.len() as u64 + descriptor.descriptors.iter().map(limits).sum::<u64>()
}

fn names(domains: &[&str]) -> String {
    let mut names: Vec<String> =
        domains.iter().take(MOST_NAMED).map(|name| printable(name)).collect();
    let more = domains.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}
