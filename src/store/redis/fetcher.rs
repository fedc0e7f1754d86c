//! Who fetches slices of buckets, and gives back what is not spent of them: see [`grants`](super::grants).
//!
//! What is due is asked for in one call, along with what soon would be: so ten hot keys cost what one does.

use super::{
    Way,
    grants::{Asked, Grants},
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
    calling: Mutex<()>,
}

impl Fetcher {
    /// One that asks this way for what these want.
    pub(super) fn new(way: Arc<Way>, grants: Arc<Grants>) -> Self {
        Self { way, grants, calling: Mutex::new(()) }
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
                let _calling = self.calling.lock().await;
                if self.grants.is_closed() {
                    return;
                }
                let asked = self.grants.due(self.way.clock.now());
                self.call(&asked).await;
            }
            time::sleep(CALL_EVERY).await;
        }
    }

    /// Gives back all that is in hand. Nothing is handed out any more.
    pub(super) async fn finish(&self) {
        self.grants.close();
        // What is on its way comes first.
        let _calling = self.calling.lock().await;
        let asked = self.grants.give_back_all(self.way.clock.now());
        self.call(&asked).await;
    }

    async fn call(&self, asked: &[Asked]) {
        let calls = asked.chunks(MOST_IN_A_CALL).map(|asked| self.call_once(asked));
        future::join_all(calls).await;
    }

    async fn call_once(&self, asked: &[Asked]) {
        let Self { way, grants, .. } = self;
        let asks: Vec<Ask> = asked.iter().map(|asked| asked.ask).collect();
        let call = Call::grant(asked.iter().map(|asked| &asked.key).collect(), &asks);
        let began = way.clock.now();
        let denial = way.denials.asked(began);
        let read = |reply: &Value| script::read_granted(reply, asks.len());
        let answered = way.ask_quietly(&call, read).await;
        let now = way.clock.now();
        let Ok((since, granted)) = answered else {
            asked.iter().for_each(|asked| grants.lost(now, asked));
            return;
        };
        grants.took(now - began);
        for (asked, granted) in asked.iter().zip(granted) {
            if let Some(short) = grants.granted(now, asked, (granted, since)) {
                let ends = [short.wait_us, short.passes_us].map(|micros| now + micros);
                let limit = Limit::TokenBucket(asked.ask.limit);
                way.denials.refuse(denial, asked.key.clone(), limit, ends);
            }
        }
    }
}
