//! Limits that are set at run time for one counter of a rule.

use crate::limiter::{self, Limit, Setting};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::collections::BTreeMap;

/// A limit for one counter of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetLimit {
    /// The path of the rule.
    pub rule: String,
    /// How much is let pass.
    pub amount: Amount,
    /// When it ends, by the store's clock in microseconds; `None` for when it is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_us: Option<u64>,
}

/// How much a limit of a limiter lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    limiter: &'static str,
    setting: Setting,
}

/// What version 0.1 called the limiters here.
const FORMER_NAMES: [(&str, &str); 2] = [("rate", "token_bucket"), ("in_flight", "concurrency")];

impl SetLimit {
    /// Whether this is the text of a limit whose time is over. `now_us` is the time by the store's clock.
    pub fn is_over(text: &str, now_us: u64) -> bool {
        let set = serde_json::from_str::<Self>(text).ok();
        set.and_then(|set| set.until_us).is_some_and(|until_us| until_us <= now_us)
    }
}

impl Amount {
    /// A setting of a limit, and the limit with it; `None` where it does not fit.
    pub fn of(limit: Limit, setting: Setting) -> Option<(Self, Limit)> {
        Some((Self { limiter: limit.limiter(), setting }, limit.set(setting)?))
    }

    /// The limit with this amount in the place of its own; `None` where it is of another limiter.
    pub fn applied_to(self, limit: Limit) -> Option<Limit> {
        if self.limiter == limit.limiter() { limit.set(self.setting) } else { None }
    }
}

/// It stands there as one setting by the name of its limiter.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        BTreeMap::from([(self.limiter, self.setting)]).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut by_limiter = BTreeMap::<String, Setting>::deserialize(from)?.into_iter();
        let (Some((name, setting)), None) = (by_limiter.next(), by_limiter.next()) else {
            return Err(D::Error::custom("an amount is of one limiter"));
        };
        let former = FORMER_NAMES.iter().find(|(former, _)| *former == name);
        let name = former.map_or(name.as_str(), |(_, name)| name);
        let limiter = limiter::NAMES.iter().find(|limiter| **limiter == name);
        let limiter = limiter.ok_or_else(|| D::Error::custom("no limiter has this name"))?;
        Ok(Self { limiter, setting })
    }
}
