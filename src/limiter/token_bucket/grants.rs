//! Slices of a bucket: tokens that a replica may take ahead of need, and give back.

use super::Limit;
use crate::unit::WHOLE_PARTS;

/// How much a replica may take ahead of need, and how long it may keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grants {
    /// The most that it may have in hand, a share of the burst in millionths.
    pub share_parts: u32,
    /// How long after they were taken tokens may be spent, in microseconds.
    pub max_age_us: u32,
}

impl Grants {
    /// What is meant where nothing is said of it: 5 %, for 100 ms.
    pub const DEFAULT: Self = Self { share_parts: 50_000, max_age_us: 100_000 };

    /// For people: `5% for 100ms`.
    pub fn in_words(self) -> String {
        let percentage = f64::from(self.share_parts) / f64::from(WHOLE_PARTS / 100);
        format!("{percentage}% for {}", self.max_age())
    }

    /// What it is as JSON, named as in a rule file.
    pub fn to_json(self) -> serde_json::Value {
        let share = f64::from(self.share_parts) / f64::from(WHOLE_PARTS);
        serde_json::json!({ "share": share, "max_age": self.max_age() })
    }

    /// The age as a rule file writes it.
    fn max_age(self) -> String {
        match self.max_age_us / 1000 {
            millis if millis % 1000 == 0 => format!("{}s", millis / 1000),
            millis => format!("{millis}ms"),
        }
    }
}

impl Limit {
    /// The most tokens that a replica may have in hand, at least one; none where slices may not be taken.
    pub fn most_in_hand(&self) -> u64 {
        let Some(grants) = self.grants else { return 0 };
        let parts = u64::from(self.burst) * u64::from(grants.share_parts);
        parts.div_ceil(u64::from(WHOLE_PARTS))
    }
}
