//! How a pool's utilization presses on it.

use crate::{lease::Term, unit::WHOLE_PARTS};

/// The longest that `hold_off` and `shed_all_after` may be, each, in microseconds: half an hour.
pub const LONGEST_SHEDDING_US: u64 = 1_800_000_000;

/// The longest that a report may be fresh, in microseconds: ten minutes.
pub const LONGEST_REPORT_TTL_US: u64 = 600_000_000;

/// Into how many reports a worker divides the time for which one is fresh: of so many, all but one may be
/// lost.
const REPORTS_PER_TTL: u64 = 4;

/// When a pool is too busy, and how slowly that is taken notice of.
///
/// ```text
///  slope
///    +1 ┤                                   ╱────────
///       │                                 ╱
///     0 ┤                  ╱────────────╱
///       │          ╱
///    -1 ┤  ╱
///       └──┬───────────────┬────────────┬────┬────────▶ utilization
///          0           good_below  bad_above  1
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Below this utilization pressure falls, in millionths; above 0, and at most `bad_above`.
    pub good_below_parts: u32,
    /// Above this utilization it rises, in millionths; below [`WHOLE_PARTS`].
    pub bad_above_parts: u32,
    /// How long, after a quiet time, a pool may be wholly busy before anything is shed, in microseconds, at
    /// most [`LONGEST_SHEDDING_US`].
    pub hold_off_us: u64,
    /// How long it takes from there until all is shed that may be, in microseconds, above 0 and at most
    /// [`LONGEST_SHEDDING_US`].
    pub shed_all_after_us: u64,
    /// How long a report is fresh.
    pub report_ttl: Term,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            good_below_parts: 700_000,
            bad_above_parts: 800_000,
            hold_off_us: 28_000_000,
            shed_all_after_us: 120_000_000,
            report_ttl: Term::of_micros(20_000_000),
        }
    }
}

impl Settings {
    /// How fast pressure changes at a utilization, in millionths of the fastest: from −1 to +1.
    pub fn slope(&self, utilization_parts: u64) -> i64 {
        let whole = u64::from(WHOLE_PARTS);
        let (good, bad) = (self.good_below_parts.into(), self.bad_above_parts.into());
        let slope = if utilization_parts < good {
            utilization_parts * whole / good
        } else if utilization_parts > bad {
            whole + ((utilization_parts - bad) * whole / (whole - bad).max(1)).min(whole)
        } else {
            whole
        };
        slope.cast_signed() - i64::from(WHOLE_PARTS)
    }

    /// The least and the most pressure, see [`super::Workers::pressure`].
    pub fn bounds(&self) -> (i64, i64) {
        let parts = u64::from(WHOLE_PARTS);
        (-(self.hold_off_us * parts).cast_signed(), (self.shed_all_after_us * parts).cast_signed())
    }

    /// How soon a worker is to report again, in microseconds.
    pub const fn report_again_us(&self) -> u64 {
        let apart = self.report_ttl.as_micros() / REPORTS_PER_TTL;
        if apart == 0 { 1 } else { apart }
    }

    /// As JSON, named as in a rule file.
    pub fn to_json(&self) -> serde_json::Value {
        let share = |parts: u32| f64::from(parts) / f64::from(WHOLE_PARTS);
        let span = |micros: u64| Term::of_micros(micros).in_words();
        serde_json::json!({
            "good_below": share(self.good_below_parts),
            "bad_above": share(self.bad_above_parts),
            "hold_off": if self.hold_off_us == 0 { "0s".to_owned() } else { span(self.hold_off_us) },
            "shed_all_after": span(self.shed_all_after_us),
            "report_ttl": self.report_ttl.in_words(),
        })
    }

    /// As a script is told them.
    #[expect(clippy::cast_precision_loss, reason = "all are far below 2^53")]
    pub fn arguments(&self) -> [f64; 5] {
        [
            self.good_below_parts.into(),
            self.bad_above_parts.into(),
            self.hold_off_us as f64,
            self.shed_all_after_us as f64,
            self.report_ttl.as_micros() as f64,
        ]
    }
}
