//! Fleet usage in Lua: what the script needs to know of a limit.

use super::Limit;

/// The algorithm, in Lua.
pub const SCRIPT: &str = include_str!("../../../lua/fleet/limit.lua");

impl Limit {
    /// Its parameters, in the order in which the script reads them: whole numbers, at most 2^53.
    #[expect(
        clippy::cast_precision_loss,
        reason = "neither slots nor the microseconds of a day are as many as 2^53"
    )]
    pub fn arguments(&self) -> [f64; 4] {
        [
            self.capacity.into(),
            self.reserved() as f64,
            u8::from(self.critical).into(),
            self.term.as_micros() as f64,
        ]
    }
}
