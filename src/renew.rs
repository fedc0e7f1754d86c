//! To renew a lease: its slots come back later.
//!
//! A store runs [`renew`] as one atomic step: in memory under its locks, in Redis as `lua/renew.lua`, which
//! is the same in Lua.

use crate::{
    clock::Timestamp,
    key::Key,
    lease::{Record, Renewed, Term},
    limiter::State,
    release::Slotted,
    verdict::Write,
};

/// The atomic step. `keys` and `stored` are as for [`crate::release::release`]. The lease lasts for `term`
/// from now on, as long as a new one at most, and at least as long as it did. Where slots of it are not
/// there any more, for their state was lost, it is lost as a whole, and the others come back.
pub fn renew(
    keys: &[Key],
    stored: &[Option<State>],
    term: Option<Term>,
    now: Timestamp,
) -> (Renewed, Vec<Write>) {
    let before = stored.first().and_then(Option::as_ref).and_then(State::record);
    let mut record = Record::current(before, now);
    let held = match record.held(now) {
        Ok(held) => held,
        // What is no news needs not be written.
        Err(renewed) => return (renewed, Vec::new()),
    };
    let entry = held.clone();
    let term = term.map_or(entry.term, |term| term.min(entry.term));
    let deadline = term.deadline(now).max(entry.deadline);
    let mut states = Slotted::new(keys, stored);
    let mut is_lost = false;
    for hold in &entry.holds {
        match states.find(hold, now) {
            Some((slot, mut state)) if state.has(entry.deadline, hold.slots) => {
                state.remove(entry.deadline, hold.slots);
                state.add(deadline, hold.slots);
                states.set(slot, state);
            }
            _ => is_lost = true,
        }
    }
    if !is_lost {
        held.deadline = deadline;
        let mut writes = states.writes();
        writes.extend(Write::of_record(0, before, record));
        return (Renewed::Live { left_us: deadline - now }, writes);
    }
    let mut states = Slotted::new(keys, stored);
    for hold in &entry.holds {
        states.give_back(hold, entry.deadline, now);
    }
    record.drop_held(now);
    let mut writes = states.writes();
    writes.extend(Write::of_record(0, before, record));
    (Renewed::Lost, writes)
}
