//! The record of a lease: what stands under its id.
//!
//! Most records hold one entry, a lease that is held. But requests may share an id that they carry, their
//! `x-request-id`: each takes more, and each gives its own back when it ends. Then what comes is paired up
//! as brackets are, the last that was taken with the next that is released:
//!
//! - an acquire that took nothing, because it was refused, leaves an entry as well, so that the release
//!   that follows it does not give back what another holds;
//! - a release that overtakes its acquire leaves an entry too, and the acquire then takes nothing.
//!
//! What is given back because nobody was told of it, or because the stream that held it has ended, is not
//! paired up so: it is the entry of one attempt, or none.
//!
//! Entries that are no lease are marks, and last ten seconds: longer than messages are under way.

use super::{Attempt, By, Fingerprint, Leased, Slots, Taking, Term};
use crate::{clock::Timestamp, key::Key};

/// How long a mark lasts, and how long it is told of a lease that it has expired, in microseconds.
pub const MARK_US: u64 = 10_000_000;

/// The most entries in a record. Where requests share an id oftener, the oldest lease is left to its
/// deadline.
pub const MOST_ENTRIES: usize = 64;

/// What stands under a lease's id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The oldest first.
    pub entries: Vec<Entry>,
}

/// A lease, or a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Which of them.
    pub kind: Kind,
    /// When it ends.
    pub deadline: Timestamp,
    /// Whose it is: who took a lease, or asked for it last; whose release came early, or `NONE` where that
    /// is not known.
    pub attempt: Attempt,
    /// Whether a lease was asked for again, so that more than one have been told of it.
    pub is_repeated: bool,
    /// How long a renewal lasts; of a lease only.
    pub term: Term,
    /// What was asked for; of a lease only, and `None` where that may not be asked again.
    pub fingerprint: Option<Fingerprint>,
    /// What it holds; of a lease only.
    pub holds: Vec<Hold>,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A lease.
    Held,
    /// An acquire that took nothing, and whose release is to come.
    Nothing,
    /// A release whose acquire is to come.
    Early,
    /// A lease that was released.
    Released,
}

impl Kind {
    /// The kind of this number, in the order in which they are listed; `None` where there is none.
    pub fn of_number(number: u8) -> Option<Self> {
        let kinds = [Self::Held, Self::Nothing, Self::Early, Self::Released];
        kinds.get(usize::from(number)).copied()
    }
}

/// Slots of one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The state's key.
    pub key: Key,
    /// When the state had begun, [`super::InFlight::since`].
    pub since: Timestamp,
    /// How many.
    pub slots: Slots,
}

/// What is to be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// What was taken last under an id, by whoever knows it.
    Last {
        /// Whether, where nothing was taken, its acquire may be to come; then that takes nothing.
        marks: bool,
    },
    /// What an attempt took, whose caller was not told; or will take, for it may be to come. Of what others
    /// were told it takes nothing away.
    Untold(Attempt),
    /// What an attempt holds, whose stream has ended.
    Ended(Attempt),
}

/// What a release found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// A lease that was held until now.
    Live,
    /// A lease whose time was over.
    Expired,
    /// Nothing that is held.
    AlreadyGone,
}

/// What a renewal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// A lease, which lasts so much longer now.
    Live {
        /// Microseconds until its deadline.
        left_us: u64,
    },
    /// A lease whose time was over.
    Expired,
    /// A lease that was released.
    AlreadyGone,
    /// No record, or one of slots that are not there any more.
    Lost,
}

/// What an acquire finds under its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing that matters to it.
    Nothing,
    /// The lease it asks for.
    Same {
        /// Until when it is held.
        deadline: Timestamp,
    },
    /// A lease for something else.
    Other,
    /// Its own release, which came first.
    Early,
}

impl Record {
    /// What of a record still means something.
    #[must_use]
    pub fn current(record: Option<&Self>, now: Timestamp) -> Self {
        let entries = record.map_or(&[][..], |record| &record.entries);
        let current = entries.iter().filter(|entry| entry.kept_until() > now);
        Self { entries: current.cloned().collect() }
    }

    /// Whether a lease is among its entries, and not only marks.
    pub fn holds_any(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind == Kind::Held)
    }

    /// When it will mean nothing any more; `None` where it does not now.
    pub fn fresh_at(&self) -> Option<Timestamp> {
        self.entries.iter().map(Entry::kept_until).max()
    }

    /// What an acquire finds; of a record that is current.
    pub fn find(&self, taking: &Taking, now: Timestamp) -> Found {
        if self.early(taking).is_some() {
            return Found::Early;
        }
        if taking.by != By::Caller {
            return Found::Nothing;
        }
        match self.entries.iter().rev().find(|entry| entry.is_live(now)) {
            None => Found::Nothing,
            Some(held) if held.fingerprint == taking.fingerprint => {
                Found::Same { deadline: held.deadline }
            }
            Some(_) => Found::Other,
        }
    }

    /// An admitted request takes what it holds. What it holds then.
    pub fn take(&mut self, taking: &Taking, mut holds: Vec<Hold>, now: Timestamp) -> Leased {
        holds.shrink_to_fit();
        if holds.is_empty() && taking.fingerprint.is_none() {
            self.take_nothing(taking, now);
            return Leased::Nothing;
        }
        if taking.by == By::Caller {
            self.entries.retain(|entry| entry.kind == Kind::Early);
        }
        let deadline = taking.term.deadline(now);
        self.push(Entry {
            kind: Kind::Held,
            deadline,
            attempt: taking.attempt,
            is_repeated: false,
            term: taking.term,
            fingerprint: taking.fingerprint,
            holds,
        });
        Leased::For { left_us: deadline - now }
    }

    /// A request takes nothing; where its id is one that it carries, its release will come all the same.
    pub fn take_nothing(&mut self, taking: &Taking, now: Timestamp) {
        if taking.by == By::Request {
            self.push(Entry::mark(Kind::Nothing, Attempt::NONE, now));
        }
    }

    /// A request whose release came first takes nothing.
    pub fn take_early(&mut self, taking: &Taking) {
        if let Some(place) = self.early(taking) {
            self.entries.remove(place);
        }
    }

    /// The release that came before its acquire: of this attempt; or of nobody in particular, where requests
    /// share the name.
    fn early(&self, taking: &Taking) -> Option<usize> {
        self.entries.iter().position(|entry| {
            let is_anybodys = entry.attempt == Attempt::NONE && taking.by == By::Request;
            entry.kind == Kind::Early && (entry.attempt == taking.attempt || is_anybodys)
        })
    }

    /// A lease is asked for again: now it is this attempt's, too.
    pub fn repeat(&mut self, taking: &Taking, now: Timestamp) {
        if let Some(held) = self.entries.iter_mut().rev().find(|entry| entry.is_live(now)) {
            held.attempt = taking.attempt;
            held.is_repeated = true;
        }
    }

    /// Releases a lease. What it was, and what is to be given back.
    pub fn release(&mut self, release: Release, now: Timestamp) -> (Released, Option<Entry>) {
        let place = match release {
            Release::Last { .. } => self.last(now),
            Release::Untold(attempt) | Release::Ended(attempt) => {
                let held = |it: &Entry| it.kind == Kind::Held && it.attempt == attempt;
                self.entries.iter().rposition(held)
            }
        };
        let Some(place) = place else {
            let is_released = self.entries.iter().any(|entry| entry.kind == Kind::Released);
            match release {
                Release::Last { marks: true } if !is_released => {
                    self.push(Entry::mark(Kind::Early, Attempt::NONE, now));
                }
                Release::Untold(attempt) => self.push(Entry::mark(Kind::Early, attempt, now)),
                Release::Last { .. } | Release::Ended(_) => {}
            }
            return (Released::AlreadyGone, None);
        };
        let is_told_others = self.entries.get(place).is_some_and(|entry| entry.is_repeated);
        if is_told_others && matches!(release, Release::Untold(_)) {
            return (Released::AlreadyGone, None);
        }
        let entry = self.entries.remove(place);
        if entry.kind == Kind::Nothing {
            return (Released::AlreadyGone, None);
        }
        if entry.fingerprint.is_some() {
            // A renewal that was sent before must not take it again.
            self.push(Entry::mark(Kind::Released, Attempt::NONE, now));
        }
        if entry.is_live(now) { (Released::Live, Some(entry)) } else { (Released::Expired, None) }
    }

    /// What was taken last and is still to be released.
    fn last(&self, now: Timestamp) -> Option<usize> {
        let taken = |entry: &Entry| entry.is_live(now) || entry.kind == Kind::Nothing;
        let place = self.entries.iter().rposition(taken);
        place.or_else(|| self.entries.iter().rposition(|entry| entry.kind == Kind::Held))
    }

    /// The lease that a renewal is about, where it is live, or else why there is none; of a record that is
    /// current.
    pub fn held(&mut self, now: Timestamp) -> Result<&mut Entry, Renewed> {
        let has = |kind: Kind| self.entries.iter().any(|entry| entry.kind == kind);
        let otherwise = if has(Kind::Held) {
            Renewed::Expired
        } else if has(Kind::Released) {
            Renewed::AlreadyGone
        } else {
            Renewed::Lost
        };
        self.entries.iter_mut().rev().find(|entry| entry.is_live(now)).ok_or(otherwise)
    }

    /// Drops the lease that a renewal is about.
    pub fn drop_held(&mut self, now: Timestamp) {
        if let Some(place) = self.entries.iter().rposition(|entry| entry.is_live(now)) {
            self.entries.remove(place);
        }
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() >= MOST_ENTRIES {
            self.entries.remove(0);
        }
        // Most records have one, and there are as many as leases.
        self.entries.reserve_exact(1);
        self.entries.push(entry);
    }
}

impl Entry {
    fn mark(kind: Kind, attempt: Attempt, now: Timestamp) -> Self {
        let (deadline, term) = (now + MARK_US, Term::of_micros(MARK_US));
        let (is_repeated, fingerprint, holds) = (false, None, Vec::new());
        Self { kind, deadline, attempt, is_repeated, term, fingerprint, holds }
    }

    /// Whether it is a lease that is held.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.kind == Kind::Held && self.deadline > now
    }

    fn kept_until(&self) -> Timestamp {
        self.deadline + if self.kind == Kind::Held { MARK_US } else { 0 }
    }
}
