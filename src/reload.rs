//! Rules that change while they are served: what the rule files say is put in force, whole or not at all.
//!
//! ```text
//! heard of a change, asked, or half a second is over
//!   └─▶ read ── as before ──▶ nothing to do
//!         └── other bytes ──▶ read until they stand still ──▶ understand ──▶ read: still the same?
//!                                                               │ valid       └─▶ put in force
//!                                                               └─ not valid ───▶ say so; the old ones stay
//! ```
//!
//! What counts is the bytes, not what the file system tells of changes: `watcher.rs` listens to that, so that
//! a change is seen at once, but a mount that tells nothing is looked at all the same. Files that change
//! together are taken together, once they have stood still for a moment, and only if they were still the
//! same when they had been understood: so half of a directory is not taken for all of it.
//!
//! Reading and understanding happen on threads of their own, and what was replaced is freed there: no request
//! waits for them.

mod changes;
#[cfg(test)]
mod tests;
mod watcher;

use crate::{
    clock::{Clock, Timestamp},
    config::{self, Digest, Files, Options},
    decider::{Decider, Replaced},
    rules::{Domain, describe::printable},
    task::{Task, supervise},
    unit::span,
};
use arc_swap::ArcSwap;
use std::{fs, mem, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    signal::unix::Signal,
    task::{self, JoinError},
    time,
};
use watcher::Watcher;

/// How long files must stand still before they are taken. Whoever changes several does so within it.
const SETTLED: Duration = Duration::from_millis(100);

/// How often they are looked at before it is enough that they stand still while they are understood: who
/// writes all the time is not to keep what he has written out of force.
const MOST_LOOKS: u32 = 5;

/// How often they are looked at though nothing was heard of a change.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The rest after a look, for each mebibyte that was begun: other files in the same directory may change all
/// the time, and looking is to cost a few hundredths of a core at most.
const REST: Duration = Duration::from_millis(50);

/// The longest reason that the probe tells, in bytes. The log has all of it.
const LONGEST_TOLD: usize = 4096;

/// How often other rules were found on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReloadCounts {
    /// And put in force.
    pub loaded: u64,
    /// And were not valid.
    pub refused: u64,
}

/// How it stands with the rules on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// How often others were found since the process began.
    pub counts: ReloadCounts,
    /// Since when those that are in force are.
    pub in_force_since: Timestamp,
    /// Everything that is wrong with those that stand there now, as text; `None` where they are in force.
    pub refusal: Option<String>,
}

/// How it stands with the rules on disk, for all who show it.
#[derive(Debug)]
pub struct Reloads {
    clock: Clock,
    condition: ArcSwap<Condition>,
}

impl Reloads {
    /// How it stands.
    pub fn condition(&self) -> Arc<Condition> {
        self.condition.load_full()
    }

    /// What an operator should know who asks whether all is well; `None` where it is.
    pub fn in_words(&self) -> Option<String> {
        let Condition { refusal, in_force_since, .. } = &*self.condition();
        let ago = span(self.clock.now() - *in_force_since);
        refusal.as_ref().map(|reason| format!("{}\n{}", refused(&ago), beginning(reason)))
    }
}

/// Keeps the rules in force equal to those on disk.
#[derive(Debug)]
pub struct Reload {
    paths: Arc<[PathBuf]>,
    options: Options,
    decider: Arc<Decider>,
    reloads: Arc<Reloads>,
    watcher: Watcher,
    /// What was last taken, or refused.
    seen: Digest,
    replaced: Replaced,
}

/// What became of rules that were read.
enum Judged {
    Valid { domains: Vec<Domain>, changes: String, warnings: String },
    Invalid(String),
}

impl Reload {
    /// For the rules on these paths, of which the decider has those with this digest.
    pub fn new(
        paths: Vec<PathBuf>,
        options: Options,
        in_force: Digest,
        decider: Arc<Decider>,
    ) -> Self {
        let clock = Clock::monotonic();
        let (counts, in_force_since) = (ReloadCounts::default(), clock.now());
        let condition = Condition { counts, in_force_since, refusal: None };
        let reloads = Reloads { clock, condition: ArcSwap::from_pointee(condition) };
        Self {
            paths: paths.into(),
            options,
            decider,
            reloads: Arc::new(reloads),
            watcher: Watcher::default(),
            seen: in_force,
            replaced: Replaced::default(),
        }
    }

    /// How it stands with them, from now on.
    pub fn reloads(&self) -> Arc<Reloads> {
        Arc::clone(&self.reloads)
    }

    /// Looks after them for ever. A signal of `asked` has it look at once, and say what it found.
    pub async fn run(mut self, mut asked: Signal) {
        supervise(Task::Reload, async move || self.keep_current(&mut asked).await).await;
    }

    async fn keep_current(&mut self, asked: &mut Signal) {
        let is_pipe =
            |path: &PathBuf| fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir());
        if let Some(pipe) = self.paths.iter().find(|path| is_pipe(path)) {
            let name = pipe.display();
            tracing::warn!(
                "the rules cannot be reloaded: {name} is no file that can be read again"
            );
            return;
        }
        let mut is_asked = false;
        loop {
            self.watch().await;
            let read = self.read().await;
            let mebibytes = u32::try_from(read.0.length() >> 20).unwrap_or(u32::MAX);
            self.look(read, is_asked).await;
            self.replaced.free().await;
            time::sleep(REST.saturating_mul(mebibytes.saturating_add(1))).await;
            is_asked = tokio::select! {
                // Whoever asks is answered, also where a change was heard of at the same time.
                biased;
                _ = asked.recv() => true,
                () = self.watcher.heard() => false,
                () = time::sleep(LOOK_EVERY) => false,
            };
        }
    }

    /// Takes over what stands on disk, where that is new.
    async fn look(&mut self, mut read: (Files, Digest), is_asked: bool) {
        for look in 1.. {
            let digest = read.1;
            // The text of one reading is enough.
            drop(read.0);
            if digest == self.seen {
                if is_asked {
                    self.tell_unchanged();
                }
                return;
            }
            time::sleep(SETTLED).await;
            let again = self.read().await;
            if again.1 != digest && look < MOST_LOOKS {
                read = again;
                continue;
            }
            let (files, digest) = again;
            let began = self.reloads.clock.now();
            let judged = self.judge(files).await;
            let took_ms = (self.reloads.clock.now() - began) / 1000;
            read = self.read().await;
            if read.1 == digest {
                self.seen = digest;
                match judged {
                    Judged::Valid { domains, changes, warnings } => {
                        self.replace(domains).await;
                        self.tell_loaded(&changes, &warnings, took_ms);
                    }
                    Judged::Invalid(reason) => self.tell_refused(reason),
                }
                return;
            }
        }
    }

    /// Sees to it that changes are heard of, from before the files are read.
    async fn watch(&mut self) {
        let (mut watcher, paths) = (mem::take(&mut self.watcher), Arc::clone(&self.paths));
        let watching = task::spawn_blocking(move || {
            watcher.attend(&paths);
            watcher
        });
        self.watcher = watching.await.unwrap_or_default();
    }

    async fn read(&self) -> (Files, Digest) {
        let paths = Arc::clone(&self.paths);
        let reading = task::spawn_blocking(move || {
            let files = config::reread(&paths);
            let digest = files.digest();
            (files, digest)
        });
        // Where nothing was read, nothing is new.
        reading.await.unwrap_or_else(|_| (Files::default(), self.seen))
    }

    async fn judge(&self, files: Files) -> Judged {
        let (options, before) = (self.options, self.decider.rules());
        let judging = task::spawn_blocking(move || {
            let loaded = files.understand(&options);
            if loaded.has_errors() {
                return Judged::Invalid(loaded.errors_only().render(false));
            }
            let changes = changes::in_words(before.written(), &loaded.domains);
            let warnings = loaded.render(false);
            Judged::Valid { domains: loaded.domains, changes, warnings }
        });
        let broken = |error: JoinError| Judged::Invalid(format!("this is a bug: {error}\n"));
        judging.await.unwrap_or_else(broken)
    }

    async fn replace(&mut self, domains: Vec<Domain>) {
        let decider = Arc::clone(&self.decider);
        let replacing = task::spawn_blocking(move || decider.replace_rules(domains));
        if let Ok(replaced) = replacing.await {
            self.replaced.keep(replaced);
        }
    }

    fn tell_loaded(&self, changes: &str, warnings: &str, took_ms: u64) {
        let Condition { mut counts, refusal, .. } = (*self.reloads.condition()).clone();
        counts.loaded += 1;
        let in_force_since = self.reloads.clock.now();
        let condition = Condition { counts, in_force_since, refusal: None };
        self.reloads.condition.store(Arc::new(condition));
        let again = if refusal.is_some() { ", which are valid again" } else { "" };
        tracing::info!("reloaded the rules{again}, in {took_ms} ms: {changes}");
        let rules = self.decider.rules();
        let gone: Vec<&String> = rules.switches_of_no_rule().map(|(path, _)| path).collect();
        if let Some(first) = gone.first() {
            let (number, first) = (gone.len(), printable(first));
            tracing::warn!(
                "what operators have said at run time of rules that there are not any more does nothing ({number}, such as {first}): see `tollgate rule list`"
            );
        }
        if !warnings.is_empty() {
            tracing::warn!("the rules in force are valid, but:\n{}", warnings.trim_end());
        }
    }

    fn tell_refused(&self, reason: String) {
        let mut condition = (*self.reloads.condition()).clone();
        condition.counts.refused += 1;
        let ago = span(self.reloads.clock.now() - condition.in_force_since);
        tracing::error!("{}\n{}", refused(&ago), reason.trim_end());
        condition.refusal = Some(reason);
        self.reloads.condition.store(Arc::new(condition));
    }

    fn tell_unchanged(&self) {
        match self.reloads.in_words() {
            None => tracing::info!("told to reload, but the rules are unchanged"),
            Some(words) => {
                tracing::error!("told to reload, but nothing has changed: {}", words.trim_end())
            }
        }
    }
}

/// That rules are refused, and what is done instead.
fn refused(ago: &str) -> String {
    format!("the rules on disk are not valid, so those loaded {ago} ago serve on:")
}

/// The beginning of a reason, in whole lines.
fn beginning(reason: &str) -> String {
    let mut told = String::new();
    for line in reason.trim_end().lines() {
        if told.len() + line.len() > LONGEST_TOLD {
            told.push_str("… the log has the rest\n");
            break;
        }
        told.push_str(line);
        told.push('\n');
    }
    told
}
