//! What is said of leases: how they are called, what they weigh, and where the upstream
//! is told of them.

use crate::{
    rules::ACQUIRE_KEY,
    yaml::{Diagnostic, Entry, Mapping, Place, Report, shown, value},
};
use http::HeaderName;

/// What answers already call something else in the metadata.
const TAKEN: &[&str] = &["domain", "descriptors", "hitsAddend", "metadata", "degraded", "delay"];

/// Headers that say how a request is carried, and to whom.
const CARRYING: &[&str] =
    &["connection", "content-length", "host", "te", "transfer-encoding", "upgrade"];

/// What is said of leases beside a limit on slots.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// Whether a request takes as many slots as it has hits.
    pub(super) weighs_hits: bool,
    /// The header in which the upstream is told the lease's id.
    pub(super) header: Option<String>,
}

impl Beside {
    /// Reads what stands beside a limit.
    pub(super) fn read(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Self {
        let weight = mapping.get("weight");
        let weight = weight.and_then(|entry| value::one_of(entry, &["hits"], report));
        let header = mapping.get("lease_header").and_then(|entry| header(entry, report));
        Self { weighs_hits: weight.is_some(), header }
    }
}

/// What leases are called, from `lease_key` at the top of a file.
pub(super) fn key(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Option<(String, Place)> {
    let entry = mapping.get("lease_key")?;
    let key = value::name(entry, report)?;
    let taken = if TAKEN.contains(&key.as_str()) {
        "a name that Envoy's metadata has for something else"
    } else if key == ACQUIRE_KEY {
        "the entry that takes a lease"
    } else {
        return Some((key, entry.place()));
    };
    report.reject(
        value::wrong(entry, format!("`lease_key` cannot be `{key}`: that is {taken}"))
            .help("write another name, such as `lease_key: lease_id`"),
    )
}

/// Warns of a descriptor that no request reaches, because its entry is about leases.
pub(super) fn check_matched(
    entry: &Entry<'_>,
    key: &str,
    lease_key: &str,
    report: &mut Report<'_>,
) {
    let (does, help) = if key == lease_key {
        (
            "releases a lease",
            "call the entry something else, or leases, with `lease_key` at the top of the file",
        )
    } else if key == ACQUIRE_KEY {
        ("names the lease that a request takes", "call the entry something else")
    } else {
        return;
    };
    let message = format!("the key {} is never matched: such an entry {does}", shown(key));
    report.push(Diagnostic::warning(entry.place(), message).help(help).key(&entry.key));
}

/// A header that can be added to a request.
fn header(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<String> {
    const HELP: &str = "write a name of your own in lower case, such as `lease_header: x-lease-id`";
    let name = value::name(entry, report)?;
    let lower = name.to_ascii_lowercase();
    let is_header = |name: &str| HeaderName::from_lowercase(name.as_bytes()).is_ok();
    let (message, help) = if CARRYING.contains(&lower.as_str()) || name.starts_with(':') {
        (
            format!("the header {} says how, and to whom, the request goes", shown(&name)),
            HELP.into(),
        )
    } else if is_header(&name) {
        return Some(name);
    } else if is_header(&lower) {
        let fix = shown(&format!("lease_header: {lower}"));
        (format!("the header {} is not in lower case", shown(&name)), format!("write {fix}"))
    } else {
        (format!("{} is no name of a header", shown(&name)), HELP.into())
    };
    report.reject(value::wrong(entry, message).help(help))
}
