//! What limits in shadow would have refused: kept here until the store is told of it, and read from there.
//!
//! Every other second what is new goes to the store, which adds up what all processes tell, and forgets what is
//! older than a day. While the store cannot be told, what is new stays here; it grows no further than to one
//! sketch for each of so many rules.

mod describe;
#[cfg(test)]
mod tests;

use super::Decider;
use crate::{
    clock::Timestamp,
    key::{Key, Path},
    order::EVERYTHING,
    rules::{Kind, NotMeant, PlacedRule, Rules, Scope},
    shadow::{Counts, Seen, Sketch, Slots, Window},
    store::StoreError,
    unit::Unit,
};
use std::{
    collections::{HashMap, HashSet},
    future::Future,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
    vec,
};
use tokio::time::{self, MissedTickBehavior};

/// How often the store is told.
const EVERY: Duration = Duration::from_secs(2);

/// The most rules that are reported on. Those that come first have a place, for as long as a request meets them
/// once a day.
const MOST_RULES: usize = 256;

/// What limits in shadow did that the store has not been told.
#[derive(Debug, Default)]
pub(super) struct Shadow(Mutex<Untold>);

#[derive(Debug, Default)]
struct Untold {
    /// By their paths.
    rules: HashMap<Box<str>, Followed>,
    /// How many rules found no place.
    left_out: usize,
    /// Why the store could not be told of the last.
    why: Option<String>,
}

/// A rule that is reported on.
#[derive(Debug, Default)]
struct Followed {
    seen: Seen,
    /// Whom it would have refused since the last time that the store was told.
    sketch: Sketch,
    /// When it last did anything.
    met: Timestamp,
}

/// Paths of rules, and how it stands with them.
type Chosen = Vec<(String, Standing)>;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum NoShadowReport {
    /// It is not known what is meant.
    #[error(transparent)]
    NotMeant(#[from] NotMeant),
    /// The store cannot be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What limits in shadow would have refused.
#[derive(Debug)]
pub struct ShadowReport {
    /// Rule by rule, in the order of the files.
    pub rules: Vec<ShadowView>,
    /// How many rules in shadow are not reported on, for there are too many.
    pub left_out: usize,
    /// Why this process could not tell the store what it has counted; `None` where it could.
    pub untold: Option<String>,
}

/// What one rule did in shadow.
#[derive(Debug)]
pub struct ShadowView {
    /// Its path.
    pub rule: String,
    /// Whether it still is in shadow.
    pub standing: Standing,
    /// Its time.
    now: Timestamp,
    slots: Slots,
}

/// How it stands with a rule that is or was in shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It refuses nobody.
    InShadow,
    /// Not any more.
    Left,
    /// There is no such rule, any more at least.
    Gone,
}

impl Standing {
    /// Its name, in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InShadow => "in_shadow",
            Self::Left => "left_shadow",
            Self::Gone => "gone",
        }
    }
}

impl ShadowView {
    /// What it did in a window: how many requests, and whom it would have refused how often at least, the
    /// heaviest first.
    pub fn over(&self, window: Window) -> (Counts, Vec<(Box<str>, u64)>) {
        self.slots.over(window, self.now)
    }

    /// Whether it did anything within a day.
    fn is_empty(&self) -> bool {
        self.slots.are_over(self.now)
    }
}

impl Shadow {
    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of who would have been refused by a rule.
    pub(super) fn would_refuse(&self, rule: &str, key: &Key) {
        if let Some(followed) = self.untold().follow(rule) {
            followed.sketch.count(key.path());
        }
    }

    /// Takes out what is new, rule by rule.
    fn take(&self, rules: &Rules, now: Timestamp) -> Vec<(Box<str>, Seen)> {
        let met = rules.placed().iter().filter(|placed| placed.tally.has_shadowed());
        let met: Vec<&Arc<PlacedRule>> = met.collect();
        // Requests wait for this: what takes a while comes after it.
        let mut news = self.untold().take(&met, now);
        for (_, seen, sketch) in &mut news {
            seen.top.merge(&sketch.take());
        }
        news.into_iter().map(|(rule, seen, _)| (rule, seen)).collect()
    }

    /// Puts back what the store could not be told.
    fn put_back(&self, news: impl Iterator<Item = (Box<str>, Seen)>) {
        let mut untold = self.untold();
        for (rule, seen) in news {
            if let Some(followed) = untold.follow(&rule) {
                followed.seen.add(&seen);
            }
        }
    }
}

/// What is taken out and not sent yet. It is put back when sending ends early: by an error, a panic, or because it is
/// not waited for any more.
struct Unsent<'s> {
    shadow: &'s Shadow,
    news: vec::IntoIter<(Box<str>, Seen)>,
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if !self.news.as_slice().is_empty() {
            self.shadow.put_back(mem::take(&mut self.news));
        }
    }
}

impl Untold {
    /// Takes out what is new, with what these rules have counted.
    fn take(&mut self, met: &[&Arc<PlacedRule>], now: Timestamp) -> Vec<(Box<str>, Seen, Sketch)> {
        self.left_out = 0;
        for placed in met {
            match self.follow(&placed.path) {
                Some(followed) => followed.seen.counts += placed.tally.take_shadowed(),
                None => self.left_out += 1,
            }
        }
        let mut news = Vec::new();
        for (path, followed) in &mut self.rules {
            if !followed.seen.is_empty() || !followed.sketch.is_empty() {
                followed.met = now;
                let (seen, sketch) =
                    (mem::take(&mut followed.seen), mem::take(&mut followed.sketch));
                news.push((path.clone(), seen, sketch));
            }
        }
        self.rules.retain(|_, followed| now - followed.met < Unit::Day.micros());
        news
    }

    /// What is new of a rule; `None` where too many others have a place.
    fn follow(&mut self, rule: &str) -> Option<&mut Followed> {
        if !self.rules.contains_key(rule) {
            if self.rules.len() >= MOST_RULES {
                return None;
            }
            self.rules.insert(rule.into(), Followed::default());
        }
        self.rules.get_mut(rule)
    }
}

impl Decider {
    /// Tells the store every other second what limits in shadow did, until `over` completes; and then once more.
    pub async fn keep_telling_shadow(&self, over: impl Future<Output = ()> + Send) {
        let mut ticks = time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(over);
        let mut is_over = false;
        while !is_over {
            tokio::select! {
                _ = ticks.tick() => {}
                () = &mut over => is_over = true,
            }
            self.tell_shadow().await;
        }
    }

    async fn tell_shadow(&self) {
        // What is known to fail needs not be tried.
        if self.store.condition().down.is_some() {
            return;
        }
        let now = self.clock.now();
        let news = self.shadow.take(&self.rules(), now).into_iter();
        let mut news = Unsent { shadow: &self.shadow, news };
        for (rule, seen) in news.news.by_ref() {
            let told = self.store.tell_shadow(now, &rule, &seen).await;
            match told {
                Ok(()) => self.shadow.untold().why = None,
                // Told twice, it would be too much for a whole day.
                Err(error) if error.may_be_done() => {}
                Err(error) => {
                    let why = match error {
                        StoreError::Refused(reason) => reason,
                        error => error.to_string(),
                    };
                    self.shadow.put_back([(rule, seen)].into_iter());
                    self.shadow.untold().why = Some(why);
                    return;
                }
            }
        }
    }

    /// What limits in shadow would have refused: those that are in shadow now, and those that this process has
    /// met there within a day; of all rules, or of the one or the domain that a word means. A path is looked up
    /// also where there is no such rule any more.
    ///
    /// # Errors
    ///
    /// Where the word means nothing, or several things; or the store cannot be asked.
    pub async fn shadow_report(
        self: &Arc<Self>,
        word: Option<&str>,
    ) -> Result<ShadowReport, NoShadowReport> {
        let (chosen, not_meant) = self.chosen(word)?;
        let decider = Arc::clone(self);
        // What is on its way to the store gets there, whether or not the asker waits.
        let telling = tokio::spawn(async move { decider.tell_shadow().await });
        // What is lost with a bug is lost.
        let _ = telling.await;
        let mut rules = Vec::new();
        for (rule, standing) in chosen {
            let (now, slots) = self.store.shadow(self.clock.now(), &rule).await?;
            let view = ShadowView { rule, standing, now, slots };
            if standing != Standing::Gone || !view.is_empty() {
                rules.push(view);
            }
        }
        if let Some(not_meant) = not_meant.filter(|_| rules.is_empty()) {
            return Err(not_meant.into());
        }
        let untold = self.shadow.untold();
        Ok(ShadowReport { rules, left_out: untold.left_out, untold: untold.why.clone() })
    }

    /// The paths of the rules to report on; and why it is not known which is meant, where it may be one that is
    /// gone.
    fn chosen(&self, word: Option<&str>) -> Result<(Chosen, Option<NotMeant>), NotMeant> {
        let rules = self.rules();
        let scope = match word.map(|word| rules.meant_by(word)).transpose() {
            Ok(scope) => scope,
            Err(NotMeant::Nothing { word, near }) => {
                let gone = vec![(word.clone(), Standing::Gone)];
                return Ok((gone, Some(NotMeant::Nothing { word, near })));
            }
            Err(several) => return Err(several),
        };
        let followed: HashSet<Box<str>> = self.shadow.untold().rules.keys().cloned().collect();
        let limits = rules.placed().iter().filter(|it| matches!(it.rule.kind, Kind::Limit(_)));
        let chosen = limits.filter_map(|placed| {
            let is_in_shadow = self.is_in_shadow(placed);
            let is_known = is_in_shadow || followed.contains(&placed.path);
            let is_chosen = match &scope {
                None => is_known,
                Some(Scope { path, rule: Some(_) }) => *placed.path == **path,
                Some(Scope { path, rule: None }) => is_known && is_in(placed, path),
            };
            let standing = if is_in_shadow { Standing::InShadow } else { Standing::Left };
            is_chosen.then(|| (placed.path.to_string(), standing))
        });
        let mut chosen: Chosen = chosen.collect();
        if let (Some(scope), true) = (scope, chosen.is_empty()) {
            // It may be a rule that is gone, but not what operators have said of it.
            chosen.push((scope.path, Standing::Gone));
        }
        Ok((chosen, None))
    }

    /// Whether a rule is checked, and refuses nobody.
    fn is_in_shadow(&self, placed: &PlacedRule) -> bool {
        placed.rule.enabled && (placed.rule.shadow_mode || self.modes.shadow)
    }
}

/// Whether a rule is in the domain of this path, or all of them are meant.
fn is_in(placed: &PlacedRule, path: &str) -> bool {
    path == EVERYTHING || Path::of_domain(placed.domain.as_bytes()).as_str() == path
}
