//! Numbers as Lua packs them, which is how Redis holds states.

use crate::clock::Timestamp;

/// The largest number that stands there.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// Little-endian doubles, all of them whole.
#[derive(Debug)]
pub struct Numbers<'a>(std::slice::Iter<'a, [u8; 8]>);

impl<'a> Numbers<'a> {
    /// Those in these bytes; `None` where some bytes are left over.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks();
        rest.is_empty().then(|| Self(numbers.iter()))
    }

    /// Whether all were read.
    pub fn are_over(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    /// The next one; `None` where there is none, or it is not whole.
    pub fn whole(&mut self) -> Option<i64> {
        let number = f64::from_le_bytes(*self.0.next()?);
        #[expect(clippy::cast_possible_truncation, reason = "whole, and at most 2^53")]
        (number.fract() == 0.0 && number.abs() <= LARGEST).then_some(number as i64)
    }

    /// The next one, which is not negative.
    pub fn count(&mut self) -> Option<u64> {
        self.whole()?.try_into().ok()
    }

    /// The next one as an instant.
    pub fn instant(&mut self) -> Option<Timestamp> {
        self.count().map(Timestamp::from_micros)
    }
}
