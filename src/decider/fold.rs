//! From a verdict to a decision: outcomes of checks become a status for each descriptor, and what a
//! refused caller is told.

use super::Asked;
use crate::{
    decision::{Code, Decision, Refused, ShownLimit, Standing, Status},
    limiter::Wait,
    rules::{Applied, OnStoreFailure, PlacedRule, Resolution},
    verdict::{Check, Finding, Outcome, Refusal, Verdict},
};
use serde_json::{Map, Value};
use std::cmp::Reverse;

/// The decision that a verdict amounts to. With `shadow_mode` nobody is refused.
pub(super) fn fold(resolution: &Resolution<'_>, asked: &Asked, shadow_mode: bool) -> Decision {
    let reader = Reader::of(resolution, asked);
    let refusal = reader.verdict.refusal.filter(|_| !shadow_mode);
    Decision {
        code: if refusal.is_some() { Code::OverLimit } else { Code::Ok },
        delay_us: if shadow_mode { 0 } else { reader.verdict.delay_us },
        statuses: resolution.descriptors.iter().map(|applied| reader.status(applied)).collect(),
        enforced_over: reader.enforced_over(),
        standings: Vec::new(),
        refused: refusal.map(|refusal| reader.refused(refusal)),
        lease: None,
        metadata: Map::new(),
        degraded: asked.policies.is_some(),
        limit_matched: !resolution.question.checks.is_empty(),
    }
}

/// What a caller is told who is refused because nobody can say whether he may pass.
pub(super) fn refused_for_want_of_a_store() -> Refused {
    let retry_after_s = Some(1);
    let message = "It cannot be told whether this request may pass. Retry in 1 s.\n".to_owned();
    Refused { retry_after_s, message, limit_name: None, rule: None, sheds_load: true }
}

/// How it stands with every limit that callers may know of: not with those in shadow mode, which do not hold
/// them up, nor with what is short of room, which is not their business.
pub(super) fn standings(resolution: &Resolution<'_>, asked: &Asked) -> Vec<Standing> {
    let reader = Reader::of(resolution, asked);
    let told = reader.all().filter(|seen| {
        let is_known = seen.policy != Some(OnStoreFailure::Allow);
        is_known && !seen.check.shadow_mode && !seen.check.limit.sheds_load()
    });
    told.map(|seen| seen.standing()).collect()
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
        let limited = limited.iter().flatten().map(|placed| &placed.rule);
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

/// Whole seconds, the last one begun counted as one.
const fn seconds(micros: u64) -> u64 {
    micros.div_ceil(1_000_000)
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
    verdict: &'a Verdict,
    /// What each check's rule wants done without the store; none where it has decided.
    policies: &'a [OnStoreFailure],
}

/// A check, its outcome, and its rule.
#[derive(Clone, Copy)]
struct Seen<'a> {
    check: &'a Check,
    outcome: &'a Outcome,
    finding: Finding,
    rule: Option<&'a PlacedRule>,
    policy: Option<OnStoreFailure>,
}

impl<'a> Reader<'a> {
    fn of(resolution: &'a Resolution<'a>, asked: &'a Asked) -> Self {
        let Asked { verdict, policies, .. } = asked;
        Self { resolution, verdict, policies: policies.as_deref().unwrap_or_default() }
    }

    fn seen(&self, place: usize) -> Option<Seen<'a>> {
        Some(Seen {
            check: self.resolution.question.checks.get(place)?,
            outcome: self.verdict.outcomes.get(place)?,
            finding: *self.verdict.findings.get(place)?,
            rule: *self.resolution.rules.get(place)?,
            policy: self.policies.get(place).copied(),
        })
    }

    fn all(&self) -> impl Iterator<Item = Seen<'a>> {
        (0..self.verdict.outcomes.len()).filter_map(|place| self.seen(place))
    }

    /// What a descriptor shows: of several limits the one that refuses with the longest wait, else the
    /// one with the least left; the first where they are equal.
    fn status(&self, applied: &Applied<'_>) -> Status {
        let seen = applied.checks.clone().filter_map(|place| self.seen(place));
        // Of what was only let pass, nobody knows how much is left.
        let seen = seen.filter(|seen| seen.policy != Some(OnStoreFailure::Allow));
        let shown = seen.min_by_key(|seen| {
            let wait = seen.outcome.over.filter(|_| seen.refuses());
            // None is the least of waits, so it comes last when reversed.
            (Reverse(wait), seen.outcome.remaining)
        });
        shown.map_or_else(|| bare(applied.unlimited.is_some()), |shown| shown.status())
    }

    /// The first limit that refuses by itself: over, enforced, and no quota.
    fn enforced_over(&self) -> Option<Status> {
        let first = self.all().find(|seen| seen.refuses() && !seen.check.quota_mode);
        first.map(|seen| seen.status())
    }

    fn refused(&self, refusal: Refusal) -> Refused {
        let retry_after_s = wait_seconds(refusal.wait);
        let first = self.seen(refusal.first);
        let rule = first.and_then(|seen| seen.rule);
        Refused {
            retry_after_s,
            message: first.map(|seen| seen.message(retry_after_s)).unwrap_or_default(),
            limit_name: rule.and_then(|placed| placed.rule.name.clone()),
            rule: rule.map(|placed| placed.path.clone()),
            sheds_load: first.is_some_and(|seen| {
                seen.check.limit.sheds_load() || seen.policy == Some(OnStoreFailure::Deny)
            }),
        }
    }
}

/// What callers know a limit by: its name, or else the keys that lead to it; never a value.
pub(super) fn public_name(rule: Option<&PlacedRule>) -> &str {
    match rule {
        None => "request",
        Some(PlacedRule { rule, keys, .. }) => rule.name.as_deref().unwrap_or(keys),
    }
}

/// The status of a descriptor that nothing limits.
const fn bare(is_unlimited: bool) -> Status {
    let remaining = if is_unlimited { u32::MAX } else { 0 };
    Status { code: Code::Ok, limit: None, remaining, reset_s: None }
}

impl Seen<'_> {
    fn refuses(&self) -> bool {
        self.finding == Finding::Refused
    }

    /// Over, unless in shadow mode: a quota is also where another one has room.
    const fn code(&self) -> Code {
        match self.finding {
            Finding::Refused => Code::OverLimit,
            Finding::StoodAside if !self.check.shadow_mode => Code::OverLimit,
            Finding::Passed | Finding::StoodAside | Finding::WouldRefuse | Finding::GaveBack => {
                Code::Ok
            }
        }
    }

    fn status(&self) -> Status {
        let limit = &self.check.limit;
        let name = || self.rule.and_then(|placed| placed.rule.name.clone());
        Status {
            code: self.code(),
            limit: limit.amount().map(|requests_per_unit| ShownLimit {
                name: name(),
                requests_per_unit,
                limit: *limit,
            }),
            remaining: u32::try_from(self.outcome.remaining).unwrap_or(u32::MAX),
            reset_s: match self.outcome.over {
                Some(wait) => wait_seconds(self.check.ask_again(wait)),
                // What counts nothing is never used.
                None if limit.amount().is_none() => None,
                None => self.full_in_seconds(),
            },
        }
    }

    fn standing(&self) -> Standing {
        Standing { name: public_name(self.rule).to_owned(), status: self.status() }
    }

    /// Until the limit is whole again. Of slots nobody knows when they come back; they may at any moment.
    fn full_in_seconds(&self) -> Option<u64> {
        match self.check.ask_again(Wait::Micros(self.outcome.full_in_us)) {
            Wait::Micros(micros) => Some(seconds(micros)),
            Wait::Never => None,
        }
    }

    /// The class of the request, where the limit goes by that.
    fn class(&self) -> Option<&str> {
        let class = self.check.limit.class()?;
        let shedding = self.rule?.rule.shedding.as_ref()?;
        shedding.classes.get(class as usize).map(String::as_str)
    }

    /// The rule's own text, or one that says which limit, how much, and when to retry.
    fn message(&self, retry_after_s: Option<u64>) -> String {
        if let Some(message) = self.rule.and_then(|placed| placed.rule.message.clone()) {
            return message;
        }
        let limit = &self.check.limit;
        let noun = limit.noun();
        if let (Some(OnStoreFailure::Deny), Some(seconds)) = (self.policy, retry_after_s) {
            let which = self.rule.and_then(|placed| placed.rule.name.as_ref());
            let which = which.map(|name| format!(" `{name}`")).unwrap_or_default();
            return format!(
                "The {noun}{which} cannot be asked at present. Retry in {seconds} s.\n"
            );
        }
        if let Some(class) = self.class() {
            let again = match retry_after_s {
                Some(seconds) => format!("Retry in {seconds} s."),
                None => "As it is, the request can never pass.".to_owned(),
            };
            return format!(
                "The service is shedding load, and drops requests of the class `{class}`. {again}\n"
            );
        }
        if let (true, Some(seconds)) = (limit.sheds_load(), retry_after_s) {
            // How much room there is in all is not the callers' business.
            return format!("The service is short of room. Retry in {seconds} s.\n");
        }
        let which = match self.rule {
            None => "The limit that came with the request".to_owned(),
            Some(PlacedRule { rule, keys, .. }) => match &rule.name {
                Some(name) => format!("The {noun} `{name}`"),
                None => format!("The {noun} for {keys}"),
            },
        };
        let which = format!("{which} ({})", limit.in_words());
        let reached = match (self.outcome.over, limit.amount()) {
            (Some(Wait::Never), Some(0)) => "lets nothing pass",
            (Some(Wait::Never), _) => "is smaller than what this request asks for at once",
            _ => "is reached",
        };
        // What is told of the wait is true of the whole: another limit may make it longer, or, among
        // quotas, shorter.
        let own = self.outcome.over.map(|wait| self.check.ask_again(wait)).and_then(wait_seconds);
        let others = if own == retry_after_s { "" } else { ", and others are over too" };
        match retry_after_s {
            Some(seconds) => format!("{which} {reached}{others}. Retry in {seconds} s.\n"),
            None => format!("{which} {reached}{others}. As it is, the request can never pass.\n"),
        }
    }
}
