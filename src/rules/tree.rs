//! The rules, arranged for finding: a step per entry, each a hash look-up, however many rules there are.

#[cfg(test)]
mod tests;

use super::{
    by_value::{ByValue, Room, Values},
    model::{Descriptor, Domain, Kind, OnStoreFailure, Rule},
    pattern::Pattern,
    tally::{Tally, Traffic},
};
use crate::{
    key::{Key, Path, Value},
    lease::Term,
    limiter::Limit,
    order::{self, Orders, SetLimit, Switch},
    request::Entry,
};
use std::{collections::HashMap, sync::Arc};

/// What a lease is called where its domain says nothing else.
pub const LEASE_KEY: &str = "lease_id";

/// What a key leads to, by the value that comes with it.
type Branches = HashMap<Box<[u8]>, Branch>;

/// The rules of all domains.
#[derive(Debug, Default)]
pub struct Rules {
    /// As the files say.
    written: Arc<Vec<Domain>>,
    /// What operators have said beside them.
    orders: Arc<Orders>,
    /// As both say together.
    domains: Arc<Vec<Domain>>,
    roots: HashMap<Box<[u8]>, Root>,
    /// All rules, in the order of the files.
    placed: Vec<Arc<PlacedRule>>,
    /// Where each of them is, by its path.
    places: HashMap<Box<str>, usize>,
    /// Of requests in domains that there are no rules for.
    unknown: Arc<Traffic>,
    /// How many values rules tell apart that count by them.
    room: Room,
    /// How many rules there were before these.
    generation: u64,
}

/// A domain.
#[derive(Debug, Default)]
struct Root {
    lease_key: Box<str>,
    on_store_failure: Option<OnStoreFailure>,
    traffic: Arc<Traffic>,
    branches: Branches,
}

/// The descriptors of one key among siblings.
#[derive(Debug, Default)]
struct Branch {
    exact: HashMap<Box<[u8]>, Node>,
    /// In the order of the file; the first that matches wins.
    wildcards: Vec<(Pattern, Node)>,
    any: Option<Node>,
}

/// A descriptor.
#[derive(Debug)]
pub(super) struct Node {
    /// Its limits.
    pub(super) rules: Vec<Arc<PlacedRule>>,
    /// The wildcard whose matches share one state, where they do.
    shared: Option<Box<str>>,
    /// Whether this or a descriptor above shares.
    shares: bool,
    children: Branches,
}

/// A rule, and where it stands.
#[derive(Debug)]
pub struct PlacedRule {
    /// Its path, by which it is addressed.
    pub path: Box<str>,
    /// The domain that it stands in.
    pub domain: Box<str>,
    /// The descriptors that lead to it.
    pub(super) steps: Box<[Step]>,
    /// The keys that lead to it, such as `plan, user`: what may be told to a caller, who is not to read
    /// the rules.
    pub keys: Box<str>,
    /// The rule.
    pub rule: Rule,
    /// What it did.
    pub tally: Arc<Tally>,
    /// The same by the values that led to it, where it is to be told.
    pub by_value: Option<Arc<ByValue>>,
    /// Which values those are.
    values: Option<Values>,
    /// The limits that are set at run time for some of its counters, by their paths.
    set: HashMap<Box<str>, Limit>,
}

/// A descriptor on the way to a rule.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The entry's key.
    pub(super) key: Box<str>,
    /// The entry's value or wildcard; `None` for any value.
    pub(super) value: Option<Box<str>>,
    /// Whether all values that match the wildcard share one counter.
    pub(super) is_shared: bool,
    /// Whether the entry's value is told in metrics.
    pub(super) value_to_metric: bool,
}

impl PlacedRule {
    /// The limit of the counter on this path: the one that is set for it at run time, else the rule's.
    pub fn limit_of(&self, path: &Path, limit: Limit) -> Limit {
        // Most rules have none, and look for none.
        if self.set.is_empty() {
            return limit;
        }
        self.set.get(path.as_str()).copied().unwrap_or(limit)
    }

    /// What it did to requests with the values of these entries, where that is to be told.
    pub(super) fn tally_of(&self, entries: &[Entry]) -> Option<Arc<Tally>> {
        let (by_value, values) = (self.by_value.as_ref()?, self.values.as_ref()?);
        Some(by_value.tally(&values.text(entries)))
    }

    /// How many costs it refused that it should have charged, see [`Tally::not_charged`]; `None` where it takes
    /// them with `overdraw`, or cannot.
    pub fn not_charged(&self) -> Option<u64> {
        let Kind::Limit(limit) = self.rule.kind else { return None };
        let is_without_overdraw = limit.properties().may_be_overdrawn && !limit.overdraw();
        is_without_overdraw.then(|| self.tally.not_charged())
    }

    /// How many limits are set at run time for its counters.
    pub fn limits_set(&self) -> usize {
        self.set.len()
    }
}

impl Rules {
    /// Arranges valid rules.
    pub fn new(domains: Vec<Domain>) -> Self {
        Self::default().with_domains(domains)
    }

    /// What takes the place of these rules when the files say something else. Orders hold on, and so do counts,
    /// wherever there is a rule in the same place.
    #[must_use]
    pub fn with_domains(&self, domains: Vec<Domain>) -> Self {
        self.followed_by(Arc::new(domains), Arc::clone(&self.orders))
    }

    /// The same for when operators say something else.
    #[must_use]
    pub fn with_orders(&self, orders: Orders) -> Self {
        self.followed_by(Arc::clone(&self.written), Arc::new(orders))
    }

    fn followed_by(&self, written: Arc<Vec<Domain>>, orders: Arc<Orders>) -> Self {
        let domains = match orders.switches.is_empty() {
            true => Arc::clone(&written),
            false => Arc::new(switched(&written, &orders)),
        };
        let mut set: HashMap<&str, Vec<(&str, &SetLimit)>> = HashMap::new();
        for (path, limit) in &orders.limits {
            set.entry(&limit.rule).or_default().push((path, limit));
        }
        let before = self.placed.iter().map(|placed| (&*placed.path, &**placed)).collect();
        let room = Arc::clone(&self.room);
        let mut planting = Planting { before, set, room: &room, placed: Vec::new() };
        let plant = |domain: &Domain| {
            let name = domain.name.as_bytes();
            let above = Above {
                domain: &domain.name,
                path: Path::of_domain(name),
                steps: Vec::new(),
                keys: String::new(),
                shares: false,
            };
            let traffic = self.roots.get(name).map(|root| Arc::clone(&root.traffic));
            let root = Root {
                lease_key: domain.lease_key.as_str().into(),
                on_store_failure: domain.on_store_failure,
                traffic: traffic.unwrap_or_default(),
                branches: planting.branches(&domain.descriptors, &above),
            };
            (name.into(), root)
        };
        let roots = domains.iter().map(plant).collect();
        let (placed, unknown) = (planting.placed, Arc::clone(&self.unknown));
        let places = placed.iter().enumerate().map(|(at, it)| (it.path.clone(), at)).collect();
        let generation = self.generation + 1;
        Self { written, orders, domains, roots, placed, places, unknown, room, generation }
    }

    /// The generation of these rules: each replacement, by files or by operators, has a higher one.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether what was taken ahead of need under these rules may be about other limits under the next: where a domain
    /// with such a limit has changed in any way, or the limits that are set at run time for counters of one.
    pub fn outdates_grants(&self, next: &Self) -> bool {
        let has_same = |domain: &Domain| next.domains.contains(domain);
        let has_changed = !Arc::ptr_eq(&self.domains, &next.domains)
            && self.domains.iter().any(|domain| domain.has_grants() && !has_same(domain));
        let sets = |placed: &Arc<PlacedRule>| {
            let there = next.at(&placed.path);
            there.is_some_and(|there| there.set == placed.set)
        };
        let with_grants = || self.placed.iter().filter(|placed| placed.rule.has_grants());
        has_changed || !with_grants().all(sets)
    }

    /// The limits on rates that were not, or not so, under the rules before: by rule, and by counters that have one of their
    /// own. Whoever used much of a limit before may need longer to be forgotten under these.
    pub fn changed_rate_limits(&self, before: &Self) -> Vec<Limit> {
        let mut changed = Vec::new();
        for placed in &self.placed {
            let Kind::Limit(limit) = placed.rule.kind else { continue };
            if !limit.is_rate_limit() {
                continue;
            }
            let known = before.at(&placed.path);
            let is_same = known.is_some_and(|known| known.rule.kind == placed.rule.kind);
            changed.extend((!is_same).then_some(limit));
            let before_of = |path: &str| known.and_then(|known| known.set.get(path));
            for (path, set) in &placed.set {
                changed.extend((before_of(path) != Some(set)).then_some(*set));
            }
            // A limit that is not set any more: the rule's takes its place.
            let was_set = known
                .is_some_and(|known| known.set.keys().any(|path| !placed.set.contains_key(path)));
            changed.extend((is_same && was_set).then_some(limit));
        }
        changed
    }

    /// The limit on a rate in force for the state under this key; `None` where there is none, or its path was too long to be
    /// read from the key.
    pub fn rate_limit_of(&self, key: &Key) -> Option<Limit> {
        let path = Path::read(key.path());
        let (domain, entries) = path.parts();
        let mut level = Some(&self.roots.get(&*domain)?.branches);
        let mut node = None;
        for (key, value) in &entries {
            node = level.and_then(|branches| branches.get(&**key)?.of_state(value.as_ref()?));
            level = node.map(|node| &node.children);
        }
        let descriptor = path.descriptor();
        let rules = node?.rules.iter();
        let mut named = rules.filter(|placed| placed.rule.path(&descriptor) == path);
        named.find_map(|placed| match placed.rule.kind {
            Kind::Limit(limit) => limit.is_rate_limit().then(|| placed.limit_of(&path, limit)),
            Kind::Unlimited | Kind::Report(_) => None,
        })
    }

    /// What operators have said of rules that there are not.
    pub fn switches_of_no_rule(&self) -> impl Iterator<Item = (&String, &Switch)> {
        // A domain's path has no entries.
        let gone = |path: &str| path.contains(':') && self.at(path).is_none();
        self.orders.switches.iter().filter(move |(path, _)| gone(path))
    }

    /// The rule on a path.
    pub fn at(&self, path: &str) -> Option<&Arc<PlacedRule>> {
        self.placed.get(*self.places.get(path)?)
    }

    /// The rules as their files say them.
    pub fn written(&self) -> &[Domain] {
        &self.written
    }

    /// What operators have said beside the files.
    pub fn orders(&self) -> &Orders {
        &self.orders
    }

    /// All rules with where they stand, in the order of the files.
    pub fn placed(&self) -> &[Arc<PlacedRule>] {
        &self.placed
    }

    /// How the requests of a domain were answered; of a domain without rules, those of all such domains.
    pub fn traffic(&self, domain: &[u8]) -> &Traffic {
        self.roots.get(domain).map_or(&self.unknown, |root| &root.traffic)
    }

    /// How requests were answered in domains that there are no rules for.
    pub fn unknown_traffic(&self) -> &Traffic {
        &self.unknown
    }

    /// The rules in force, as their files and operators say them.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// The longest that a lease may last under these rules, in microseconds.
    pub fn longest_lease_us(&self) -> u64 {
        let pools = self.domains.iter().flat_map(|domain| &domain.pools).map(|pool| pool.term);
        let limits = self.domains.iter().flat_map(|domain| &domain.descriptors);
        let term = pools.chain(limits.flat_map(terms)).max().unwrap_or_default();
        // Deadlines are rounded up to whole steps.
        term.max(Term::default()).as_micros() + term.step_us()
    }

    /// Whether any limit drops requests for the sake of a pool's workers: one that is on, and not in shadow mode.
    pub fn sheds(&self, domain: &str, pool: &str) -> bool {
        let domain = self.domains.iter().find(|it| it.name == domain);
        domain.is_some_and(|domain| domain.descriptors.iter().any(|it| sheds(it, pool)))
    }

    /// Whether there are rules for a domain.
    pub fn has_domain(&self, domain: &[u8]) -> bool {
        self.roots.contains_key(domain)
    }

    /// What a lease is called in a domain, see [`Domain::lease_key`].
    pub fn lease_key(&self, domain: &[u8]) -> &str {
        self.roots.get(domain).map_or(LEASE_KEY, |root| &root.lease_key)
    }

    /// What a domain's limits do when the store cannot decide, see [`Domain::on_store_failure`].
    pub fn on_store_failure(&self, domain: &[u8]) -> Option<OnStoreFailure> {
        self.roots.get(domain)?.on_store_failure
    }

    /// The descriptor that the last of these entries reaches.
    pub(super) fn find<'r>(&'r self, domain: &[u8], entries: &[Entry]) -> Option<&'r Node> {
        self.steps(domain, entries).last().flatten()
    }

    /// The keys of the descriptors below one, or at the top of a domain.
    pub(super) fn keys_below<'r>(
        &'r self,
        domain: &[u8],
        above: Option<&'r Node>,
    ) -> Vec<&'r [u8]> {
        self.branches_below(domain, above)
            .into_iter()
            .flat_map(|it| it.keys().map(|key| &**key))
            .collect()
    }

    /// Whether any descriptor there has this key.
    pub(super) fn has_key_below(&self, domain: &[u8], above: Option<&Node>, key: &[u8]) -> bool {
        self.branches_below(domain, above).is_some_and(|branches| branches.contains_key(key))
    }

    fn branches_below<'r>(
        &'r self,
        domain: &[u8],
        above: Option<&'r Node>,
    ) -> Option<&'r Branches> {
        match above {
            Some(node) => Some(&node.children),
            None => self.roots.get(domain).map(|root| &root.branches),
        }
    }

    /// The path of the state that these entries have in common with those that share it.
    pub(super) fn path(&self, node: Option<&Node>, domain: &[u8], entries: &[Entry]) -> Path {
        let mut path = Path::of_domain(domain);
        if node.is_some_and(|node| node.shares) {
            for (entry, node) in entries.iter().zip(self.steps(domain, entries)) {
                match node.and_then(|node| node.shared.as_ref()) {
                    Some(pattern) => path.push_wildcard(&entry.key, pattern.as_bytes()),
                    None => path.push_value(&entry.key, &entry.value),
                }
            }
        } else {
            for entry in entries {
                path.push_value(&entry.key, &entry.value);
            }
        }
        path
    }

    /// The descriptor at each step, one for each entry, `None` from where no rule goes on.
    pub(super) fn steps<'r, 'q>(
        &'r self,
        domain: &[u8],
        entries: &'q [Entry],
    ) -> impl Iterator<Item = Option<&'r Node>> + use<'r, 'q> {
        let mut level = self.roots.get(domain).map(|root| &root.branches);
        entries.iter().map(move |entry| {
            let node = level.and_then(|branches| branches.get(&*entry.key)?.find(&entry.value));
            level = node.map(|node| &node.children);
            node
        })
    }
}

impl Branch {
    /// Exact value, else the first wildcard, else any value; no way back from a choice.
    fn find(&self, value: &[u8]) -> Option<&Node> {
        self.exact
            .get(value)
            .or_else(|| {
                let matching = self.wildcards.iter().find(|(pattern, _)| pattern.matches(value));
                matching.map(|(_, node)| node)
            })
            .or(self.any.as_ref())
    }

    /// The descriptor that a state belongs to, by the value in its path.
    fn of_state(&self, value: &Value) -> Option<&Node> {
        match value {
            Value::Exact(value) => self.find(value),
            Value::Wildcard(pattern) => {
                let mut nodes = self.wildcards.iter().map(|(_, node)| node);
                nodes.find(|node| {
                    let shared = node.shared.as_ref().map(|shared| shared.as_bytes());
                    shared == Some(pattern)
                })
            }
        }
    }

    fn insert(&mut self, value: Option<&str>, node: Node) {
        match value {
            None => self.any = Some(node),
            Some(value) if value.contains('*') => {
                self.wildcards.push((Pattern::new(value), node));
            }
            Some(value) => {
                self.exact.insert(value.as_bytes().into(), node);
            }
        }
    }
}

/// Whether a limit on a descriptor or below drops requests for the sake of a pool.
fn sheds(descriptor: &Descriptor, pool: &str) -> bool {
    let drops = |rule: &Rule| {
        let is_in_force = rule.enabled && !rule.shadow_mode;
        is_in_force && rule.shedding.is_some() && rule.pool.as_deref() == Some(pool)
    };
    descriptor.limits.iter().any(drops) || descriptor.descriptors.iter().any(|it| sheds(it, pool))
}

/// The terms of all leases on a descriptor and below.
fn terms(descriptor: &Descriptor) -> Vec<Term> {
    let here = descriptor.limits.iter().filter_map(|rule| match rule.kind {
        Kind::Limit(limit) => limit.term(),
        Kind::Unlimited | Kind::Report(_) => None,
    });
    here.chain(descriptor.descriptors.iter().flat_map(terms)).collect()
}

/// The rules as their files and these orders say.
fn switched(written: &[Domain], orders: &Orders) -> Vec<Domain> {
    let mut domains = written.to_vec();
    for domain in &mut domains {
        let path = Path::of_domain(domain.name.as_bytes());
        domain.descriptors.iter_mut().for_each(|it| switch(it, &path, path.as_str(), orders));
    }
    domains
}

fn switch(descriptor: &mut Descriptor, above: &Path, domain: &str, orders: &Orders) {
    let here = descriptor.path(above);
    for rule in &mut descriptor.limits {
        let path = rule.path(&here);
        let is_limit = matches!(rule.kind, Kind::Limit(_));
        let written = (rule.enabled, rule.shadow_mode);
        let places = (domain, path.as_str());
        (rule.enabled, rule.shadow_mode) = order::in_force(orders, places, is_limit, written);
        let unless = |is: bool, was: bool| (is != was).then_some(is);
        rule.switched = Switch {
            enabled: unless(rule.enabled, written.0),
            shadow_mode: unless(rule.shadow_mode, written.1),
        };
    }
    descriptor.descriptors.iter_mut().for_each(|it| switch(it, &here, domain, orders));
}

/// What a descriptor inherits.
struct Above<'d> {
    domain: &'d str,
    path: Path,
    steps: Vec<Step>,
    keys: String,
    shares: bool,
}

impl<'d> Above<'d> {
    fn below(&self, descriptor: &Descriptor) -> Self {
        let comma = if self.keys.is_empty() { "" } else { ", " };
        let mut steps = self.steps.clone();
        steps.push(Step {
            key: descriptor.key.as_str().into(),
            value: descriptor.value.as_deref().map(Box::from),
            is_shared: descriptor.share_threshold,
            value_to_metric: descriptor.value_to_metric,
        });
        Self {
            domain: self.domain,
            path: descriptor.path(&self.path),
            steps,
            keys: format!("{}{comma}{}", self.keys, descriptor.key),
            shares: self.shares || descriptor.share_threshold,
        }
    }
}

/// Rules as they are arranged.
struct Planting<'b> {
    /// Those that stood in the same places before, and have counted.
    before: HashMap<&'b str, &'b PlacedRule>,
    room: &'b Room,
    /// The limits that are set at run time, by the paths of their rules, each with that of its counter.
    set: HashMap<&'b str, Vec<(&'b str, &'b SetLimit)>>,
    placed: Vec<Arc<PlacedRule>>,
}

impl Planting<'_> {
    fn branches(&mut self, descriptors: &[Descriptor], above: &Above<'_>) -> Branches {
        let mut level = Branches::new();
        for descriptor in descriptors {
            let here = above.below(descriptor);
            let shared = descriptor.value.as_deref().filter(|_| descriptor.share_threshold);
            let node = Node {
                rules: descriptor.limits.iter().map(|rule| self.place(rule, &here)).collect(),
                shared: shared.map(Box::from),
                shares: here.shares,
                children: self.branches(&descriptor.descriptors, &here),
            };
            let branch = level.entry(descriptor.key.as_bytes().into()).or_default();
            branch.insert(descriptor.value.as_deref(), node);
        }
        level
    }

    fn place(&mut self, rule: &Rule, here: &Above<'_>) -> Arc<PlacedRule> {
        let path: Box<str> = rule.path(&here.path).as_str().into();
        let before = self.before.get(&*path);
        let tally = before.map(|placed| Arc::clone(&placed.tally)).unwrap_or_default();
        let values = Values::of(&here.steps, rule.detailed_metric);
        let by_value = values.as_ref().map(|_| {
            let before = before.and_then(|placed| placed.by_value.as_ref());
            before.map_or_else(|| Arc::new(ByValue::new(self.room)), Arc::clone)
        });
        let set = self.set.get(&*path).into_iter().flatten();
        let set = set.filter_map(|(counter, set)| {
            let Kind::Limit(limit) = rule.kind else { return None };
            Some(((*counter).into(), set.amount.applied_to(limit)?))
        });
        let placed = Arc::new(PlacedRule {
            domain: here.domain.into(),
            steps: here.steps.as_slice().into(),
            keys: here.keys.as_str().into(),
            rule: rule.clone(),
            set: set.collect(),
            path,
            tally,
            by_value,
            values,
        });
        self.placed.push(Arc::clone(&placed));
        placed
    }
}
