//! Mistakes of pools, and of the limits that name them.

use super::check;
use crate::config::{merge_all, parse_all};
use tollgate::config::{Loaded, Severity};

/// A file with a pool, and a limit on it.
fn file(pool: &str, fleet: &str) -> String {
    format!("domain: edge\npools:\n  api: {pool}\ndescriptors:\n  - key: a\n    fleet: {fleet}\n")
}

fn messages(loaded: &Loaded) -> Vec<&str> {
    loaded.diagnostics.iter().map(|it| it.message.as_str()).collect()
}

#[test]
fn pools() {
    let check = |pool: &str, column: usize, message: &str| {
        let text = file(pool, "{pool: api}");
        check(&parse_all(&[&text]), &[(Severity::Error, 3, column, message)], &text);
    };
    check("", 3, "`api` is empty, not a mapping");
    check("1000", 8, "`api` is a number, not a mapping");
    check("{}", 3, "`capacity` is missing");
    check("{capacity: 1.5}", 19, "`capacity` is `1.5`, which is no whole number");
    check("{capacity: -1}", 19, "`capacity` is negative");
    check("{capacity: many}", 19, "`capacity` is `many`, which is no number of slots");
    check("{capacity: Reported}", 19, "`capacity` is `Reported`, which is no number of slots");
    check("{capacity: \"5\"}", 19, "`capacity` is a number in quotes");
    check("{capacity: [5]}", 19, "`capacity` is a list, not a number");
    check("{capacity: 5, max: 5}", 22, "unknown key `max` in a pool");
    check("{capacity: 5, lease_ttl: 60}", 33, "`lease_ttl` has no unit of time");
    check("{capacity: 5, lease_ttl: 0ms}", 33, "`lease_ttl` is 0");
    check("{capacity: 5, lease_ttl: 25h}", 33, "`lease_ttl` is longer than a day");
    let reserved = |share: &str, message: &str| {
        check(&format!("{{capacity: 5, reserved: {share}}}"), 32, message);
    };
    reserved("101%", "`reserved` is above 100 %");
    reserved("1.5", "`reserved` is above 100 %");
    reserved("20", "`reserved` is `20` times the whole");
    reserved("-20%", "`reserved` is negative");
    reserved("-0.2", "`reserved` is negative");
    reserved("some", "`some` is no share");
    reserved(".nan", "`.nan` is no share");
    reserved("2e-1", "`2e-1` is no share");
    reserved("yes", "`reserved` is true or false, not a share");
    reserved("[20%]", "`reserved` is a list, not a share");
    reserved("0.0000001", "`reserved` is finer than a millionth");
    reserved("0.00001%", "`reserved` is finer than a millionth");
}

#[test]
fn the_mapping_of_pools() {
    let check = |text: &str, line: usize, column: usize, message: &str| {
        check(&parse_all(&[text]), &[(Severity::Error, line, column, message)], text);
    };
    check("domain: edge\npools: [api]\n", 2, 8, "`pools` is a list, not a mapping");
    check("domain: edge\npools: {'': {capacity: 5}}\n", 2, 9, "a pool without a name");
    let text = "domain: edge\npools:\n  a: {capacity: 5}\n  a: {capacity: 6}\n";
    check(text, 4, 3, "`a` stands twice, first on line 3");
    let text = format!("domain: edge\npools:\n  {}: {{capacity: 5}}\n", "x".repeat(1_000));
    assert!(!parse_all(&[&text]).has_errors());
    let text = format!("domain: edge\npools:\n  ? {}\n  : {{capacity: 5}}\n", "x".repeat(4_097));
    check(&text, 3, 5, "the name of a pool is longer than 4096 bytes");
}

#[test]
fn fleet_limits() {
    let check = |fleet: &str, column: usize, message: &str| {
        let text = file("{capacity: 5}", fleet);
        check(&parse_all(&[&text]), &[(Severity::Error, 6, column, message)], &text);
    };
    check("api", 12, "`fleet` is text, not a mapping");
    check("{}", 5, "`pool` is missing");
    check("{critical: true}", 5, "`pool` is missing");
    check("{pool: ''}", 19, "`pool` is empty");
    check("{pool: apo}", 19, "this domain has no pool `apo`");
    check("{pool: api, critical: 1}", 34, "`critical` is a number, not true or false");
    check("{pool: api, lease_ttl: 5s}", 24, "unknown key `lease_ttl` in `fleet`");
}

#[test]
fn a_pool_that_is_not_there_is_told_with_those_that_are() {
    let help = |pools: &str, name: &str| {
        let descriptors = format!("[{{key: a, fleet: {{pool: {name}}}}}]");
        let loaded = parse_all(&[&format!(
            "domain: edge\npools: {{{pools}}}\ndescriptors: {descriptors}\n"
        )]);
        assert_eq!(messages(&loaded), [format!("this domain has no pool `{name}`")]);
        loaded.diagnostics[0].help.clone()
    };
    let pools = "api: {capacity: 5}, reports: {capacity: 5}";
    assert_eq!(help(pools, "apo"), "did you mean `api`?\nits pools are `api`, `reports`");
    assert_eq!(help(pools, "login"), "its pools are `api`, `reports`");
    assert_eq!(
        help("", "api"),
        "describe it at the top of the file: \
         `pools: {api: {capacity: 1000, reserved: 20%, lease_ttl: 60s}}`"
    );
    let many: Vec<_> = (0..20).map(|place| format!("pool{place}: {{capacity: 5}}")).collect();
    assert!(help(&many.join(", "), "login").ends_with("`pool9`, …"));
}

#[test]
fn a_pool_with_a_mistake_is_there() {
    let text = file("{capacity: many}", "{pool: api}");
    assert_eq!(
        messages(&parse_all(&[&text])),
        ["`capacity` is `many`, which is no number of slots"]
    );
    let text = "domain: edge\npools: api\ndescriptors: [{key: a, fleet: {pool: api}}]\n";
    assert_eq!(messages(&parse_all(&[text])), ["`pools` is text, not a mapping"]);
}

#[test]
fn pools_that_can_hardly_be_meant() {
    let check = |text: &str, line: usize, column: usize, message: &str| {
        check(&parse_all(&[text]), &[(Severity::Warning, line, column, message)], text);
    };
    let text = file("{capacity: 0}", "{pool: api}");
    check(&text, 3, 19, "`capacity: 0` refuses everything that is not critical");
    let text = file("{capacity: 5, reserved: 100%}", "{pool: api}");
    check(&text, 3, 32, "a reserve of 100 % refuses everything that is not critical");
    let text = file("{capacity: reported, reserved: 100%}", "{pool: api}");
    check(&text, 3, 39, "a reserve of 100 % refuses everything that is not critical");
    let text = "domain: edge\npools: {api: {capacity: 5}}\n";
    check(text, 2, 9, "no limit uses the pool `api`");
    let text = "domain: edge\npools: {api: {capacity: 5}}\ndescriptors:\n  - key: a\n    limits:\n      \
                - fleet: {pool: api}\n      - fleet: {pool: api, critical: true}\n";
    check(text, 7, 9, "a request takes slots of the pool `api` twice here, first on line 6");
}

#[test]
fn pools_of_several_files() {
    let pool = "domain: edge\npools:\n  api: {capacity: 5}\n";
    let limit = "domain: edge\ndescriptors: [{key: a, fleet: {pool: api}}]\n";
    let message = "the pool `api` stands twice, first on line 3 of `1.yaml`";
    check(&merge_all(&[pool, pool, limit]), &[(Severity::Error, 3, 3, message)], "twice");

    let other = "domain: other\ndescriptors: [{key: a, fleet: {pool: api}}]\n";
    let message = "this domain has no pool `api`";
    check(&merge_all(&[pool, limit, other]), &[(Severity::Error, 2, 38, message)], "another's");

    let loaded = merge_all(&["domain: [\n", limit]);
    assert_eq!(loaded.diagnostics.len(), 1, "it may be in the other file: {loaded:?}");
    let loaded = parse_all(&[pool, limit]);
    let message = "the domain `edge` stands in two files, first on line 1 of `1.yaml`";
    assert_eq!(messages(&loaded), [message]);
}
