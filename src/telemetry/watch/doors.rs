//! What is worth a line about doors: who was not let in, and why. Those who knock can be many, and may mean
//! harm, so they are counted, and nothing of theirs is told.

#[cfg(test)]
mod tests;

use super::Lines;
use crate::clock::Timestamp;
use tracing::Level;

/// What has happened at a door since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DoorCounts {
    /// Connections that were closed at once, because as many as may be were open.
    pub full: u64,
    /// Attempts to accept a connection that the system did not let succeed.
    pub not_accepted: u64,
}

/// What the log has been told of a door.
#[derive(Debug)]
pub struct DoorWatch {
    door: &'static str,
    told: DoorCounts,
    full: Lines,
    not_accepted: Lines,
}

impl DoorWatch {
    /// Nothing yet, of the door of this name.
    pub fn new(door: &'static str) -> Self {
        Self { door, told: DoorCounts::default(), full: Lines::of(1), not_accepted: Lines::of(1) }
    }

    /// What to tell now.
    pub fn tell(&mut self, counts: DoorCounts, now: Timestamp) -> Vec<(Level, String)> {
        let Self { door, told, full, not_accepted } = self;
        let kinds = [
            (
                counts.full,
                &mut told.full,
                full,
                "connections were closed at once, because there were as many open as may be (for gRPC, --max-connections says how many)",
            ),
            (
                counts.not_accepted,
                &mut told.not_accepted,
                not_accepted,
                "times the system could not accept a connection, mostly for want of open files: raise `ulimit -n`",
            ),
        ];
        let mut lines = Vec::new();
        for (count, told, limit, what) in kinds {
            let new = count - *told;
            if new > 0 && limit.may_tell(now) {
                *told = count;
                lines.push((Level::WARN, format!("{door} port: {new} {what}")));
            }
        }
        lines
    }
}
