//! `utilization_report`: a descriptor by which a worker says how busy it is.

use super::{
    Diagnostic,
    diagnostic::{Report, shown},
    limit::Limiter,
    node::Entry,
    pool::Located,
    scope::Scope,
    value,
    vocabulary::{self, Home, REPORT},
};
use crate::rules::Kind;

/// Reads what makes a descriptor a report.
pub(super) fn read(
    entry: &Entry<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> Option<Limiter> {
    let mapping = value::mapping(entry, "{pool: api}", report)?;
    vocabulary::check(mapping, Home::UtilizationReport, report);
    let worker = scope.named(mapping.get("worker"), report);
    let help = "say whose worker reports: `utilization_report: {pool: api}`";
    let (named, Located { pool, place }) = scope.pool(entry, mapping, help, report)?;
    let Some(utilization) = &pool.utilization else {
        let name = shown(&pool.name);
        report.push(
            value::wrong(named, format!("the pool {name} takes no reports"))
                .help("add `utilization: {}` to the pool, which takes them as usual")
                .related(place, "add `utilization` here"),
        );
        return None;
    };
    let worker = worker?;
    if let Some(value) = worker.fixed() {
        let entry = mapping.get("worker").unwrap_or(entry);
        report.push(
            Diagnostic::warning(
                entry.place(),
                format!("all reports are of one worker here, which is always {}", shown(value)),
            )
            .help(
                "name an entry that each worker has a value of its own for, or remove its `value`",
            )
            .key(&entry.key),
        );
    }
    Some(Limiter {
        pool: Some(pool.name.clone()),
        worker: Some(worker.place),
        ..Limiter::of(Kind::Report(utilization.settings))
    })
}

/// What is said of a report among limits. It is at the report's key.
pub(super) fn among_limits(entry: &Entry<'_>) -> Diagnostic {
    Diagnostic::error(
        entry.key_place,
        format!("`{REPORT}` among limits: what reports is no request, and is not limited"),
    )
    .help(format!("give it a descriptor of its own: `- {{key: worker, {REPORT}: {{pool: api}}}}`"))
    .key(REPORT)
}
