//! From a request to what it meets: states, checks, and the rule behind each.

use super::{
    model::{Kind, Rule, Shedding},
    tally::Tally,
    tree::{Node, PlacedRule, Rules},
};
use crate::{
    key::{Key, Path},
    lease::LeaseId,
    limiter::{
        Limit, token_bucket,
        utilization::{self, Draw},
    },
    request::{Descriptor, Entry, Request},
    verdict::{Check, Few, Question},
    worker::{Load, Report, Settings},
};
use bytes::Bytes;
use std::{borrow::Cow, cell::LazyCell, ops::Range, sync::Arc};

/// The entry that names the lease under which a request takes what it takes. It is not matched.
pub const ACQUIRE_KEY: &str = "acquire_lease_id";

/// What a request meets.
#[derive(Debug, Default)]
pub struct Resolution<'r> {
    /// What to ask of a store: the states, and the checks in the order of the descriptors and of the limits
    /// on each. Under which lease is for the caller to say.
    pub question: Question,
    /// The lease under which it is to be taken, and its name, where the request carries one.
    pub carried: Option<(LeaseId, Bytes)>,
    /// The leases that it releases.
    pub releases: Vec<LeaseId>,
    /// What workers report with it.
    pub reports: Vec<Reporting>,
    /// How many reports it brings that are none: without a number, or with one too high to be believed.
    pub bad_reports: u64,
    /// The rule behind each check; `None` for a limit that came with the request.
    pub rules: Vec<Option<&'r PlacedRule>>,
    /// Of the checks of rules that count by values, in order, by their places: where these are counted.
    pub by_value: Vec<(usize, Arc<Tally>)>,
    /// What applies to each descriptor of the request.
    pub descriptors: Vec<Applied<'r>>,
}

/// A report, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporting {
    /// The keys of the pool's workers and of the worker.
    pub keys: [Key; 2],
    /// What it says.
    pub report: Report,
}

impl Reporting {
    /// A report of a worker of a pool.
    pub fn new(domain: &[u8], pool: &str, worker: &[u8], report: Report) -> Self {
        let mut path = pool_path(domain, pool);
        let workers = workers_key(&path);
        path.push_key(worker);
        Self { keys: [workers, Key::new(WORKER, &path)], report }
    }
}

/// What keys of single workers have in the place of a limiter.
const WORKER: &str = "worker";

/// The limiters that pools have states of.
const FLEET: &str = "fleet";
const UTILIZATION: &str = "utilization";

/// The keys of what is known of a pool: what is in flight, and its workers.
pub fn pool_keys(domain: &[u8], pool: &str) -> [Key; 2] {
    let path = pool_path(domain, pool);
    [Key::new(FLEET, &path), workers_key(&path)]
}

/// Where the workers of a pool are counted.
fn workers_key(pool: &Path) -> Key {
    Key::new(UTILIZATION, pool)
}

/// What applies to one descriptor.
#[derive(Debug, Default)]
pub struct Applied<'r> {
    /// Its checks.
    pub checks: Range<usize>,
    /// The rule by which it passes unlimited, if one does.
    pub unlimited: Option<&'r Rule>,
}

impl Rules {
    /// What a request meets. With `quota_mode` every limit counts as a quota limit.
    pub fn resolve(&self, request: &Request, quota_mode: bool) -> Resolution<'_> {
        let mut resolution = Resolution::with_room_for(request.descriptors.len());
        resolution.question.generation = self.generation();
        let lease_key = self.lease_key(&request.domain).as_bytes();
        let found: Few<Option<Found<'_, '_>>> = request
            .descriptors
            .iter()
            .map(|descriptor| {
                match descriptor.entries.iter().find(|entry| *entry.key == *lease_key) {
                    Some(lease) => resolution.release(request, lease),
                    None => return Some(self.look_up(request, descriptor, &mut resolution)),
                }
                None
            })
            .collect();
        let replaced: Vec<&str> = found
            .iter()
            .flatten()
            .flat_map(Found::rules)
            .flat_map(|placed| placed.rule.replaces.iter().map(String::as_str))
            .collect();
        let is_known = self.has_domain(&request.domain);
        for found in found {
            let first = resolution.question.checks.len();
            let found = found.filter(|_| is_known);
            let unlimited = found.and_then(|found| {
                self.apply(&found, request, &replaced, quota_mode, &mut resolution)
            });
            let checks = first..resolution.question.checks.len();
            resolution.descriptors.push(Applied { checks, unlimited });
        }
        resolution
    }

    fn look_up<'r, 'q>(
        &'r self,
        request: &Request,
        descriptor: &'q Descriptor,
        resolution: &mut Resolution<'r>,
    ) -> Found<'r, 'q> {
        let carries = |entry: &&Entry| *entry.key == *ACQUIRE_KEY.as_bytes();
        let mut entries = Cow::Borrowed(&descriptor.entries[..]);
        if let Some(lease) = descriptor.entries.iter().find(carries) {
            entries.to_mut().retain(|entry| !carries(&entry));
            // A request has one lease.
            if resolution.carried.is_none() && !lease.value.is_empty() {
                let id = LeaseId::named(&request.domain, &lease.value);
                resolution.carried = Some((id, lease.value.clone()));
            }
        }
        let node = self.find(&request.domain, &entries);
        Found { descriptor, entries, node }
    }

    /// Adds the checks of one descriptor, and tells by which rule it is unlimited, if it is.
    fn apply<'r>(
        &self,
        found: &Found<'r, '_>,
        request: &Request,
        replaced: &[&str],
        quota_mode: bool,
        resolution: &mut Resolution<'r>,
    ) -> Option<&'r Rule> {
        let descriptor = found.descriptor;
        let cost = request.cost_of(descriptor);
        if let Some(limit) = descriptor.limit {
            let path = self.path(None, &request.domain, &found.entries);
            let limit = token_bucket::Limit::per_unit(limit.requests_per_unit, limit.unit);
            let limit = Limit::TokenBucket(limit);
            let check = |slot| Check { quota_mode, ..Check::of(slot, limit, cost) };
            resolution.add(&path, limit, None, check);
        }
        // Made once for all limits: it may be long.
        let path = LazyCell::new(|| self.path(found.node, &request.domain, &found.entries));
        let mut unlimited = None;
        for placed in found.rules() {
            let rule = &placed.rule;
            match rule.kind {
                Kind::Unlimited => unlimited = Some(rule),
                Kind::Report(settings) => {
                    resolution.report(request, found, rule, settings);
                }
                Kind::Limit(_) if is_named(rule, replaced) => {}
                Kind::Limit(limit) => {
                    let Some(limit) = classified(limit, rule, found, request) else { continue };
                    let path = match &rule.pool {
                        Some(pool) => pool_path(&request.domain, pool),
                        None => rule.path(&path),
                    };
                    let limit = placed.limit_of(&path, limit);
                    let told_by = match &rule.pool {
                        Some(pool) if limit.is_told() => {
                            Some(resolution.slot(workers_key(&pool_path(&request.domain, pool))))
                        }
                        _ => None,
                    };
                    let check = |slot| Check {
                        slot,
                        limit,
                        cost: limit.charge(cost),
                        told_by,
                        shadow_mode: rule.shadow_mode,
                        quota_mode: rule.quota_mode || quota_mode,
                    };
                    if let Some(tally) = placed.tally_of(&found.entries) {
                        resolution.by_value.push((resolution.rules.len(), tally));
                    }
                    resolution.add(&path, limit, Some(placed), check);
                }
            }
        }
        unlimited
    }
}

/// A limit as it is for this request. A utilization limit is about a class and a caller; `None` where the
/// class is none that may be dropped.
fn classified(
    limit: Limit,
    rule: &Rule,
    found: &Found<'_, '_>,
    request: &Request,
) -> Option<Limit> {
    let (Limit::Utilization(limit), Some(shedding)) = (limit, &rule.shedding) else {
        return Some(limit);
    };
    let Shedding { classes, class, callers } = shedding;
    let value = &found.entries.get(*class)?.value;
    let class = classes.iter().position(|class| class.as_bytes() == value)?;
    let draw = if callers.is_empty() {
        limit.draw
    } else {
        let callers = callers.iter().filter_map(|place| found.entries.get(*place));
        let callers = callers.flat_map(|entry| [&entry.key[..], &entry.value[..]]);
        let pool = rule.pool.as_deref().unwrap_or_default();
        Draw::of_caller([&request.domain, pool.as_bytes()].into_iter().chain(callers))
    };
    let class = u32::try_from(class).ok()?;
    Some(Limit::Utilization(utilization::Limit { class, draw, ..limit }))
}

/// Where what is in flight in a pool is counted.
pub(super) fn pool_path(domain: &[u8], pool: &str) -> Path {
    let mut path = Path::of_domain(domain);
    path.push_name(pool);
    path
}

/// A descriptor of a request, and the descriptor of the rules that it reaches.
struct Found<'r, 'q> {
    descriptor: &'q Descriptor,
    /// What of its entries is matched.
    entries: Cow<'q, [Entry]>,
    node: Option<&'r Node>,
}

impl<'r> Found<'r, '_> {
    /// The rules that take part. A limit in the request drops those on rates, with everything they say.
    fn rules(&self) -> impl Iterator<Item = &'r PlacedRule> + use<'r> {
        let rules = self.node.map_or(&[][..], |node| &node.rules);
        let is_overridden = self.descriptor.limit.is_some();
        rules.iter().map(|placed| &**placed).filter(move |PlacedRule { rule, .. }| {
            let is_rate_limit = match rule.kind {
                Kind::Unlimited => true,
                Kind::Limit(limit) => limit.is_rate_limit(),
                Kind::Report(_) => false,
            };
            rule.enabled && !(is_rate_limit && is_overridden)
        })
    }
}

fn is_named(rule: &Rule, names: &[&str]) -> bool {
    rule.name.as_deref().is_some_and(|name| names.contains(&name))
}

impl<'r> Resolution<'r> {
    /// One of a request with so many descriptors, of which most meet one limit.
    fn with_room_for(descriptors: usize) -> Self {
        let (keys, checks) = (Vec::with_capacity(descriptors), Vec::with_capacity(descriptors));
        Self {
            question: Question::new(keys, checks),
            rules: Vec::with_capacity(descriptors),
            descriptors: Vec::with_capacity(descriptors),
            ..Self::default()
        }
    }

    /// A descriptor that releases a lease, and does nothing else.
    fn release(&mut self, request: &Request, lease: &Entry) {
        if !lease.value.is_empty() {
            self.releases.push(LeaseId::named(&request.domain, &lease.value));
        }
    }

    /// A descriptor that reports how busy a worker is: its hits are the utilization in permille.
    fn report(
        &mut self,
        request: &Request,
        found: &Found<'_, '_>,
        rule: &Rule,
        settings: Settings,
    ) {
        let hits = match (found.descriptor.hits_addend, request.hits_addend) {
            (Some(hits), _) => Some(hits),
            // Nobody said anything, which else is a cost of 1.
            (None, 0) => None,
            (None, hits) => Some(hits.into()),
        };
        let hits = hits.filter(|_| !found.descriptor.is_negative_hits);
        let load = hits.and_then(Load::of_permille);
        let worker = rule.worker.and_then(|place| found.entries.get(place));
        let worker = worker.map(|entry| &entry.value).filter(|value| !value.is_empty());
        let (Some(load), Some(worker), Some(pool)) = (load, worker, &rule.pool) else {
            self.bad_reports += 1;
            return;
        };
        let report = Report { settings, load: Some(load), measured: None };
        self.reports.push(Reporting::new(&request.domain, pool, worker, report));
    }

    /// Adds a check on a limit's state, which it may share with an earlier check.
    fn add(
        &mut self,
        path: &Path,
        limit: Limit,
        rule: Option<&'r PlacedRule>,
        check: impl FnOnce(usize) -> Check,
    ) {
        let slot = self.slot(Key::new(limit.limiter(), path));
        self.question.checks.push(check(slot));
        self.rules.push(rule);
    }

    /// The place of a key among those of the question.
    fn slot(&mut self, key: Key) -> usize {
        let keys = &mut self.question.keys;
        keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            keys.push(key);
            keys.len() - 1
        })
    }
}
