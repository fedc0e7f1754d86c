//! What has been heard of orders, and what was said of them here: it knows neither the store nor the rules.

#[cfg(test)]
mod tests;

use crate::{
    order::{Order, Orders, SetLimit},
    store::{
        StoreError,
        orders::{Change, Changed, Fields, Version},
    },
};
use std::{collections::BTreeMap, mem};

/// What is known of orders, and what is still to be told.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// What stands in the store, as far as it has been heard, and its version.
    stands: Fields,
    pub(super) version: Version,
    /// What it has not been told, by field.
    untold: BTreeMap<String, Change>,
    /// By how much the store's clock is ahead of this process's, in microseconds; `None` until it was heard of.
    pub(super) ahead_us: Option<i64>,
    /// What is in force.
    orders: Orders,
    /// Whether something has been said or heard since.
    has_news: bool,
    /// Limits whose time is over, to be removed from the store.
    over: Vec<Change>,
    /// Why the store could not be told last.
    pub(super) trouble: Option<StoreError>,
}

impl Book {
    /// The store's time at an instant of this process's clock, in microseconds.
    pub(super) fn store_time(&self, now_us: u64) -> u64 {
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
    pub(super) fn next(&mut self, now_us: u64) -> Option<(Orders, Orders)> {
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
    pub(super) fn add_all(&mut self, orders: &[Order]) {
        orders.iter().for_each(|order| self.add(order));
    }

    /// What is to be told: what was said here, and what is over.
    pub(super) fn changes(&self) -> Vec<Change> {
        self.untold.values().chain(&self.over).cloned().collect()
    }

    /// Whether something was said that the store has not been told.
    pub(super) fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// The store has been told of changes, each of which became that. Returns those of which nothing else has been
    /// said since.
    pub(super) fn settle(
        &mut self,
        changes: Vec<Change>,
        became: Vec<Changed>,
    ) -> Vec<(Change, Changed)> {
        self.over.clear();
        let mut settled: Vec<_> = changes.into_iter().zip(became).collect();
        settled.retain(|(change, _)| self.untold.get(&change.field) == Some(change));
        for (change, _) in &settled {
            self.untold.remove(&change.field);
            self.has_news = true;
        }
        settled
    }

    /// Takes note of what stands in the store.
    pub(super) fn hear(&mut self, version: Version, fields: Option<Fields>) {
        if let Some(fields) = fields {
            self.stands = fields;
            self.has_news = true;
        }
        self.version = version;
    }

    /// Takes note of what stands in a store that has lost something. What is missing there is to be told again.
    pub(super) fn hear_of_loss(&mut self, version: Version, fields: Fields) {
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
