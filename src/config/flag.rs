//! What stands beside a limit, whichever it is.

use super::{
    Diagnostic, Place, diagnostic::Report, metadata, node::Mapping, value, vocabulary::REPORT,
};
use crate::{
    order::Switch,
    rules::{Kind, OnStoreFailure, Rule},
};
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
    on_store_failure: Option<OnStoreFailure>,
    message: Option<String>,
}

/// What makes no difference where nothing is ever refused.
const ABOUT_REFUSALS: &[&str] = &["shadow_mode", "quota_mode", "on_store_failure", "message"];

/// What makes no difference where there is no request, and no answer that anybody reads.
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
        let why = "`overdraw` on an unlimited limit: there is nothing to draw from";
        self.check_overdraw(mapping, why, "remove it", report);
        useless(mapping, ABOUT_REFUSALS, "an unlimited limit refuses nobody", report);
    }

    /// Reports what cannot be said of a worker's report.
    pub(super) fn check_report(&self, mapping: &Mapping<'_>, report: &mut Report<'_>) {
        let why = format!("`overdraw` beside `{REPORT}`: a report takes nothing");
        self.check_overdraw(mapping, &why, "remove it", report);
        useless(mapping, ABOUT_REQUESTS, "a report is no request, and is not refused", report);
    }

    /// Reports what cannot be said of a limit that drops requests while workers are too busy.
    pub(super) fn check_shedder(&self, mapping: &Mapping<'_>, report: &mut Report<'_>) {
        let why = "`overdraw` beside `utilization`: nothing is taken that could be drawn";
        self.check_overdraw(mapping, why, FOR_RATES, report);
        let why = "`on_store_failure: local` beside `utilization`: \
                   one process does not know what workers report elsewhere";
        self.check_local(mapping, why, report);
    }

    /// Reports what cannot be said of a limit on slots.
    pub(super) fn check_slots(
        &self,
        mapping: &Mapping<'_>,
        limiter: &str,
        report: &mut Report<'_>,
    ) {
        let why = format!("`overdraw` beside `{limiter}`: a slot is taken before it is used");
        self.check_overdraw(mapping, &why, FOR_RATES, report);
        let why = format!(
            "`on_store_failure: local` beside `{limiter}`: \
             one process does not know which slots are taken elsewhere"
        );
        self.check_local(mapping, &why, report);
    }

    fn check_overdraw(
        &self,
        mapping: &Mapping<'_>,
        why: &str,
        help: &str,
        report: &mut Report<'_>,
    ) {
        if let Some(entry) = mapping.get("overdraw").filter(|_| self.overdraw) {
            report.push(value::wrong(entry, why).help(help));
        }
    }

    fn check_local(&self, mapping: &Mapping<'_>, why: &str, report: &mut Report<'_>) {
        let is_local = self.on_store_failure == Some(OnStoreFailure::Local);
        if let Some(entry) = mapping.get("on_store_failure").filter(|_| is_local) {
            let help = "write `allow` or `deny`: `local` is for rate limits";
            report.push(value::wrong(entry, why).help(help));
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

/// What to do about `overdraw` where there is something to limit, but no rate.
const FOR_RATES: &str = "remove it: it is for rate limits";

/// Warns of keys that make no difference.
fn useless(mapping: &Mapping<'_>, keys: &[&str], why: &str, report: &mut Report<'_>) {
    for entry in mapping.among(keys) {
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
