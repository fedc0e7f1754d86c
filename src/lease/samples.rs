//! What tests need of leases: any term.

use super::LONGEST_TERM_US;
use proptest::prelude::*;

/// A term whose leases end exactly so much later, on a step of a microsecond: so that something happens at
/// the very instant at which a lease ends.
pub(crate) const EXACT_US: u64 = 32;

/// The length of a term, in microseconds.
pub(crate) fn any_term_us() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(EXACT_US),
        1..=100_u64,
        1..=10_000_000_u64,
        Just(60_000_000),
        1..=LONGEST_TERM_US
    ]
}
