//! Pools for people: a few lines for each, to be read at a glance.

#[cfg(test)]
mod tests;

use super::{PoolView, WorkersView};
use crate::{
    rules::describe::printable,
    unit::{WHOLE_PARTS, count, percent, span},
};
use std::fmt::Write as _;

/// All pools: each domain, and below it its pools with their slots, their workers and what they shed.
pub fn text(pools: &[PoolView]) -> String {
    if pools.is_empty() {
        return "There are no pools: rule files describe them below `pools`.\n".to_owned();
    }
    let width = pools.iter().map(|pool| printable(&pool.name).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    let mut domain = None;
    for pool in pools {
        if domain != Some(&pool.domain) {
            let gap = if domain.is_some() { "\n" } else { "" };
            let _ = writeln!(text, "{gap}{}", printable(&pool.domain));
            domain = Some(&pool.domain);
        }
        let mut start = printable(&pool.name);
        for line in pool.in_words() {
            let _ = writeln!(text, "  {start:<width$}   {line}");
            start.clear();
        }
    }
    text
}

impl PoolView {
    /// Its lines.
    fn in_words(&self) -> Vec<String> {
        let mut lines = vec![self.slots_in_words()];
        if let Some(workers) = &self.workers {
            lines.push(workers.in_words());
            lines.push(workers.shedding_in_words());
        }
        lines
    }

    fn slots_in_words(&self) -> String {
        let is_silent = self.workers.as_ref().is_none_or(|it| it.utilization_parts.is_none());
        let how = match (self.is_reported, is_silent) {
            (false, _) => "",
            (true, false) => " as reported",
            // What the workers said holds for a while after they have stopped.
            (true, true) => " as last reported",
        };
        let slots = match (self.capacity, self.reserved()) {
            (Some(slots), Some(reserved)) => {
                format!("{}{how}, {reserved} reserved", count(slots, "slot"))
            }
            _ => "nobody reports how many slots there are, so no `fleet` limit refuses".to_owned(),
        };
        let in_flight = self.in_flight;
        format!("{slots}; in flight: {} critical, {} others", in_flight.critical, in_flight.others)
    }
}

impl WorkersView {
    fn in_words(&self) -> String {
        let last = self.last_report_us.map(span);
        match (self.busy_in_words(), last) {
            (Some(busy), last) => format!(
                "{busy}, {} of {}, last report {} ago",
                count(self.count, "worker"),
                count(self.slots, "slot"),
                last.unwrap_or_default(),
            ),
            (None, Some(last)) => format!(
                "no report is fresh: the last came {last} ago, and counts for {}; silence never sheds more",
                span(self.settings.report_ttl.as_micros()),
            ),
            (None, None) => "no worker has reported of late; silence never sheds".to_owned(),
        }
    }

    /// How busy they are: `82.4 % busy`; `None` where no report is fresh.
    pub fn busy_in_words(&self) -> Option<String> {
        self.utilization().map(|utilization| format!("{} busy", percent(utilization)))
    }

    /// How long ago the last of them reported; `None` where nobody has, or it is forgotten.
    pub fn last_report_in_words(&self) -> Option<String> {
        self.last_report_us.map(|micros| format!("{} ago", span(micros)))
    }

    fn shedding_in_words(&self) -> String {
        if self.classes.is_empty() {
            return "sheds nothing: its `shed` names no class".to_owned();
        }
        // The 0 that is added makes one of a -0.
        let amount = (self.amount() * 1000.0).round() / 1000.0 + 0.0;
        if self.shed().next().is_some() {
            let classes = dropped_in_words(self.classes.iter());
            if self.is_enforced {
                format!("shedding, amount {amount} of 1: drops {classes}")
            } else {
                format!("in shadow mode, amount {amount} of 1: would drop {classes}")
            }
        } else {
            let left = span(self.begins_after_us());
            format!("not shedding, amount {amount}: begins after {left} of wholly busy workers")
        }
    }

    /// What is dropped now: `93 % of test, 12 % of get`.
    pub fn shed_in_words(&self) -> String {
        dropped_in_words(self.shed())
    }

    /// How long the workers would have to be wholly busy until something is shed.
    fn begins_after_us(&self) -> u64 {
        let missing_parts = u64::try_from(-self.amount_parts).unwrap_or(0);
        missing_parts * self.settings.shed_all_after_us / u64::from(WHOLE_PARTS)
    }
}

fn dropped_in_words<'a>(classes: impl Iterator<Item = &'a (String, f64)>) -> String {
    let words =
        classes.map(|(name, chance)| format!("{} of {}", percent(*chance), printable(name)));
    words.collect::<Vec<_>>().join(", ")
}
