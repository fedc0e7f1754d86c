use super::*;
use crate::clock::Clock;
use std::{collections::HashMap, hint::black_box};

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

/// The keys that stand in stores since the first version: a change would forget what is used.
#[test]
fn keys_are_as_they_have_always_been() {
    let user = |value: &[u8]| vec![Step::Value(b"user".to_vec(), value.to_vec())];
    let of = |value: &[u8]| key(&(b"edge".to_vec(), user(value), None)).as_str().to_owned();
    let all: Vec<u8> = (0..=255).collect();
    let windows: Vec<String> = all.chunks(64).map(of).collect();
    assert_eq!(
        windows,
        [
            "tg1:token_bucket:edge:user=%00%01%02%03%04%05%06%07%08%09%0A%0B%0C%0D%0E%0F%10%11%12%13%14%15%16%17%18%19%1A%1B%1C%1D%1E%1F%20!\"%23$%25&'()%2A+,-./0123456789%3A;<%3D>?",
            "tg1:token_bucket:edge:user=@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}%7E%7F",
            "tg1:token_bucket:edge:user=%80%81%82%83%84%85%86%87%88%89%8A%8B%8C%8D%8E%8F%90%91%92%93%94%95%96%97%98%99%9A%9B%9C%9D%9E%9F%A0%A1%A2%A3%A4%A5%A6%A7%A8%A9%AA%AB%AC%AD%AE%AF%B0%B1%B2%B3%B4%B5%B6%B7%B8%B9%BA%BB%BC%BD%BE%BF",
            "tg1:token_bucket:edge:user=%C0%C1%C2%C3%C4%C5%C6%C7%C8%C9%CA%CB%CC%CD%CE%CF%D0%D1%D2%D3%D4%D5%D6%D7%D8%D9%DA%DB%DC%DD%DE%DF%E0%E1%E2%E3%E4%E5%E6%E7%E8%E9%EA%EB%EC%ED%EE%EF%F0%F1%F2%F3%F4%F5%F6%F7%F8%F9%FA%FB%FC%FD%FE%FF",
        ]
    );
    let steps = vec![
        Step::Value(b"a b\xff".to_vec(), b"".to_vec()),
        Step::Wildcard(b"path".to_vec(), b"/api/*:=#~%*\xc3\xa9".to_vec()),
    ];
    let named = key(&(b"e:d#g*e~%=".to_vec(), steps, Some(Label::Name("7".to_owned()))));
    let text =
        "tg1:token_bucket:e%3Ad%23g%2Ae%7E%25%3D:a%20b%FF=:path=/api/*%3A%3D%23%7E%25*%C3%A9#%37";
    assert_eq!(named.as_str(), text);
    let label = Some(Label::Name("caf\u{e9} *".to_owned()));
    let named = key(&(b"edge".to_vec(), user(b"x"), label));
    assert_eq!(named.as_str(), "tg1:token_bucket:edge:user=x#caf%C3%A9%20%2A");

    // The longest path that stands as it is, and what is hashed.
    assert_eq!(of(&[0xff; 82]), format!("tg1:token_bucket:edge:user={}", "%FF".repeat(82)));
    let mixed: Vec<u8> = (0..50_000_u32).map(|at| (at.wrapping_mul(at) % 251) as u8).collect();
    for (value, hash) in [
        (all, "73e5933e7194948fdab5db140b5e5abb147bcef127736ec0670500910fc578bf"),
        (vec![0xff; 50_000], "7e2bce00b9eddc5c4fe53cc9ab8b2db56e15def618f185ba7625a11af7c255b4"),
        (vec![b'x'; 50_000], "733a2ead2b5d5f77f6f79f1b8b66927fcae5154988e434e3f7cb842a9724d353"),
        (mixed, "f236a4b4a34bbb5334b4fc156cfeb187f124f28219536c9fc1c6c62e2d6870fd"),
    ] {
        assert_eq!(of(&value), format!("tg1:token_bucket:~{hash}"));
    }
    let steps = vec![Step::Wildcard(b"path".to_vec(), b"/a*".repeat(200))];
    let hash = "e027cf8af006b39bfa3a539f9145fbbbce8554170aedef0617a4237ddfe26024";
    let wildcard = key(&(b"edge".to_vec(), steps, None));
    assert_eq!(wildcard.as_str(), format!("tg1:token_bucket:~{hash}"));
}

/// What escaping was before: each byte formatted by itself.
fn formatted(domain: &[u8], entry: &[u8], value: &[u8]) -> String {
    let escaped = |bytes: &[u8]| {
        let mut text = String::new();
        for &byte in bytes {
            if byte.is_ascii_graphic() && !is_special(byte) {
                text.push(char::from(byte));
            } else {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text
    };
    format!("{}:{}={}", escaped(domain), escaped(entry), escaped(value))
}

#[test]
fn what_is_escaped_in_blocks_reads_as_if_each_byte_was_formatted() {
    let mut number = 1_u32;
    for length in 0..500 {
        let value: Vec<u8> = (0..length)
            .map(|_| {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Runs of plain text among what is escaped.
                if number >> 30 == 0 { (number >> 16) as u8 } else { b'a' }
            })
            .collect();
        let mut path = Path::of_domain(b"edge");
        path.push_value(b"user", &value);
        assert_eq!(path.as_str(), formatted(b"edge", b"user", &value));
    }
}

/// A caller who sends 50 KB of 0xFF costs about what the length of the text costs. Compared with formatting in the
/// same run, the least of many times each, so that no load of the machine matters.
#[test]
fn to_escape_is_much_cheaper_than_to_format() {
    let clock = Clock::monotonic();
    let mixed: Vec<u8> = (0..50_000).map(|at| if at % 2 == 0 { 0xff } else { b'a' }).collect();
    for value in [vec![0xff; 50_000], mixed] {
        let [mut escaping, mut formatting] = [u64::MAX; 2];
        for _ in 0..100 {
            let began = clock.now();
            let mut path = Path::of_domain(b"edge");
            path.push_value(b"user", black_box(&value));
            black_box(path);
            let escaped = clock.now();
            black_box(formatted(b"edge", b"user", black_box(&value)));
            escaping = escaping.min(escaped - began);
            formatting = formatting.min(clock.now() - escaped);
        }
        assert!(2 * escaping < formatting, "{escaping} µs and {formatting} µs");
    }
}
