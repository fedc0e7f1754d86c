//! What was decided, for each domain and for each limit.

use super::{Instruments, Sources, Tell, number};
use crate::rules::{Effect, Kind, PlacedRule, Traffic};
use opentelemetry::KeyValue;
use std::collections::HashMap;

/// The metrics that have a series for each rule.
pub(super) const NAMES: [&str; 3] = [DECISIONS, BY_VALUE, NOT_CHARGED];

const DECISIONS: &str = "tollgate.decisions";
const BY_VALUE: &str = "tollgate.decisions.by_value";
const NOT_CHARGED: &str = "tollgate.costs.not_charged";

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
    instruments.counter(
        BY_VALUE,
        "The same by values, of limits with detailed_metric or value_to_metric",
        decisions_by_value,
    );
    instruments.counter(
        NOT_CHARGED,
        "Costs that a limit without overdraw refused although peeks pass: nothing was charged",
        costs_not_charged,
    );
    instruments.gauge("tollgate.rules", "", "Limits in force", |sources, tell| {
        let rules = sources.decider.rules();
        let mut in_force: HashMap<&str, u64> = HashMap::new();
        for placed in rules.placed() {
            let is_limit = matches!(placed.rule.kind, Kind::Limit(_));
            *in_force.entry(&placed.domain).or_default() +=
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
    for placed in rules.placed() {
        for effect in Effect::ALL {
            if let Some(labels) = labels(placed, effect) {
                tell(placed.tally.of(effect), &labels);
            }
        }
    }
}

/// Of single values, what has not happened is not told: there are many.
fn decisions_by_value(sources: &Sources, tell: Tell<'_, u64>) {
    let rules = sources.decider.rules();
    for placed in rules.placed() {
        let Some(by_value) = &placed.by_value else { continue };
        by_value.each(|values, tally| {
            for effect in Effect::ALL {
                let count = tally.of(effect);
                if let Some([domain, limiter, outcome, rule]) = labels(placed, effect)
                    && count > 0
                {
                    let values = KeyValue::new("values", values.to_owned());
                    tell(count, &[domain, limiter, outcome, rule, values]);
                }
            }
        });
    }
}

/// Most limits have none: what has not happened is not told.
fn costs_not_charged(sources: &Sources, tell: Tell<'_, u64>) {
    let rules = sources.decider.rules();
    for placed in rules.placed() {
        let count = placed.not_charged().unwrap_or_default();
        if let Some([domain, limiter, _, rule]) = labels(placed, Effect::Refused)
            && count > 0
        {
            tell(count, &[domain, limiter, rule]);
        }
    }
}

/// The labels of a limit; `None` for a rule that is none.
fn labels(placed: &PlacedRule, effect: Effect) -> Option<[KeyValue; 4]> {
    let Kind::Limit(limit) = placed.rule.kind else { return None };
    Some([
        KeyValue::new("domain", placed.domain.to_string()),
        KeyValue::new("limiter", limit.limiter()),
        KeyValue::new("outcome", effect.name()),
        KeyValue::new("rule", placed.path.to_string()),
    ])
}
