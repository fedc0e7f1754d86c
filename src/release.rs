//! To release a lease: its slots come back, its record goes.
//!
//! A store runs [`release`] as one atomic step: in memory under its locks, in Redis as `lua/release.lua`,
//! which is the same in Lua.

use crate::{
    clock::Timestamp,
    key::Key,
    lease::{Hold, InFlight, Record, Release, Released},
    limiter::State,
    verdict::Write,
};

/// The atomic step. `keys` are that of the lease's record, and those of the states that it names, in any
/// order and none twice; `stored` is what stands under each. Returns what it found, and what to write; what
/// it writes of states is what has come free.
pub fn release(
    keys: &[Key],
    stored: &[Option<State>],
    what: Release,
    now: Timestamp,
) -> (Released, Vec<Write>) {
    let before = stored.first().and_then(Option::as_ref).and_then(State::record);
    let mut record = Record::current(before, now);
    let (released, entry) = record.release(what, now);
    let mut states = Slotted::new(keys, stored);
    if let Some(entry) = entry {
        for hold in &entry.holds {
            states.give_back(hold, entry.deadline, now);
        }
    }
    let mut writes = states.writes();
    writes.extend(Write::of_record(0, before, record));
    (released, writes)
}

/// The states of slots that a lease holds, as they change.
pub(crate) struct Slotted<'a> {
    keys: &'a [Key],
    stored: &'a [Option<State>],
    /// By place; `None` where nothing has changed.
    changed: Vec<Option<InFlight>>,
}

impl<'a> Slotted<'a> {
    pub(crate) fn new(keys: &'a [Key], stored: &'a [Option<State>]) -> Self {
        Self { keys, stored, changed: vec![None; stored.len()] }
    }

    /// What is in flight under a hold's key, and is still what the slots were taken of.
    pub(crate) fn find(&self, hold: &Hold, now: Timestamp) -> Option<(usize, InFlight)> {
        let slot = self.keys.iter().position(|key| *key == hold.key)?;
        let changed = self.changed.get(slot)?.as_ref();
        let state = changed.or_else(|| self.stored.get(slot)?.as_ref()?.in_flight())?;
        let live = InFlight::live(Some(state), now);
        (live.since == hold.since).then_some((slot, live))
    }

    pub(crate) fn set(&mut self, slot: usize, state: InFlight) {
        if let Some(changed) = self.changed.get_mut(slot) {
            *changed = Some(state);
        }
    }

    pub(crate) fn give_back(&mut self, hold: &Hold, deadline: Timestamp, now: Timestamp) {
        if let Some((slot, mut state)) = self.find(hold, now) {
            state.remove(deadline, hold.slots);
            self.set(slot, state);
        }
    }

    pub(crate) fn writes(self) -> Vec<Write> {
        let changed = self.changed.into_iter().enumerate();
        changed.filter_map(|(slot, state)| Some(Write::of_slots(slot, state?))).collect()
    }
}
