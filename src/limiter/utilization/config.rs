//! `utilization` as a limit in a rule file: `{pool: api, class: class, shed_by: [user]}`.

use super::{Draw, Limit};
use crate::{
    limiter::{
        config::{Configuration, Configured, Context},
        pool::{SHED_EXAMPLE, Shedding, Utilization},
        scope::{Located, Scope, Step},
    },
    yaml::{Diagnostic, Entry, Mapping, Report, Table, names, shown, value},
};

const TABLE: Table = Table {
    name: "`utilization`",
    place: "inside `utilization`, beside `key`",
    near: Some("the `utilization` of a pool"),
    keys: &[&[
        ("pool", "The pool whose workers must not be too busy."),
        ("class", "The key of the entry that is a request's class."),
        ("shed_by", "The keys of the entries that tell callers apart."),
    ]],
};

impl Configured for Limit {
    const EXAMPLE: &'static str = "{pool: api}";
    const TABLES: &'static [&'static Table] = &[&TABLE];

    fn read(context: &Context<'_>, report: &mut Report<'_>) -> Option<Configuration<Self>> {
        let mapping = value::table(context.entry, &TABLE, Self::EXAMPLE, report)?;
        let Context { entry, scope, .. } = context;
        let class = scope.named(mapping.get("class"), report);
        let callers = callers(mapping, scope, report);
        let help = "say whose workers must not be too busy: `utilization: {pool: api}`";
        let (named, Located { pool, place }) = scope.pool(entry, mapping, help, report)?;
        let utilization = pool.utilization.as_ref().filter(|it| !it.shed.is_empty());
        let Some(Utilization { settings, shed }) = utilization else {
            let name = shown(&pool.name);
            return report.reject(
                value::wrong(named, format!("the pool {name} has no classes to shed"))
                    .help(format!(
                        "list them in the pool, what is given up first in front: \
                         `utilization: {{shed: {SHED_EXAMPLE}}}`"
                    ))
                    .related(place, "add `shed` here"),
            );
        };
        let (class, callers) = (class?, callers?);
        check_class(mapping.get("class").unwrap_or(entry), class, shed, report);
        if let Some(entry) = mapping.get("shed_by") {
            check_callers(entry, class, &callers, report);
        }
        let limit = Self {
            settings: *settings,
            classes: u32::try_from(shed.len()).ok()?,
            // Which class it is, and what is drawn, is known with the request.
            class: 0,
            draw: Draw::Request(0),
        };
        let callers = callers.iter().map(|step| step.place).collect();
        let shedding = Shedding { classes: shed.clone(), class: class.place, callers };
        let pool = Some(pool.name.clone());
        Some(Configuration { pool, shedding: Some(shedding), ..Configuration::of(limit) })
    }
}

/// Reads which entries tell callers apart; none where every request is drawn for.
fn callers<'a>(
    mapping: &Mapping<'_>,
    scope: &Scope<'a>,
    report: &mut Report<'_>,
) -> Option<Vec<&'a Step<'a>>> {
    let Some(entry) = mapping.get("shed_by") else { return Some(Vec::new()) };
    let keys = names::read(entry, "[user]", report)?;
    let steps: Vec<_> = keys.iter().map(|key| scope.find(entry, key, report)).collect();
    steps.into_iter().collect()
}

/// Warns of a class that is always the same, and none of those that are given up.
fn check_class(entry: &Entry<'_>, class: &Step<'_>, shed: &[String], report: &mut Report<'_>) {
    let Some(value) = class.fixed().filter(|value| !shed.iter().any(|name| name == value)) else {
        return;
    };
    let is = shown(value);
    let list = shed.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ");
    report.push(
        Diagnostic::warning(
            entry.place(),
            format!("this never drops anything: {is} is no class that its pool sheds"),
        )
        .help(format!("the pool sheds {list}: add the class there, or remove this limit"))
        .key(&entry.key),
    );
}

/// Warns of entries that do not tell callers apart: those that are always the same, and the class, of which the
/// requests are dropped all or none then.
fn check_callers(
    entry: &Entry<'_>,
    class: &Step<'_>,
    callers: &[&Step<'_>],
    report: &mut Report<'_>,
) {
    if callers.iter().any(|step| step.fixed().is_none() && step.place != class.place) {
        return;
    }
    report.push(
        Diagnostic::warning(
            entry.place(),
            "`shed_by` tells nobody apart: of each class all requests are dropped, or none",
        )
        .help("name an entry that each caller has a value of his own for, or remove `shed_by`")
        .key(&entry.key),
    );
}
