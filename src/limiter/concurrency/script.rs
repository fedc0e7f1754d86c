//! Concurrency in Lua: what the script needs to know of a limit.

use super::Limit;

/// The algorithm, in Lua.
pub const SCRIPT: &str = include_str!("../../../lua/concurrency/limit.lua");

impl Limit {
    /// Its parameters, in the order in which the script reads them: whole numbers, at most 2^53.
    #[expect(clippy::cast_precision_loss, reason = "a day has fewer than 2^53 microseconds")]
    pub fn arguments(&self) -> [f64; 2] {
        [self.max.into(), self.term.as_micros() as f64]
    }
}
