//! What operators say at run time: told to the store, heard of by all replicas, obeyed by the rules in force.
//!
//! Each process asks the store four times a second what stands there, so that all obey within a second. An order is
//! obeyed here first, and told then. Where the store cannot be told, it is as soon as it can be, unless
//! something else has been said of the same by then. A store that has lost orders is told them again by whoever
//! has heard them: a switch that was put in an emergency is not to come undone by another one.

mod book;
mod talk;

use super::{Decider, Replaced};
use crate::{
    limiter::{Limit, Setting},
    order::{Amount, EVERYTHING, Order, Position, SetLimit, Switch},
    rules::{Counter, Kind, NotMeant, PlacedRule, Scope},
    store::{
        StoreError,
        orders::{Changed, MOST_LIMITS},
    },
};
use book::Book;
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync, time};

/// How often it is tried to tell the store at once, before an order is left to be told later, and how soon again.
const TRIES: usize = 3;
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// The longest path of a counter for which a limit is set, in bytes.
const LONGEST_PATH: usize = 2048;

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
        setting: Option<(Setting, Option<u64>)>,
    ) -> Result<(Counter, Reach), NotOrdered> {
        let rules = self.rules();
        let placed = rules.rule_meant_by(word)?;
        let mut counter = rules.counter_of(&placed, values)?;
        if counter.path.len() > LONGEST_PATH {
            return Err(NotOrdered::TooLong);
        }
        let set = match setting {
            None => None,
            Some((setting, for_us)) => {
                let set = Amount::of(counter.of_rule, setting);
                let (amount, limit) = set.ok_or_else(|| unfit(&placed, counter.of_rule))?;
                counter.limit = limit;
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
        let has_untold = book.has_untold();
        let trouble = book.trouble.clone();
        drop(book);
        trouble.map(|error| (self.in_words(&error), has_untold))
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
}

/// Why a limit cannot have an amount.
fn unfit(placed: &PlacedRule, limit: Limit) -> NotOrdered {
    let (limiter, fix) = (limit.limiter(), limit.how_to_set());
    NotOrdered::Unfit { rule: placed.path.to_string(), limiter, fix }
}

/// What a switch says.
pub fn in_words(switch: Switch) -> String {
    let enabled = switch.enabled.map(|is_on| if is_on { "on" } else { "off" });
    let shadow = switch.shadow_mode.map(|is| if is { "in shadow mode" } else { "enforced" });
    let words: Vec<&str> = enabled.into_iter().chain(shadow).collect();
    if words.is_empty() { "as its file says".to_owned() } else { words.join(", ") }
}
