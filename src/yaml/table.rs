//! Tables: what a rule file calls a mapping, and which keys it takes.
//!
//! The reader of a mapping stands beside its table. The check for unknown keys, and the help for one, follow from the
//! tables alone.

use super::{
    diagnostic::{Diagnostic, shown},
    node::Entry,
    words,
};

/// A key, and what it says, in a line.
pub type Key = (&'static str, &'static str);

/// A mapping of rule files.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// What it is called in a sentence. No other table has this name.
    pub name: &'static str,
    /// Where its keys go, for the help on one that is elsewhere.
    pub place: &'static str,
    /// The name of the table whose keys are the likeliest to be put here by mistake.
    pub near: Option<&'static str>,
    /// Its keys, in groups that tables may share.
    pub keys: &'static [&'static [Key]],
}

impl Table {
    /// Whether it takes a key.
    pub fn takes(&self, key: &str) -> bool {
        has(self.keys, key)
    }

    /// What to say of a key that it does not take, where these are all tables.
    pub(super) fn unknown(&self, entry: &Entry<'_>, all: &[&Self]) -> Diagnostic {
        let (key, known) = (&*entry.key, names(self.keys));
        let near = all.iter().filter(|other| self.near == Some(other.name));
        let others = near.chain(all).filter(|other| other.name != self.name);
        let elsewhere = others.into_iter().find(|other| other.takes(key));
        let help = match (words::closest(key, &known), elsewhere) {
            (_, Some(other)) => format!("`{key}` goes {}\n", other.place),
            (Some(close), None) => format!("did you mean `{close}`?\n"),
            (None, None) => String::new(),
        };
        let message = format!("unknown key {} in {}", shown(key), self.name);
        Diagnostic::error(entry.key_place, message)
            .help(format!("{help}{} takes {}", self.name, words::list(&known)))
            .key(key)
    }
}

/// The names of keys in groups.
pub fn names(groups: &[&[Key]]) -> Vec<&'static str> {
    groups.iter().copied().flatten().map(|(name, _)| *name).collect()
}

/// Whether a key is among those in groups.
pub fn has(groups: &[&[Key]], key: &str) -> bool {
    groups.iter().copied().flatten().any(|(name, _)| *name == key)
}
