use super::*;
use crate::config::domains_of;

const RULES: &str = "
domain: edge
pools: {api: {capacity: 5, utilization: {shed: [get]}}}
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 5, name: everybody}}
  - {key: user, value: root, rate_limit: {unit: day, requests_per_unit: 50}}
  - key: a=b
    descriptors:
      - key: path
        value: /x/*
        descriptors:
          - key: path
            limits:
              - {name: twice, rate_limit: {unit: day, requests_per_unit: 1}}
              - {name: everybody, concurrency: {max: 3}}
  - {key: shared, value: 's*', share_threshold: true, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: fleet, fleet: {pool: api}}
  - {key: class, utilization: {pool: api}}

";

fn rules() -> Rules {
    Rules::new(domains_of(RULES))
}

fn counter(word: &str, values: &[&str]) -> Result<String, String> {
    let rules = rules();
    let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
    let placed = rules.rule_meant_by(word).map_err(|error| error.to_string())?;
    let counter = rules.counter_of(&placed, &values).map_err(|error| error.to_string())?;
    Ok(counter.path)
}

#[test]
fn a_word_is_a_path_a_name_a_domain_or_everything() {
    let rules = rules();
    let meant = |word: &str| rules.meant_by(word).map(|scope| scope.path);
    assert_eq!(meant("*").unwrap(), "*");
    assert_eq!(meant("edge").unwrap(), "edge");
    assert_eq!(meant("edge:user=root").unwrap(), "edge:user=root");
    assert_eq!(meant("twice").unwrap(), "edge:a%3Db:path=/x/*:path#twice");
    let several = meant("everybody").unwrap_err().to_string();
    assert!(several.contains("edge:user, edge:a%3Db:path=/x/*:path#everybody"), "{several}");
    let nothing = meant("ROOT").unwrap_err().to_string();
    assert!(nothing.contains("did you mean edge:user=root?"), "{nothing}");
    assert!(rules.rule_meant_by("edge").is_err() && rules.rule_meant_by("*").is_err());
}

#[test]
fn a_counter_is_the_one_that_requests_share() {
    assert_eq!(counter("edge:user", &["user=ada"]).unwrap(), "edge:user=ada");
    assert_eq!(counter("edge:user", &["user=a=b:c"]).unwrap(), "edge:user=a%3Db%3Ac");
    assert_eq!(counter("edge:user", &["user="]).unwrap(), "edge:user=");
    assert_eq!(counter("edge:user=root", &[]).unwrap(), "edge:user=root");
    assert_eq!(counter("edge:user=root", &["user=root"]).unwrap(), "edge:user=root");
    let both = counter("twice", &["a=b=1", "path=/x/1", "path=2"]).unwrap();
    assert_eq!(both, "edge:a%3Db=1:path=/x/1:path=2#twice");
    assert_eq!(counter("edge:shared=s*", &[]).unwrap(), "edge:shared=s*");
    assert_eq!(counter("edge:shared=s*", &["shared=sea"]).unwrap(), "edge:shared=s*");
    assert_eq!(counter("edge:fleet", &[]).unwrap(), "edge#api");
}

#[test]
fn what_reaches_no_counter_says_why() {
    for (word, values, why) in [
        ("edge:user", &[][..], "edge:user counts by user: say which, as `user=VALUE`"),
        ("edge:user", &["user=root"], "does not meet edge:user: it meets edge:user=root"),
        ("edge:user", &["user=a", "user=b"], "does not count by \"user=b\", but by user"),
        ("edge:user=root", &["user=ada"], "one counter for all, so leave that out"),
        ("twice", &["a=b=1", "path=/y", "path=2"], "counts by path"),
        ("edge:shared=s*", &["shared=x"], "one counter for all"),
        ("edge:free", &["free=1"], "it is no limit"),
        ("edge:fleet", &["fleet=1"], "one counter for all"),
        ("edge:class", &["class=get"], "goes by what workers report"),
    ] {
        let error = counter(word, values).unwrap_err();
        assert!(error.contains(why), "{word} {values:?}: {error}");
    }
}
