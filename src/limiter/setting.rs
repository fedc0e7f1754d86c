//! What an operator sets of a limit at run time, for one counter of a rule.

use crate::unit::Rate;
use serde::{Deserialize, Serialize};

/// The parameters that may be set. A limiter takes those that it has ([`Limiter::set`](super::Limiter::set)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Setting {
    /// So many tokens a period.
    pub rate: Option<Rate>,
    /// So many at once.
    pub burst: Option<u32>,
    /// So many in all.
    pub max: Option<u32>,
}

/// A setting as the store holds it.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Parts {
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u32>,
    /// In microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    period_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
}

impl TryFrom<Parts> for Setting {
    type Error = &'static str;

    fn try_from(Parts { tokens, period_us, burst, max }: Parts) -> Result<Self, Self::Error> {
        let rate = match (tokens, period_us) {
            (Some(tokens), Some(period_us @ 1..)) => Some(Rate { tokens, period_us }),
            (None, None) => None,
            _ => return Err("a rate has tokens and a period above 0"),
        };
        Ok(Self { rate, burst, max })
    }
}

impl From<Setting> for Parts {
    fn from(Setting { rate, burst, max }: Setting) -> Self {
        let tokens = rate.map(|rate| rate.tokens);
        Self { tokens, period_us: rate.map(|rate| rate.period_us), burst, max }
    }
}
