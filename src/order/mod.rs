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

/// What the fields of orders begin with. On and off is one order, shadow mode and back another: who says one takes
/// nothing back of the other.
const ON: &str = "on ";
const SHADOW: &str = "shadow ";

/// What the fields of limits begin with.
pub const LIMIT: &str = "limit ";

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
            if let Some(path) = field.strip_prefix(ON) {
                if let Ok(enabled) = text.parse() {
                    orders.switches.entry(path.to_owned()).or_default().enabled = Some(enabled);
                }
            } else if let Some(path) = field.strip_prefix(SHADOW) {
                if let Ok(shadow) = text.parse() {
                    orders.switches.entry(path.to_owned()).or_default().shadow_mode = Some(shadow);
                }
            } else if let Some(path) = field.strip_prefix(LIMIT)
                && let Ok(set) = serde_json::from_str::<SetLimit>(text)
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
    /// What puts the switch of what is on this path into a position.
    pub fn switch(path: &str, position: Position) -> Vec<Self> {
        let order = |prefix: &str, is: Option<bool>| Self {
            field: format!("{prefix}{path}"),
            text: is.map(|is| is.to_string()),
        };
        match position {
            Position::On => vec![order(ON, Some(true))],
            Position::Off => vec![order(ON, Some(false))],
            Position::Shadow => vec![order(SHADOW, Some(true))],
            Position::Enforce => vec![order(SHADOW, Some(false))],
            Position::Clear => vec![order(ON, None), order(SHADOW, None)],
        }
    }

    /// A limit of the counter on this path, or none any more.
    pub fn limit(path: &str, set: Option<&SetLimit>) -> Self {
        // It has nothing that JSON has no form for.
        let text = |set| serde_json::to_string(set).unwrap_or_default();
        Self { field: format!("{LIMIT}{path}"), text: set.map(text) }
    }
}

/// What a field is about, for the log: the path of what a switch is about. Of a limit that is a caller's name, and
/// not told.
pub fn subject(field: &str) -> &str {
    let path = field.strip_prefix(ON).or_else(|| field.strip_prefix(SHADOW));
    path.unwrap_or("a limit")
}
