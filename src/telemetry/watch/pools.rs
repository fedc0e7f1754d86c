//! What is worth a line about pools: that load is shed, and that workers have fallen silent.
//!
//! Changes of one kind that are found together are one line, whatever the number of pools: they have one
//! cause, and the limit on lines lets none of them be forgotten over the others.

#[cfg(test)]
mod tests;

use super::Lines;
use crate::{
    clock::Timestamp,
    decider::{PoolView, WorkersView},
    rules::describe::printable,
};
use std::collections::{HashMap, HashSet};
use tracing::Level;

/// The most pools that a line names.
const MOST_NAMED: usize = 5;

/// What the log has been told of pools.
#[derive(Debug)]
pub struct PoolWatch {
    /// By domain and pool.
    told: HashMap<(String, String), Told>,
    shedding: Lines,
    silence: Lines,
}

/// What it has been told of one.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// Of how many classes requests are dropped, at most since nothing was.
    classes: usize,
    voice: Voice,
}

/// Whether its workers are heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Voice {
    /// They never were, so they are not missed.
    #[default]
    Unknown,
    Heard,
    Silent,
}

impl Default for PoolWatch {
    fn default() -> Self {
        Self { told: HashMap::new(), shedding: Lines::of(4), silence: Lines::of(4) }
    }
}

impl PoolWatch {
    /// What to tell now: lines, and how bad they are. What does not fit the limit is told later, if it still
    /// holds then.
    pub fn tell(&mut self, pools: &[PoolView], now: Timestamp) -> Vec<(Level, String)> {
        // Rules that were replaced may have had others.
        let there: HashSet<_> = pools.iter().map(|pool| (&*pool.domain, &*pool.name)).collect();
        self.told.retain(|(domain, name), _| there.contains(&(domain, name)));
        let mut lines = self.tell_shedding(pools, now);
        lines.extend(self.tell_silence(pools, now));
        lines
    }

    /// That more is shed than was, or nothing any more.
    fn tell_shedding(&mut self, pools: &[PoolView], now: Timestamp) -> Vec<(Level, String)> {
        let (mut more, mut shadow, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for (pool, workers) in reporting(pools) {
            // What is shed of fewer classes, and then of more again, has been told.
            match (workers.shed().count(), self.told(pool).classes) {
                (0, 1..) => over.push((pool, busy(workers))),
                (shed, known) if shed > known && workers.is_enforced => {
                    let what = format!("{}, drops {}", busy(workers), workers.shed_in_words());
                    more.push((pool, what));
                }
                (shed, known) if shed > known => {
                    let what = format!("{}, would drop {}", busy(workers), workers.shed_in_words());
                    shadow.push((pool, what));
                }
                _ => {}
            }
        }
        let is_news = !(more.is_empty() && shadow.is_empty() && over.is_empty());
        if !is_news || !self.shedding.may_tell(now) {
            return Vec::new();
        }
        for (pool, workers) in reporting(pools) {
            let (told, shed) = (self.told(pool), workers.shed().count());
            told.classes = if shed == 0 { 0 } else { shed.max(told.classes) };
        }
        lines([
            (Level::WARN, "load is shed", more),
            (Level::INFO, "load would be shed, but for shadow mode", shadow),
            (Level::INFO, "load is shed no more", over),
        ])
    }

    /// That nobody reports any more, or somebody again.
    fn tell_silence(&mut self, pools: &[PoolView], now: Timestamp) -> Vec<(Level, String)> {
        let (mut silent, mut heard) = (Vec::new(), Vec::new());
        for (pool, workers) in reporting(pools) {
            let told = self.told(pool);
            match (workers.utilization_parts, told.voice) {
                (None, Voice::Heard) => {
                    let last = workers.last_report_in_words();
                    let last = last.map(|ago| format!("the last came {ago}"));
                    silent.push((pool, last.unwrap_or_else(|| "the last is forgotten".into())));
                }
                (Some(_), Voice::Silent) => heard.push((pool, busy(workers))),
                (Some(_), Voice::Unknown) => told.voice = Voice::Heard,
                _ => {}
            }
        }
        let is_news = !(silent.is_empty() && heard.is_empty());
        if !is_news || !self.silence.may_tell(now) {
            return Vec::new();
        }
        silent.iter().for_each(|(pool, _)| self.told(pool).voice = Voice::Silent);
        heard.iter().for_each(|(pool, _)| self.told(pool).voice = Voice::Heard);
        lines([
            (
                Level::WARN,
                "no worker's report is fresh, so shedding neither begins nor grows",
                silent,
            ),
            (Level::INFO, "workers report again", heard),
        ])
    }

    fn told(&mut self, pool: &PoolView) -> &mut Told {
        self.told.entry((pool.domain.clone(), pool.name.clone())).or_default()
    }
}

/// Pools whose workers are to report.
fn reporting(pools: &[PoolView]) -> impl Iterator<Item = (&PoolView, &WorkersView)> {
    pools.iter().filter_map(|pool| pool.workers.as_ref().map(|workers| (pool, workers)))
}

fn busy(workers: &WorkersView) -> String {
    workers.busy_in_words().unwrap_or_else(|| "no report is fresh".to_owned())
}

/// What is so of some pools, and how it stands with each.
type News<'p> = (Level, &'static str, Vec<(&'p PoolView, String)>);

/// `load is shed: the pool api of edge (82.4 % busy, drops 3 % of test)`, of what is so of any pool.
fn lines<const KINDS: usize>(news: [News<'_>; KINDS]) -> Vec<(Level, String)> {
    let news = news.into_iter().filter(|(.., pools)| !pools.is_empty());
    let lines = news.map(|(level, what, pools)| {
        let named = pools.iter().take(MOST_NAMED).map(|(pool, how)| {
            format!("the pool {} of {} ({how})", printable(&pool.name), printable(&pool.domain))
        });
        let named = named.collect::<Vec<_>>().join("; ");
        let more = match pools.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        (level, format!("{what}: {named}{more}"))
    });
    lines.collect()
}
