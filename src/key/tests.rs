use super::*;
use std::collections::HashMap;

/// A piece of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Value(Vec<u8>, Vec<u8>),
    Wildcard(Vec<u8>, Vec<u8>),
}

/// What tells one of several limits from the others.
#[derive(Debug, Clone, PartialEq)]
enum Label {
    Name(String),
    Place(usize),
}

/// All that a state's identity is made of.
type Parts = (Vec<u8>, Vec<Step>, Option<Label>);

fn path((domain, steps, label): &Parts) -> Path {
    let mut path = Path::of_domain(domain);
    for step in steps {
        match step {
            Step::Value(key, value) => path.push_value(key, value),
            Step::Wildcard(key, pattern) => path.push_wildcard(key, pattern),
        }
    }
    match label {
        None => {}
        Some(Label::Name(name)) => path.push_name(name),
        Some(Label::Place(place)) => path.push_place(*place),
    }
    path
}

fn key(parts: &Parts) -> Key {
    Key::new("token_bucket", &path(parts))
}

/// Short texts of bytes that mean something in the grammar, and what they are escaped to: what could be
/// mistaken for something else is among them.
fn tricky_texts() -> Vec<Vec<u8>> {
    const BYTES: &[u8] = b"a1:=#*~%\xff";
    let pairs = BYTES.iter().flat_map(|&a| BYTES.iter().map(move |&b| vec![a, b]));
    let escaped = BYTES.iter().map(|byte| format!("%{byte:02X}").into_bytes());
    let like_steps = ["a:a=a", "a=a#a", "a#1"].map(|text| text.as_bytes().to_vec());
    let single = BYTES.iter().map(|&byte| vec![byte]);
    [Vec::new()].into_iter().chain(single).chain(pairs).chain(escaped).chain(like_steps).collect()
}

fn every_step(keys: &[Vec<u8>], values: &[Vec<u8>]) -> Vec<Step> {
    let both = |key: &Vec<u8>, value: &Vec<u8>| {
        let (key, value) = (key.clone(), value.clone());
        // Without a star it would be no wildcard.
        let wildcard = value.contains(&b'*').then(|| Step::Wildcard(key.clone(), value.clone()));
        [Some(Step::Value(key, value)), wildcard]
    };
    let pairs = keys.iter().flat_map(|key| values.iter().map(move |value| (key, value)));
    pairs.flat_map(|(key, value)| both(key, value)).flatten().collect()
}

#[test]
fn different_identities_have_different_keys() {
    let texts = tricky_texts();
    let few: Vec<Vec<u8>> = [&b"a"[..], b"", b"*", b"a=a"].map(<[u8]>::to_vec).to_vec();
    let names = texts.iter().filter_map(|text| String::from_utf8(text.clone()).ok());
    let mut labels: Vec<Option<Label>> = vec![None, Some(Label::Place(1)), Some(Label::Place(11))];
    labels.extend(names.filter(|name| !name.is_empty()).map(|name| Some(Label::Name(name))));

    let a = b"a".to_vec();
    let mut all: Vec<Parts> = Vec::new();
    all.extend(texts.iter().map(|domain| (domain.clone(), Vec::new(), None)));
    let one = every_step(&texts, &texts);
    all.extend(one.into_iter().map(|step| (a.clone(), vec![step], None)));
    let some = every_step(&few, &few);
    for first in &some {
        let one = |label: &Option<Label>| (a.clone(), vec![first.clone()], label.clone());
        all.extend(labels.iter().map(one));
        all.extend(
            some.iter().map(|second| (a.clone(), vec![first.clone(), second.clone()], None)),
        );
    }

    let mut seen: HashMap<Key, Parts> = HashMap::new();
    for parts in all {
        let key = key(&parts);
        if let Some(other) = seen.insert(key.clone(), parts.clone()) {
            assert_eq!(other, parts, "both have the key {}", key.as_str());
        }
    }
    assert!(seen.len() > 10_000);
}

#[test]
fn a_key_is_short_printable_ascii() {
    for length in 0..300 {
        for byte in [0, b' ', b'a', 0xff] {
            let steps = vec![Step::Value(b"user".to_vec(), vec![byte; length])];
            let key = key(&(b"edge".to_vec(), steps, None));
            assert!(key.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
            assert!(key.as_str().len() <= "tg1:token_bucket:".len() + LONGEST);
        }
    }
}

#[test]
fn keys_read_as_the_grammar_says() {
    let user = |label| {
        let steps = vec![
            Step::Value(b"plan".to_vec(), b"free".to_vec()),
            Step::Value(b"user".to_vec(), b"a:b c".to_vec()),
        ];
        key(&(b"edge".to_vec(), steps, label)).as_str().to_owned()
    };
    assert_eq!(user(None), "tg1:token_bucket:edge:plan=free:user=a%3Ab%20c");
    assert!(user(Some(Label::Name("daily".to_owned()))).ends_with("#daily"));
    assert!(user(Some(Label::Place(2))).ends_with("#2"));
    assert!(user(Some(Label::Name("2".to_owned()))).ends_with("#%32"), "a name, and not a place");
}

#[test]
fn long_values_that_differ_at_the_end_have_different_keys() {
    let user = |last: u8| {
        let mut value = vec![b'x'; 50_000];
        value.push(last);
        key(&(b"edge".to_vec(), vec![Step::Value(b"user".to_vec(), value)], None))
    };
    assert_ne!(user(b'a'), user(b'b'));
    assert_eq!(user(b'a'), user(b'a'));
}
