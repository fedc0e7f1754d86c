//! What is worth a line in the log about a store: that it is lost, that it is back, how many requests it
//! did not decide, what had better be changed. And about what is kept there: leases, and in `pools.rs` pools;
//! in `doors.rs`, who was not let in; in `refusals.rs`, how many were refused; in `costs.rs`, what should have been
//! charged.
//! However fast that comes and goes, lines are few: they are limited as requests are.

mod costs;
mod doors;
mod pools;
mod refusals;
#[cfg(test)]
mod tests;

pub use costs::CostWatch;
pub use doors::{DoorCounts, DoorView, DoorWatch};
pub use pools::PoolWatch;
pub use refusals::RefusalWatch;

use crate::{
    clock::Timestamp,
    limiter::{Cost, token_bucket},
    store::{Condition, Failures, LeaseCounts, WorkerCounts},
    unit::Unit,
};
use token_bucket::{Limit, Rate, State};
use tracing::Level;

/// What the log has been told of a store.
#[derive(Debug)]
pub struct Watch {
    told: Condition,
    changes: Lines,
    failures: Lines,
    forgotten: Lines,
    losses: Lines,
    late_charges: Lines,
    leases: Lines,
    told_leases: LeaseCounts,
    bad_reports: Lines,
    too_many_workers: Lines,
    unmetered: Lines,
    told_workers: WorkerCounts,
}

/// How many lines there may be of a kind.
#[derive(Debug)]
struct Lines {
    limit: Limit,
    state: Option<State>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            told: Condition::default(),
            // Lost and back, and lost and back.
            changes: Lines::of(4),
            failures: Lines::of(1),
            forgotten: Lines::of(1),
            losses: Lines::of(2),
            late_charges: Lines::of(1),
            leases: Lines::of(2),
            told_leases: LeaseCounts::default(),
            bad_reports: Lines::of(1),
            too_many_workers: Lines::of(1),
            unmetered: Lines::of(1),
            told_workers: WorkerCounts::default(),
        }
    }
}

impl Watch {
    /// What to tell now: lines, and how bad they are. What does not fit the limit is told later, if it
    /// still holds then.
    pub fn tell(&mut self, condition: Condition, now: Timestamp) -> Vec<(Level, String)> {
        let mut lines = Vec::new();
        for caution in &condition.cautions {
            if !self.told.cautions.contains(caution) {
                lines.push((Level::WARN, format!("the store could be set up better: {caution}")));
            }
        }
        self.told.cautions.clone_from(&condition.cautions);

        if condition.forgotten_live > self.told.forgotten_live && self.forgotten.may_tell(now) {
            let forgotten = condition.forgotten_live - self.told.forgotten_live;
            let fix = "which start afresh: raise --max-keys";
            lines.push((
                Level::WARN,
                format!("the store is full and forgot {forgotten} live keys, {fix}"),
            ));
            self.told.forgotten_live = condition.forgotten_live;
        }

        self.tell_losses(&condition, now, &mut lines);
        let failed = since(&condition.failures, &self.told.failures);
        if condition.down != self.told.down {
            if !self.changes.may_tell(now) {
                return lines;
            }
            lines.push(match &condition.down {
                Some(reason) => (Level::ERROR, format!("the store cannot be used: {reason}")),
                None => {
                    (Level::INFO, format!("the store can be used again{}", in_words(&failed, ";")))
                }
            });
            if condition.down.is_none() {
                self.told.failures = condition.failures;
            }
            self.told.down = condition.down;
        } else if condition.down.is_none() && total(&failed) > 0 && self.failures.may_tell(now) {
            lines.push((Level::WARN, format!("the store fails{}", in_words(&failed, ":"))));
            self.told.failures = condition.failures;
        }
        lines
    }

    /// What to tell of states that are gone, and of charges that should be.
    fn tell_losses(
        &mut self,
        condition: &Condition,
        now: Timestamp,
        lines: &mut Vec<(Level, String)>,
    ) {
        let (losses, told) = (condition.losses, &mut self.told.losses);
        if losses != *told && self.losses.may_tell(now) {
            if losses.all > told.all {
                let what = "the store has lost its states, as when it is emptied or an empty one takes its place: rates start full, and what is in flight counts again as leases are renewed";
                lines.push((Level::ERROR, what.to_owned()));
            }
            if losses.last > told.last {
                let what = "the store has lost what was written last, as when a replica takes over that had not got it yet: what was used then counts as unused";
                lines.push((Level::WARN, what.to_owned()));
            }
            *told = losses;
        }
        let (charges, told) = (condition.late_charges, &mut self.told.late_charges);
        if charges != *told && self.late_charges.may_tell(now) {
            let (given_back, kept) =
                (charges.given_back - told.given_back, charges.kept - told.kept);
            let line = format!(
                "{} requests may have been decided by the store after they had been answered: {given_back} were given back what they were charged, of {kept} nobody knows",
                given_back + kept
            );
            lines.push((if kept > 0 { Level::WARN } else { Level::INFO }, line));
            *told = charges;
        }
    }

    /// What to tell of leases.
    pub fn tell_leases(&mut self, counts: LeaseCounts, now: Timestamp) -> Vec<(Level, String)> {
        let mut lines = Vec::new();
        let given_up = counts.releases_given_up - self.told_leases.releases_given_up;
        if given_up > 0 && self.leases.may_tell(now) {
            self.told_leases.releases_given_up = counts.releases_given_up;
            lines.push((
                Level::WARN,
                format!("{given_up} releases are lost, too many to be kept until the store can take them: those leases end at their deadline"),
            ));
        }
        let ignored = counts.refunds_ignored - self.told_leases.refunds_ignored;
        if ignored > 0 && self.leases.may_tell(now) {
            self.told_leases.refunds_ignored = counts.refunds_ignored;
            lines.push((
                Level::WARN,
                format!("{ignored} refunds met limits on requests in flight and did nothing: give back the lease, not hits"),
            ));
        }
        lines
    }

    /// What to tell of workers' reports.
    pub fn tell_workers(&mut self, counts: WorkerCounts, now: Timestamp) -> Vec<(Level, String)> {
        let told = &mut self.told_workers;
        let kinds = [
            (
                counts.bad_reports,
                &mut told.bad_reports,
                &mut self.bad_reports,
                "reports that came with requests were none: a `utilization_report` wants a worker's name, and from 0 to 10000 permille as hits",
            ),
            (
                counts.too_many_workers,
                &mut told.too_many_workers,
                &mut self.too_many_workers,
                "reports found no room for a further worker: does every report come under a new name?",
            ),
            (
                counts.unmetered,
                &mut told.unmetered,
                &mut self.unmetered,
                "requests were admitted because nobody reports how many slots their pool has",
            ),
        ];
        let mut lines = Vec::new();
        for (count, told, limit, what) in kinds {
            let new = count - *told;
            if new > 0 && limit.may_tell(now) {
                *told = count;
                lines.push((Level::WARN, format!("{what} ({new} since the last word of it)")));
            }
        }
        lines
    }

    /// What is still to tell when there is no other time for it.
    pub fn tell_last(&mut self, condition: Condition, now: Timestamp) -> Vec<(Level, String)> {
        let Self { told, told_leases, told_workers, .. } = std::mem::take(self);
        *self = Self { told, told_leases, told_workers, ..Self::default() };
        self.tell(condition, now)
    }
}

impl Lines {
    /// One every ten seconds, and so many at once where it was quiet before.
    fn of(burst: u32) -> Self {
        Self { limit: Limit::new(Rate::per(6, Unit::Minute), burst), state: None }
    }

    fn may_tell(&mut self, now: Timestamp) -> bool {
        let checked = self.limit.check(self.state, now, Cost::Take(1));
        self.state = checked.state.or(self.state);
        checked.over.is_none()
    }
}

/// Failures that were not known.
fn since(failures: &Failures, known: &Failures) -> Failures {
    Failures {
        unreachable: failures.unreachable - known.unreachable,
        silent: failures.silent - known.silent,
        late: failures.late - known.late,
        busy: failures.busy - known.busy,
        refused: failures.refused - known.refused,
        unreadable: failures.unreadable - known.unreadable,
        last_refusal: failures.last_refusal.clone(),
    }
}

const fn total(failures: &Failures) -> u64 {
    failures.unreachable
        + failures.silent
        + failures.late
        + failures.busy
        + failures.refused
        + failures.unreadable
}

/// How many requests were not decided, by reason; nothing where there were none.
fn in_words(failures: &Failures, separator: &str) -> String {
    let mut reasons = Vec::new();
    let mut add = |count: u64, reason: &str| {
        if count > 0 {
            reasons.push(format!("{count} {reason}"));
        }
    };
    add(failures.unreachable, "for want of a connection");
    add(failures.late, "for want of an answer in time");
    add(failures.silent, "without asking it, because it gave no answer");
    add(failures.busy, "because too many waited already");
    let refusal = failures.last_refusal.as_deref().unwrap_or_default();
    add(failures.refused, &format!("because it refused ({refusal})"));
    add(failures.unreadable, "because a key held what is no state of a limit, and was deleted");
    if reasons.is_empty() {
        return String::new();
    }
    format!("{separator} requests not decided: {}", reasons.join(", "))
}
