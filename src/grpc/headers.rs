//! The headers that answers add to the response, among them those that tell a client where it stands, in the
//! dialect that was asked for.
//!
//! Those of one value show the limit that matters most: an enforced one that is over, else the status with the
//! least left. A dialect that has room for all of them lists them. What callers are not told of in words, how
//! much room a pool has, they do not read here either.

#[cfg(test)]
pub(super) mod tests;

use super::proto::envoy::config::core::v3::HeaderValue;
use crate::decision::{Code, Decision, ShownLimit, Standing, Status};
use std::fmt::Write as _;

/// The most bytes of a header. Rules may be many and their names long, and clients bound what they read.
const LONGEST: usize = 4096;

/// The most limits that are listed.
const MOST_LIMITS: usize = 32;

/// The greatest whole number of a structured field (RFC 9651): 15 digits.
const GREATEST: u64 = 999_999_999_999_999;

/// The headers that answers add to a response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers {
    /// Those that tell a client where it stands.
    pub rate_limit: RateLimitHeaders,
    /// The name of the one that says that an answer was given without the store, if it is wanted.
    pub degraded: Option<String>,
}

/// In which dialect a client is told where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RateLimitHeaders {
    /// It is not told.
    #[default]
    None,
    /// Three headers, a number each.
    Separate(HeaderNames),
    /// `x-ratelimit-limit`, `-remaining` and `-reset`, as Envoy itself writes them.
    XRateLimit,
    /// `RateLimit-Policy` and `RateLimit`, which list every limit.
    Ietf,
}

/// What the three headers are called that have a number each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderNames {
    /// That of the limit.
    pub limit: String,
    /// That of what is left.
    pub remaining: String,
    /// That of the seconds until reset.
    pub reset: String,
}

impl RateLimitHeaders {
    /// Whether they tell of every limit, and so want [`Decision::standings`].
    pub const fn list_limits(&self) -> bool {
        matches!(self, Self::Ietf)
    }
}

/// A header.
pub(super) fn header(name: &str, value: impl ToString) -> HeaderValue {
    HeaderValue { key: name.to_owned(), value: value.to_string(), ..HeaderValue::default() }
}

/// The headers that tell a client where it stands.
pub(super) fn rate_limit(decision: &Decision, wanted: &RateLimitHeaders) -> Vec<HeaderValue> {
    match wanted {
        RateLimitHeaders::None => Vec::new(),
        RateLimitHeaders::Separate(names) => separate(decision, names),
        RateLimitHeaders::XRateLimit => x_rate_limit(decision),
        RateLimitHeaders::Ietf => ietf(&decision.standings),
    }
}

/// A limit of which callers may know, and what its descriptor shows.
fn told(status: &Status) -> Option<(&Status, &ShownLimit)> {
    let limit = status.limit.as_ref().filter(|shown| !shown.limit.sheds_load())?;
    Some((status, limit))
}

/// What matters most to the client: the first limit that refuses by itself, else the status with the least
/// left.
fn foremost(decision: &Decision) -> Option<(&Status, &ShownLimit)> {
    match &decision.enforced_over {
        Some(over) => told(over),
        None => decision.statuses.iter().filter_map(told).min_by_key(|(it, _)| it.remaining),
    }
}

fn separate(decision: &Decision, names: &HeaderNames) -> Vec<HeaderValue> {
    let Some((status, limit)) = foremost(decision) else { return Vec::new() };
    three(status, names, limit.requests_per_unit.to_string())
}

/// draft-polli-ratelimit-headers-03: behind the limit come the policies of all statuses that have a window.
fn x_rate_limit(decision: &Decision) -> Vec<HeaderValue> {
    let Some((status, limit)) = foremost(decision) else { return Vec::new() };
    let mut value = limit.requests_per_unit.to_string();
    for (_, limit) in decision.statuses.iter().filter_map(told) {
        let Some(window_s) = window_s(limit) else { continue };
        let name = limit.name.as_ref().map(|name| format!(";name={}", quoted(name)));
        let amount = limit.requests_per_unit;
        let policy = format!("{amount};w={window_s}{}", name.unwrap_or_default());
        if has_room(&value, &policy) {
            push(&mut value, &policy);
        }
    }
    let [limit, remaining, reset] =
        ["limit", "remaining", "reset"].map(|what| format!("x-ratelimit-{what}"));
    three(status, &HeaderNames { limit, remaining, reset }, value)
}

/// The limit, what is left, and when it resets; a limit that never does has no reset.
fn three(status: &Status, names: &HeaderNames, limit: String) -> Vec<HeaderValue> {
    let mut headers = vec![header(&names.limit, limit), header(&names.remaining, status.remaining)];
    headers.extend(status.reset_s.map(|seconds| header(&names.reset, seconds)));
    headers
}

/// draft-ietf-httpapi-ratelimit-headers, as it is since its tenth edition: lists of limits by their names, one
/// of what they are and one of how it stands with them.
fn ietf(standings: &[Standing]) -> Vec<HeaderValue> {
    let mut lists = [String::new(), String::new()];
    for Policy { name, terms, status } in policies_of(standings) {
        let name = quoted(&name);
        let items =
            [format!("{name}{terms}"), format!("{name};r={}{}", status.remaining, resets(status))];
        // Both or neither: one is read by the other.
        if lists.iter().zip(&items).all(|(list, item)| has_room(list, item)) {
            lists.iter_mut().zip(&items).for_each(|(list, item)| push(list, item));
        }
    }
    let [policies, states] = lists;
    if policies.is_empty() {
        return Vec::new();
    }
    vec![header("RateLimit-Policy", policies), header("RateLimit", states)]
}

/// A limit as the IETF's headers have it.
struct Policy<'a> {
    /// Its name, which no other of the request has.
    name: String,
    /// Its amount, and in what time or of what.
    terms: String,
    /// Of all that a request asks of it, what is nearest to a refusal.
    status: &'a Status,
}

/// Each of the first limits once, however many descriptors meet it.
fn policies_of(standings: &[Standing]) -> Vec<Policy<'_>> {
    let mut policies: Vec<Policy<'_>> = Vec::new();
    for Standing { name, status } in standings.iter().take(MOST_LIMITS) {
        let Some((_, limit)) = told(status) else { continue };
        let terms = terms(limit);
        // The first name that is free, or that means the same limit.
        let mut named = name.clone();
        let mut count = 1;
        let known = loop {
            match policies.iter_mut().find(|known| known.name == named) {
                Some(known) if known.terms != terms => {
                    count += 1;
                    named = format!("{name} {count}");
                }
                known => break known,
            }
        };
        match known {
            Some(known) if nearness(status) < nearness(known.status) => known.status = status,
            Some(_) => {}
            None => policies.push(Policy { name: named, terms, status }),
        }
    }
    policies
}

/// How near to a refusal it is: the less, the nearer.
const fn nearness(status: &Status) -> (bool, u32) {
    (matches!(status.code, Code::Ok), status.remaining)
}

/// What is promised: so many in so many seconds, or at once.
fn terms(limit: &ShownLimit) -> String {
    let mut terms = format!(";q={}", limit.requests_per_unit);
    if let Some(seconds) = window_s(limit) {
        let _ = write!(terms, ";w={seconds}");
    }
    if limit.limit.term().is_some() {
        terms.push_str(";qu=\"concurrent-requests\"");
    }
    terms
}

/// When there is more, where anybody knows: slots come back at any moment.
fn resets(status: &Status) -> String {
    let slots = status.limit.as_ref().is_some_and(|shown| shown.limit.term().is_some());
    let seconds = status.reset_s.filter(|_| !slots);
    seconds.map(|seconds| format!(";t={}", seconds.min(GREATEST))).unwrap_or_default()
}

/// What parts the items of a list.
const SEPARATOR: &str = ", ";

fn has_room(list: &str, item: &str) -> bool {
    list.len() + SEPARATOR.len() + item.len() <= LONGEST
}

fn push(list: &mut String, item: &str) {
    if !list.is_empty() {
        list.push_str(SEPARATOR);
    }
    list.push_str(item);
}

/// In how many seconds as much arrives; `None` of what has no time, and of a limit of 0, for 0 s are none.
fn window_s(limit: &ShownLimit) -> Option<u64> {
    limit.limit.window_s().filter(|&seconds| seconds > 0).map(|seconds| seconds.min(GREATEST))
}

/// A name as a string of a structured field (RFC 9651), which is printable ASCII. Other bytes are written as
/// `%c3`, as in a URL.
fn quoted(name: &str) -> String {
    let mut quoted = String::from('"');
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(byte.into());
            }
            b' '..=b'~' => quoted.push(byte.into()),
            _ => {
                let _ = write!(quoted, "%{byte:02x}");
            }
        }
    }
    quoted.push('"');
    quoted
}
