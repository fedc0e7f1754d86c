//! Whatever a file holds, it is read to the end, and every place that is named is in it.

use super::{merge_all, parse_all};
use proptest::prelude::*;
use tollgate::{
    limiter::{NAMES, SCHEMAS, config::examples},
    rules::Kind,
};

/// A file with everything in it.
const VALID: &str = include_str!("everything.yaml");

/// Pieces that mean something: the limiters, their examples and keys, and these.
fn pieces() -> Vec<&'static str> {
    let of_limiters = SCHEMAS.iter().flat_map(|schema| {
        let keys = schema.tables.iter().flat_map(|table| table.keys).copied().flatten();
        [schema.name, schema.example].into_iter().chain(keys.map(|(key, _)| *key))
    });
    of_limiters.chain(PIECES.iter().copied()).collect()
}

const PIECES: &[&str] = &[
    "domain",
    "descriptors",
    "key",
    "value",
    "rate_limit",
    "limits",
    "rate",
    "unit",
    "requests_per_unit",
    "burst",
    "replaces",
    "name",
    "metadata",
    "message",
    "share_threshold",
    "pools",
    "pool",
    "capacity",
    "reserved",
    "lease_ttl",
    "lease_key",
    "lease_header",
    "weight",
    "utilization_report",
    "class",
    "shed_by",
    "worker",
    "shed",
    "good_below",
    "bad_above",
    "hold_off",
    "shed_all_after",
    "report_ttl",
    "reported",
    "0s",
    "hits",
    "12.5%",
    "api",
    ": ",
    ":",
    "\n",
    "\n  ",
    "\n    ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "\"",
    "'",
    "*",
    "&a ",
    "*a",
    "<<: *a",
    "|\n",
    ">\n",
    "#",
    "---\n",
    "!!str ",
    "true",
    "yes",
    "null",
    "~",
    "0",
    "007",
    "1.5",
    ".inf",
    "-3",
    "4294967296",
    "99999999999999999999999999999999999999999",
    "100/s",
    "{tokens: 1, per: 1ms}",
    "day",
    "é",
    "\u{feff}",
    "\t",
    "\r\n",
    "\r",
    "\0",
    "? ",
    "%YAML 1.2\n",
];

fn check(text: &str) {
    for loaded in [parse_all(&[text, text]), merge_all(&[text, VALID])] {
        let rendered = loaded.render(false);
        assert_eq!(rendered.is_empty(), loaded.diagnostics.is_empty());
        for diagnostic in &loaded.diagnostics {
            assert!(!diagnostic.message.is_empty() && !diagnostic.help.is_empty());
            let places = diagnostic.place.into_iter().chain(diagnostic.related.map(|it| it.place));
            for place in places {
                let [source, line, column, start, end] =
                    [place.source, place.line, place.column, place.start, place.end]
                        .map(|number| number as usize);
                let source = &loaded.sources[source].text;
                assert!(source.get(start..end).is_some(), "{diagnostic:?}");
                let before = &source[..start];
                if !source.contains(['\r', '\u{feff}']) {
                    let to_it = before.rsplit('\n').next().unwrap_or_default();
                    assert_eq!(line, before.matches('\n').count() + 1, "{diagnostic:?}");
                    assert_eq!(column, to_it.chars().count() + 1, "{diagnostic:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_pieces_are_survived(pieces in prop::collection::vec(prop::sample::select(pieces()), 0..40)) {
        check(&pieces.concat());
    }

    #[test]
    fn any_change_is_survived(
        text in prop::sample::select(vec![VALID.to_owned(), examples()]),
        at in any::<prop::sample::Index>(),
        length in 0..20_usize,
        piece in prop::sample::select(pieces()),
    ) {
        let mut text = text.into_bytes();
        let at = at.index(text.len());
        text.splice(at..(at + length).min(text.len()), piece.bytes());
        check(&String::from_utf8_lossy(&text));
    }
}

#[test]
fn the_valid_file_is_valid() {
    assert_eq!(parse_all(&[VALID]).render(false), "");
}

#[test]
fn the_example_of_each_limiter_is_a_limit_of_it() {
    let loaded = parse_all(&[&examples()]);
    assert_eq!(loaded.render(false), "");
    let descriptors = &loaded.domains[0].descriptors;
    let limiters = descriptors.iter().map(|descriptor| match descriptor.limits[0].kind {
        Kind::Limit(limit) => limit.limiter(),
        Kind::Unlimited | Kind::Report(_) => "none",
    });
    assert_eq!(limiters.collect::<Vec<_>>(), NAMES);
}

#[test]
fn a_bomb_of_aliases_is_an_error() {
    let mut text = String::from("domain: edge\na0: &a0 [x]\n");
    for level in 1..40 {
        let before = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{before}, {before}, {before}]\n"));
    }
    assert!(parse_all(&[&text]).has_errors());
}

#[test]
fn deep_nesting_is_an_error() {
    let text = format!("domain: edge\ndescriptors: {}{}\n", "[".repeat(5_000), "]".repeat(5_000));
    assert!(parse_all(&[&text]).has_errors());
    let mut text = String::from("domain: edge\n");
    for level in 0..1_000 {
        text.push_str(&format!("{}descriptors:\n", "  ".repeat(level)));
        text.push_str(&format!("{}- key: a\n", "  ".repeat(level)));
    }
    assert!(parse_all(&[&text]).has_errors());
}

#[test]
fn a_large_file_loads() {
    let mut text = String::from("domain: edge\ndescriptors:\n");
    for index in 0..20_000 {
        text.push_str(&format!(
            "  - {{key: user, value: u{index}, token_bucket: {{rate: 5/s}}}}\n"
        ));
    }
    let loaded = parse_all(&[&text]);
    assert!(!loaded.has_errors());
    assert_eq!(loaded.domains[0].descriptors.len(), 20_000);
}

#[test]
fn many_wildcards_are_compared_in_bounded_time() {
    let mut text = String::from("domain: edge\ndescriptors:\n");
    for index in 0..10_000 {
        text.push_str(&format!("  - {{key: path, value: /{index}/*}}\n"));
    }
    assert!(!parse_all(&[&text]).has_errors());
}
