//! envoyproxy/ratelimit's own files: those it loads load here, those it refuses are refused.

use super::{merge_all, parse_all};
use serde_json::Value;

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("../cases.json")).unwrap()
}

fn load(case: &Value) -> tollgate::config::Loaded {
    let texts: Vec<_> =
        case["configs"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let merge = case["env"]["MERGE_DOMAIN_CONFIG"] == "true";
    if merge { merge_all(&texts) } else { parse_all(&texts) }
}

#[test]
fn what_it_loads_loads() {
    let must = cases().into_iter().filter(|case| case["level"] == "must");
    let mut count = 0;
    for case in must.filter(|case| case["config_error"].is_null()) {
        let loaded = load(&case);
        assert!(!loaded.has_errors(), "{}:\n{}", case["name"], loaded.render(false));
        count += 1;
    }
    assert!(count > 80, "{count} cases");
}

#[test]
fn what_it_refuses_is_refused_with_a_line() {
    let must = cases().into_iter().filter(|case| case["level"] == "must");
    let mut count = 0;
    for case in must.filter(|case| !case["config_error"].is_null()) {
        let loaded = load(&case);
        assert!(loaded.has_errors(), "{}", case["name"]);
        for diagnostic in &loaded.diagnostics {
            assert!(diagnostic.place.is_some_and(|place| place.line > 0), "{}", case["name"]);
            assert!(!diagnostic.help.is_empty(), "{}: {diagnostic:?}", case["name"]);
        }
        count += 1;
    }
    assert!(count >= 19, "{count} cases");
}

/// Where we differ on purpose.
#[test]
fn quirks_are_not_copied() {
    let quirk = |name: &str| {
        let case = cases().into_iter().find(|case| case["name"] == name).unwrap();
        load(&case).has_errors()
    };
    assert!(!quirk("config_error_duplicate_by_join"), "a_b is not the key a with the value b");
    assert!(quirk("config_multi_document_yaml_second_document_ignored"), "nothing is ignored");
    assert!(quirk("unlimited_with_unknown_unit_text_is_accepted"), "nothing is ignored");
    assert!(quirk("count_missing_requests_per_unit_means_zero"), "nobody means to refuse all");
}
