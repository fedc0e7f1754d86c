//! What is worth a line about doors: who was not let in, and why. Those who knock can be many, and may mean
//! harm, so they are counted, and nothing of theirs is told.

#[cfg(test)]
mod tests;

use super::Lines;
use crate::clock::Timestamp;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::watch;
use tracing::Level;

/// What has happened at a door since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DoorCounts {
    /// Connections that were closed at once, because as many as may be were open.
    pub full: u64,
    /// Attempts to accept a connection that the system did not let succeed.
    pub not_accepted: u64,
    /// Handshakes with who did not speak TLS.
    pub not_tls: u64,
    /// With who did not show a certificate.
    pub without_certificate: u64,
    /// With who showed one that serves for nothing here.
    pub untrusted: u64,
    /// With who did not accept ours.
    pub refused_ours: u64,
    /// With who wanted other versions, ciphers or protocols, or broke the rules.
    pub at_odds: u64,
    /// Callers whose certificate is signed, but for no name that may ask here.
    pub strangers: u64,
    /// Idle connections that were closed to make room for new ones.
    pub evicted: u64,
    /// Requests that were refused because their header list is too large.
    pub large_heads: u64,
    /// Requests that were reset because too many were pending.
    pub crowded: u64,
}

impl DoorCounts {
    /// Callers that were not let in, for whatever reason.
    pub fn refused(&self) -> u64 {
        KINDS.iter().take(REFUSALS).map(|(count, _)| count(self)).sum()
    }
}

/// What there is to count at a door, and what it means for the operator.
type Kind = (fn(&DoorCounts) -> u64, &'static str);

/// So many of them, the first, are of callers that were not let in.
const REFUSALS: usize = 8;

const KINDS: [Kind; 11] = [
    (
        |counts| counts.full,
        "connections were closed at once, because as many were open as may be, and calls were under way on all of them (for gRPC, --max-connections says how many)",
    ),
    (
        |counts| counts.not_accepted,
        "times the system could not accept a connection, mostly for want of open files: raise `ulimit -n`",
    ),
    (
        |counts| counts.not_tls,
        "clients did not speak TLS, which this port does since --tls-cert is given",
    ),
    (
        |counts| counts.without_certificate,
        "clients did not show the certificate that --tls-client-ca asks for",
    ),
    (
        |counts| counts.untrusted,
        "clients showed a certificate that has expired, is for another use, or that nobody in --tls-client-ca has signed",
    ),
    (
        |counts| counts.refused_ours,
        "clients did not accept the certificate of --tls-cert, or the handshake: do they trust who has signed it, and ask for a name in it?",
    ),
    (
        |counts| counts.at_odds,
        "TLS handshakes failed: TLS 1.2 and 1.3 are spoken, with h2 for gRPC and http/1.1 for HTTP",
    ),
    (
        |counts| counts.strangers,
        "clients showed a certificate that is signed, but for no name that may ask here (--tls-client-names says which may, and --admin-client-names on the admin port)",
    ),
    (
        |counts| counts.evicted,
        "idle connections were closed to make room for new ones (for gRPC, --max-connections says how many may be open)",
    ),
    (
        |counts| counts.large_heads,
        "requests were refused because their header fields are larger than 256 KiB: Envoy lets such requests pass, so bound what it takes from its clients (max_request_headers_kb)",
    ),
    (
        |counts| counts.crowded,
        "requests were reset because too many wait for the store, or for their callers to read the answer: Envoy lets such requests pass, so find out who does not read (a connection with many streams and no traffic)",
    ),
];

/// What can be seen of a door from elsewhere.
#[derive(Debug, Clone)]
pub struct DoorView {
    /// Its name, in metrics.
    pub name: &'static str,
    /// What has happened there.
    pub counts: watch::Receiver<DoorCounts>,
    /// How many connections are open.
    pub open: Arc<AtomicUsize>,
}

impl DoorView {
    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// What the log has been told of a door.
#[derive(Debug)]
pub struct DoorWatch {
    door: &'static str,
    /// For each of the kinds, how many were told.
    told: [u64; KINDS.len()],
    limits: [Lines; KINDS.len()],
}

impl DoorWatch {
    /// Nothing yet, of the door of this name.
    pub fn new(door: &'static str) -> Self {
        Self { door, told: [0; KINDS.len()], limits: std::array::from_fn(|_| Lines::of(1)) }
    }

    /// What to tell now.
    pub fn tell(&mut self, counts: &DoorCounts, now: Timestamp) -> Vec<(Level, String)> {
        let Self { door, told, limits } = self;
        let mut lines = Vec::new();
        for (((count, what), told), limit) in KINDS.iter().zip(told).zip(limits) {
            let count = count(counts);
            let new = count - *told;
            if new > 0 && limit.may_tell(now) {
                *told = count;
                lines.push((Level::WARN, format!("{door} port: {new} {what}")));
            }
        }
        lines
    }
}
