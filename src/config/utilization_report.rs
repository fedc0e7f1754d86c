//! `utilization_report`: a descriptor by which a worker says how busy it is.

use crate::{
    limiter::{
        config::{Configuration, Context},
        scope::Located,
    },
    rules::Kind,
    yaml::{Diagnostic, Entry, Key, Report, Table, shown, value},
};

/// Its key.
pub(super) const KEY: Key = ("utilization_report", "That what ends here is a worker's report.");

/// The same without what it says.
pub(super) const REPORT: &str = KEY.0;

pub(super) const TABLE: Table = Table {
    name: "`utilization_report`",
    place: "inside `utilization_report`",
    near: Some("a pool"),
    keys: &[&[
        ("pool", "The pool of the worker."),
        ("worker", "The key of the entry that names the worker."),
    ]],
};

/// Reads what makes a descriptor a report, and which entry names the worker.
pub(super) fn read(
    context: &Context<'_>,
    report: &mut Report<'_>,
) -> Option<(Configuration<Kind>, usize)> {
    let Context { entry, scope, .. } = context;
    let mapping = value::table(entry, &TABLE, "{pool: api}", report)?;
    let worker = scope.named(mapping.get("worker"), report);
    let help = "say whose worker reports: `utilization_report: {pool: api}`";
    let (named, Located { pool, place }) = scope.pool(entry, mapping, help, report)?;
    let Some(utilization) = &pool.utilization else {
        let name = shown(&pool.name);
        return report.reject(
            value::wrong(named, format!("the pool {name} takes no reports"))
                .help("add `utilization: {}` to the pool, which takes them as usual")
                .related(place, "add `utilization` here"),
        );
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
    let kind = Configuration::of(Kind::Report(utilization.settings));
    Some((Configuration { pool: Some(pool.name.clone()), ..kind }, worker.place))
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
