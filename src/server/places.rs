//! Places for connections at a port. There are so many, and one peer cannot take them all. Where all are taken, a
//! new connection gets the place of one on which no call is under way: first of one that never had a call, then of
//! the one that is idle for longest. Probes and honest callers so get in however many connections a peer opens.

use crate::activity::Activity;
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::watch;

/// What is kept of all places for peers other than the one with the most connections: a tenth.
const KEPT_FOR_OTHERS: usize = 10;

/// Idle connections are closed so many at a time, as a share of all places: to find them takes a look at all.
const CLOSED_AT_A_TIME: usize = 64;

/// How many seconds a connection may be idle.
pub(super) const LONGEST_IDLE_S: u32 = 300;

/// The places at a port. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    longest_idle_s: u32,
    /// How many are taken, for metrics.
    taken: Arc<AtomicUsize>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Entry>,
    /// How many connections a peer has, by its address.
    peers: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Entry {
    peer: IpAddr,
    activity: Arc<Activity>,
    idle_s: u32,
    has_called: bool,
    standing: watch::Sender<Standing>,
}

/// What is to become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It stays.
    Stays,
    /// It was idle for too long: it is closed as the protocol has it.
    Leaves,
    /// Its place is another's.
    Evicted,
}

/// Why a connection gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Places {
    /// So many places, for connections that may be idle for so many seconds.
    pub(super) fn new(most: usize, longest_idle_s: u32) -> Self {
        let (taken, table) = (Arc::default(), Mutex::default());
        Self(Arc::new(Shared { most, longest_idle_s, taken, table }))
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> &Arc<AtomicUsize> {
        &self.0.taken
    }

    /// A place for a connection of this peer, and how many idle connections were closed for it.
    ///
    /// # Errors
    ///
    /// Where on all connections that could be closed for it a call is under way.
    pub(super) fn take(&self, peer: IpAddr) -> Result<(Place, usize), Full> {
        let (peer, most) = (network(peer), self.0.most);
        let mut table = self.table();
        let its = table.peers.get(&peer).copied().unwrap_or_default();
        let most_of_peer = most - most / KEPT_FOR_OTHERS;
        let mut closed = 0;
        if its >= most_of_peer {
            closed = table.close_idle(most, |entry| entry.peer == peer);
        } else if table.open.len() >= most {
            closed = table.close_idle(most, |_| true);
        }
        if closed == 0 && (its >= most_of_peer || table.open.len() >= most) {
            return Err(Full);
        }
        let number = table.next;
        table.next += 1;
        let (standing, told) = watch::channel(Standing::Stays);
        let activity = Arc::<Activity>::default();
        let entry =
            Entry { peer, activity: Arc::clone(&activity), idle_s: 0, has_called: false, standing };
        table.open.insert(number, entry);
        *table.peers.entry(peer).or_default() += 1;
        self.0.taken.store(table.open.len(), Ordering::Relaxed);
        drop(table);
        Ok((Place { places: self.clone(), number, activity, told }, closed))
    }

    /// A second has passed. Connections that were idle for too long leave.
    pub(super) fn tick(&self) {
        for entry in self.table().open.values_mut() {
            entry.look();
            if entry.idle_s >= self.0.longest_idle_s {
                entry.standing.send_if_modified(|standing| {
                    let stays = *standing == Standing::Stays;
                    *standing = (*standing).max(Standing::Leaves);
                    stays
                });
            }
            entry.idle_s += 1;
        }
    }

    /// No method of the table panics half-way, so a poisoned lock still guards whole entries.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Closes idle connections among some, if there are any; says how many.
    fn close_idle(&mut self, most: usize, among: impl Fn(&Entry) -> bool) -> usize {
        let mut idle: Vec<_> = Vec::new();
        for (number, entry) in &mut self.open {
            entry.look();
            if entry.is_idle() && among(entry) {
                idle.push((entry.has_called, u32::MAX - entry.idle_s, *number));
            }
        }
        let count = (most / CLOSED_AT_A_TIME).max(1).min(idle.len());
        if count == 0 {
            return 0;
        }
        idle.select_nth_unstable(count - 1);
        for (_, _, number) in idle.iter().take(count) {
            if let Some(entry) = self.remove(*number) {
                entry.standing.send_replace(Standing::Evicted);
            }
        }
        count
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.open.remove(&number)?;
        if let Some(count) = self.peers.get_mut(&entry.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&entry.peer);
            }
        }
        Some(entry)
    }
}

impl Entry {
    /// Takes note of calls since the last look.
    fn look(&mut self) {
        if self.activity.take_called() {
            (self.has_called, self.idle_s) = (true, 0);
        }
        if !self.is_idle() {
            self.idle_s = 0;
        }
    }

    fn is_idle(&self) -> bool {
        self.activity.is_idle()
    }
}

/// The place of a connection. Dropped, it is free again.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    number: u64,
    activity: Arc<Activity>,
    told: watch::Receiver<Standing>,
}

impl Place {
    /// Where calls are noted.
    pub(super) const fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Completes when the connection has been idle for too long.
    pub(super) fn leaves(&self) -> impl Future<Output = ()> + Send + use<> {
        self.stands(Standing::Leaves)
    }

    /// Completes when the place is another's.
    pub(super) fn evicted(&self) -> impl Future<Output = ()> + Send + use<> {
        self.stands(Standing::Evicted)
    }

    fn stands(&self, so: Standing) -> impl Future<Output = ()> + Send + use<> {
        let mut told = self.told.clone();
        async move {
            // Where nothing more is told, the place was given back.
            if told.wait_for(|standing| *standing >= so).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.places.table();
        table.remove(self.number);
        self.places.0.taken.store(table.open.len(), Ordering::Relaxed);
    }
}

/// What of an address tells one peer from another: with IPv6 one has a whole network.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            const NETWORK: u128 = u128::MAX << 64;
            IpAddr::V6((address.to_bits() & NETWORK).into())
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const ADA: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const BOB: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn places(most: usize) -> Places {
        Places::new(most, 3)
    }

    fn is_evicted(place: &Place) -> bool {
        place.evicted().now_or_never().is_some()
    }

    #[test]
    fn a_new_connection_gets_the_place_of_one_that_never_called_before_that_of_an_idle_one() {
        let places = places(3);
        let (first, _) = places.take(ADA).unwrap();
        drop(first.activity().begin());
        let (silent, _) = places.take(ADA).unwrap();
        let (calling, _) = places.take(ADA).unwrap();
        let call = calling.activity().begin();
        let (new, closed) = places.take(ADA).unwrap();
        assert_eq!((closed, places.taken().load(Ordering::Relaxed)), (1, 3));
        assert!(is_evicted(&silent) && !is_evicted(&first) && !is_evicted(&calling));
        drop(silent);
        assert_eq!(places.taken().load(Ordering::Relaxed), 3, "its place was given back before");
        let busy = new.activity().begin();
        let (newest, _) = places.take(ADA).unwrap();
        assert!(is_evicted(&first) && !is_evicted(&new));
        let busier = newest.activity().begin();
        assert_eq!(places.take(ADA).unwrap_err(), Full, "all have calls under way");
        drop((call, busy, busier));
        places.take(ADA).unwrap();
    }

    #[test]
    fn of_idle_connections_the_one_that_is_idle_for_longest_goes() {
        let places = places(2);
        let (older, _) = places.take(ADA).unwrap();
        let (newer, _) = places.take(ADA).unwrap();
        for place in [&older, &newer] {
            drop(place.activity().begin());
        }
        places.tick();
        drop(older.activity().begin());
        places.tick();
        let _new = places.take(ADA).unwrap();
        assert!(is_evicted(&newer) && !is_evicted(&older));
    }

    #[test]
    fn one_peer_cannot_take_all_places() {
        let places = places(20);
        let calls = |place: &Place| place.activity().begin();
        let mut held: Vec<_> = (0..18).map(|_| places.take(ADA).unwrap().0).collect();
        let mut busy: Vec<_> = held.iter().map(calls).collect();
        assert_eq!(places.take(ADA).unwrap_err(), Full);
        let (others, _) = places.take(BOB).unwrap();
        busy.push(calls(&others));
        // An idle one of the same peer makes room for its next.
        drop(busy.remove(0));
        let (next, closed) = places.take(ADA).unwrap();
        assert_eq!(closed, 1);
        assert!(is_evicted(&held.remove(0)) && !is_evicted(&next));
    }

    #[test]
    fn networks_of_ipv6_are_one_peer() {
        let [one, same, other] = ["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"]
            .map(|address| network(address.parse().unwrap()));
        assert_eq!(one, same);
        assert_ne!(one, other);
        assert_eq!(network("::ffff:192.0.2.1".parse().unwrap()), ADA);
    }

    #[test]
    fn idle_connections_leave_and_those_with_calls_stay() {
        let places = places(10);
        let (idle, _) = places.take(ADA).unwrap();
        let (calling, _) = places.take(ADA).unwrap();
        let _call = calling.activity().begin();
        let (returning, _) = places.take(ADA).unwrap();
        for _ in 0..5 {
            drop(returning.activity().begin());
            places.tick();
        }
        let leaves = |place: &Place| place.leaves().now_or_never().is_some();
        assert!(leaves(&idle) && !leaves(&calling) && !leaves(&returning));
        assert!(!is_evicted(&idle));
    }
}
