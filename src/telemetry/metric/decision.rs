//! What was decided, for each domain and for each limit.

use super::{Instruments, Sources, Tell, number};
use crate::{
    key::Path,
    rules::{Effect, Kind, Rules, Traffic},
};
use opentelemetry::KeyValue;
use std::collections::HashMap;

/// The metrics that have a series for each rule.
pub(super) const NAMES: [&str; 1] = [DECISIONS];

const DECISIONS: &str = "tollgate.decisions";

/// The domain of requests in domains that there are no rules for. Their names are not told: anybody could make
/// them up.
const UNKNOWN: &str = "(unknown)";

pub(super) fn register(instruments: &Instruments) {
    instruments.counter(
        "tollgate.requests",
        "Requests that were decided, whatever door they came by",
        |sources, tell| {
            let rules = sources.decider.rules();
            for domain in rules.domains() {
                answers(&domain.name, rules.traffic(domain.name.as_bytes()), tell);
            }
            answers(UNKNOWN, rules.unknown_traffic(), tell);
        },
    );
    instruments.counter(DECISIONS, "What limits did to the requests that met them", decisions);
    instruments.gauge("tollgate.rules", "", "Limits in force", |sources, tell| {
        let rules = sources.decider.rules();
        let domains = domains(&rules);
        let mut in_force: HashMap<&str, u64> = HashMap::new();
        for placed in rules.placed() {
            let is_limit = matches!(placed.rule.kind, Kind::Limit(_));
            *in_force.entry(domain_of(&placed.path, &domains)).or_default() +=
                u64::from(is_limit && placed.rule.enabled);
        }
        for (domain, count) in in_force {
            tell(number(count), &[KeyValue::new("domain", domain.to_owned())]);
        }
    });
}

fn answers(domain: &str, traffic: &Traffic, tell: Tell<'_, u64>) {
    for is_degraded in [false, true] {
        for is_refused in [false, true] {
            let labels = [
                KeyValue::new("degraded", if is_degraded { "true" } else { "false" }),
                KeyValue::new("domain", domain.to_owned()),
                KeyValue::new("outcome", if is_refused { "refused" } else { "allowed" }),
            ];
            tell(traffic.of(is_refused, is_degraded), &labels);
        }
    }
}

fn decisions(sources: &Sources, tell: Tell<'_, u64>) {
    let rules = sources.decider.rules();
    let domains = domains(&rules);
    for placed in rules.placed() {
        let Kind::Limit(limit) = placed.rule.kind else { continue };
        let domain = domain_of(&placed.path, &domains);
        for effect in Effect::ALL {
            let labels = [
                KeyValue::new("domain", domain.to_owned()),
                KeyValue::new("limiter", limit.limiter()),
                KeyValue::new("outcome", effect.name()),
                KeyValue::new("rule", placed.path.to_string()),
            ];
            tell(placed.tally.of(effect), &labels);
        }
    }
}

/// The names of all domains, by how they begin the paths of their rules.
fn domains(rules: &Rules) -> HashMap<String, &str> {
    let names = rules.domains().iter().map(|domain| &domain.name[..]);
    names.map(|name| (Path::of_domain(name.as_bytes()).as_str().to_owned(), name)).collect()
}

fn domain_of<'d>(path: &str, domains: &HashMap<String, &'d str>) -> &'d str {
    let beginning = path.split(':').next().unwrap_or_default();
    domains.get(beginning).copied().unwrap_or_default()
}
