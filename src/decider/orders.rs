//! What operators say at run time: told to the store, heard of by all replicas, obeyed by the rules in force.
//!
//! Each process asks the store four times a second what stands there, so that all obey within a second. An order is
//! obeyed here first, and told then. Where the store cannot be told, it is as soon as it can be, unless
//! something else has been said of the same by then. A store that has lost orders is told them again by whoever
//! has heard them: a switch that was put in an emergency is not to come undone by another one.

use super::{Decider, Replaced};
use crate::{
    limiter::Limit,
    order::{Amount, EVERYTHING, Order, Orders, Position, SetLimit, Switch, subject},
    rules::{Counter, Kind, NotMeant, PlacedRule, Scope, describe::printable},
    store::{
        self, StoreError,
        orders::{Change, Changed, Fields, MOST_LIMITS, Telling, Told, Version},
    },
    unit::count,
};
use std::{
    collections::{BTreeMap, HashSet},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync, task,
    time::{self, MissedTickBehavior},
};

/// How often the store is asked. With what it takes to hear and to obey, well within a second.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// How often it is tried to tell the store at once, before an order is left to be told later, and how soon again.
const TRIES: usize = 3;
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// How long the first hearing may take.
const FIRST_HEARING: Duration = Duration::from_secs(5);

/// The longest path of a counter for which a limit is set, in bytes.
const LONGEST_PATH: usize = 2048;

/// How many changes are told in the log by a line of their own.
const MOST_TOLD: usize = 10;

/// How far an order reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// It is kept in the store: all replicas obey within a second, and those that come later from the beginning.
    Replicas,
    /// It is kept by this process, which is its own store.
    Process,
    /// It is obeyed by this process; the store could not be told, and will be. The reason is for people.
    Untold(String),
}

/// Why an order is not obeyed.
#[derive(Debug, thiserror::Error)]
pub enum NotOrdered {
    /// It is not known what is meant.
    #[error(transparent)]
    NotMeant(#[from] NotMeant),
    /// The limit has no such amount.
    #[error("{rule} is a {limiter} limit: {fix}")]
    Unfit {
        /// The path of the rule.
        rule: String,
        /// Its limiter.
        limiter: &'static str,
        /// What to say instead.
        fix: &'static str,
    },
    /// The values are too long.
    #[error("the values are too long: together with the rule's path at most {LONGEST_PATH} bytes")]
    TooLong,
    /// There are too many limits.
    #[error(
        "there are {MOST_LIMITS} limits at run time already: take some back, see `tollgate limit list`"
    )]
    TooMany,
    /// Nobody knows when it would end.
    #[error(
        "a limit ends by the store's clock, and the store has not been heard of yet: say it without an end"
    )]
    NoClock,
    /// The store cannot be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A switch that was put.
#[derive(Debug, Clone)]
pub struct Switched {
    /// What it is about.
    pub scope: Scope,
    /// What is said of it now.
    pub switch: Switch,
    /// How far it reaches.
    pub reach: Reach,
}

/// A limit that holds at run time for one counter.
#[derive(Debug, Clone)]
pub struct LimitSet {
    /// The path of the counter.
    pub path: String,
    /// What is set.
    pub set: SetLimit,
    /// The limit that this amounts to; `None` where there is no rule that it could be for.
    pub limit: Option<Limit>,
    /// How long it holds, in microseconds; `None` for until it is taken back.
    pub left_us: Option<u64>,
}

/// How often something was said to this process. Each only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// Switches.
    pub switches: u64,
    /// Limits.
    pub limits: u64,
    /// Counters that were reset.
    pub resets: u64,
}

/// What has been heard and said of orders.
#[derive(Debug, Default)]
pub(super) struct OrderBook {
    book: Mutex<Book>,
    /// Whoever talks to the store, so that it is told and heard in one order.
    talking: sync::Mutex<()>,
    /// Whoever puts in force what has been heard and said.
    placing: Mutex<()>,
    replaced: Replaced,
    switches: AtomicU64,
    limits: AtomicU64,
    pub(super) resets: AtomicU64,
}

#[derive(Debug, Default)]
struct Book {
    /// What stands in the store, as far as it has been heard, and its version.
    stands: Fields,
    version: Version,
    /// What it has not been told, by field.
    untold: BTreeMap<String, Change>,
    /// By how much the store's clock is ahead of this process's, in microseconds; `None` until it was heard of.
    ahead_us: Option<i64>,
    /// What is in force.
    orders: Orders,
    /// Whether something has been said or heard since.
    has_news: bool,
    /// Limits whose time is over, to be removed from the store.
    over: Vec<Change>,
    /// Why the store could not be told last.
    trouble: Option<StoreError>,
}

impl Book {
    /// The store's time at an instant of this process's clock, in microseconds.
    fn store_time(&self, now_us: u64) -> u64 {
        now_us.saturating_add_signed(self.ahead_us.unwrap_or_default())
    }

    /// What stands in the store, or is still to be told to it.
    fn said(&self) -> Fields {
        let mut fields = self.stands.clone();
        for Change { field, is, .. } in self.untold.values() {
            match is {
                Some(text) => fields.insert(field.clone(), text.clone()),
                None => fields.remove(field),
            };
        }
        fields
    }

    /// What is to be in force now in the place of what is, with that; `None` where it is the same.
    fn next(&mut self, now_us: u64) -> Option<(Orders, Orders)> {
        let now_us = self.store_time(now_us);
        let is_over = self.orders.first_end_us().is_some_and(|end_us| end_us <= now_us);
        if !self.has_news && !is_over {
            return None;
        }
        self.has_news = false;
        let said = self.said();
        let orders = Orders::read(said.iter().map(|(field, text)| (&**field, &**text)), now_us);
        let over = self.stands.iter().filter(|(_, text)| SetLimit::is_over(text, now_us));
        self.over = over.map(|(field, text)| removal(field, text)).collect();
        if orders == self.orders {
            return None;
        }
        Some((mem::replace(&mut self.orders, orders.clone()), orders))
    }

    /// Takes note of an order. What it takes to stand in the store is what is known of that. It is told also where
    /// that is the same: somebody else may have said something that has not been heard here.
    fn add(&mut self, Order { field, text }: &Order) {
        self.has_news = true;
        let was = self.stands.get(field).cloned();
        let change = Change { field: field.clone(), was, is: text.clone() };
        self.untold.insert(field.clone(), change);
    }

    /// The same of several.
    fn add_all(&mut self, orders: &[Order]) {
        orders.iter().for_each(|order| self.add(order));
    }

    /// What is to be told: what was said here, and what is over.
    fn changes(&self) -> Vec<Change> {
        self.untold.values().chain(&self.over).cloned().collect()
    }

    /// Takes note of what stands in the store.
    fn hear(&mut self, version: Version, fields: Option<Fields>) {
        if let Some(fields) = fields {
            self.stands = fields;
            self.has_news = true;
        }
        self.version = version;
    }

    /// Takes note of what stands in a store that has lost something. What is missing there is to be told again.
    fn hear_of_loss(&mut self, version: Version, fields: Fields) {
        let known = mem::replace(&mut self.stands, fields);
        for change in self.untold.values_mut() {
            // Nobody has said anything else of it.
            if !self.stands.contains_key(&change.field) {
                change.was = None;
            }
        }
        for (field, text) in known {
            if !self.stands.contains_key(&field) && !self.untold.contains_key(&field) {
                let change = Change { field: field.clone(), was: None, is: Some(text) };
                self.untold.insert(field, change);
            }
        }
        (self.version, self.has_news) = (version, true);
    }
}

/// That a limit whose time is over does not stand in the store any more.
fn removal(field: &str, text: &str) -> Change {
    Change { field: field.to_owned(), was: Some(text.to_owned()), is: None }
}

impl OrderBook {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decider {
    /// Puts a switch: what is meant by a word into a position. To clear everything is to take back all that was
    /// said of anything.
    ///
    /// # Errors
    ///
    /// Where nothing is meant by it.
    pub async fn switch(
        self: &Arc<Self>,
        word: &str,
        position: Position,
    ) -> Result<Switched, NotOrdered> {
        let rules = self.rules();
        let scope = rules.meant_by(word)?;
        let mut orders = Order::switch(&scope.path, position);
        if (position, &*scope.path) == (Position::Clear, EVERYTHING) {
            let said = rules.orders().switches.keys();
            orders.extend(said.flat_map(|path| Order::switch(path, Position::Clear)));
        }
        let reach = self.obey(&orders).await?;
        self.orders.switches.fetch_add(1, Ordering::Relaxed);
        let switch = self.rules().orders().switches.get(&scope.path).copied().unwrap_or_default();
        Ok(Switched { scope, switch, reach })
    }

    /// Sets the limit of one counter, for so many microseconds or until it is taken back; with no amount,
    /// takes it back.
    ///
    /// # Errors
    ///
    /// Where it is not known which counter is meant, or it cannot have that amount, or there are too many
    /// orders.
    pub async fn set_limit(
        self: &Arc<Self>,
        word: &str,
        values: &[String],
        amount: Option<(Amount, Option<u64>)>,
    ) -> Result<(Counter, Reach), NotOrdered> {
        let rules = self.rules();
        let placed = rules.rule_meant_by(word)?;
        let mut counter = rules.counter_of(&placed, values)?;
        if counter.path.len() > LONGEST_PATH {
            return Err(NotOrdered::TooLong);
        }
        let set = match amount {
            None => None,
            Some((amount, for_us)) => {
                let limit = amount.applied_to(counter.of_rule);
                let limit = limit.filter(|_| placed.rule.pool.is_none());
                counter.limit = limit.ok_or_else(|| unfit(&placed, counter.of_rule))?;
                let now_us = self.clock.now().as_micros();
                let until_us = match for_us {
                    None => None,
                    Some(for_us) => {
                        let book = self.orders.book();
                        // Until it was heard of, its clock is not known.
                        book.ahead_us.ok_or(NotOrdered::NoClock)?;
                        Some(book.store_time(now_us).saturating_add(for_us))
                    }
                };
                Some(SetLimit { rule: placed.path.to_string(), amount, until_us })
            }
        };
        if set.is_none() {
            counter.limit = counter.of_rule;
        }
        let reach = self.obey(&[Order::limit(&counter.path, set.as_ref())]).await?;
        self.orders.limits.fetch_add(1, Ordering::Relaxed);
        Ok((counter, reach))
    }

    /// Takes back the limits that were set for the counters on these paths, whether or not there are rules for
    /// them.
    ///
    /// # Errors
    ///
    /// Never; but others that give orders may.
    pub async fn clear_limits(self: &Arc<Self>, paths: &[String]) -> Result<Reach, NotOrdered> {
        let orders: Vec<Order> = paths.iter().map(|path| Order::limit(path, None)).collect();
        let reach = self.obey(&orders).await?;
        self.orders.limits.fetch_add(orders.len() as u64, Ordering::Relaxed);
        Ok(reach)
    }

    /// The limits that are set at run time, in the order of their paths.
    pub fn limits_set(&self) -> Vec<LimitSet> {
        let rules = self.rules();
        let now_us = self.orders.book().store_time(self.clock.now().as_micros());
        let limits = rules.orders().limits.iter().map(|(path, set)| {
            let limit = rules.at(&set.rule).and_then(|placed| match placed.rule.kind {
                Kind::Limit(limit) => set.amount.applied_to(limit),
                Kind::Unlimited | Kind::Report(_) => None,
            });
            LimitSet {
                path: path.clone(),
                set: set.clone(),
                limit,
                left_us: set.until_us.map(|until_us| until_us.saturating_sub(now_us)),
            }
        });
        limits.collect()
    }

    /// How often something was said to this process.
    pub fn order_counts(&self) -> OrderCounts {
        let OrderBook { switches, limits, resets, .. } = &self.orders;
        OrderCounts {
            switches: switches.load(Ordering::Relaxed),
            limits: limits.load(Ordering::Relaxed),
            resets: resets.load(Ordering::Relaxed),
        }
    }

    /// Why the store could not be asked last, and whether that keeps something from it that was said here; `None`
    /// where it could.
    pub fn orders_trouble(&self) -> Option<(String, bool)> {
        let book = self.orders.book();
        let has_untold = !book.untold.is_empty();
        let trouble = book.trouble.clone();
        drop(book);
        trouble.map(|error| (self.in_words(&error), has_untold))
    }

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

    /// Has orders obeyed: here at once, and everywhere, if the store can be told.
    async fn obey(self: &Arc<Self>, orders: &[Order]) -> Result<Reach, NotOrdered> {
        self.orders.book().add_all(orders);
        self.put_orders_in_force().await;
        let mut told = Ok(Vec::new());
        for attempt in 1..=TRIES {
            told = self.talk(orders).await;
            match &told {
                // Where somebody else was faster, whoever speaks last is obeyed.
                Ok(became) if became.contains(&Changed::Differs) => {
                    self.orders.book().add_all(orders);
                }
                Ok(_) => break,
                Err(_) if attempt < TRIES => time::sleep(TRY_AGAIN).await,
                Err(_) => {}
            }
        }
        self.put_orders_in_force().await;
        match told {
            Ok(became) if became.contains(&Changed::Full) => Err(NotOrdered::TooMany),
            Ok(_) if self.store.is_shared() => Ok(Reach::Replicas),
            Ok(_) => Ok(Reach::Process),
            Err(error) => Ok(Reach::Untold(self.in_words(&error))),
        }
    }

    /// Tells the store what it has not been told, and hears what stands there. What became of these orders: nothing,
    /// where they had been told before.
    async fn talk(&self, orders: &[Order]) -> Result<Vec<Changed>, StoreError> {
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
        let mut book = self.orders.book();
        for (change, changed) in changes.iter().zip(told.changed) {
            // Something else may have been said of it since.
            if book.untold.get(&change.field) != Some(change) {
                continue;
            }
            book.untold.remove(&change.field);
            book.has_news = true;
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
        book.over.clear();
        Ok(became)
    }

    /// Tells the store what is to be told, and hears how it stands there.
    async fn exchange(&self) -> Result<(Vec<Change>, Told), StoreError> {
        let (known, changes) = {
            let book = self.orders.book();
            (book.version, book.changes())
        };
        let draw = || store::draw().map_err(super::no_random_numbers);
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
    async fn put_orders_in_force(self: &Arc<Self>) {
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

/// Why a limit cannot have an amount.
fn unfit(placed: &PlacedRule, limit: Limit) -> NotOrdered {
    let fix = match limit {
        Limit::TokenBucket(_) => "give it --rate, and --burst if you like",
        Limit::Concurrency(_) => "give it --max",
        Limit::Fleet(_) | Limit::Utilization(_) => {
            "what it allows is said of its pool, in the rule file"
        }
    };
    NotOrdered::Unfit { rule: placed.path.to_string(), limiter: limit.limiter(), fix }
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
        tracing::info!("an operator has switched {}: {}", printable(path), in_words(switch));
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

/// What a switch says.
pub fn in_words(switch: Switch) -> String {
    let enabled = switch.enabled.map(|is_on| if is_on { "on" } else { "off" });
    let shadow = switch.shadow_mode.map(|is| if is { "in shadow mode" } else { "enforced" });
    let words: Vec<&str> = enabled.into_iter().chain(shadow).collect();
    if words.is_empty() { "as its file says".to_owned() } else { words.join(", ") }
}
