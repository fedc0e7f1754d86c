//! Fleet usage in Lua: what the script needs to know of a limit.

use super::{Capacity, Limit};

/// The algorithm, in Lua.
pub const SCRIPT: &str = include_str!("../../../lua/fleet/limit.lua");

impl Limit {
    /// Its parameters, in the order in which the script reads them: whole numbers, at most 2^53.
    #[expect(clippy::cast_precision_loss, reason = "the microseconds of a day are fewer than 2^53")]
    pub fn arguments(&self) -> [f64; 5] {
        let (capacity, report_ttl_us) = match self.capacity {
            Capacity::Slots(slots) => (slots.into(), 0.0),
            Capacity::Reported { report_ttl, .. } => (0.0, report_ttl.as_micros() as f64),
        };
        [
            capacity,
            self.reserved_parts.into(),
            u8::from(self.critical).into(),
            self.term.as_micros() as f64,
            report_ttl_us,
        ]
    }
}
