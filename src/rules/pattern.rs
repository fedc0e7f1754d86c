//! Values with wildcards.

/// Text in which `*` stands for any bytes, also none. It may stand anywhere, and more than once.
///
/// What stands before the first `*` begins a value that matches, what stands after the last one ends
/// it, and what is between is looked for from left to right in what is left. Each is taken where it
/// is found first: a later one leaves less to the rest. So nothing is ever tried again, and the time
/// is bounded by pattern × value, whoever wrote the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    prefix: Box<[u8]>,
    middle: Box<[Box<[u8]>]>,
    /// `None` where there is no `*`, and the prefix is all of it.
    suffix: Option<Box<[u8]>>,
}

impl Pattern {
    /// The pattern that is written so.
    pub fn new(text: &str) -> Self {
        let mut parts = text.split('*').map(|part| Box::<[u8]>::from(part.as_bytes()));
        let prefix = parts.next().unwrap_or_default();
        let suffix = parts.next_back();
        let middle = parts.filter(|part| !part.is_empty()).collect();
        Self { prefix, middle, suffix }
    }

    /// Whether a value matches.
    pub fn matches(&self, value: &[u8]) -> bool {
        let Some(suffix) = &self.suffix else { return *self.prefix == *value };
        // The prefix is cut off before the suffix is looked at: they may not overlap.
        let rest = value.strip_prefix(&*self.prefix);
        let rest = rest.and_then(|rest| rest.strip_suffix(&**suffix));
        let rest = self.middle.iter().fold(rest, |rest, part| after(rest?, part));
        rest.is_some()
    }
}

/// What follows the first place where a part is found. The part is not empty.
fn after<'a>(value: &'a [u8], part: &[u8]) -> Option<&'a [u8]> {
    let at = value.windows(part.len()).position(|window| window == part)?;
    value.get(at + part.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let compiled = Pattern::new(pattern);
        for value in matching {
            assert!(compiled.matches(value.as_bytes()), "{pattern} matches {value}");
        }
        for value in others {
            assert!(!compiled.matches(value.as_bytes()), "{pattern} does not match {value}");
        }
    }

    #[test]
    fn without_a_star_it_is_exact() {
        check("foo", &["foo"], &["", "fo", "foo1", "xfoo", "FOO"]);
        check("", &[""], &["a"]);
    }

    #[test]
    fn a_star_stands_for_any_bytes_also_none() {
        check("*", &["", "a", "**", "a b"], &[]);
        check("foo*", &["foo", "foobar"], &["fo", "xfoo"]);
        check(
            "*.example.com",
            &[".example.com", "a.example.com"],
            &["example.com", "a.example.co"],
        );
        check("bar*b", &["barb", "barab", "barbb"], &["bara", "bar", "xbarb"]);
    }

    #[test]
    fn prefix_and_suffix_do_not_overlap() {
        check("ab*ba", &["abba", "abxba"], &["aba", "ab", "ba"]);
        check("a*a", &["aa", "aba"], &["a"]);
    }

    #[test]
    fn several_stars_keep_their_order() {
        check("foo*bar*baz", &["foobarbaz", "foo1bar2baz"], &["foobaz", "foobazbar", "foobarba"]);
        check("*a*b*", &["ab", "xaxbx"], &["ba", "a"]);
        check("a*bc*c", &["abcc", "abcbcc"], &["abc"]);
        check("**", &["", "a"], &[]);
        check("a**b", &["ab", "axb"], &["a"]);
    }

    #[test]
    fn other_signs_mean_themselves() {
        check("a.c*", &["a.cd"], &["abcd"]);
        check("[a]?*", &["[a]?", "[a]?b"], &["ab"]);
    }

    #[test]
    fn values_need_not_be_text() {
        assert!(Pattern::new("a*b").matches(b"a\xffb"));
        assert!(Pattern::new("*").matches(b"\xff\x00"));
    }

    #[test]
    fn agrees_with_trying_everything() {
        fn tries(pattern: &[u8], value: &[u8]) -> bool {
            match (pattern.split_first(), value.split_first()) {
                (None, None) => true,
                (Some((b'*', pattern)), _) => {
                    (0..=value.len()).any(|skip| tries(pattern, &value[skip..]))
                }
                (Some((a, pattern)), Some((b, value))) => a == b && tries(pattern, value),
                _ => false,
            }
        }
        proptest::proptest!(|(pattern in "[ab*]{0,7}", value in "[ab]{0,9}")| {
            let expected = tries(pattern.as_bytes(), value.as_bytes());
            assert_eq!(Pattern::new(&pattern).matches(value.as_bytes()), expected);
        });
    }

    #[test]
    fn many_stars_take_no_longer() {
        let pattern = Pattern::new(&"a*".repeat(1_000));
        assert!(!pattern.matches("b".repeat(50_000).as_bytes()));
        assert!(pattern.matches("ab".repeat(25_000).as_bytes()));
        let pattern = Pattern::new(&format!("*{}*", "*a".repeat(1_000) + "b"));
        assert!(!pattern.matches("a".repeat(20_000).as_bytes()));
    }
}
