//! From a verdict to a decision: outcomes of checks become a status for each descriptor, and what a
//! refused caller is told.

use crate::{
    decision::{Code, Decision, Refused, ShownLimit, Status},
    limiter::Wait,
    rules::{AddressedRule, Applied, Resolution},
    verdict::{Check, Outcome, Refusal, Verdict},
};
use serde_json::{Map, Value};
use std::cmp::Reverse;

/// The decision that a verdict amounts to. With `shadow_mode` nobody is refused.
pub(super) fn fold(resolution: &Resolution<'_>, verdict: &Verdict, shadow_mode: bool) -> Decision {
    let Verdict { outcomes, refusal } = verdict;
    let reader = Reader { resolution, outcomes, refusal: *refusal };
    let refusal = refusal.filter(|_| !shadow_mode);
    Decision {
        code: if refusal.is_some() { Code::OverLimit } else { Code::Ok },
        statuses: resolution.descriptors.iter().map(|applied| reader.status(applied)).collect(),
        refused: refusal.map(|refusal| reader.refused(refusal)),
        metadata: Map::new(),
    }
}

/// The metadata of every rule that a descriptor under its limits meets. Where two say something
/// different of one thing, the first holds.
pub(super) fn metadata(resolution: &Resolution<'_>, statuses: &[Status]) -> Map<String, Value> {
    let mut merged = Map::new();
    for (status, applied) in statuses.iter().zip(&resolution.descriptors) {
        if status.code == Code::OverLimit {
            continue;
        }
        let limited = resolution.rules.get(applied.checks.clone()).unwrap_or_default();
        let limited = limited.iter().flatten().map(|addressed| &addressed.rule);
        for rule in limited.chain(applied.unlimited) {
            merge(&mut merged, &rule.metadata);
        }
    }
    merged
}

fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (name, value) in from {
        match (into.get_mut(name), value) {
            (None, value) => {
                into.insert(name.clone(), value.clone());
            }
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (Some(_), _) => {}
        }
    }
}

/// The longest time that is told, in seconds: some 10,000 years, which is what a protobuf Duration holds.
const LONGEST_S: u64 = 315_576_000_000;

/// Whole seconds, the last one begun counted as one.
fn seconds(micros: u64) -> u64 {
    micros.div_ceil(1_000_000).min(LONGEST_S)
}

/// Whole seconds to wait, at least 1: Envoy drops fractions, and a client told 0 would come at once.
fn wait_seconds(wait: Wait) -> Option<u64> {
    match wait {
        Wait::Micros(micros) => Some(seconds(micros).max(1)),
        Wait::Never => None,
    }
}

/// Reads outcomes together with what they are about.
struct Reader<'a> {
    resolution: &'a Resolution<'a>,
    outcomes: &'a [Outcome],
    refusal: Option<Refusal>,
}

/// A check, its outcome, and its rule.
#[derive(Clone, Copy)]
struct Seen<'a> {
    check: &'a Check,
    outcome: &'a Outcome,
    rule: Option<&'a AddressedRule>,
}

impl<'a> Reader<'a> {
    fn seen(&self, place: usize) -> Option<Seen<'a>> {
        Some(Seen {
            check: self.resolution.checks.get(place)?,
            outcome: self.outcomes.get(place)?,
            rule: *self.resolution.rules.get(place)?,
        })
    }

    /// What a descriptor shows: of several limits the one that refuses with the longest wait, else the
    /// one with the least left; the first where they are equal.
    fn status(&self, applied: &Applied<'_>) -> Status {
        let seen = || applied.checks.clone().filter_map(|place| self.seen(place));
        let shown = seen().min_by_key(|seen| {
            let wait = seen.over().filter(|_| self.refuses(seen));
            // None is the least of waits, so it comes last when reversed.
            (Reverse(wait), seen.outcome.remaining)
        });
        let Some(shown) = shown else {
            let remaining = if applied.unlimited.is_some() { u32::MAX } else { 0 };
            return Status { remaining, ..bare() };
        };
        let is_enforced_over = seen().any(|seen| seen.over().is_some() && !seen.check.quota_mode);
        Status { is_enforced_over, ..shown.status() }
    }

    fn refuses(&self, seen: &Seen<'_>) -> bool {
        self.refusal.is_some_and(|refusal| !seen.check.quota_mode || refusal.by_quotas)
    }

    fn refused(&self, refusal: Refusal) -> Refused {
        let retry_after_s = wait_seconds(refusal.wait);
        let message = self.seen(refusal.first).map(|seen| seen.message(retry_after_s));
        Refused { retry_after_s, message: message.unwrap_or_default() }
    }
}

/// The status of a descriptor that nothing limits.
const fn bare() -> Status {
    Status { code: Code::Ok, limit: None, remaining: 0, reset_s: None, is_enforced_over: false }
}

impl Seen<'_> {
    /// The wait of a limit that is over, and not in shadow.
    fn over(&self) -> Option<Wait> {
        self.outcome.over.filter(|_| !self.check.shadow_mode)
    }

    fn status(&self) -> Status {
        let limit = &self.check.limit;
        Status {
            code: if self.over().is_some() { Code::OverLimit } else { Code::Ok },
            limit: Some(ShownLimit {
                name: self.rule.and_then(|addressed| addressed.rule.name.clone()),
                requests_per_unit: limit.amount(),
                unit: limit.unit(),
            }),
            remaining: u32::try_from(self.outcome.remaining).unwrap_or(u32::MAX),
            reset_s: match self.outcome.over {
                Some(wait) => wait_seconds(wait),
                None => Some(seconds(self.outcome.full_in_us)),
            },
            ..bare()
        }
    }

    /// The rule's own text, or one that says which limit, how much, and when to retry.
    fn message(&self, retry_after_s: Option<u64>) -> String {
        if let Some(message) = self.rule.and_then(|addressed| addressed.rule.message.clone()) {
            return message;
        }
        let which = match self.rule {
            None => "The limit that came with the request".to_owned(),
            Some(AddressedRule { rule, keys, .. }) => match &rule.name {
                Some(name) => format!("The rate limit `{name}`"),
                None => format!("The rate limit for {keys}"),
            },
        };
        let limit = &self.check.limit;
        let which = format!("{which} ({})", limit.in_words());
        match (self.outcome.over, limit.amount()) {
            (Some(Wait::Never), 0) => format!("{which} lets nothing pass.\n"),
            (Some(Wait::Never), _) => format!(
                "{which} is smaller than what this request asks for at once. \
                 It can never pass as it is.\n"
            ),
            (over, _) => {
                let own = over.and_then(wait_seconds);
                let more = if own == retry_after_s { "" } else { ", and so are others" };
                let retry = retry_after_s.map(|seconds| format!(" Retry in {seconds} s."));
                format!("{which} is reached{more}.{}\n", retry.unwrap_or_default())
            }
        }
    }
}
