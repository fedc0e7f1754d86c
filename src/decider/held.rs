//! What a lease holds, limit by limit, as callers of Acquire are told.

use super::fold::public_name;
use crate::{
    clock::Timestamp,
    decision::HeldSlots,
    lease::{Hold, Record, Slots},
    rules::Resolution,
    verdict::{Check, Finding},
};

/// The slots that an admitted request has taken.
pub(super) fn taken(resolution: &Resolution<'_>, findings: &[Finding]) -> Vec<HeldSlots> {
    let checks = resolution.question.checks.iter().zip(findings).enumerate();
    // A limit in shadow mode that is over has given nothing.
    let passed = checks.filter(|(_, (_, finding))| **finding == Finding::Passed);
    let taken = passed.filter_map(|(place, (check, _))| {
        Some(of_check(resolution, place, check, check.limit.slots(check.cost)?))
    });
    taken.collect()
}

/// The slots that stand in the record of a lease. They may have been taken under other rules.
pub(super) fn recorded(
    resolution: &Resolution<'_>,
    record: Option<&Record>,
    now: Timestamp,
) -> Vec<HeldSlots> {
    let entries = record.map_or(&[][..], |record| &record.entries);
    let Some(live) = entries.iter().rev().find(|entry| entry.is_live(now)) else {
        return Vec::new();
    };
    // Two descriptors may reach one limit: each hold belongs to the next of them.
    let mut checks: Vec<(usize, &Check)> = resolution.question.checks.iter().enumerate().collect();
    let held = live.holds.iter().map(|hold| {
        let place = checks.iter().position(|(_, check)| is_of(resolution, check, hold));
        match place.map(|place| checks.remove(place)) {
            Some((place, check)) => of_check(resolution, place, check, hold.slots),
            None => HeldSlots {
                descriptor: None,
                limit: String::new(),
                limiter: hold.key.limiter().unwrap_or_default().to_owned(),
                slots: hold.slots.total(),
            },
        }
    });
    held.collect()
}

fn is_of(resolution: &Resolution<'_>, check: &Check, hold: &Hold) -> bool {
    let is_same_state = resolution.question.keys.get(check.slot) == Some(&hold.key);
    is_same_state && check.limit.slots(check.cost) == Some(hold.slots)
}

fn of_check(resolution: &Resolution<'_>, place: usize, check: &Check, slots: Slots) -> HeldSlots {
    let rule = resolution.rules.get(place).copied().flatten();
    HeldSlots {
        descriptor: resolution.descriptors.iter().position(|it| it.checks.contains(&place)),
        limit: public_name(rule).to_owned(),
        limiter: check.limit.limiter().to_owned(),
        slots: slots.total(),
    }
}
