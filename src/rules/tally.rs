//! What became of requests, counted by the rules and the domains that they met. Counting is one addition; who
//! wants to know reads it now and then. The counts outlive the rules: other rules in force go on with them.

use crate::shadow::Counts;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a limit did to a request that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It did not stand in the way.
    Allowed,
    /// It was over, and the request refused for it.
    Refused,
    /// It was over, but in shadow mode, and refused nothing.
    WouldRefuse,
    /// Nobody knows: the store did not decide.
    Degraded,
}

impl Effect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Allowed, Self::Refused, Self::WouldRefuse, Self::Degraded];

    /// Its name, in metrics and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::WouldRefuse => "would_refuse",
            Self::Degraded => "degraded",
        }
    }
}

/// What one rule did. Each count only grows.
#[derive(Debug, Default)]
pub struct Tally {
    effects: [AtomicU64; Effect::ALL.len()],
    shadowed: Shadowed,
    not_charged: AtomicU64,
}

/// What a rule did while it was in shadow, since somebody last asked.
#[derive(Debug, Default)]
struct Shadowed {
    allowed: AtomicU64,
    would_refuse: AtomicU64,
    degraded: AtomicU64,
}

impl Tally {
    /// Counts a request that met the rule.
    pub fn count(&self, effect: Effect) {
        if let Some(count) = self.effects.get(effect as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many requests it did this to.
    pub fn of(&self, effect: Effect) -> u64 {
        self.effects.get(effect as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Counts a cost that was refused and not charged, although a peek of the same key had passed before and the
    /// next one passes as well: the limit wants `overdraw`.
    pub fn count_not_charged(&self) {
        self.not_charged.fetch_add(1, Ordering::Relaxed);
    }

    /// How many such costs there were.
    pub fn not_charged(&self) -> u64 {
        self.not_charged.load(Ordering::Relaxed)
    }

    /// Counts, for the report of a dark launch, a request that met the rule in shadow.
    pub fn count_in_shadow(&self, effect: Effect) {
        let Shadowed { allowed, would_refuse, degraded } = &self.shadowed;
        let count = match effect {
            Effect::Allowed => allowed,
            Effect::WouldRefuse => would_refuse,
            Effect::Degraded => degraded,
            // In shadow nothing is.
            Effect::Refused => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it counted anything in shadow that was not taken.
    pub fn has_shadowed(&self) -> bool {
        let Shadowed { allowed, would_refuse, degraded } = &self.shadowed;
        [allowed, would_refuse, degraded].iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// What it counted in shadow since this was last asked.
    pub fn take_shadowed(&self) -> Counts {
        let Shadowed { allowed, would_refuse, degraded } = &self.shadowed;
        let [allowed, would_refuse, degraded] =
            [allowed, would_refuse, degraded].map(|count| count.swap(0, Ordering::Relaxed));
        Counts { allowed, would_refuse, degraded }
    }
}

/// How the requests of one domain were answered. Each count only grows.
#[derive(Debug, Default)]
pub struct Traffic {
    /// By whether they were refused, and by whether it was the store that decided.
    answers: [[AtomicU64; 2]; 2],
}

impl Traffic {
    /// Counts an answer.
    pub fn count(&self, is_refused: bool, is_degraded: bool) {
        if let Some(count) = self.at(is_refused, is_degraded) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many answers were such.
    pub fn of(&self, is_refused: bool, is_degraded: bool) -> u64 {
        self.at(is_refused, is_degraded).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn at(&self, is_refused: bool, is_degraded: bool) -> Option<&AtomicU64> {
        self.answers.get(usize::from(is_refused))?.get(usize::from(is_degraded))
    }
}
