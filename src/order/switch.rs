//! Switches: rules on and off, in shadow mode and enforced.
//!
//! What is said of a domain, or of everything, is like a main switch: off, no limit below it takes part, and what
//! is said of a rule does not help. What is said of a rule takes the place of what its file says.

use super::Orders;
use serde::Serialize;

/// The path of everything. No domain has it: there, a `*` is written otherwise.
pub const EVERYTHING: &str = "*";

/// What is said of a rule, a domain or everything; `None` where nothing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Switch {
    /// Whether it takes part in decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether it is checked and charged, but refuses nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow_mode: Option<bool>,
}

/// Where an operator puts a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// To take part.
    On,
    /// To take no part.
    Off,
    /// To refuse nothing.
    Shadow,
    /// To refuse.
    Enforce,
    /// As the files say.
    Clear,
}

impl Position {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::On, Self::Off, Self::Shadow, Self::Enforce, Self::Clear];

    /// Its name, as the command and the admin port have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::Enforce => "enforce",
            Self::Clear => "clear",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Whether a rule is on, and whether in shadow mode, by what its file says and by these orders. A rule that is no
/// limit goes by its own switch alone: the main switches are for what refuses.
pub fn in_force(
    orders: &Orders,
    (domain, rule): (&str, &str),
    is_limit: bool,
    (is_on, is_shadow): (bool, bool),
) -> (bool, bool) {
    let of = |path: &str| orders.switches.get(path).copied().unwrap_or_default();
    let own = of(rule);
    let mains = [of(EVERYTHING), of(domain)];
    let is_off = is_limit && mains.iter().any(|main| main.enabled == Some(false));
    let in_shadow = mains.iter().any(|main| main.shadow_mode == Some(true));
    let is_on = own.enabled.unwrap_or(is_on) && !is_off;
    (is_on, own.shadow_mode.unwrap_or(is_shadow) || in_shadow)
}
