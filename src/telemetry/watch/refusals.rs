//! What is worth a line about refusals: which rules have refused, and which would have, were they not in shadow;
//! how many requests since the last word of it. Whom they refused is not told.

#[cfg(test)]
mod tests;

use super::Lines;
use crate::{
    clock::Timestamp,
    rules::{Effect, Rules},
    unit::count,
};
use std::{cmp::Reverse, collections::HashMap};
use tracing::Level;

/// How many rules a line names.
const MOST_NAMED: usize = 5;

/// What the log has been told of refusals.
#[derive(Debug)]
pub struct RefusalWatch {
    refused: Told,
    would_refuse: Told,
    unknown: u64,
    unknown_lines: Lines,
}

/// What it has been told of one effect.
#[derive(Debug)]
struct Told {
    effect: Effect,
    what: &'static str,
    /// By the paths of rules.
    counts: HashMap<Box<str>, u64>,
    lines: Lines,
}

impl Default for RefusalWatch {
    fn default() -> Self {
        Self {
            refused: Told::of(Effect::Refused, "refused"),
            would_refuse: Told::of(Effect::WouldRefuse, "would have been refused"),
            unknown: 0,
            unknown_lines: Lines::of(1),
        }
    }
}

impl RefusalWatch {
    /// What to tell now.
    pub fn tell(&mut self, rules: &Rules, now: Timestamp) -> Vec<(Level, String)> {
        let mut lines = Vec::new();
        lines.extend(self.refused.tell(rules, now));
        lines.extend(self.would_refuse.tell(rules, now));
        let traffic = rules.unknown_traffic();
        let unknown: u64 = [(false, false), (false, true), (true, false), (true, true)]
            .map(|(is_refused, is_degraded)| traffic.of(is_refused, is_degraded))
            .iter()
            .sum();
        let new = unknown - self.unknown;
        if new > 0 && self.unknown_lines.may_tell(now) {
            self.unknown = unknown;
            lines.push((
                Level::WARN,
                format!("{} named a domain that there are no rules for, and passed: is the `domain` of Envoy's filter that of a rule file?", count(new, "request")),
            ));
        }
        lines
    }
}

impl Told {
    fn of(effect: Effect, what: &'static str) -> Self {
        Self { effect, what, counts: HashMap::new(), lines: Lines::of(1) }
    }

    fn tell(&mut self, rules: &Rules, now: Timestamp) -> Option<(Level, String)> {
        let placed = rules.placed().iter();
        let counted = placed.map(|placed| (&placed.path, placed.tally.of(self.effect)));
        let counted: Vec<(&Box<str>, u64)> = counted.filter(|(_, count)| *count > 0).collect();
        let new = counted.iter().map(|(path, count)| {
            let told = self.counts.get(*path).copied().unwrap_or_default();
            (*path, count.saturating_sub(told))
        });
        let mut new: Vec<(&Box<str>, u64)> = new.filter(|(_, new)| *new > 0).collect();
        if new.is_empty() || !self.lines.may_tell(now) {
            return None;
        }
        new.sort_by_key(|(path, new)| (Reverse(*new), *path));
        let named = new.iter().take(MOST_NAMED).map(|(path, new)| format!("{new} by {path}"));
        let mut words = named.collect::<Vec<_>>().join(", ");
        let others = new.len().saturating_sub(MOST_NAMED);
        if others > 0 {
            let sum: u64 = new.iter().skip(MOST_NAMED).map(|(_, new)| new).sum();
            words = format!("{words}, {sum} by {}", count(others as u64, "other rule"));
        }
        // Those that are gone are forgotten: their counts would begin anew.
        self.counts = counted.into_iter().map(|(path, count)| (path.clone(), count)).collect();
        Some((Level::INFO, format!("requests {}: {words}", self.what)))
    }
}
