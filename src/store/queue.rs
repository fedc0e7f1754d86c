//! Who waits for slots in this process, and in which order.
//!
//! Whoever waits stands in a line for each state that refuses it, and is served when it is the first in all
//! of them. Tickets only grow, so whoever has the least is first in every line: nobody waits for somebody
//! who waits for him. A line holds up those behind its first even where they ask for less: who asks for
//! much would otherwise never be served.
//!
//! But nobody holds up a line while it is held up in another: one user's limit must not keep all others from
//! a pool that has room. Who is first here and not there steps aside here, and comes back, with its ticket to
//! its old place, when it is served there and this still refuses it.

use crate::key::Key;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// The most who wait at a time. Each costs some memory and, when a slot comes free, a question to the store.
const MOST_WAITING: usize = 10_000;

/// All lines.
#[derive(Debug, Default)]
pub struct Queues {
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    last_ticket: u64,
    waiting: usize,
    by_key: HashMap<Key, BTreeMap<u64, Arc<Notify>>>,
}

/// A place in some lines, given up when it is dropped.
#[derive(Debug)]
pub struct Place<'a> {
    queues: &'a Queues,
    ticket: u64,
    bell: Arc<Notify>,
    keys: Vec<Key>,
}

impl Queues {
    /// A place behind everybody, in no line yet; `None` where too many wait.
    pub fn join(&self) -> Option<Place<'_>> {
        let mut lines = self.lines();
        if lines.waiting >= MOST_WAITING {
            return None;
        }
        lines.waiting += 1;
        lines.last_ticket += 1;
        let ticket = lines.last_ticket;
        Some(Place { queues: self, ticket, bell: Arc::default(), keys: Vec::new() })
    }

    /// Those of the keys that somebody waits for.
    pub fn waited_for(&self, keys: &[Key]) -> Vec<Key> {
        let lines = self.lines();
        keys.iter().filter(|key| lines.by_key.contains_key(*key)).cloned().collect()
    }

    /// Something of a state has come free: whoever is first in its line may look.
    pub fn announce(&self, key: &Key) {
        self.lines().ring(key);
    }

    /// Something may have come free anywhere.
    pub fn announce_all(&self) {
        let lines = self.lines();
        for line in lines.by_key.values() {
            if let Some(bell) = line.values().next() {
                bell.notify_one();
            }
        }
    }

    /// What is asked of states may have changed: everybody looks, also who is not first.
    pub fn announce_to_all(&self) {
        let lines = self.lines();
        lines.by_key.values().flat_map(BTreeMap::values).for_each(|bell| bell.notify_one());
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.lines().waiting
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn ring(&self, key: &Key) {
        if let Some(bell) = self.by_key.get(key).and_then(|line| line.values().next()) {
            bell.notify_one();
        }
    }

    fn leave(&mut self, key: &Key, ticket: u64) {
        if let Some(line) = self.by_key.get_mut(key) {
            line.remove(&ticket);
            if line.is_empty() {
                self.by_key.remove(key);
            }
        }
        self.ring(key);
    }
}

impl Place<'_> {
    /// Stands in the lines of these states, and of no others.
    pub fn stand(&mut self, keys: Vec<Key>) {
        let mut lines = self.queues.lines();
        for key in self.keys.iter().filter(|key| !keys.contains(key)) {
            lines.leave(key, self.ticket);
        }
        for key in &keys {
            let line = lines.by_key.entry(key.clone()).or_default();
            line.insert(self.ticket, Arc::clone(&self.bell));
        }
        drop(lines);
        self.keys = keys;
    }

    /// The states in whose lines it stands.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Whether it is first in all of them. Where it is not, it leaves those in which it is.
    pub fn is_first(&mut self) -> bool {
        let lines = self.queues.lines();
        let is_first_in = |key: &&Key| {
            let first = lines.by_key.get(*key).and_then(|line| line.keys().next());
            first.is_none_or(|first| *first == self.ticket)
        };
        let (_, behind): (Vec<&Key>, Vec<&Key>) = self.keys.iter().partition(is_first_in);
        if behind.is_empty() {
            return true;
        }
        let behind: Vec<Key> = behind.into_iter().cloned().collect();
        drop(lines);
        self.stand(behind);
        false
    }

    /// Completes when it is worth looking again, or whether it is first.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.queues.lines();
        lines.waiting -= 1;
        for key in &self.keys {
            lines.leave(key, self.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::read(name)
    }

    #[test]
    fn whoever_came_first_is_first_and_leaves_the_place_to_the_next() {
        let queues = Queues::default();
        let (mut one, mut two) = (queues.join().unwrap(), queues.join().unwrap());
        two.stand(vec![key("a")]);
        assert!(two.is_first(), "nobody else stands there");
        one.stand(vec![key("a"), key("b")]);
        assert!(one.is_first() && !two.is_first());
        assert_eq!(two.keys(), [key("a")]);
        one.stand(vec![key("b")]);
        assert!(one.is_first() && two.is_first());
        drop(one);
        assert_eq!(queues.waited_for(&[key("a"), key("b")]), [key("a")]);
        drop(two);
        assert_eq!(queues.waiting(), 0);
        assert!(queues.lines().by_key.is_empty());
    }

    #[tokio::test]
    async fn the_first_is_rung_and_when_it_leaves_the_next() {
        let queues = Queues::default();
        let (mut one, mut two) = (queues.join().unwrap(), queues.join().unwrap());
        one.stand(vec![key("a")]);
        two.stand(vec![key("a")]);
        queues.announce(&key("a"));
        one.rung().await;
        drop(one);
        two.rung().await;
        queues.announce_all();
        two.rung().await;
    }

    #[tokio::test]
    async fn who_is_held_up_in_one_line_steps_aside_in_the_other_and_comes_back() {
        let queues = Queues::default();
        let [mut user, mut both, mut pool] = [(); 3].map(|()| queues.join().unwrap());
        user.stand(vec![key("user")]);
        both.stand(vec![key("user"), key("pool")]);
        pool.stand(vec![key("pool")]);
        assert!(user.is_first() && !pool.is_first());
        assert!(!both.is_first());
        pool.rung().await;
        assert!(pool.is_first(), "the other has stepped aside");
        both.stand(vec![key("user"), key("pool")]);
        drop(user);
        assert!(both.is_first() && !pool.is_first(), "and has its old place again");
    }

    #[test]
    fn not_everybody_may_wait() {
        let queues = Queues::default();
        let places: Vec<_> = (0..MOST_WAITING).map(|_| queues.join().unwrap()).collect();
        assert!(queues.join().is_none());
        drop(places);
        assert!(queues.join().is_some());
    }
}
