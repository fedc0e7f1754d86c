//! One call among all that may take a lease under the same id.
//!
//! Ids may be repeated: a caller asks again under the id that he chose, requests share the name that they
//! carry. So what a call took whose caller was never told is given back by the attempt, and not by the id,
//! under which somebody else may hold something by then.

/// Random, so that no two are the same; `NONE` is of nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempt(u64);

impl Attempt {
    /// Of nobody.
    pub const NONE: Self = Self(0);

    /// The attempt of this number, which is cut to what a Lua number holds exactly.
    pub const fn of(number: u64) -> Self {
        Self(number >> 11)
    }

    /// The attempt of a number as [`Attempt::number`] told it.
    pub const fn read(number: u64) -> Self {
        Self(number)
    }

    /// Its number, below 2^53.
    pub const fn number(self) -> u64 {
        self.0
    }
}
