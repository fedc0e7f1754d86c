//! What rule files say of a limiter: its tables, its reader, and which of the keys beside a limit it takes. `config`
//! reaches a limiter through its [`Schema`], which it finds by name, and names no limiter itself.

use super::{Limit, Limiter, RateLimit, SCHEMAS, pool::Shedding, scope::Scope};
use crate::yaml::{Diagnostic, Entry, Report, Table};

/// A limiter that rule files configure.
pub trait Configured: Limiter {
    /// A mapping that is right, in one line. Where it names a pool, the pool is `api`.
    const EXAMPLE: &'static str;

    /// The table of its mapping, and those of the mappings inside it.
    const TABLES: &'static [&'static Table];

    /// Reads a limit. Reports what is wrong; `None` where there is no limit then.
    fn read(context: &Context<'_>, report: &mut Report<'_>) -> Option<Configuration<Self>>;
}

/// What a reader goes by.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The limiter's key, with the mapping to read.
    pub entry: &'a Entry<'a>,
    /// What the limit may name.
    pub scope: Scope<'a>,
    /// `overdraw` beside the limit, where it says true. A rate takes it by [`RateLimit::OVERDRAW`], after it was read.
    pub overdraw: Option<&'a Entry<'a>>,
    /// Whether a request takes as many slots as it has hits.
    pub weighs_hits: bool,
}

/// What a limiter's mapping says.
#[derive(Debug)]
pub struct Configuration<L> {
    /// The limit.
    pub limit: L,
    /// The pool that it is about.
    pub pool: Option<String>,
    /// What a load shedder goes by.
    pub shedding: Option<Shedding>,
    /// The warning of a limit that refuses everything, for one that is on.
    pub refuses: Option<Diagnostic>,
}

impl<L> Configuration<L> {
    /// A limit of which nothing else is said.
    pub const fn of(limit: L) -> Self {
        Self { limit, pool: None, shedding: None, refuses: None }
    }

    /// The same with the limit as another type.
    pub fn map<T>(self, into: impl FnOnce(L) -> T) -> Configuration<T> {
        let Self { limit, pool, shedding, refuses } = self;
        Configuration { limit: into(limit), pool, shedding, refuses }
    }
}

/// Why keys that stand beside a limit mean nothing there; `None` for a key that is taken.
#[derive(Debug, Clone, Copy)]
pub struct Refused {
    /// Why not `overdraw`, and what to do about it.
    pub overdraw: Option<(&'static str, &'static str)>,
    /// Why not `on_store_failure: local`.
    pub local: Option<&'static str>,
    /// Why not `weight`, and why not `lease_header`.
    pub lease: Option<(&'static str, &'static str)>,
}

const REMOVE: &str = "remove it";

const FOR_RATES: &str = "remove it: it is for rate limits";

impl Refused {
    /// What a limit of this limiter on a rate does not take.
    pub const fn by_rate<L: RateLimit>() -> Self {
        let overdraw = match L::OVERDRAW {
            Ok(_) => None,
            Err(why) => Some((why, REMOVE)),
        };
        let weight = "what a request takes of a rate is always its hits";
        let header = "what a request takes of a rate is under no lease";
        Self { overdraw, local: None, lease: Some((weight, header)) }
    }

    /// What a limit on slots does not take.
    pub const BY_SLOTS: Self = Self {
        overdraw: Some(("a slot is taken before it is used", FOR_RATES)),
        local: Some("one process does not know which slots are taken elsewhere"),
        lease: None,
    };

    /// What a load shedder does not take.
    pub const BY_SHEDDERS: Self = Self {
        overdraw: Some(("nothing is taken that could be drawn", FOR_RATES)),
        local: Some("one process does not know what workers report elsewhere"),
        ..Self::BY_REPORTS
    };

    /// What a worker's report does not take.
    pub const BY_REPORTS: Self = Self {
        overdraw: Some(("a report takes nothing", REMOVE)),
        local: None,
        lease: Some(("it takes no slots", "it takes no slots")),
    };
}

/// Reads a limit of one limiter.
pub type Reader<L> = fn(&Context<'_>, &mut Report<'_>) -> Option<Configuration<L>>;

/// A limiter as rule files have it.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Its name, which is its key.
    pub name: &'static str,
    /// A mapping that is right. Where it names a pool, the pool is `api`.
    pub example: &'static str,
    /// The table of its mapping, and those of the mappings inside it.
    pub tables: &'static [&'static Table],
    /// Which of the keys beside a limit it does not take.
    pub refused: Refused,
    /// Reads a limit.
    pub read: Reader<Limit>,
}

impl Schema {
    /// The limiter with this key.
    pub fn of(key: &str) -> Option<&'static Self> {
        SCHEMAS.iter().find(|schema| schema.name == key)
    }

    pub(super) const fn new<L: Configured>(refused: Refused, read: Reader<Limit>) -> Self {
        Self { name: L::NAME, example: L::EXAMPLE, tables: L::TABLES, refused, read }
    }
}

/// Reads a limit on a rate, with `overdraw` beside it.
pub(super) fn read_rate<L: Configured + RateLimit>(
    context: &Context<'_>,
    report: &mut Report<'_>,
) -> Option<Configuration<L>> {
    let configuration = L::read(context, report)?;
    let overdraw = L::OVERDRAW.ok().filter(|_| context.overdraw.is_some());
    Some(configuration.map(|limit| overdraw.map_or(limit, |overdraw| overdraw(limit))))
}

/// A rule file that has the example of each limiter: what random changes of rule files begin with.
pub fn examples() -> String {
    let pool = "pools:\n  api: {capacity: 100, utilization: {shed: [low]}}\n";
    let limits = SCHEMAS
        .iter()
        .map(|Schema { name, example, .. }| format!("  - key: {name}\n    {name}: {example}\n"));
    format!("domain: examples\n{pool}descriptors:\n{}", limits.collect::<String>())
}
