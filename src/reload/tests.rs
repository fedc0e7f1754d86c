use super::{beginning, changes};
use crate::{
    config::{Options, Source, parse},
    rules::Domain,
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
