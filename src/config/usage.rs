//! What the limits of a domain use its pools for.

use crate::{
    rules::{Descriptor, Kind, Pool, Rule},
    yaml::{Diagnostic, Place, shown},
};
use std::collections::HashMap;

/// What there is on a pool.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    /// Limits that take slots of it.
    slots: bool,
    /// Limits that drop its requests.
    shedder: bool,
    /// Descriptors by which its workers report.
    report: bool,
}

impl Usage {
    /// What there is on each of the pools that anything is on.
    pub(super) fn of_pools(descriptors: &[Descriptor]) -> HashMap<&str, Self> {
        let mut usages = HashMap::new();
        collect(descriptors, &mut usages);
        usages
    }

    fn add(&mut self, rule: &Rule) {
        match rule.kind {
            Kind::Limit(limit) => {
                self.slots |= limit.term().is_some();
                self.shedder |= limit.is_shedder();
            }
            Kind::Report(_) => self.report = true,
            Kind::Unlimited => {}
        }
    }
}

fn collect<'a>(descriptors: &'a [Descriptor], usages: &mut HashMap<&'a str, Usage>) {
    for descriptor in descriptors {
        for rule in &descriptor.limits {
            if let Some(pool) = &rule.pool {
                usages.entry(pool).or_default().add(rule);
            }
        }
        collect(&descriptor.descriptors, usages);
    }
}

/// What is odd about a pool that is used so, if anything is.
pub(super) fn check(
    pool: &Pool,
    place: Place,
    says_capacity: bool,
    usage: Usage,
) -> Option<Diagnostic> {
    let name = &pool.name;
    let sheds = pool.utilization.as_ref().is_some_and(|it| !it.shed.is_empty());
    let (message, help) = if !usage.slots && !usage.shedder && !usage.report {
        let limit = if sheds { "utilization" } else { "fleet" };
        let fix = shown(&format!("{limit}: {{pool: {name}}}"));
        (
            format!("no limit uses the pool {}", shown(name)),
            format!("put {fix} on the descriptors of its requests, or remove it"),
        )
    } else if sheds && !usage.shedder {
        let fix = shown(&format!("utilization: {{pool: {name}}}"));
        (
            format!(
                "nothing of the pool {} is ever shed: no `utilization` limit is on it",
                shown(name)
            ),
            format!("put {fix} on a descriptor whose entry is the class, or remove `shed`"),
        )
    } else if usage.slots && !says_capacity {
        (
            format!("`fleet` limits are on the pool {}, which does not say its capacity", shown(name)),
            "it has as many slots as its workers report: write `capacity: reported` if that is meant, \
             or a number"
                .to_owned(),
        )
    } else {
        return None;
    };
    Some(Diagnostic::warning(place, message).help(help).key(name))
}
