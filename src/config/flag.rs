//! What stands beside a limit, whichever it is.

use super::metadata;
use crate::{
    limiter::{SCHEMAS, config::Refused},
    order::Switch,
    rules::{Kind, OnStoreFailure, Rule},
    yaml::{Diagnostic, Key, Mapping, Place, Report, value, words},
};
use serde_json::{Map, Value};

/// What may stand beside any limit.
pub(super) const KEYS: &[Key] = &[
    ("name", "What it is called, in answers and in `replaces`."),
    ("enabled", "Whether it takes part in any decision."),
    ("overdraw", "Whether costs known only afterwards may take more than is there."),
    ("shadow_mode", "Whether it is checked and charged, but refuses nothing."),
    ("quota_mode", "Whether a request is refused only when all such limits are over."),
    ("detailed_metric", "Whether the descriptor's values become labels of the metrics."),
    ("metadata", "Facts that go to Envoy with an answer."),
    ("on_store_failure", "What it does when the store cannot decide."),
    ("message", "What a refused caller reads."),
    ("weight", "Whether a request takes as many slots as it has hits."),
    ("lease_header", "The header in which the upstream is told the lease's id."),
];

/// The keys beside a limit, with their defaults.
#[derive(Debug)]
pub(super) struct Flags {
    pub(super) name: Option<(String, Place)>,
    pub(super) enabled: bool,
    pub(super) overdraw: bool,
    shadow_mode: bool,
    quota_mode: bool,
    detailed_metric: bool,
    metadata: Map<String, Value>,
    on_store_failure: Option<OnStoreFailure>,
    message: Option<String>,
}

/// What makes no difference where nothing is ever refused.
const ABOUT_REFUSALS: &[&str] = &["shadow_mode", "quota_mode", "on_store_failure", "message"];

/// What makes no difference where there is no request, and the answer is not read.
const ABOUT_REQUESTS: &[&str] =
    &["shadow_mode", "quota_mode", "on_store_failure", "message", "metadata", "detailed_metric"];

impl Flags {
    pub(super) fn read(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Self {
        let name = mapping
            .get("name")
            .and_then(|entry| Some((value::name(entry, report)?, entry.place())));
        Self {
            name,
            enabled: value::flag_or(mapping, "enabled", true, report),
            overdraw: value::flag_or(mapping, "overdraw", false, report),
            shadow_mode: value::flag_or(mapping, "shadow_mode", false, report),
            quota_mode: value::flag_or(mapping, "quota_mode", false, report),
            detailed_metric: value::flag_or(mapping, "detailed_metric", false, report),
            metadata: metadata::read(mapping, report),
            on_store_failure: on_store_failure(mapping, report),
            message: mapping.get("message").and_then(|entry| value::prose(entry, report)),
        }
    }

    /// Reports what cannot be said of a limit that lets everything pass.
    pub(super) fn check_unlimited(&self, mapping: &Mapping<'_>, report: &mut Report<'_>) {
        if let Some(entry) = mapping.get("overdraw").filter(|_| self.overdraw) {
            let why = "`overdraw` on an unlimited limit: there is nothing to draw from";
            report.push(value::wrong(entry, why).help("remove it"));
        }
        useless(mapping, ABOUT_REFUSALS, "an unlimited limit refuses nobody", report);
    }

    /// Reports what a limiter of this name does not take.
    pub(super) fn check_refused(
        &self,
        mapping: &Mapping<'_>,
        limiter: &str,
        refused: &Refused,
        report: &mut Report<'_>,
    ) {
        let mut refuse = |place: Place, key: &str, said: &str, (why, help): (&str, &str)| {
            let message = format!("`{said}` beside `{limiter}`: {why}");
            report.push(Diagnostic::error(place, message).help(help).key(key));
        };
        let overdraw = mapping.get("overdraw").filter(|_| self.overdraw);
        if let (Some(entry), Some(why)) = (overdraw, refused.overdraw) {
            refuse(entry.place(), "overdraw", "overdraw", why);
        }
        let is_local = self.on_store_failure == Some(OnStoreFailure::Local);
        let local = mapping.get("on_store_failure").filter(|_| is_local);
        if let (Some(entry), Some(why)) = (local, refused.local) {
            let help = "write `allow` or `deny`: `local` is for rate limits";
            refuse(entry.place(), "on_store_failure", "on_store_failure: local", (why, help));
        }
        if let Some((weight, header)) = refused.lease {
            let takes_them = SCHEMAS.iter().filter(|schema| schema.refused.lease.is_none());
            let takes_them: Vec<_> = takes_them.map(|schema| schema.name).collect();
            let help = format!("remove it: it is for {}", words::list(&takes_them));
            for (key, why) in [("weight", weight), ("lease_header", header)] {
                if let Some(entry) = mapping.get(key) {
                    refuse(entry.key_place, key, key, (why, &help));
                }
            }
        }
    }

    pub(super) fn into_rule(self, kind: Kind, name: Option<String>, replaces: Vec<String>) -> Rule {
        Rule {
            name,
            label: None,
            kind,
            pool: None,
            shedding: None,
            worker: None,
            lease_header: None,
            replaces,
            enabled: self.enabled,
            shadow_mode: self.shadow_mode,
            switched: Switch::default(),
            quota_mode: self.quota_mode,
            detailed_metric: self.detailed_metric,
            metadata: self.metadata,
            on_store_failure: self.on_store_failure,
            message: self.message,
        }
    }
}

/// Warns of what makes no difference to a worker's report.
pub(super) fn check_report(mapping: &Mapping<'_>, report: &mut Report<'_>) {
    useless(mapping, ABOUT_REQUESTS, "a report is no request, and is not refused", report);
}

/// Warns of keys that make no difference.
fn useless(mapping: &Mapping<'_>, keys: &[&str], why: &str, report: &mut Report<'_>) {
    for entry in mapping.among(|key| keys.contains(&key)) {
        let key = &entry.key;
        report.push(
            Diagnostic::warning(entry.key_place, format!("`{key}` does nothing here: {why}"))
                .help("remove it")
                .key(key),
        );
    }
}

/// What to do when the store cannot decide, where something is said of it.
pub(super) fn on_store_failure(
    mapping: &Mapping<'_>,
    report: &mut Report<'_>,
) -> Option<OnStoreFailure> {
    let entry = mapping.get("on_store_failure")?;
    let names = OnStoreFailure::ALL.map(OnStoreFailure::name);
    OnStoreFailure::named(value::one_of(entry, &names, report)?)
}
