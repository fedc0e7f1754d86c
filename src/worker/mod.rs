//! What workers report of themselves, and what it amounts to: how busy a pool is, how many slots it has, and
//! how hard it has been pressed of late.
//!
//! [`Load`] is what one worker says. [`Workers`] is what stands in a store for the whole pool, [`Worker`] for
//! each worker, so that its next report takes the place of the last.

mod load;
#[cfg(test)]
pub(crate) mod samples;
mod settings;
#[cfg(test)]
mod tests;
mod workers;

pub use load::{
    Instant, InvalidLoad, Load, MOST_SLOTS, MOST_UTILIZATION_PARTS, Outcome, Report, Reported,
    Worker,
};
pub use settings::{LONGEST_REPORT_TTL_US, LONGEST_SHEDDING_US, Settings};
pub use workers::{Bucket, Counts, MOST_WORKERS, NOBODY_KNOWS, Workers};
