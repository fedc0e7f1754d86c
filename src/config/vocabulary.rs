//! Which key may stand where, and what to answer to one that may not.

use super::{
    Diagnostic,
    diagnostic::{Report, shown},
    node::{Entry, Mapping},
};
use crate::limiter;

/// What makes a descriptor of a request a report of a worker, and no request.
pub(super) const REPORT: &str = "utilization_report";

/// The keys of limits: the limiters, and the token bucket as envoyproxy/ratelimit writes it.
pub(super) fn limits() -> Vec<&'static str> {
    [&["rate_limit"], limiter::NAMES].concat()
}

/// What a descriptor does with what it matches: one of the limits, or it is a report.
pub(super) fn rules() -> Vec<&'static str> {
    [limits(), vec![REPORT]].concat()
}

/// What may stand beside any limit.
pub(super) const FLAGS: &[&str] = &[
    "name",
    "enabled",
    "overdraw",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "metadata",
    "on_store_failure",
    "message",
    "weight",
    "lease_header",
];

const FILE: &[&str] = &["domain", "lease_key", "on_store_failure", "pools", "descriptors"];
const POOL: &[&str] = &["capacity", "reserved", "lease_ttl", "utilization"];
const POOL_UTILIZATION: &[&str] =
    &["good_below", "bad_above", "hold_off", "shed_all_after", "report_ttl", "shed"];
const ENTRY: &[&str] = &["key", "value"];
const DESCRIPTOR: &[&str] = &["limits", "descriptors", "share_threshold", "value_to_metric"];
const RATE_LIMIT: &[&str] = &["unit", "requests_per_unit", "unlimited", "name", "replaces"];
const TOKEN_BUCKET: &[&str] = &["rate", "burst", "grants"];
const GRANTS: &[&str] = &["share", "max_age"];
const CONCURRENCY: &[&str] = &["max", "lease_ttl"];
const FLEET: &[&str] = &["pool", "critical"];
const UTILIZATION: &[&str] = &["pool", "class", "shed_by"];
const UTILIZATION_REPORT: &[&str] = &["pool", "worker"];
const RATE: &[&str] = &["tokens", "per"];
const REPLACES: &[&str] = &["name"];

/// A mapping of a rule file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    File,
    /// A pool, under `pools`.
    Pool,
    /// `utilization` in a pool.
    PoolUtilization,
    Descriptor,
    /// An item of `limits`.
    Item,
    RateLimit,
    TokenBucket,
    /// `grants` in a token bucket.
    Grants,
    Concurrency,
    Fleet,
    /// `utilization` as a limit.
    Utilization,
    UtilizationReport,
    /// A rate that is not written as text.
    Rate,
    /// An item of `replaces`.
    Replaces,
}

impl Home {
    const ALL: [Self; 14] = [
        Self::File,
        Self::Descriptor,
        Self::RateLimit,
        Self::TokenBucket,
        Self::Grants,
        Self::Concurrency,
        Self::Fleet,
        Self::Utilization,
        Self::UtilizationReport,
        Self::Pool,
        Self::PoolUtilization,
        Self::Item,
        Self::Rate,
        Self::Replaces,
    ];

    fn keys(self) -> Vec<&'static str> {
        match self {
            Self::File => FILE.to_vec(),
            Self::Pool => POOL.to_vec(),
            Self::PoolUtilization => POOL_UTILIZATION.to_vec(),
            Self::Descriptor => [ENTRY, &rules(), DESCRIPTOR, FLAGS].concat(),
            Self::Item => [&limits(), FLAGS].concat(),
            Self::RateLimit => RATE_LIMIT.to_vec(),
            Self::TokenBucket => TOKEN_BUCKET.to_vec(),
            Self::Grants => GRANTS.to_vec(),
            Self::Concurrency => CONCURRENCY.to_vec(),
            Self::Fleet => FLEET.to_vec(),
            Self::Utilization => UTILIZATION.to_vec(),
            Self::UtilizationReport => UTILIZATION_REPORT.to_vec(),
            Self::Rate => RATE.to_vec(),
            Self::Replaces => REPLACES.to_vec(),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::File => "a rule file",
            Self::Pool => "a pool",
            Self::PoolUtilization => "the `utilization` of a pool",
            Self::Descriptor => "a descriptor",
            Self::Item => "an item of `limits`",
            Self::RateLimit => "`rate_limit`",
            Self::TokenBucket => "`token_bucket`",
            Self::Grants => "`grants`",
            Self::Concurrency => "`concurrency`",
            Self::Fleet => "`fleet`",
            Self::Utilization => "`utilization`",
            Self::UtilizationReport => "`utilization_report`",
            Self::Rate => "`rate`",
            Self::Replaces => "an item of `replaces`",
        }
    }

    /// Where its keys go, for somebody who put one elsewhere.
    const fn place(self) -> &'static str {
        match self {
            Self::File => "at the top of the file",
            Self::Pool => "in the pool, under `pools`",
            Self::PoolUtilization => "in the `utilization` of the pool, under `pools`",
            Self::Descriptor | Self::Item => "in a descriptor, beside `key` and the limit",
            Self::RateLimit => "inside `rate_limit`",
            Self::TokenBucket => "inside `token_bucket`",
            Self::Grants => "inside `grants`, in a `token_bucket`",
            Self::Concurrency => "inside `concurrency`",
            Self::Fleet => "inside `fleet`",
            Self::Utilization => "inside `utilization`, beside `key`",
            Self::UtilizationReport => "inside `utilization_report`",
            Self::Rate => "inside `rate`",
            Self::Replaces => "inside `replaces`",
        }
    }

    /// All others, the likeliest first: what is no key of a limit on a pool is one of the pool, and the
    /// other way round.
    fn others(self) -> impl Iterator<Item = Self> {
        let likeliest = match self {
            Self::Fleet | Self::UtilizationReport => Some(Self::Pool),
            Self::Utilization => Some(Self::PoolUtilization),
            Self::PoolUtilization => Some(Self::Utilization),
            _ => None,
        };
        likeliest.into_iter().chain(Self::ALL).filter(move |other| *other != self)
    }
}

/// Reports keys that may not stand here. Whether there were none.
pub(super) fn check(mapping: &Mapping<'_>, home: Home, report: &mut Report<'_>) -> bool {
    let known = home.keys();
    let is_known = |entry: &&Entry<'_>| known.contains(&&*entry.key);
    for entry in mapping.entries.iter().filter(|entry| !is_known(entry)) {
        report.error_with(|| unknown(entry, home, &known));
    }
    mapping.entries.iter().all(|entry| is_known(&entry))
}

fn unknown(entry: &Entry<'_>, home: Home, known: &[&str]) -> Diagnostic {
    let key = &entry.key;
    let elsewhere = home.others().find(|other| other.keys().contains(&&**key));
    let help = match (closest(key, known), elsewhere) {
        (_, Some(other)) => format!("`{key}` goes {}\n", other.place()),
        (Some(close), None) => format!("did you mean `{close}`?\n"),
        (None, None) => String::new(),
    };
    let help = format!("{help}{} takes {}", home.name(), list(known));
    Diagnostic::error(entry.key_place, format!("unknown key {} in {}", shown(key), home.name()))
        .help(help)
        .key(key)
}

/// Words as a list in a sentence.
pub(super) fn list(words: &[&str]) -> String {
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
pub(super) fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    /// Nobody misspells longer words than this, and comparing them takes time.
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
        assert_eq!(closest("descriptor", FILE), Some("descriptors"));
        assert_eq!(closest("Domain", FILE), Some("domain"));
        assert_eq!(closest("version", FILE), None);
        assert_eq!(closest(&"d".repeat(10_000), FILE), None);
    }
}
