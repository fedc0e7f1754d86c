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
        let amount = order::Amount::Rate { tokens: 1, period_us: 1_000_000, burst: 1 };
        let set = SetLimit { rule: rule.to_owned(), amount, until_us: None };
        before.with_orders(orders(&[Order::limit(&format!("{rule}=ada"), Some(&set))]))
    };
    assert!(outdates(set("edge:hot")));
    assert!(!outdates(set("edge:cold")) && !outdates(set("mall:user")));
}
