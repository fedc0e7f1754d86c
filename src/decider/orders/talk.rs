//! How the store is told of orders, and heard; and how the rules come to obey what it says.

use super::TRY_AGAIN;
use crate::{
    decider::{Decider, no_random_numbers},
    order::{Order, Orders, SetLimit, subject},
    rules::describe::printable,
    store::{
        self, StoreError,
        orders::{Change, Changed, Telling, Told},
    },
    unit::count,
};
use std::{
    collections::HashSet,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::{
    task,
    time::{self, MissedTickBehavior},
};

/// How often the store is asked. With what it takes to hear and to obey, well within a second.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// How long the first hearing may take.
const FIRST_HEARING: Duration = Duration::from_secs(5);

/// How many changes are told in the log by a line of their own.
const MOST_TOLD: usize = 10;

impl Decider {
    /// Hears what operators have said, again and again, for as long as it is polled.
    pub async fn follow_orders(self: &Arc<Self>) {
        let mut ticks = time::interval(ASK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Where it cannot be asked, what was heard holds on.
            let _ = self.hear_orders().await;
            self.orders.replaced.free().await;
        }
    }

    /// Hears what operators have said before the first request comes: a restart forgets no switch. Where the store
    /// does not say it in some seconds, the rules are as their files say until it does, and the log tells so.
    pub async fn hear_first_orders(self: &Arc<Self>) {
        let hearing = async {
            loop {
                match self.hear_orders().await {
                    Ok(()) => return true,
                    // It will not say it, however often it is asked.
                    Err(StoreError::Refused(_)) => return false,
                    Err(_) => time::sleep(TRY_AGAIN).await,
                }
            }
        };
        if !time::timeout(FIRST_HEARING, hearing).await.unwrap_or(false) {
            tracing::warn!(
                "the store does not say what operators have said at run time: until it does, the rules are as their files say"
            );
        }
    }

    /// Tells the store what it has not been told, and hears what stands there, once.
    ///
    /// # Errors
    ///
    /// Where the store did not answer.
    pub async fn hear_orders(self: &Arc<Self>) -> Result<(), StoreError> {
        let heard = self.talk(&[]).await;
        self.put_orders_in_force().await;
        heard.map(drop)
    }

    /// Tells the store what it has not been told, and hears what stands there. What became of these orders: nothing,
    /// where they had been told before.
    pub(super) async fn talk(&self, orders: &[Order]) -> Result<Vec<Changed>, StoreError> {
        let _talking = self.orders.talking.lock().await;
        let told = self.tell_and_hear(orders).await;
        self.orders.book().trouble = told.as_ref().err().cloned();
        told
    }

    async fn tell_and_hear(&self, orders: &[Order]) -> Result<Vec<Changed>, StoreError> {
        let (mut changes, mut told) = self.exchange().await?;
        let (known, fields) = (self.orders.book().version, told.fields.take());
        if known.is_lost(told.version) {
            tracing::warn!(
                "the store has lost what operators had said at run time: what is missing is told again"
            );
            self.orders.book().hear_of_loss(told.version, fields.unwrap_or_default());
            (changes, told) = self.exchange().await?;
            let fields = told.fields.take();
            self.orders.book().hear(told.version, fields);
        } else {
            self.orders.book().hear(told.version, fields);
        }
        let of_these: HashSet<&str> = orders.iter().map(|order| &*order.field).collect();
        let mut became = Vec::new();
        let settled = self.orders.book().settle(changes, told.changed);
        for (change, changed) in settled {
            if of_these.contains(&*change.field) {
                became.push(changed);
            } else if changed != Changed::Done {
                let what = printable(subject(&change.field));
                let why = match changed {
                    Changed::Full => "there are too many limits",
                    _ => "something else has been said meanwhile",
                };
                tracing::warn!(
                    "what was said here of {what} while the store could not be told is not in force any more: {why}"
                );
            }
        }
        Ok(became)
    }

    /// Tells the store what is to be told, and hears how it stands there.
    async fn exchange(&self) -> Result<(Vec<Change>, Told), StoreError> {
        let (known, changes) = {
            let book = self.orders.book();
            (book.version, book.changes())
        };
        let draw = || store::draw().map_err(no_random_numbers);
        let drawn = [draw()?, draw()?];
        let began = self.clock.now();
        let telling = Telling { known, changes: &changes, drawn };
        let told = self.store.tell_orders(began, telling).await?;
        // It was somewhere between the question and the answer.
        let took_us = if self.store.is_shared() { self.clock.now() - began } else { 0 };
        let here_us = began.as_micros().saturating_add(took_us / 2);
        let ahead_us = i128::from(told.now.as_micros()) - i128::from(here_us);
        self.orders.book().ahead_us = i64::try_from(ahead_us).ok();
        Ok((changes, told))
    }

    /// Has the rules obey what is to be in force, where that has changed.
    pub(super) async fn put_orders_in_force(self: &Arc<Self>) {
        let decider = Arc::clone(self);
        // Many rules take a while to be arranged. It is finished also where nobody waits for it any more.
        let placing = task::spawn_blocking(move || {
            // One after the other, so that what is read last is what stays.
            let _placing = decider.orders.placing.lock().unwrap_or_else(PoisonError::into_inner);
            let next = decider.orders.book().next(decider.clock.now().as_micros());
            let Some((before, orders)) = next else { return };
            tell_changes(&before, &orders);
            let replaced = decider.replace(|rules| rules.with_orders(orders));
            decider.orders.replaced.keep(replaced);
        });
        // Where the runtime is gone, so is the process.
        let _ = placing.await;
    }
}

/// Says in the log what has changed. Of limits only how many: their paths hold callers' names.
fn tell_changes(before: &Orders, after: &Orders) {
    let paths = before.switches.keys().chain(after.switches.keys());
    let mut paths: Vec<_> =
        paths.filter(|path| before.switches.get(*path) != after.switches.get(*path)).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths.iter().take(MOST_TOLD) {
        let switch = after.switches.get(*path).copied().unwrap_or_default();
        tracing::info!("an operator has switched {}: {}", printable(path), super::in_words(switch));
    }
    if paths.len() > MOST_TOLD {
        let more = count((paths.len() - MOST_TOLD) as u64, "switch");
        tracing::info!("and {more} more");
    }
    let differs = |(path, set): &(&String, &SetLimit)| before.limits.get(*path) != Some(*set);
    let new = after.limits.iter().filter(differs).count();
    let gone = before.limits.keys().filter(|path| !after.limits.contains_key(*path)).count();
    if new + gone > 0 {
        tracing::info!(
            "limits at run time: {new} set, {gone} taken back or over, {} in force",
            after.limits.len()
        );
    }
}
