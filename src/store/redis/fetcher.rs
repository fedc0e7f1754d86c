//! Who fetches slices of buckets, and gives back what is not spent of them: see [`grants`](super::grants).
//!
//! What is due is asked for in one call, along with what soon would be: so ten hot keys cost what one does.

use super::{
    Way,
    connection::Connection,
    grants::{Asked, Grants},
    incarnation::Incarnation,
    script::{self, Call},
};
use crate::{grant::Ask, limiter::Limit};
use futures_util::future;
use redis::Value;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Mutex, time};

/// How often it is looked for what is too old, in a process that has anything in hand.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How soon after one call the next is made: what becomes due meanwhile goes together.
pub(super) const CALL_EVERY: Duration = Duration::from_millis(1);

/// The most buckets in a call: for some of them Redis does nothing else for 100 µs.
const MOST_IN_A_CALL: usize = 64;

/// Fetches and gives back.
pub(super) struct Fetcher {
    way: Arc<Way>,
    grants: Arc<Grants>,
    /// Held while Redis is asked.
    calling: Mutex<Source>,
}

/// Where what is in hand was taken.
#[derive(Default)]
struct Source {
    /// By which Redis; `None` where nothing was taken yet.
    incarnation: Option<Incarnation>,
    /// How often connections had been found broken when that was last looked at.
    generation: u64,
}

impl Fetcher {
    /// One that asks this way for what these want.
    pub(super) fn new(way: Arc<Way>, grants: Arc<Grants>) -> Self {
        Self { way, grants, calling: Mutex::default() }
    }

    /// Fetches and gives back, for as long as it is polled and anything is handed out.
    pub(super) async fn fetch(&self) {
        // After a panic no answer is waited for any more.
        let calling = self.calling.lock().await;
        self.grants.lose_answers(self.way.clock.now());
        drop(calling);
        loop {
            if self.grants.is_empty() {
                self.grants.until_due().await;
            } else {
                let _ = time::timeout(LOOK_EVERY, self.grants.until_due()).await;
            }
            {
                let mut source = self.calling.lock().await;
                if self.grants.is_closed() {
                    return;
                }
                let is_broken = source.generation != self.way.generations.current();
                let asked = self.grants.due(self.way.clock.now());
                if is_broken || !asked.is_empty() {
                    self.call(&mut source, &asked).await;
                }
            }
            time::sleep(CALL_EVERY).await;
        }
    }

    /// Gives back all that is in hand. Nothing is handed out any more.
    pub(super) async fn finish(&self) {
        self.grants.close();
        // What is on its way comes first.
        let mut source = self.calling.lock().await;
        let asked = self.grants.give_back_all(self.way.clock.now());
        self.call(&mut source, &asked).await;
    }

    async fn call(&self, source: &mut Source, asked: &[Asked]) {
        let connection = self.connection(source).await;
        let calls = asked.chunks(MOST_IN_A_CALL);
        future::join_all(calls.map(|asked| self.call_once(connection.as_ref(), asked))).await;
    }

    /// A connection; `None` where there is none. Where it leads to another Redis than the one that gave what is in hand,
    /// that is dropped: this one may not know of it.
    async fn connection(&self, source: &mut Source) -> Option<Connection> {
        let Self { way, grants, .. } = self;
        if way.is_down() {
            return None;
        }
        let generation = way.generations.current();
        let connection = way.connection().await?;
        if source.incarnation.as_ref() != Some(&connection.incarnation) {
            if source.incarnation.is_some() {
                grants.drop_all();
            }
            source.incarnation = Some(connection.incarnation.clone());
        }
        source.generation = generation;
        Some(connection)
    }

    async fn call_once(&self, connection: Option<&Connection>, asked: &[Asked]) {
        let Self { way, grants, .. } = self;
        let began = way.clock.now();
        // What was dropped while a connection was waited for does not come back, and nothing is asked by its limit.
        let (dropped, asked): (Vec<&Asked>, Vec<&Asked>) =
            asked.iter().partition(|asked| connection.is_none() || grants.is_dropped(asked));
        let lose = |asked: &[&Asked]| {
            let now = way.clock.now();
            asked.iter().for_each(|asked| grants.lost(now, asked));
        };
        lose(&dropped);
        let Some(connection) = connection.filter(|_| !asked.is_empty()).cloned() else { return };
        let asks: Vec<&Ask> = asked.iter().map(|asked| &asked.ask).collect();
        let call = Call::grant(asked.iter().map(|asked| &asked.key).collect(), &asks);
        let denial = way.denials.asked(began);
        let read = |reply: &Value| script::read_granted(reply, asks.len());
        let Ok(granted) = way.ask_over(connection, &call, read).await else {
            return lose(&asked);
        };
        let now = way.clock.now();
        grants.took(now - began);
        for (asked, granted) in asked.iter().zip(granted) {
            if let Some(short) = grants.granted(now, asked, granted) {
                let ends = [short.wait_us, short.passes_us].map(|micros| now + micros);
                let limit = Limit::TokenBucket(asked.ask.limit);
                way.denials.refuse(denial, asked.key.clone(), limit, ends);
            }
        }
    }
}
