use super::*;
use crate::config::domains_of;

const SECOND: u64 = 1_000_000;

fn rules(keys: usize) -> Rules {
    let limits = (0..keys).map(|key| {
        format!("  - {{key: key-{key}, rate_limit: {{unit: day, requests_per_unit: 1}}}}\n")
    });
    let text = format!("domain: shop\ndescriptors:\n{}", limits.collect::<String>());
    Rules::new(domains_of(&text))
}

fn told(lines: &[(Level, String)]) -> Vec<&str> {
    lines.iter().map(|(_, line)| line.as_str()).collect()
}

#[test]
fn refusals_are_told_by_rule_now_and_then_and_none_is_forgotten() {
    let (rules, mut watch) = (rules(1), RefusalWatch::default());
    assert!(watch.tell(&rules, Timestamp::from_micros(0)).is_empty());
    let tally = &rules.placed()[0].tally;
    let mut lines = Vec::new();
    for second in 0..=60 {
        tally.count(Effect::Refused);
        tally.count(Effect::Allowed);
        lines.extend(watch.tell(&rules, Timestamp::from_micros(second * SECOND)));
    }
    let mut expected = vec!["requests refused: 1 by shop:key-0"];
    expected.resize(7, "requests refused: 10 by shop:key-0");
    assert_eq!(told(&lines), expected);
}

#[test]
fn what_is_dark_is_told_apart_and_of_many_rules_the_busiest() {
    let (rules, mut watch) = (rules(8), RefusalWatch::default());
    for (place, placed) in rules.placed().iter().enumerate() {
        (0..place).for_each(|_| placed.tally.count(Effect::WouldRefuse));
    }
    let lines = watch.tell(&rules, Timestamp::from_micros(0));
    let named = "7 by shop:key-7, 6 by shop:key-6, 5 by shop:key-5, 4 by shop:key-4, 3 by shop:key-3, 3 by 2 other rules";
    assert_eq!(told(&lines), [format!("requests would have been refused: {named}")]);
}

#[test]
fn requests_of_no_known_domain_are_told() {
    let (rules, mut watch) = (rules(1), RefusalWatch::default());
    rules.unknown_traffic().count(false, false);
    let lines = watch.tell(&rules, Timestamp::from_micros(0));
    assert!(told(&lines)[0].starts_with("1 request"), "{lines:?}");
    assert!(watch.tell(&rules, Timestamp::from_micros(20 * SECOND)).is_empty());
}
