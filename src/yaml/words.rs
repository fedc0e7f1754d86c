//! Words of a file: lists of them in a sentence, and the word that was meant by a misspelled one.

/// Words as a list in a sentence.
pub fn list(words: &[&str]) -> String {
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        let last = index + 1 == words.len();
        text.push_str(match index {
            0 => "",
            _ if last => " and ",
            _ => ", ",
        });
        text.push('`');
        text.push_str(word);
        text.push('`');
    }
    text
}

/// The word that was probably meant.
pub fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    /// Longer words are not compared: that takes time.
    const LONGEST: usize = 40;
    let word = word.to_lowercase();
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let near = |candidate: &&str| distance(&word, candidate);
    let best = candidates.iter().copied().min_by_key(near)?;
    (near(&best) <= (length / 2).clamp(1, 3)).then_some(best)
}

/// How many letters must be put in, left out or replaced to make one word of the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        let mut next = vec![left];
        for (other, above) in to.chars().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(letter != other)).min(above + 1).min(left + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[&str] = &["domain", "lease_key", "on_store_failure", "pools", "descriptors"];

    #[test]
    fn distance_counts_letters() {
        assert_eq!(distance("rate_limit", "rate_limit"), 0);
        assert_eq!(distance("ratelimit", "rate_limit"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
    }

    #[test]
    fn a_word_that_is_far_from_all_is_close_to_none() {
        assert_eq!(closest("descriptor", WORDS), Some("descriptors"));
        assert_eq!(closest("Domain", WORDS), Some("domain"));
        assert_eq!(closest("version", WORDS), None);
        assert_eq!(closest(&"d".repeat(10_000), WORDS), None);
    }
}
