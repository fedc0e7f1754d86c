use super::*;
use crate::rules::Effect;

fn step(key: &str, value: Option<&str>, value_to_metric: bool) -> Step {
    let is_shared = value.is_some_and(|value| value.contains('*'));
    Step { key: key.into(), value: value.map(Box::from), is_shared, value_to_metric }
}

fn entries(entries: &[(&str, &[u8])]) -> Vec<Entry> {
    let entry = |(key, value): &(&str, &[u8])| Entry {
        key: key.as_bytes().to_vec().into(),
        value: value.to_vec().into(),
    };
    entries.iter().map(entry).collect()
}

#[test]
fn only_what_is_asked_for_is_told() {
    let plan = step("plan", Some("free"), true);
    let user = step("user", None, false);
    let asked = entries(&[("plan", b"free"), ("user", b"alice")]);
    let text = |steps: &[Step], is_detailed| {
        Values::of(steps, is_detailed).map(|values| values.text(&asked))
    };
    let steps = [plan, user];
    assert_eq!(text(&steps, true).as_deref(), Some("plan=free,user=alice"));
    assert_eq!(text(&steps, false).as_deref(), Some("plan=free"));
    assert_eq!(text(&steps[1..], false), None);
}

#[test]
fn a_shared_wildcard_stands_for_what_it_matches() {
    let values = Values::of(&[step("path", Some("/api/*"), false)], true).unwrap();
    assert_eq!(values.text(&entries(&[("path", b"/api/x")])), "path=/api/*");
}

#[test]
fn whatever_bytes_come_the_text_is_short_printable_and_different_for_different_values() {
    let values = Values::of(&[step("user", None, false)], true).unwrap();
    let text = |value: &[u8]| values.text(&entries(&[("user", value)]));
    assert_eq!(text(b"a,b=c\n\xff\""), "user=a%2Cb%3Dc%0A%FF%22");
    let (long, longer) = (text(&[0; 50_000]), text(&[0; 50_001]));
    assert!(long.len() < 256 && long != longer, "{long}");
    assert_ne!(text(b"(other)"), OTHERS);
    assert_ne!(text(&[b'x'; 65]), text(&[b'x'; 64]));
}

#[test]
fn a_rule_tells_so_many_values_apart_and_all_rules_so_many_more() {
    let room = Room::default();
    let rules: Vec<ByValue> = (0..20).map(|_| ByValue::new(&room)).collect();
    for rule in &rules {
        for value in 0..2 * MOST_VALUES {
            rule.tally(&format!("user={value}")).count(Effect::Allowed);
        }
    }
    let known = |rule: &ByValue| rule.known.load().len();
    assert!(rules.iter().take(10).all(|rule| known(rule) == MOST_VALUES));
    assert!(rules.iter().skip(10).all(|rule| known(rule) == 0));
    // Everything is counted once, by its value or as others.
    for rule in &rules {
        let mut sum = 0;
        rule.each(|_, tally| sum += tally.of(Effect::Allowed));
        assert_eq!(sum, 2 * MOST_VALUES as u64);
    }
    // A rule that is gone leaves its room to others.
    let rules: Vec<ByValue> = rules.into_iter().skip(1).collect();
    for value in 0..MOST_VALUES {
        rules[18].tally(&format!("user={value}"));
    }
    assert_eq!(known(&rules[18]), MOST_VALUES);
}

#[test]
fn a_million_values_are_as_many_as_a_thousand() {
    let rule = ByValue::new(&Room::default());
    for value in 0..1_000_000 {
        rule.tally(&format!("user={value}")).count(Effect::Allowed);
    }
    assert_eq!(rule.known.load().len(), MOST_VALUES);
    assert_eq!(rule.others.of(Effect::Allowed), 1_000_000 - MOST_VALUES as u64);
}

#[test]
fn those_who_bring_a_new_value_at_a_time_count_into_one_tally() {
    let room = Room::default();
    let rule = ByValue::new(&room);
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for value in 0..500 {
                    rule.tally(&format!("user={value}")).count(Effect::Refused);
                }
            });
        }
    });
    rule.each(|values, tally| {
        let count = if values == OTHERS { 0 } else { 8 };
        assert_eq!(tally.of(Effect::Refused), count, "{values}");
    });
    assert_eq!(room.load(Ordering::Relaxed), 500);
}
