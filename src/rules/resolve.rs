//! From a request to what it meets: states, checks, and the rule behind each.

use super::{
    model::{Kind, Rule},
    tree::{Node, PlacedRule, Rules},
};
use crate::{
    key::{Key, Path},
    limiter::{Limit, token_bucket},
    request::{Descriptor, Request},
    verdict::Check,
};
use std::ops::Range;

/// What a request meets.
#[derive(Debug, Default)]
pub struct Resolution<'r> {
    /// The states, none twice.
    pub keys: Vec<Key>,
    /// The checks, in the order of the descriptors and of the limits on each.
    pub checks: Vec<Check>,
    /// The rule behind each check; `None` for a limit that came with the request.
    pub rules: Vec<Option<&'r PlacedRule>>,
    /// What applies to each descriptor of the request.
    pub descriptors: Vec<Applied<'r>>,
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
        let mut resolution = Resolution::default();
        if !self.has_domain(&request.domain) {
            resolution.descriptors.resize_with(request.descriptors.len(), Applied::default);
            return resolution;
        }
        let found: Vec<Found<'_, '_>> = request
            .descriptors
            .iter()
            .map(|descriptor| self.look_up(request, descriptor))
            .collect();
        let replaced: Vec<&str> = found
            .iter()
            .flat_map(Found::rules)
            .flat_map(|placed| placed.rule.replaces.iter().map(String::as_str))
            .collect();
        for found in found {
            let first = resolution.checks.len();
            let unlimited = self.apply(&found, request, &replaced, quota_mode, &mut resolution);
            let checks = first..resolution.checks.len();
            resolution.descriptors.push(Applied { checks, unlimited });
        }
        resolution
    }

    fn look_up<'r, 'q>(
        &'r self,
        request: &'q Request,
        descriptor: &'q Descriptor,
    ) -> Found<'r, 'q> {
        // A limit in the request drops the rule with everything it says.
        let node = match descriptor.limit {
            Some(_) => None,
            None => self.find(&request.domain, &descriptor.entries),
        };
        Found { descriptor, node }
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
        let path = || self.path(found.node, &request.domain, &descriptor.entries);
        if let Some(limit) = descriptor.limit {
            let limit = token_bucket::Limit::per_unit(limit.requests_per_unit, limit.unit);
            let limit = Limit::TokenBucket(limit);
            let check = |slot| Check { slot, limit, cost, shadow_mode: false, quota_mode };
            resolution.add(&path(), limit, None, check);
            return None;
        }
        let mut unlimited = None;
        for placed in found.rules() {
            let rule = &placed.rule;
            match rule.kind {
                Kind::Unlimited => unlimited = Some(rule),
                Kind::Limit(_) if is_named(rule, replaced) => {}
                Kind::Limit(limit) => {
                    let check = |slot| Check {
                        slot,
                        limit,
                        cost,
                        shadow_mode: rule.shadow_mode,
                        quota_mode: rule.quota_mode || quota_mode,
                    };
                    resolution.add(&rule.path(&path()), limit, Some(placed), check);
                }
            }
        }
        unlimited
    }
}

/// A descriptor of a request, and the descriptor of the rules that it reaches.
struct Found<'r, 'q> {
    descriptor: &'q Descriptor,
    node: Option<&'r Node>,
}

impl<'r> Found<'r, '_> {
    /// The rules that take part.
    fn rules(&self) -> impl Iterator<Item = &'r PlacedRule> + use<'r> {
        let rules = self.node.map_or(&[][..], |node| &node.rules);
        rules.iter().filter(|placed| placed.rule.enabled)
    }
}

fn is_named(rule: &Rule, names: &[&str]) -> bool {
    rule.name.as_deref().is_some_and(|name| names.contains(&name))
}

impl<'r> Resolution<'r> {
    /// Adds a check on a limit's state, which it may share with an earlier check.
    fn add(
        &mut self,
        path: &Path,
        limit: Limit,
        rule: Option<&'r PlacedRule>,
        check: impl FnOnce(usize) -> Check,
    ) {
        let key = Key::new(limit.limiter(), path);
        let slot = self.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        });
        self.checks.push(check(slot));
        self.rules.push(rule);
    }
}
