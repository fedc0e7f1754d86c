//! Numbers that are drawn to tell processes, epochs and marks apart.

/// A number that nobody else draws: above 0, and below 2^53, so that a script has it exactly.
///
/// # Errors
///
/// Where the operating system has no random numbers.
pub fn draw() -> Result<u64, getrandom::Error> {
    getrandom::u64().map(|number| (number >> 11).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_numbers_are_the_same_and_all_fit() {
        let numbers: HashSet<u64> = (0..1000).map(|_| draw().unwrap()).collect();
        assert_eq!(numbers.len(), 1000);
        assert!(numbers.iter().all(|number| (1..1 << 53).contains(number)));
        // All bits are used.
        assert!(numbers.iter().any(|number| *number >= 1 << 52));
    }
}
