//! What stands beside a limit, whichever it is.

use super::{Diagnostic, Place, diagnostic::Report, metadata, node::Mapping, value};
use crate::rules::{Kind, OnStoreFailure, Rule};
use serde_json::{Map, Value};

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
    on_store_failure: OnStoreFailure,
    message: Option<String>,
}

/// What makes no difference where nothing is ever refused.
const ABOUT_REFUSALS: &[&str] = &["shadow_mode", "quota_mode", "on_store_failure", "message"];

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
            report.push(
                value::wrong(
                    entry,
                    "`overdraw` on an unlimited limit: there is nothing to draw from",
                )
                .help("remove it"),
            );
        }
        for entry in mapping.among(ABOUT_REFUSALS) {
            let key = &entry.key;
            report.push(
                Diagnostic::warning(
                    entry.key_place,
                    format!("`{key}` does nothing here: an unlimited limit refuses nobody"),
                )
                .help("remove it")
                .key(key),
            );
        }
    }

    /// Reports what cannot be said of a limit on slots.
    pub(super) fn check_slots(
        &self,
        mapping: &Mapping<'_>,
        limiter: &str,
        report: &mut Report<'_>,
    ) {
        if let Some(entry) = mapping.get("overdraw").filter(|_| self.overdraw) {
            report.push(
                value::wrong(
                    entry,
                    format!("`overdraw` beside `{limiter}`: a slot is taken before it is used"),
                )
                .help("remove it: it is for rate limits"),
            );
        }
        let is_local = self.on_store_failure == OnStoreFailure::Local;
        if let Some(entry) = mapping.get("on_store_failure").filter(|_| is_local) {
            report.push(
                value::wrong(
                    entry,
                    format!(
                        "`on_store_failure: local` beside `{limiter}`: \
                         one process does not know which slots are taken elsewhere"
                    ),
                )
                .help("write `allow` or `deny`: `local` is for rate limits"),
            );
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
            quota_mode: self.quota_mode,
            detailed_metric: self.detailed_metric,
            metadata: self.metadata,
            on_store_failure: self.on_store_failure,
            message: self.message,
        }
    }
}

fn on_store_failure(mapping: &Mapping<'_>, report: &mut Report<'_>) -> OnStoreFailure {
    let entry = mapping.get("on_store_failure");
    match entry.and_then(|entry| value::one_of(entry, &["allow", "deny", "local"], report)) {
        Some("deny") => OnStoreFailure::Deny,
        Some("local") => OnStoreFailure::Local,
        _ => OnStoreFailure::Allow,
    }
}
