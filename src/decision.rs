//! The answer: whether a request may pass, what became of each descriptor, and what a refused caller is
//! told.

use crate::{
    limiter::Wait,
    rules::{AddressedRule, Applied, Resolution},
    unit::Unit,
    verdict::{Check, Outcome, Refusal, Verdict},
};
use serde_json::{Map, Value};

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether it may pass.
    pub code: Code,
    /// One status for each descriptor, in the request's order.
    pub statuses: Vec<Status>,
    /// What to tell a refused caller; `None` where the request may pass.
    pub refused: Option<Refused>,
    /// Facts from the rules of the descriptors that are under their limits.
    pub metadata: Map<String, Value>,
}

/// Under or over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Under the limit.
    Ok,
    /// Over it.
    OverLimit,
}

/// What became of one descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether its limit is over.
    pub code: Code,
    /// The limit it shows; `None` where nothing limits it.
    pub limit: Option<ShownLimit>,
    /// How much is left.
    pub remaining: u32,
    /// Over: seconds until the same cost would pass, `None` for never. Under: seconds until the limit
    /// is whole again.
    pub reset_s: Option<u64>,
    /// Whether the limit it shows refuses by itself: over, enforced, and no quota.
    pub is_enforced_over: bool,
}

/// A limit as a status shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownLimit {
    /// Its name.
    pub name: Option<String>,
    /// How much may pass at once.
    pub requests_per_unit: u32,
    /// The unit in which as much arrives, where there is one.
    pub unit: Option<Unit>,
}

/// What a refused caller is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Seconds until a retry makes sense, at least 1; `None` where none ever does.
    pub retry_after_s: Option<u64>,
    /// The text.
    pub message: String,
}

impl Decision {
    /// The answer that a verdict amounts to. With `shadow_mode` nobody is refused.
    pub fn new(resolution: &Resolution<'_>, verdict: &Verdict, shadow_mode: bool) -> Self {
        let refusal = verdict.refusal.filter(|_| !shadow_mode);
        let reader = Reader { resolution, outcomes: &verdict.outcomes };
        let statuses =
            resolution.descriptors.iter().map(|applied| reader.status(applied)).collect();
        Self {
            code: if refusal.is_some() { Code::OverLimit } else { Code::Ok },
            statuses,
            refused: refusal.map(|refusal| reader.refused(refusal)),
            metadata: Map::new(),
        }
    }

    /// Adds the metadata of every rule that a descriptor under its limits meets. Where two say
    /// something different of one thing, the first holds.
    #[must_use]
    pub fn with_metadata(mut self, resolution: &Resolution<'_>) -> Self {
        for (status, applied) in self.statuses.iter().zip(&resolution.descriptors) {
            if status.code == Code::OverLimit {
                continue;
            }
            let limited = resolution.rules.get(applied.checks.clone()).unwrap_or_default();
            let limited = limited.iter().flatten().map(|addressed| &addressed.rule);
            for rule in limited.chain(applied.unlimited) {
                merge(&mut self.metadata, &rule.metadata);
            }
        }
        self
    }
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
    outcomes: &'a [Outcome],
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

    fn status(&self, applied: &Applied<'_>) -> Status {
        let bare = Status {
            code: Code::Ok,
            limit: None,
            remaining: if applied.unlimited.is_some() { u32::MAX } else { 0 },
            reset_s: None,
            is_enforced_over: false,
        };
        let seen = applied.checks.clone().filter_map(|place| self.seen(place));
        seen.reduce(more_telling).map_or(bare, Seen::status)
    }

    fn refused(&self, refusal: Refusal) -> Refused {
        let retry_after_s = wait_seconds(refusal.wait);
        let message = self.seen(refusal.first).map(|seen| seen.message(retry_after_s));
        Refused { retry_after_s, message: message.unwrap_or_default() }
    }
}

/// Which of two limits on one descriptor its status shows: the one over with the longer wait, else the
/// one with less left; the first where they are equal.
fn more_telling<'a>(first: Seen<'a>, second: Seen<'a>) -> Seen<'a> {
    let second_wins = match (first.enforced_wait(), second.enforced_wait()) {
        (Some(first), Some(second)) => second > first,
        (Some(_), None) => false,
        (None, Some(_)) => true,
        (None, None) => second.outcome.remaining < first.outcome.remaining,
    };
    if second_wins { second } else { first }
}

impl Seen<'_> {
    /// The wait of a limit that is over and may refuse.
    fn enforced_wait(&self) -> Option<Wait> {
        self.outcome.over.filter(|_| !self.check.shadow_mode)
    }

    fn status(self) -> Status {
        let limit = &self.check.limit;
        let is_over = self.enforced_wait().is_some();
        Status {
            code: if is_over { Code::OverLimit } else { Code::Ok },
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
            is_enforced_over: is_over && !self.check.quota_mode,
        }
    }

    /// The rule's own text, or one that says which limit, how much, and when to retry.
    fn message(&self, retry_after_s: Option<u64>) -> String {
        if let Some(message) = self.rule.and_then(|addressed| addressed.rule.message.clone()) {
            return message;
        }
        let which = match self.rule {
            None => "The limit that came with the request".to_owned(),
            Some(AddressedRule { rule, address }) => {
                format!("The rate limit `{}`", rule.name.as_deref().unwrap_or(address))
            }
        };
        let limit = &self.check.limit;
        let how_much = limit.in_words();
        match (retry_after_s, limit.amount()) {
            (Some(seconds), _) => {
                format!("{which} ({how_much}) is reached. Retry in {seconds} s.\n")
            }
            (None, 0) => format!("{which} ({how_much}) lets nothing pass.\n"),
            (None, _) => format!(
                "{which} ({how_much}) is smaller than what this request asks for at once. \
                 It can never pass as it is.\n"
            ),
        }
    }
}
