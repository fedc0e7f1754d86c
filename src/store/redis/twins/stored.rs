//! What stands under keys in Redis, as the files in `lua/` describe it.

use crate::{
    key::Key,
    lease::{Entry, Hold},
    limiter::{State, samples::counts},
    store::redis::stored,
};

/// Reads the state under a key of this name.
pub(super) fn read(key: &Key, stored: &[u8]) -> State {
    stored::read(key, stored).unwrap()
}

/// Reads what may be no state.
pub(super) fn read_any(key: &Key, stored: &[u8]) -> Option<State> {
    stored::read(key, stored)
}

/// Writes a state, as the scripts do.
pub(super) fn write(state: &State) -> Vec<u8> {
    match state {
        State::Worker(worker) => counts(&[
            worker.since.as_micros(),
            worker.deadline.as_micros(),
            worker.load.slots().into(),
            worker.load.utilization_parts().into(),
            worker.measured.as_micros(),
        ]),
        State::Lease(record) => {
            let mut bytes = Vec::new();
            for entry in &record.entries {
                let Entry { kind, deadline, attempt, is_repeated, term, fingerprint, holds } =
                    entry;
                bytes.extend([*kind as u8, u8::from(*is_repeated)]);
                let numbers = [deadline.as_micros(), term.as_micros(), attempt.number()];
                bytes.extend(counts(&numbers));
                let fingerprint = fingerprint.map_or_else(Vec::new, |digest| digest.0.to_vec());
                bytes.push(fingerprint.len() as u8);
                bytes.extend(fingerprint);
                bytes.extend((holds.len() as u16).to_le_bytes());
                for Hold { key, since, slots } in holds {
                    bytes.extend(counts(&[since.as_micros(), slots.critical, slots.others]));
                    bytes.extend((key.as_str().len() as u16).to_le_bytes());
                    bytes.extend(key.as_str().as_bytes());
                }
            }
            bytes
        }
        of_a_limit => of_a_limit.write().unwrap(),
    }
}
