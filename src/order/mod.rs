//! Orders: what operators say of the rules at run time, beside what the files say.
//!
//! A [`Switch`] is about a rule, a domain or everything; a [`SetLimit`] is about one counter of a rule, such as
//! one customer's. Orders are no rules: they are kept in the store, for all replicas, and stand there as text,
//! one field for each, so that one may be given without knowing of the others. What is unreadable there, or
//! about rules that nobody has, does nothing.

mod limit;
mod switch;
#[cfg(test)]
mod tests;

pub use limit::{Amount, SetLimit};
pub use switch::{EVERYTHING, Position, Switch, in_force};

use std::collections::BTreeMap;

/// What the fields of switches and of limits begin with.
const SWITCH: &str = "switch ";
const LIMIT: &str = "limit ";

/// All orders that hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    /// By the path of what they are about: `*` for everything, a domain's, or a rule's.
    pub switches: BTreeMap<String, Switch>,
    /// By the path of the counter that they are about.
    pub limits: BTreeMap<String, SetLimit>,
}

impl Orders {
    /// The orders that stand in these fields, but for those whose time is over. `now_us` is the time by the
    /// store's clock.
    pub fn read<'t>(fields: impl Iterator<Item = (&'t str, &'t str)>, now_us: u64) -> Self {
        let mut orders = Self::default();
        for (field, text) in fields {
            if let Some(path) = field.strip_prefix(SWITCH) {
                if let Ok(switch) = serde_json::from_str::<Switch>(text) {
                    orders.switches.insert(path.to_owned(), switch);
                }
            } else if let Some(path) = field.strip_prefix(LIMIT)
                && let Ok(set) = serde_json::from_str::<SetLimit>(text)
                && set.amount.is_sound()
                && set.until_us.is_none_or(|until_us| until_us > now_us)
            {
                orders.limits.insert(path.to_owned(), set);
            }
        }
        orders
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.switches.is_empty() && self.limits.is_empty()
    }

    /// When the first of them ends, by the store's clock in microseconds.
    pub fn first_end_us(&self) -> Option<u64> {
        self.limits.values().filter_map(|set| set.until_us).min()
    }
}

/// An order as it stands in a store: the field, and its text; `None` takes it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// What it is about.
    pub field: String,
    /// What it says.
    pub text: Option<String>,
}

impl Order {
    /// A switch of what is on this path; one that says nothing is taken back.
    pub fn switch(path: &str, switch: Switch) -> Self {
        let text = (switch != Switch::default()).then(|| text(&switch));
        Self { field: format!("{SWITCH}{path}"), text }
    }

    /// A limit of the counter on this path, or none any more.
    pub fn limit(path: &str, set: Option<&SetLimit>) -> Self {
        Self { field: format!("{LIMIT}{path}"), text: set.map(text) }
    }

    /// Whether it is about a counter, and not about rules.
    pub fn is_limit(&self) -> bool {
        self.field.starts_with(LIMIT)
    }
}

/// These types have nothing that JSON has no form for.
fn text(order: &impl serde::Serialize) -> String {
    serde_json::to_string(order).unwrap_or_default()
}
