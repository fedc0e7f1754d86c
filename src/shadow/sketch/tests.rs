use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// How often each key comes, by its number.
fn truth(keys: &[u16]) -> BTreeMap<String, u64> {
    let mut truth = BTreeMap::new();
    for key in keys {
        *truth.entry(key.to_string()).or_default() += 1;
    }
    truth
}

fn sketch(keys: &[u16]) -> Top {
    let mut sketch = Sketch::default();
    keys.iter().for_each(|key| sketch.count(&key.to_string()));
    sketch.take()
}

/// That what is said of keys is so, where so many were counted.
fn assert_bounds(top: &Top, truth: &BTreeMap<String, u64>, places: u64) {
    let total: u64 = truth.values().sum();
    assert!(top.counters().len() <= MOST_COUNTERS);
    for counter in top.counters() {
        let true_count = truth[&*counter.key];
        assert!(counter.at_least() <= true_count, "{counter:?} of {true_count}");
        assert!(counter.count >= true_count, "{counter:?} of {true_count}");
        assert!(counter.error <= total / places, "{counter:?} of {total}");
    }
    for (key, count) in truth {
        let is_there = top.counters().iter().any(|counter| *counter.key == **key);
        assert!(is_there || *count <= total / places, "{key} has {count} of {total}");
    }
}

#[test]
fn few_keys_are_counted_exactly() {
    let top = sketch(&[1, 2, 1, 3, 1, 2]);
    let of = |key: &str| top.counters().iter().find(|counter| *counter.key == *key).unwrap();
    for (key, count) in [("1", 3), ("2", 2), ("3", 1)] {
        assert_eq!((of(key).count, of(key).error), (count, 0));
    }
    assert_eq!(&*top.counters()[0].key, "1", "the heaviest is first");
}

#[test]
fn what_was_taken_is_not_counted_again() {
    let mut sketch = Sketch::default();
    sketch.count("ada");
    assert_eq!(sketch.take().counters().len(), 1);
    assert_eq!(sketch.take(), Top::default());
}

#[test]
fn who_becomes_heavy_late_is_found_beside_those_who_were_before() {
    let early: Vec<u16> = (0..200).flat_map(|key| [key; 50]).collect();
    let mut day = sketch(&early);
    for _ in 0..40 {
        day.merge(&sketch(&[777; 100]));
    }
    let heaviest = day.counters().iter().max_by_key(|counter| counter.at_least()).unwrap();
    assert_eq!((&*heaviest.key, heaviest.at_least()), ("777", 4000));
}

/// Some keys often, many seldom.
fn any_keys() -> impl Strategy<Value = Vec<u16>> {
    let key = prop_oneof![0..10_u16, 0..150_u16, 0..2000_u16];
    proptest::collection::vec(key, 0..3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_count_is_too_low_and_none_too_high_by_more_than_its_error(keys in any_keys()) {
        assert_bounds(&sketch(&keys), &truth(&keys), MOST_COUNTERS as u64);
    }

    #[test]
    fn what_is_merged_says_no_more_than_the_truth(parts in proptest::collection::vec(any_keys(), 0..6)) {
        let mut merged = Top::default();
        parts.iter().for_each(|part| merged.merge(&sketch(part)));
        let truth = truth(&parts.concat());
        for counter in merged.counters() {
            prop_assert!(counter.at_least() <= truth[&*counter.key], "{:?}", counter);
        }
        prop_assert!(merged.counters().len() <= MOST_COUNTERS);
        // The errors of all parts add up, and that of the merging comes once more.
        let total: u64 = truth.values().sum();
        for (key, count) in &truth {
            let is_there = merged.counters().iter().any(|counter| *counter.key == **key);
            prop_assert!(is_there || *count <= 2 * total / MOST_COUNTERS as u64, "{} has {}", key, count);
        }
    }
}
