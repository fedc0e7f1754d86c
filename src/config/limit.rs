//! The limit of a descriptor, with everything that stands beside it.

use super::{
    Diagnostic, Place, concurrency,
    diagnostic::{Report, shown},
    flag::Flags,
    fleet, grants,
    lease::Beside,
    limits,
    node::{Entry, Mapping},
    rate_limit,
    scope::Scope,
    token_bucket, utilization, utilization_report,
    vocabulary::{self, FLAGS, REPORT},
};
use crate::{
    limiter,
    rules::{Kind, Rule, Shedding},
};

/// What a limiter's own key says.
#[derive(Debug)]
pub(super) struct Limiter {
    pub(super) kind: Kind,
    /// Its name, where it is written inside.
    pub(super) name: Option<(String, Place)>,
    /// The names it replaces.
    pub(super) replaces: Vec<(String, Place)>,
    /// What makes it refuse everything, if something does.
    pub(super) refuses: Option<Diagnostic>,
    /// The pool that it is about.
    pub(super) pool: Option<String>,
    /// What it goes by, if it drops requests by their class.
    pub(super) shedding: Option<Shedding>,
    /// Which entry names the worker, if it is a report.
    pub(super) worker: Option<usize>,
}

impl Limiter {
    /// A limiter of which nothing else is said.
    pub(super) const fn of(kind: Kind) -> Self {
        Self {
            kind,
            name: None,
            replaces: Vec::new(),
            refuses: None,
            pool: None,
            shedding: None,
            worker: None,
        }
    }
}

/// A limit, and where to point at it.
pub(super) struct Placed {
    pub(super) rule: Rule,
    /// Its limiter's key.
    pub(super) limiter: Place,
    /// Its name; its limiter's key where it has none.
    pub(super) name: Place,
}

/// Reads all limits of a descriptor.
pub(super) fn read_all(
    mapping: &Mapping<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> Vec<Rule> {
    let keys = vocabulary::rules();
    let mut limiters = mapping.among(&keys);
    let limits = mapping.get("limits");
    let limiter = limiters.next();
    if let Some(second) = limiters.next().or(limits.filter(|_| limiter.is_some())) {
        report.push(match mapping.get(REPORT) {
            Some(entry) => utilization_report::among_limits(entry),
            None => too_many(second),
        });
    }
    if let Some(entry) = limits {
        return limits::read(mapping, entry, scope, report);
    }
    let Some(limiter) = limiter else {
        useless_flags(mapping, report);
        return Vec::new();
    };
    let rule = read(mapping, limiter, scope, report);
    rule.map(|placed| placed.rule).into_iter().collect()
}

/// Reads a limit with everything beside it.
pub(super) fn read(
    mapping: &Mapping<'_>,
    entry: &Entry<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> Option<Placed> {
    let flags = Flags::read(mapping, report);
    let lease = beside(mapping, &entry.key, &flags, report);
    let limiter = match &*entry.key {
        "rate_limit" => rate_limit::read(entry, report)?,
        "concurrency" => concurrency::read(entry, lease.weighs_hits, report)?,
        "fleet" => fleet::read(entry, lease.weighs_hits, scope, report)?,
        "utilization" => utilization::read(entry, scope, report)?,
        REPORT => utilization_report::read(entry, scope, report)?,
        _ => token_bucket::read(entry, report)?,
    };
    let (name, place) = name(&flags, limiter.name, report).unzip();
    let replaces = replaces(limiter.replaces, name.as_deref(), report);
    if let Some(refuses) = limiter.refuses.filter(|_| flags.enabled) {
        report.push(refuses);
    }
    let kind = match limiter.kind {
        Kind::Unlimited => {
            flags.check_unlimited(mapping, report);
            Kind::Unlimited
        }
        Kind::Limit(limiter::Limit::TokenBucket(limit)) if flags.overdraw => {
            grants::check(mapping, entry, &limiter::Limit::TokenBucket(limit), report);
            Kind::Limit(limiter::Limit::TokenBucket(limit.with_overdraw()))
        }
        kind => kind,
    };
    let rule = flags.into_rule(kind, name, replaces);
    let Limiter { pool, shedding, worker, .. } = limiter;
    let rule = Rule { pool, shedding, worker, lease_header: lease.header, ..rule };
    let limiter = entry.key_place;
    Some(Placed { rule, limiter, name: place.unwrap_or(limiter) })
}

/// Reads what is said of leases beside a limit, and reports what cannot stand beside one of its kind.
fn beside(mapping: &Mapping<'_>, limiter: &str, flags: &Flags, report: &mut Report<'_>) -> Beside {
    match limiter {
        "concurrency" | "fleet" => {
            flags.check_slots(mapping, limiter, report);
            return Beside::read(mapping, report);
        }
        "utilization" => flags.check_shedder(mapping, report),
        REPORT => flags.check_report(mapping, report),
        _ => {}
    }
    Beside::refuse(mapping, limiter, report);
    Beside::default()
}

/// The one name of a limit, which may stand inside `rate_limit` or beside it.
fn name(
    flags: &Flags,
    inside: Option<(String, Place)>,
    report: &mut Report<'_>,
) -> Option<(String, Place)> {
    let (beside, inside) = match (flags.name.clone(), inside) {
        (Some(beside), Some(inside)) => (beside, inside),
        (beside, inside) => return beside.or(inside),
    };
    report.push(
        Diagnostic::error(beside.1, "`name` stands beside `rate_limit` and inside it")
            .help("remove one of the two")
            .key("name")
            .related(inside.1, "and here"),
    );
    Some(beside)
}

fn replaces(
    replaces: Vec<(String, Place)>,
    own: Option<&str>,
    report: &mut Report<'_>,
) -> Vec<String> {
    let mut names = Vec::new();
    for (name, place) in replaces {
        if own == Some(name.as_str()) {
            report.push(
                Diagnostic::error(place, format!("the limit {} replaces itself", shown(&name)))
                    .help("name another limit, or remove the line")
                    .key("replaces"),
            );
        }
        report.replaced.push((name.clone(), place));
        names.push(name);
    }
    names
}

fn too_many(second: &Entry<'_>) -> Diagnostic {
    Diagnostic::error(second.key_place, "a descriptor takes one limit, or several under `limits`")
        .help("put all of them under `limits:`, each as an item: `- token_bucket: {rate: 100/s}`")
        .key(&second.key)
}

/// Warns of what is said of a limit where there is none.
fn useless_flags(mapping: &Mapping<'_>, report: &mut Report<'_>) {
    // Wrong values are wrong here too.
    Flags::read(mapping, report);
    Beside::read(mapping, report);
    for entry in mapping.among(FLAGS) {
        let key = &entry.key;
        report.push(
            Diagnostic::warning(
                entry.key_place,
                format!("`{key}` does nothing here: the descriptor has no limit"),
            )
            .help("remove it, or put a limit beside it")
            .key(key),
        );
    }
}
