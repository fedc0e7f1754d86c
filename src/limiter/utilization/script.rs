//! The utilization shedder in Lua: what the script needs to know of a limit.

use super::{Draw, Limit};

/// The algorithm, in Lua.
pub const SCRIPT: &str = include_str!("../../../lua/utilization/limit.lua");

impl Limit {
    /// Its parameters, in the order in which the script reads them: whole numbers, at most 2^53.
    #[expect(clippy::cast_precision_loss, reason = "minutes have fewer than 2^53 microseconds")]
    pub fn arguments(&self) -> [f64; 9] {
        let [good_below, bad_above, hold_off_us, shed_all_after_us, report_ttl_us] =
            self.settings.arguments();
        let (number, turns_us) = match self.draw {
            Draw::Request(number) => (number, -1.0),
            Draw::Caller { number, turns_us } => (number, turns_us as f64),
        };
        [
            good_below,
            bad_above,
            hold_off_us,
            shed_all_after_us,
            report_ttl_us,
            self.classes.into(),
            self.class.into(),
            number.into(),
            turns_us,
        ]
    }
}
