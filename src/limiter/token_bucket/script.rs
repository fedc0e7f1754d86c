//! The bucket in Lua: what the script needs to know of a limit.

use super::Limit;

/// The algorithm, in Lua.
pub const SCRIPT: &str = include_str!("../../../lua/token_bucket/limit.lua");

/// Giving back, in Lua.
pub const LEDGER_SCRIPT: &str = include_str!("../../../lua/token_bucket/ledger.lua");

impl Limit {
    /// Its parameters, in the order in which the script reads them: whole numbers, at most 2^53.
    #[expect(clippy::cast_precision_loss, reason = "grains are counted up to 2^53, which is exact")]
    pub fn arguments(&self) -> [f64; 5] {
        [
            f64::from(self.burst),
            u8::from(self.overdraw).into(),
            self.grains.per_token as f64,
            self.grains.per_step as f64,
            self.grains.step_us as f64,
        ]
    }
}
