//! The screen that a started server prints: where it listens, what it limits, and a line to try.

use crate::arguments::{Serve, Store, StoreKind, Tls};
use serde_json::json;
use std::{fmt::Write as _, io, net::SocketAddr};
use tollgate::{
    config::Loaded,
    grpc,
    rules::{Descriptor, Domain, Kind, OnStoreFailure, describe},
    server::Listeners,
    services::{DisabledServices, OptionalService},
};

/// The most lines of rules; whoever has more asks `/rlconfig`.
const MOST_RULES: usize = 30;

/// The screen.
pub(crate) fn of(
    listeners: &Listeners,
    loaded: &Loaded,
    store: &StoreKind,
    arguments: &Serve,
) -> io::Result<String> {
    let grpc = listeners.grpc.local_addr()?;
    let http = listeners.http.local_addr()?;
    let admin = listeners.admin.local_addr()?;
    let mut screen = String::new();
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(screen, "tollgate {version}\n");
    let tls = if arguments.tls.server_certificate.is_some() { ", over TLS" } else { "" };
    let _ = writeln!(screen, "  gRPC   {grpc:<22} {}{tls}", grpc::SERVICE);
    let disabled: DisabledServices = arguments.disabled.iter().copied().collect();
    let served = |services: &[(&'static str, Option<OptionalService>)]| {
        let served = services.iter().filter(|(_, it)| it.is_none_or(|it| disabled.serves(it)));
        served.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let ours = served(&[
        (grpc::LEASE_SERVICE, Some(OptionalService::Leases)),
        (grpc::UTILIZATION_SERVICE, Some(OptionalService::Utilization)),
    ]);
    if !ours.is_empty() {
        let _ = writeln!(screen, "{:32}{ours}", "");
    }
    let paths = served(&[
        ("POST /json", Some(OptionalService::Json)),
        ("GET /healthcheck", None),
        ("GET /ready", None),
        ("GET /metrics", Some(OptionalService::Metrics)),
    ]);
    let _ = writeln!(screen, "  HTTP   {http:<22} {paths}{tls}");
    let _ = writeln!(
        screen,
        "  admin  {admin:<22} GET /rlconfig, GET /rules, GET /pools, GET /shadow-report"
    );
    let store = match store {
        StoreKind::Memory => format!("memory, at most {} keys", arguments.max_keys),
        StoreKind::Redis(address) => address.to_string(),
    };
    let _ = writeln!(screen, "  store  {store}{}", without_store(&arguments.store));
    if arguments.shadow_mode {
        let _ = writeln!(screen, "  modes  SHADOW: every request passes, whatever its limits say");
    }
    if arguments.quota_mode {
        let _ = writeln!(screen, "  modes  QUOTA: refused is only what all of its limits refuse");
    }
    screen.push('\n');
    add_rules(&mut screen, loaded);
    let request = example(&loaded.domains).filter(|_| disabled.serves(OptionalService::Json));
    if let Some(request) = request {
        let (curl, http) = (curl(&arguments.tls), reachable(http));
        let _ = writeln!(screen, "\nTry it:\n\n  {curl}{http}/json -d '{request}'");
    }
    let _ = writeln!(screen, "\nCtrl-C stops it.");
    Ok(screen)
}

/// What the process does when the store cannot decide, where that is not what all do.
fn without_store(store: &Store) -> String {
    let policy = match store.on_failure {
        OnStoreFailure::Allow => String::new(),
        policy => format!(", when it fails: {}", policy.name()),
    };
    let replicas = store.replicas.map(|count| format!(", {count} replicas")).unwrap_or_default();
    policy + &replicas
}

fn add_rules(screen: &mut String, loaded: &Loaded) {
    let tree = describe::tree(&loaded.domains);
    let (domains, files) = (loaded.domains.len(), loaded.sources.len());
    let _ =
        writeln!(screen, "Rules of {}, from {}:\n", count(domains, "domain"), count(files, "file"));
    for line in tree.lines().take(MOST_RULES) {
        let _ = writeln!(screen, "  {line}");
    }
    let more = tree.lines().count().saturating_sub(MOST_RULES);
    if more > 0 {
        let _ = writeln!(screen, "  … and {more} lines more: see /rlconfig, or `tollgate check`");
    }
}

fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// How curl asks, up to the address.
fn curl(tls: &Tls) -> &'static str {
    if tls.client_authority.is_some() {
        "curl --cacert CA.pem --cert CLIENT.pem --key CLIENT.key https://"
    } else if tls.server_certificate.is_some() {
        "curl --cacert CA.pem https://"
    } else {
        "curl "
    }
}

/// The address as a browser on this machine writes it.
fn reachable(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    }
}

/// A request that meets the first limit of the rules.
fn example(domains: &[Domain]) -> Option<String> {
    domains.iter().find_map(|domain| {
        let entries = entries(&domain.descriptors)?;
        let request = json!({ "domain": domain.name, "descriptors": [{ "entries": entries }] });
        // In a shell's single quotes.
        Some(request.to_string().replace('\'', r"'\''"))
    })
}

fn entries(descriptors: &[Descriptor]) -> Option<Vec<serde_json::Value>> {
    descriptors.iter().find_map(|descriptor| {
        let value = descriptor.value.as_deref().unwrap_or("alice").replace('*', "x");
        let limits = descriptor
            .limits
            .iter()
            .any(|rule| rule.enabled && matches!(rule.kind, Kind::Limit(_)));
        let below = if limits { Vec::new() } else { entries(&descriptor.descriptors)? };
        let mut entries = vec![json!({ "key": descriptor.key, "value": value })];
        entries.extend(below);
        Some(entries)
    })
}
