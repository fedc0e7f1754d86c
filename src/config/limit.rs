//! A limit, with everything that stands beside it.

use super::{
    flag::{self, Flags},
    lease::Beside,
    rate_limit::{self, Names},
    utilization_report::{self, REPORT},
};
use crate::{
    limiter::{
        config::{Configuration, Context, Refused, Schema},
        scope::Scope,
        token_bucket,
    },
    rules::{Kind, Rule},
    yaml::{Diagnostic, Entry, Mapping, Place, Report, shown},
};

/// A limit, and where to point at it.
pub(super) struct Placed {
    pub(super) rule: Rule,
    /// Its limiter's key.
    pub(super) limiter: Place,
    /// Its name; its limiter's key where it has none.
    pub(super) name: Place,
    /// The names it replaces.
    pub(super) replaced: Vec<(String, Place)>,
}

/// Reads a limit with everything beside it.
pub(super) fn read(
    mapping: &Mapping<'_>,
    entry: &Entry<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> Option<Placed> {
    let flags = Flags::read(mapping, report);
    let (schema, is_report) = (Schema::of(&entry.key), entry.key == REPORT);
    let refused = match schema {
        Some(schema) => schema.refused,
        None if is_report => Refused::BY_REPORTS,
        None => Refused::by_rate::<token_bucket::Limit>(),
    };
    flags.check_refused(mapping, &entry.key, &refused, report);
    let lease = match refused.lease {
        None => Beside::read(mapping, report),
        Some(_) => Beside::default(),
    };
    let overdraw = mapping.get("overdraw").filter(|_| flags.overdraw);
    let context = Context { entry, scope: *scope, overdraw, weighs_hits: lease.weighs_hits };
    let (configuration, names, worker) = if let Some(schema) = schema {
        ((schema.read)(&context, report)?.map(Kind::Limit), Names::default(), None)
    } else if is_report {
        flag::check_report(mapping, report);
        let (configuration, worker) = utilization_report::read(&context, report)?;
        (configuration, Names::default(), Some(worker))
    } else {
        let (configuration, names) = rate_limit::read(&context, report)?;
        (configuration, names, None)
    };
    let Configuration { limit: kind, pool, shedding, refuses } = configuration;
    let (name, place) = name(&flags, names.own, report).unzip();
    check_replaced(&names.replaced, name.as_deref(), report);
    if let Some(refuses) = refuses.filter(|_| flags.enabled) {
        report.push(refuses);
    }
    if kind == Kind::Unlimited {
        flags.check_unlimited(mapping, report);
    }
    let replaces = names.replaced.iter().map(|(name, _)| name.clone()).collect();
    let rule = flags.into_rule(kind, name, replaces);
    let rule = Rule { pool, shedding, worker, lease_header: lease.header, ..rule };
    let limiter = entry.key_place;
    let name = place.unwrap_or(limiter);
    Some(Placed { rule, limiter, name, replaced: names.replaced })
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

fn check_replaced(replaced: &[(String, Place)], own: Option<&str>, report: &mut Report<'_>) {
    for (name, place) in replaced.iter().filter(|(name, _)| own == Some(name.as_str())) {
        report.push(
            Diagnostic::error(*place, format!("the limit {} replaces itself", shown(name)))
                .help("name another limit, or remove the line")
                .key("replaces"),
        );
    }
}
