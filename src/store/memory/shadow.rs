//! What rules in shadow did, in this process alone.

use super::{Memory, lock};
use crate::{
    clock::Timestamp,
    shadow::{Seen, Slots},
};

impl Memory {
    /// Adds what a rule in shadow did. Of as many rules as tell of themselves within a day.
    pub fn tell_shadow(&self, now: Timestamp, rule: &str, seen: &Seen) {
        let mut shadow = lock(&self.shadow);
        if let Some(slots) = shadow.get_mut(rule) {
            return slots.add(seen, now);
        }
        shadow.retain(|_, slots| !slots.are_over(now));
        shadow.entry(rule.into()).or_default().add(seen, now);
    }

    /// What it did of late.
    pub fn shadow(&self, rule: &str) -> Slots {
        lock(&self.shadow).get(rule).cloned().unwrap_or_default()
    }
}
