use super::*;
use crate::{config::domains_of, order::Order};

const HOT: &str = "{rate: 100/s, burst: 100, grants: {}}";

/// One rule with grants in the domain `edge`, with more beside it, and one without in `mall`.
fn rules(limit: &str, more: &str, mall: u32) -> Vec<Domain> {
    let edge = format!(
        "domain: edge\ndescriptors:\n  - {{key: hot, token_bucket: {limit}}}\n  - {{key: cold, token_bucket: {{rate: 5/s, burst: 5}}}}\n{more}"
    );
    let mall = format!(
        "domain: mall\ndescriptors:\n  - {{key: user, token_bucket: {{rate: {mall}/s, burst: 5}}}}\n"
    );
    [domains_of(&edge), domains_of(&mall)].concat()
}

fn orders(fields: &[Order]) -> Orders {
    let texts = fields.iter().filter_map(|order| Some((&*order.field, order.text.as_deref()?)));
    Orders::read(texts, 0)
}

/// So many a second, and at once.
fn amount(tokens: u32) -> order::Amount {
    let rate = serde_json::json!({ "tokens": tokens, "period_us": 1_000_000, "burst": tokens });
    serde_json::from_value(serde_json::json!({ "token_bucket": rate })).unwrap()
}

#[test]
fn what_is_in_hand_is_outdated_where_its_limit_may_have_changed_and_not_by_others() {
    let before = Rules::new(rules(HOT, "", 5));
    let outdates = |next: Rules| {
        assert_eq!(next.generation(), before.generation() + 1);
        before.outdates_grants(&next)
    };
    assert!(!outdates(before.with_domains(rules(HOT, "", 5))));
    assert!(!outdates(before.with_domains(rules(HOT, "", 6))), "another domain");
    let lowered = "{rate: 10/s, burst: 100, grants: {}}";
    assert!(outdates(before.with_domains(rules(lowered, "", 5))));
    assert!(outdates(before.with_domains(rules("{rate: 100/s, burst: 100}", "", 5))));
    assert!(outdates(before.with_domains(domains_of("domain: mall\ndescriptors: []\n"))), "gone");
    // Another rule for some of its callers.
    let ada = "  - {key: hot, value: ada, token_bucket: {rate: 1/s, burst: 1}}\n";
    assert!(outdates(before.with_domains(rules(HOT, ada, 5))));

    let switched = |path| before.with_orders(orders(&Order::switch(path, order::Position::Off)));
    assert!(outdates(switched("edge:hot")));
    assert!(outdates(switched("edge")));
    assert!(!outdates(switched("mall:user")));
    let set = |rule: &str| {
        let amount = amount(1);
        let set = SetLimit { rule: rule.to_owned(), amount, until_us: None };
        before.with_orders(orders(&[Order::limit(&format!("{rule}=ada"), Some(&set))]))
    };
    assert!(outdates(set("edge:hot")));
    assert!(!outdates(set("edge:cold")) && !outdates(set("mall:user")));
}

const MANY: &str = "
domain: a:b
descriptors:
  - key: user
    token_bucket: {rate: 1/s, burst: 1}
    descriptors:
      - key: path
        value: /x/*
        token_bucket: {rate: 2/s, burst: 2}
      - key: path
        limits:
          - {name: daily, token_bucket: {rate: 3/day, burst: 3}}
          - token_bucket: {rate: 4/s, burst: 4}
  - {key: user, value: root, token_bucket: {rate: 5/s, burst: 5}}
  - key: shared
    value: 's*'
    share_threshold: true
    token_bucket: {rate: 6/s, burst: 6}
    descriptors:
      - {key: user, token_bucket: {rate: 7/s, burst: 7}}
  - {key: shared, value: '*', token_bucket: {rate: 8/s, burst: 8}}
  - {key: slots, concurrency: {max: 3}}
";

#[test]
fn the_limit_in_force_is_found_by_the_key_of_its_state() {
    let amount = amount(9);
    let set = SetLimit { rule: "a%3Ab:user".to_owned(), amount, until_us: None };
    let set = orders(&[Order::limit("a%3Ab:user=ada", Some(&set))]);
    let rules = Rules::new(domains_of(MANY)).with_orders(set);
    let requests: [&[[&str; 2]]; 11] = [
        &[["user", "ada"]],
        &[["user", "b:=#*~%41 \u{e9}"]],
        &[["user", "root"]],
        &[["user", ""]],
        &[["user", "ada"], ["path", "/x/1"]],
        &[["user", "ada"], ["path", "/y"]],
        &[["shared", "s1"]],
        &[["shared", "s*"]],
        &[["shared", "s1"], ["user", "ada"]],
        &[["shared", "t"]],
        &[["slots", "1"]],
    ];
    let mut found = 0;
    for entries in requests {
        let entry = |[key, value]: &[&'static str; 2]| Entry {
            key: bytes::Bytes::from_static(key.as_bytes()),
            value: bytes::Bytes::from_static(value.as_bytes()),
        };
        let descriptor = crate::request::Descriptor {
            entries: entries.iter().map(entry).collect(),
            ..crate::request::Descriptor::default()
        };
        let request = crate::request::Request {
            domain: bytes::Bytes::from_static(b"a:b"),
            descriptors: vec![descriptor],
            hits_addend: 0,
        };
        let resolution = rules.resolve(&request, false);
        let question = &resolution.question;
        assert!(!question.checks.is_empty(), "{entries:?}");
        for check in &question.checks {
            let is_bucket = matches!(check.limit, Limit::TokenBucket(_));
            let key = &question.keys[check.slot];
            let limit = rules.rate_limit_of(key);
            assert_eq!(limit, is_bucket.then_some(check.limit), "{}", key.as_str());
            found += u32::from(is_bucket);
        }
    }
    assert_eq!(found, 11);
    for key in
        ["tg1:token_bucket:other:user=a", "tg1:token_bucket:a%3Ab:user=a#no", "", "tg1:x:~12"]
    {
        assert_eq!(rules.rate_limit_of(&Key::read(key)), None, "{key}");
    }
}

#[test]
fn a_bucket_has_changed_where_its_rule_or_a_counter_of_it_has() {
    let before = Rules::new(rules(HOT, "", 5));
    let changed = |next: &Rules| next.changed_rate_limits(&before).len();
    assert_eq!(changed(&before.with_domains(rules(HOT, "", 5))), 0);
    assert_eq!(changed(&before.with_domains(rules(HOT, "", 6))), 1);
    let amount = amount(1);
    let set = SetLimit { rule: "mall:user".to_owned(), amount, until_us: None };
    let set = before.with_orders(orders(&[Order::limit("mall:user=ada", Some(&set))]));
    assert_eq!(changed(&set), 1);
    assert_eq!(set.with_orders(orders(&[])).changed_rate_limits(&set).len(), 1, "taken back");
}
