//! What rule files say, once it is known to be valid: domains, their trees of descriptors, and the
//! limits on them.

use crate::{
    key::Path,
    limiter::{self, Limit},
    order::Switch,
    worker,
};
pub use limiter::pool::{Capacity, Pool, Shedding, Utilization};
use serde_json::{Map, Value};

/// The rules of one domain.
#[derive(Debug, Clone, PartialEq)]
pub struct Domain {
    /// Its name, which requests give.
    pub name: String,
    /// What a lease is called where Envoy carries it: the field of the dynamic metadata, and the entry that
    /// releases.
    pub lease_key: String,
    /// What its limits do when the store cannot decide, where they do not say it themselves; `None` where
    /// that is for the process to say.
    pub on_store_failure: Option<OnStoreFailure>,
    /// Its pools, in the order of the files.
    pub pools: Vec<Pool>,
    /// Its top-level descriptors, in the order of the files.
    pub descriptors: Vec<Descriptor>,
}

/// One descriptor: which entry of a request it matches, and what follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Descriptor {
    /// The entry's key.
    pub key: String,
    /// The entry's value, in which `*` stands for any text; `None` matches every value.
    pub value: Option<String>,
    /// Whether all values that match the wildcard share one state.
    pub share_threshold: bool,
    /// Whether the entry's value becomes a label of the metrics.
    pub value_to_metric: bool,
    /// The limits on requests whose last entry this is; all must pass. None: no limit.
    pub limits: Vec<Rule>,
    /// Descriptors for the next entry.
    pub descriptors: Vec<Self>,
}

/// One limit, and how to apply it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What it is called in answers and in `replaces`.
    pub name: Option<String>,
    /// What tells it from its siblings under `limits:`; `None` for a limit that stands alone.
    pub label: Option<Label>,
    /// What it does.
    pub kind: Kind,
    /// The pool that it is about, if it is about one.
    pub pool: Option<String>,
    /// What a utilization limit goes by; `None` for all others.
    pub shedding: Option<Shedding>,
    /// Which entry of a request names the worker that reports, the first being 0; `None` for what is no
    /// report.
    pub worker: Option<usize>,
    /// The request header in which the upstream is told the lease's id, if it is told.
    pub lease_header: Option<String>,
    /// Names of the limits that do not apply to a request that meets this one.
    pub replaces: Vec<String>,
    /// Switched off, it takes no part in any decision.
    pub enabled: bool,
    /// Checked and charged, but never the reason of a refusal.
    pub shadow_mode: bool,
    /// How operators have changed the last two at run time, `None` where they are as the file says.
    pub switched: Switch,
    /// A request is refused when all of its quota limits are over, not when one is.
    pub quota_mode: bool,
    /// Whether the descriptor's values become labels of the metrics.
    pub detailed_metric: bool,
    /// Facts that go to Envoy with an answer whose descriptor is under its limit.
    pub metadata: Map<String, Value>,
    /// What to answer when the store cannot; `None` where that is for the domain to say.
    pub on_store_failure: Option<OnStoreFailure>,
    /// What a refused caller reads, in place of the default text.
    pub message: Option<String>,
}

/// What a rule does with the requests it meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It lets them pass.
    Unlimited,
    /// It limits them.
    Limit(limiter::Limit),
    /// They are no requests but what a worker of the rule's pool says of itself.
    Report(worker::Settings),
}

/// Where a limit stands among several on one descriptor. Part of its state's identity, so that a limit
/// keeps its state when the others change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Label {
    /// By its name.
    Name(String),
    /// By its place, the first being 1.
    Place(usize),
}

/// What to answer when the store cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStoreFailure {
    /// Let the request pass.
    #[default]
    Allow,
    /// Refuse it.
    Deny,
    /// Limit it in this process alone.
    Local,
}

impl OnStoreFailure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Deny, Self::Local];

    /// Its name, as rule files and the command line have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Local => "local",
        }
    }

    /// The same for one of all limits of which it is said. `local` means those on rates; and critical requests
    /// are never refused by a `fleet` limit.
    #[must_use]
    pub fn of_all(self, limit: &Limit) -> Self {
        match (self, limit) {
            (Self::Local, limit) if !limit.properties().has_local_form => Self::Allow,
            (Self::Deny, limit) if limit.is_critical() => Self::Allow,
            (policy, _) => policy,
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

impl Domain {
    /// Whether tokens of any of its limits may be taken ahead of need.
    pub fn has_grants(&self) -> bool {
        self.descriptors.iter().any(Descriptor::has_grants)
    }
}

impl Descriptor {
    fn has_grants(&self) -> bool {
        self.limits.iter().any(Rule::has_grants) || self.descriptors.iter().any(Self::has_grants)
    }

    /// The path by which it is addressed, below that of the descriptor it stands in.
    pub fn path(&self, above: &Path) -> Path {
        let mut path = above.clone();
        match &self.value {
            None => path.push_key(self.key.as_bytes()),
            Some(value) => path.push_wildcard(self.key.as_bytes(), value.as_bytes()),
        }
        path
    }
}

impl Rule {
    /// Whether its tokens may be taken ahead of need.
    pub fn has_grants(&self) -> bool {
        matches!(&self.kind, Kind::Limit(limit) if limit.grants().is_some())
    }

    /// What it does when the store cannot decide, where `default` is what limits do that say nothing of it.
    pub fn on_store_failure(&self, default: Option<OnStoreFailure>) -> Option<OnStoreFailure> {
        let Kind::Limit(limit) = &self.kind else { return None };
        self.on_store_failure.or_else(|| default.map(|default| default.of_all(limit)))
    }

    /// The path by which it is addressed, and by which its states are kept: that of its descriptor,
    /// and what tells it from its siblings.
    pub(super) fn path(&self, descriptor: &Path) -> Path {
        let mut path = descriptor.clone();
        match &self.label {
            None => {}
            Some(Label::Name(name)) => path.push_name(name),
            Some(Label::Place(place)) => path.push_place(*place),
        }
        path
    }
}
