//! Why no limit matches a request, for a caller that requires one: where each descriptor leaves the rules. Only
//! keys of rules are named, never a value, neither of a rule nor of a caller.

use super::{
    resolve::ACQUIRE_KEY,
    tree::{Node, Rules},
};
use crate::{
    key::Path,
    request::{Descriptor, Request},
    unit::count,
};

/// The most descriptors that are told of.
const MOST_DESCRIPTORS: usize = 3;

/// The most keys that are named of one place.
const MOST_KEYS: usize = 8;

/// The longest key that is named whole, in bytes.
const LONGEST_KEY: usize = 32;

impl Rules {
    /// Why no limit matches a request, in words.
    pub fn why_unmatched(&self, request: &Request) -> String {
        let told = request.descriptors.iter().enumerate().take(MOST_DESCRIPTORS);
        let told = told.map(|(place, descriptor)| {
            format!("descriptors[{place}]: {}", self.why_none(request, descriptor))
        });
        let mut words: Vec<String> = told.collect();
        let others = request.descriptors.len().saturating_sub(MOST_DESCRIPTORS);
        if others > 0 {
            words.push(format!("{} more likewise", count(others as u64, "descriptor")));
        }
        words.join("; ")
    }

    fn why_none(&self, request: &Request, descriptor: &Descriptor) -> String {
        let lease_key = self.lease_key(&request.domain).as_bytes();
        if descriptor.entries.iter().any(|entry| *entry.key == *lease_key) {
            return "it releases a lease, and does nothing else".to_owned();
        }
        let carried = ACQUIRE_KEY.as_bytes();
        // What is not matched still has its place in the request.
        let matched = descriptor.entries.iter().enumerate();
        let (places, entries): (Vec<usize>, Vec<_>) = matched
            .filter(|(_, entry)| *entry.key != *carried)
            .map(|(at, it)| (at, it.clone()))
            .unzip();
        let steps: Vec<Option<&Node>> = self.steps(&request.domain, &entries).collect();
        let reached = steps.iter().take_while(|node| node.is_some()).count();
        let above = reached.checked_sub(1).and_then(|last| steps.get(last).copied().flatten());
        let below = keys_in_words(self.keys_below(&request.domain, above));
        let place = places.get(reached).copied().unwrap_or_default();
        match (entries.get(reached), above) {
            (Some(entry), _) if self.has_key_below(&request.domain, above, &entry.key) => {
                format!("no rule of that key is for the value of entries[{place}]")
            }
            (Some(_), _) => format!("no rule is for the key of entries[{place}], {below}"),
            (None, None) => format!("it has no entries, {below}"),
            (None, Some(node)) if node.rules.is_empty() => {
                format!("no limit stands where its last entry leads, {below}")
            }
            (None, Some(_)) => "what stands where its last entry leads does not limit it: it is switched off, replaced or unlimited, is no limit, or is for other classes".to_owned(),
        }
    }
}

fn keys_in_words(mut keys: Vec<&[u8]>) -> String {
    if keys.is_empty() {
        return "and no rule goes further".to_owned();
    }
    keys.sort_unstable();
    let named = keys.iter().take(MOST_KEYS).map(|key| format!("`{}`", shown(key)));
    let named = named.collect::<Vec<_>>().join(", ");
    let others = keys.len().saturating_sub(MOST_KEYS);
    let others = if others > 0 { format!(" and {others} others") } else { String::new() };
    format!("where the rules have {named}{others}")
}

/// A key as it stands in paths, cut off where it is long.
fn shown(key: &[u8]) -> String {
    let cut = key.get(..LONGEST_KEY).unwrap_or(key);
    let dots = if cut.len() < key.len() { "…" } else { "" };
    format!("{}{dots}", Path::of_domain(cut).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config, request::Entry};

    const RULES: &str = "
domain: shop
descriptors:
  - key: plan
    value: secret
    descriptors:
      - key: user
        concurrency: {max: 1}
  - key: job
    concurrency: {max: 1}
    enabled: false
";

    fn why(rules: &str, descriptors: &[&[[&'static str; 2]]]) -> String {
        let entry = |[key, value]: &[&'static str; 2]| {
            let (key, value) = ((*key).into(), (*value).into());
            Entry { key, value }
        };
        let descriptor = |entries: &&[[&'static str; 2]]| Descriptor {
            entries: entries.iter().map(entry).collect(),
            ..Descriptor::default()
        };
        let descriptors = descriptors.iter().map(descriptor).collect();
        let request = Request { domain: "shop".into(), descriptors, hits_addend: 0 };
        Rules::new(config::domains_of(rules)).why_unmatched(&request)
    }

    #[test]
    fn it_names_the_place_where_each_descriptor_leaves_the_rules() {
        let cases: &[(&[[&str; 2]], &str)] = &[
            (
                &[["usr", "x"]],
                "no rule is for the key of entries[0], where the rules have `job`, `plan`",
            ),
            (&[["plan", "free"]], "no rule of that key is for the value of entries[0]"),
            (
                &[["plan", "secret"]],
                "no limit stands where its last entry leads, where the rules have `user`",
            ),
            (
                &[["plan", "secret"], ["usr", "x"]],
                "no rule is for the key of entries[1], where the rules have `user`",
            ),
            (
                &[["acquire_lease_id", "7"], ["usr", "x"]],
                "no rule is for the key of entries[1], where the rules have `job`, `plan`",
            ),
            (
                &[["plan", "secret"], ["user", "x"], ["more", "y"]],
                "no rule is for the key of entries[2], and no rule goes further",
            ),
            (&[["lease_id", "7"]], "it releases a lease, and does nothing else"),
            (&[], "it has no entries, where the rules have `job`, `plan`"),
        ];
        for (entries, expected) in cases {
            assert_eq!(why(RULES, &[entries]), format!("descriptors[0]: {expected}"));
        }
        let off = why(RULES, &[&[["job", "x"]]]);
        assert!(
            off.starts_with("descriptors[0]: what stands where its last entry leads does not"),
            "{off}"
        );
    }

    #[test]
    fn it_is_short_and_names_no_value() {
        let keys: String = (0..100).map(|at| format!("  - key: {at:0>90}\n")).collect();
        let descriptors = vec![&[["usr", "private"]][..]; 100];
        let why = why(&format!("domain: shop\ndescriptors:\n{keys}"), &descriptors);
        assert!(why.len() < 2048, "{why}");
        assert!(
            why.contains(" and 92 others") && why.ends_with("; 97 descriptors more likewise"),
            "{why}"
        );
        assert!(!why.contains("private"));
    }
}
