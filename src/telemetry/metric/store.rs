//! How it stands with the store.

use super::{Instruments, flag, number};
use crate::store::Store;
use opentelemetry::KeyValue;

pub(super) fn register(instruments: &Instruments) {
    instruments.gauge(
        "tollgate.store.up",
        "",
        "1 where the store can be used, else 0",
        |sources, tell| {
            let store = sources.decider.store();
            let kind = match store {
                Store::Memory(_) => "memory",
                Store::Redis(_) => "redis",
            };
            tell(flag(store.condition().down.is_none()), &[KeyValue::new("store", kind)]);
        },
    );
    instruments.gauge(
        "tollgate.store.breaker.open",
        "",
        "1 while the store is not asked because it gave no answers, else 0",
        |sources, tell| tell(flag(sources.decider.store().condition().is_silent), &[]),
    );
    instruments.counter(
        "tollgate.store.breaker.openings",
        "How often the store was not asked any more for a while",
        |sources, tell| tell(sources.decider.store().condition().openings, &[]),
    );
    instruments.counter(
        "tollgate.store.errors",
        "Calls that the store did not decide",
        |sources, tell| {
            let failures = sources.decider.store().condition().failures;
            for (class, count) in [
                ("unreachable", failures.unreachable),
                ("silent", failures.silent),
                ("late", failures.late),
                ("busy", failures.busy),
                ("refused", failures.refused),
                ("unreadable", failures.unreadable),
            ] {
                tell(count, &[KeyValue::new("class", class)]);
            }
        },
    );
    instruments.counter(
        "tollgate.store.denials",
        "Requests that were refused without asking the store, for it had refused as much just before",
        |sources, tell| tell(sources.decider.store().condition().denials, &[]),
    );
    instruments.counter(
        "tollgate.store.losses",
        "How often the store was found to have lost states: all of them, or what was written last",
        |sources, tell| {
            let losses = sources.decider.store().condition().losses;
            tell(losses.all, &[KeyValue::new("what", "all")]);
            tell(losses.last, &[KeyValue::new("what", "last")]);
        },
    );
    instruments.counter(
        "tollgate.store.late_charges",
        "Requests that may have been charged after they had been answered",
        |sources, tell| {
            let charges = sources.decider.store().condition().late_charges;
            tell(charges.given_back, &[KeyValue::new("outcome", "given_back")]);
            tell(charges.kept, &[KeyValue::new("outcome", "kept")]);
        },
    );
    instruments.counter(
        "tollgate.grants.decisions",
        "Requests that were decided by tokens in hand, without asking the store",
        |sources, tell| {
            if let Some(grants) = sources.decider.store().grants() {
                tell(grants.served, &[]);
            }
        },
    );
    instruments.counter(
        "tollgate.grants.tokens",
        "Tokens that were taken out of shared buckets ahead of need, and what became of them",
        |sources, tell| {
            let Some(grants) = sources.decider.store().grants() else { return };
            for (event, count) in [
                ("taken", grants.taken),
                ("spent", grants.spent),
                ("returned", grants.returned),
                ("lost", grants.lost),
            ] {
                tell(count, &[KeyValue::new("event", event)]);
            }
        },
    );
    instruments.gauge("tollgate.grants.in_hand", "", "Tokens in hand", |sources, tell| {
        if let Some(grants) = sources.decider.store().grants() {
            tell(number(grants.in_hand()), &[]);
        }
    });
    instruments.gauge("tollgate.keys", "", "Keys in the memory store", |sources, tell| {
        if let Store::Memory(memory) = sources.decider.store() {
            tell(number(memory.len() as u64), &[]);
        }
    });
    instruments.gauge(
        "tollgate.keys.limit",
        "",
        "The most keys that the memory store holds",
        |sources, tell| {
            if let Store::Memory(memory) = sources.decider.store() {
                tell(number(memory.max_keys() as u64), &[]);
            }
        },
    );
    instruments.counter(
        "tollgate.keys.forgotten",
        "Live keys that the memory store forgot for want of room",
        |sources, tell| tell(sources.decider.store().condition().forgotten_live, &[]),
    );
    instruments.gauge(
        "tollgate.replicas",
        "",
        "How many processes share the store, as far as it is known",
        |sources, tell| {
            if let Some(replicas) = sources.decider.store().replicas() {
                tell(f64::from(replicas), &[]);
            }
        },
    );
}
