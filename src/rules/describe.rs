//! Rules for people: as a tree, each limit with the path by which it is addressed, and as JSON.

mod json;
mod tree;

pub use json::{domains_json, json};
pub use tree::{printable, tree};

use super::model::{Descriptor, Domain};
use crate::key::Path;

/// What leads to a descriptor.
struct Above<'d> {
    path: Path,
    /// The keys of the entries, from the top.
    keys: Vec<&'d str>,
}

impl<'d> Above<'d> {
    /// What leads to the top-level descriptors of a domain.
    fn of_domain(domain: &Domain) -> Self {
        Self { path: Path::of_domain(domain.name.as_bytes()), keys: Vec::new() }
    }

    /// What leads to those that stand in it, and to its limits.
    fn below(&self, descriptor: &'d Descriptor) -> Self {
        let mut keys = self.keys.clone();
        keys.push(&descriptor.key);
        Self { path: descriptor.path(&self.path), keys }
    }

    /// The key of an entry, the first being 0.
    fn key(&self, place: usize) -> &'d str {
        self.keys.get(place).copied().unwrap_or_default()
    }

    /// The same, if it is another than the last one's, which limits go by unless they say so.
    fn key_above(&self, place: usize) -> Option<&'d str> {
        (place + 1 != self.keys.len()).then(|| self.key(place))
    }
}
