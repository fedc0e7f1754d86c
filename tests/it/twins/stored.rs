//! What stands under keys in Redis, as the files in `lua/` describe it.

use tollgate::{
    key::Key,
    lease::{Bucket, Entry, Hold},
    limiter::State,
    store::redis::stored,
    worker::Counts,
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
    let doubles = |counts: &[u64]| -> Vec<u8> {
        counts.iter().flat_map(|count| (*count as f64).to_le_bytes()).collect()
    };
    match state {
        State::TokenBucket(state) => {
            let numbers = [state.used, state.updated.as_micros(), state.grains_per_token];
            let ledger = state.ledger.map_or_else(Vec::new, |it| vec![it.since.get(), it.charged]);
            doubles(&[&numbers[..], &ledger].concat())
        }
        State::InFlight(state) => {
            let mut bytes = doubles(&[state.since.as_micros()]);
            for Bucket { deadline, slots } in &state.buckets {
                bytes.extend(doubles(&[deadline.as_micros(), slots.critical, slots.others]));
            }
            bytes
        }
        State::Workers(state) => {
            let mut bytes = doubles(&[state.since.as_micros(), state.updated.as_micros()]);
            bytes.extend((state.pressure as f64).to_le_bytes());
            let Counts { workers, slots, load } = state.counts();
            let first = state.buckets[0].deadline.as_micros();
            bytes.extend(doubles(&[state.shed_all_after_us, workers, slots, load, first]));
            bytes.extend(doubles(&[state.held, state.held_until.as_micros()]));
            for bucket in &state.buckets {
                let Counts { workers, slots, load } = bucket.counts;
                bytes.extend(doubles(&[bucket.deadline.as_micros(), workers, slots, load]));
            }
            bytes
        }
        State::Worker(worker) => doubles(&[
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
                bytes.extend(doubles(&numbers));
                let fingerprint = fingerprint.map_or_else(Vec::new, |digest| digest.0.to_vec());
                bytes.push(fingerprint.len() as u8);
                bytes.extend(fingerprint);
                bytes.extend((holds.len() as u16).to_le_bytes());
                for Hold { key, since, slots } in holds {
                    bytes.extend(doubles(&[since.as_micros(), slots.critical, slots.others]));
                    bytes.extend((key.as_str().len() as u16).to_le_bytes());
                    bytes.extend(key.as_str().as_bytes());
                }
            }
            bytes
        }
    }
}
