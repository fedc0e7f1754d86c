//! One counter of a rule: how it stands, and beginning anew. For operators, by the words that they say.

use super::{Decider, NotOrdered};
use crate::{
    lease::{InFlight, Slots},
    limiter::State,
    rules::{Counter, PlacedRule},
};
use std::sync::{Arc, atomic::Ordering};

/// How it stands with a counter.
#[derive(Debug, Clone)]
pub struct CounterView {
    /// Which.
    pub counter: Counter,
    /// How much of its limit is left.
    pub remaining: u64,
    /// Microseconds until it is whole again if nobody takes any more; `None` where that depends on who holds
    /// what.
    pub full_in_us: Option<u64>,
    /// Slots in flight; `None` of what counts no slots.
    pub in_flight: Option<Slots>,
    /// Whether there is nothing: as if nobody had ever asked.
    pub is_unused: bool,
}

impl Decider {
    /// How it stands with one counter of the rule that a word means, by the values of its entries, each written as
    /// `key=value`.
    ///
    /// # Errors
    ///
    /// Where it is not known which is meant, or the store cannot be asked.
    pub async fn look_at(&self, word: &str, values: &[String]) -> Result<CounterView, NotOrdered> {
        let (_, counter) = self.counter_meant_by(word, values)?;
        let keys = [counter.key.clone()];
        let (now, states) = self.store.look(self.clock.now(), &keys).await?;
        let state = states.into_iter().next().flatten();
        let in_flight = counter.limit.term().is_some().then(|| {
            let slots = state.as_ref().and_then(State::in_flight);
            InFlight::live(slots, now).slots()
        });
        let full_in_us = counter.limit.full_in_us(state.as_ref(), now);
        Ok(CounterView {
            remaining: counter.limit.remaining(state.as_ref(), now),
            full_in_us: in_flight.is_none().then_some(full_in_us),
            is_unused: in_flight.map_or(full_in_us == 0, |slots| slots.total() == 0),
            in_flight,
            counter,
        })
    }

    /// Has one counter begin anew: a bucket is full, and of slots none is taken. Leases that hold some end, as
    /// far as this counter goes; their holders are not told.
    ///
    /// # Errors
    ///
    /// Where it is not known which is meant, or the store did not say that it is done.
    pub async fn reset(&self, word: &str, values: &[String]) -> Result<Counter, NotOrdered> {
        let (placed, counter) = self.counter_meant_by(word, values)?;
        let keys = [counter.key.clone()];
        self.store.forget(&keys).await?;
        self.local.forget(&keys);
        self.orders.resets.fetch_add(1, Ordering::Relaxed);
        tracing::info!("an operator has reset a counter of {}", placed.path);
        Ok(counter)
    }

    fn counter_meant_by(
        &self,
        word: &str,
        values: &[String],
    ) -> Result<(Arc<PlacedRule>, Counter), NotOrdered> {
        let rules = self.rules();
        let placed = rules.rule_meant_by(word)?;
        let counter = rules.counter_of(&placed, values)?;
        Ok((placed, counter))
    }
}
