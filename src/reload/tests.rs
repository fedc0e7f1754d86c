use super::{Reload, ReloadCounts, Watcher, beginning, changes};
use crate::{
    clock::Clock,
    config::{Options, Source, parse, read},
    decider::{Decider, Modes},
    rules::{Domain, Rules},
    store::{Memory, Store},
    task::{Task, faulty_log::FaultyLog},
};
use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    time,
};

/// Domains of which each has so many limits.
fn domains(domains: &[(&str, usize)]) -> Vec<Domain> {
    let source = |(name, limits): &(&str, usize)| {
        let limit = |place| {
            format!("  - {{key: k{place}, rate_limit: {{unit: day, requests_per_unit: 1}}}}\n")
        };
        let limits: String = (0..*limits).map(limit).collect();
        let text = format!("domain: {name}\ndescriptors: [{}]\n", "");
        let text = if limits.is_empty() {
            text
        } else {
            format!("domain: {name}\ndescriptors:\n{limits}")
        };
        Source { name: format!("{name}.yaml"), text }
    };
    let loaded = parse(domains.iter().map(source).collect(), &Options::default());
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    loaded.domains
}

#[test]
fn a_line_tells_what_is_different() {
    let before = domains(&[("mall", 1), ("shop", 2), ("zoo", 1)]);
    let told = |after: &[(&str, usize)]| changes::in_words(&before, &domains(after));
    assert_eq!(
        told(&[("bar", 1), ("mall", 1), ("shop", 3)]),
        "5 limits in 3 domains (changed: shop; new: bar; gone: zoo)"
    );
    assert_eq!(
        told(&[("zoo", 1), ("mall", 1), ("shop", 2)]),
        "4 limits in 3 domains (none of them changed)"
    );
    assert_eq!(told(&[("shop", 1)]), "1 limit in 1 domain (changed: shop; gone: mall, zoo)");
}

#[test]
fn a_line_names_a_few_domains_and_counts_the_others() {
    let after = domains(&[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 1), ("g", 1)]);
    let told = changes::in_words(&[], &after);
    assert_eq!(told, "7 limits in 7 domains (new: a, b, c, d, e, 2 more)");
}

#[test]
fn a_long_reason_is_told_in_whole_lines_and_where_the_rest_is() {
    assert_eq!(beginning("one\ntwo\n"), "one\ntwo\n");
    let line = "x".repeat(99);
    let told = beginning(&format!("{line}\n").repeat(100));
    let (lines, last) = told.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(last, "… the log has the rest");
    assert!(lines.lines().all(|told| told == line) && lines.len() <= 4096, "{told}");
}

/// Waits until nothing more is heard, and tells whether anything was.
async fn hears_of_the_past(watcher: &Watcher) -> bool {
    let mut has_heard = false;
    while time::timeout(Duration::from_millis(100), watcher.heard()).await.is_ok() {
        has_heard = true;
    }
    has_heard
}

/// Whether it hears of a change that is made now. Only a failure ever takes so long.
async fn hears(watcher: &Watcher, change: impl FnOnce()) -> bool {
    hears_of_the_past(watcher).await;
    change();
    time::timeout(Duration::from_secs(30), watcher.heard()).await.is_ok()
}

#[tokio::test]
async fn changes_are_heard_of_where_a_path_leads_to() {
    let files = tempfile::tempdir().unwrap();
    let at = |name: &str| files.path().join(name);
    let write = |path: &Path| fs::write(path, "domain: shop\n").unwrap();
    for directory in ["1", "2"] {
        fs::create_dir(at(directory)).unwrap();
        write(&at(directory).join("shop.yaml"));
    }
    symlink("1", at("link")).unwrap();
    let paths = [at("link")];
    let mut watcher = Watcher::default();
    watcher.attend(&paths);
    assert!(hears(&watcher, || write(&at("1/shop.yaml"))).await, "a file is written");
    assert!(hears(&watcher, || fs::remove_file(at("1/shop.yaml")).unwrap()).await, "removed");
    let lead = || {
        symlink("2", at("new")).unwrap();
        fs::rename(at("new"), at("link")).unwrap();
    };
    assert!(hears(&watcher, lead).await, "the link leads elsewhere");
    watcher.attend(&paths);
    assert!(hears(&watcher, || write(&at("2/shop.yaml"))).await, "a file is written there");
}

/// Or it would be its own reason to look again, for ever.
#[tokio::test]
async fn that_somebody_reads_is_not_heard_of() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("shop.yaml");
    fs::write(&path, "domain: shop\n").unwrap();
    let mut watcher = Watcher::default();
    watcher.attend(std::slice::from_ref(&path));
    for _ in 0..100 {
        fs::read_to_string(&path).unwrap();
        fs::read_dir(files.path()).unwrap().for_each(drop);
    }
    assert!(!hears_of_the_past(&watcher).await);
    assert!(hears(&watcher, || fs::write(&path, "domain: mall\n").unwrap()).await);
}

#[tokio::test]
async fn rules_are_reloaded_after_a_panic_too() {
    let log = FaultyLog::panics_at("reloaded the rules");
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("shop.yaml");
    let write = |most: u32| {
        let limit = format!("{{unit: day, requests_per_unit: {most}}}");
        let text = format!("domain: shop\ndescriptors: [{{key: user, rate_limit: {limit}}}]\n");
        fs::write(files.path().join("next"), text).unwrap();
        fs::rename(files.path().join("next"), &path).unwrap();
    };
    write(1);
    let (paths, options) = (vec![path.clone()], Options::default());
    let first = read(&paths);
    let digest = first.digest();
    let rules = Rules::new(first.understand(&options).domains);
    let store = Store::Memory(Memory::new(10));
    let decider = Decider::new(rules, store, Clock::monotonic(), Modes::default());
    let reload = Reload::new(paths, options, digest, Arc::clone(&decider));
    let (reloads, before) = (reload.reloads(), Task::Reload.restarts());
    let running = tokio::spawn(reload.run(signal(SignalKind::hangup()).unwrap()));
    for (most, loaded) in [(2, 1), (3, 2)] {
        write(most);
        let counts = ReloadCounts { loaded, refused: 0 };
        let loading = async {
            while reloads.condition().counts != counts {
                time::sleep(Duration::from_millis(10)).await;
            }
        };
        time::timeout(Duration::from_secs(30), loading).await.expect("it is not loaded");
    }
    running.abort();
    assert_eq!(log.count("task=\"reload\""), 1, "it is logged");
    assert!(Task::Reload.restarts() > before, "and counted");
}
