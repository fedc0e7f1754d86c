use super::{super::Modes, *};
use crate::{
    config::domains_of,
    decider::tests::support::Test,
    request::{Descriptor, Entry, Request},
};

const RULES: &str = "
domain: test
descriptors:
  - {key: user, token_bucket: {rate: 1/day, burst: 2}, shadow_mode: true}
  - {key: off, token_bucket: {rate: 1/day}, shadow_mode: true, enabled: false}
  - {key: enforced, token_bucket: {rate: 1/day, burst: 2}}
  - key: named
    token_bucket: {rate: 1/day}
    shadow_mode: true
    name: careful
";

const SECOND: u64 = 1_000_000;

impl Test {
    /// Asks for something of this value of a key.
    async fn ask_as(&self, key: &str, value: &str) {
        let entry =
            Entry { key: key.as_bytes().to_vec().into(), value: value.as_bytes().to_vec().into() };
        let descriptor = Descriptor { entries: vec![entry], ..Descriptor::default() };
        let request =
            Request { domain: "test".into(), descriptors: vec![descriptor], hits_addend: 1 };
        self.decide(&request).await;
    }

    async fn text(&self, asked: Option<&str>) -> String {
        self.decider.shadow_report(asked).await.unwrap().text(None, 10)
    }
}

#[tokio::test]
async fn the_report_says_how_many_and_whom_and_forgets_window_by_window() {
    let test = Test::new(RULES, Modes::default());
    for (user, times) in [("ada", 3), ("bob", 7), ("eve", 2)] {
        for _ in 0..times {
            test.ask_as("user", user).await;
        }
    }
    test.ask_as("enforced", "ada").await;
    test.decider.tell_shadow().await;
    test.clock.advance(90 * SECOND);
    test.ask_as("user", &"x".repeat(300)).await;
    test.ask_as("user", &"x".repeat(300)).await;
    test.ask_as("user", &"x".repeat(300)).await;
    let text = test.text(None).await;
    let (start, hash) = text.split_once('~').unwrap();
    assert_eq!(
        start,
        "test:user   in shadow
  last minute   3 requests, 1 would be refused (33.3 %)
  last hour     15 requests, 7 would be refused (46.7 %)
  last day      15 requests, 7 would be refused (46.7 %)
  most often in the last hour:
    5   test:user=bob
    1   test:user=ada
    1   (long value) "
    );
    let (hash, others) = hash.split_once("…\n\n").unwrap();
    assert!(hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    assert_eq!(
        others,
        "test:named   in shadow
  last minute   no requests
  last hour     no requests
  last day      no requests
"
    );
}

#[tokio::test]
async fn rules_are_found_by_their_paths_their_names_and_their_domain() {
    let test = Test::new(RULES, Modes::default());
    for asked in ["test:named", "careful"] {
        assert!(test.text(Some(asked)).await.starts_with("test:named   in shadow\n"));
    }
    for (asked, rules) in [("test", 2), ("*", 2), ("test:user", 1), ("test:enforced", 1)] {
        assert_eq!(test.decider.shadow_report(Some(asked)).await.unwrap().rules.len(), rules);
    }
    let none = test.decider.shadow_report(Some("test:use")).await.unwrap_err().to_string();
    assert!(none.contains("did you mean test:user?"), "{none}");
}

#[tokio::test]
async fn what_left_shadow_or_is_gone_stays_readable_and_grows_no_more() {
    let test = Test::new(RULES, Modes::default());
    for _ in 0..4 {
        test.ask_as("user", "ada").await;
    }
    test.decider.tell_shadow().await;
    test.decider
        .replace_rules(domains_of(&RULES.replace("burst: 2}, shadow_mode: true", "burst: 2}")));
    for _ in 0..4 {
        test.ask_as("user", "ada").await;
    }
    let text = test.text(None).await;
    assert!(text.starts_with("test:user   not in shadow, or not any more\n"), "{text}");
    assert!(text.contains("4 requests, 2 would be refused (50 %)"), "{text}");

    test.decider.replace_rules(domains_of(&RULES.replace("key: user", "key: client")));
    assert!(!test.text(None).await.contains("test:user"));
    let text = test.text(Some("test:user")).await;
    assert!(text.starts_with("test:user   no rule, or not any more\n"), "{text}");
    assert!(text.contains("4 requests, 2 would be refused (50 %)"), "{text}");
    test.clock.advance(Unit::Day.micros());
    test.decider.shadow_report(Some("test:user")).await.unwrap_err();
}

#[tokio::test]
async fn a_process_in_shadow_mode_reports_on_every_rule() {
    let test = Test::new(RULES, Modes { shadow: true, ..Modes::default() });
    for _ in 0..5 {
        test.ask_as("enforced", "ada").await;
    }
    let text = test.text(Some("test:enforced")).await;
    assert!(text.contains("5 requests, 3 would be refused (60 %)"), "{text}");
}

#[tokio::test]
async fn of_more_rules_than_there_are_places_the_rest_is_told() {
    let rules: String = (0..MOST_RULES + 3)
        .map(|n| format!("  - {{key: k{n}, token_bucket: {{rate: 1/day}}, shadow_mode: true}}\n"))
        .collect();
    let test = Test::new(&format!("domain: test\ndescriptors:\n{rules}"), Modes::default());
    for n in 0..MOST_RULES + 3 {
        test.ask_as(&format!("k{n}"), "ada").await;
        test.ask_as(&format!("k{n}"), "ada").await;
    }
    let report = test.decider.shadow_report(None).await.unwrap();
    assert_eq!(report.left_out, 3);
    assert!(report.text(None, 0).contains("3 rules more in shadow: there are too many"));
    let decided = report.rules.iter().filter(|view| view.over(Window::Day).0.decided() == 2);
    assert_eq!(decided.count(), MOST_RULES);

    // Places that nobody needs are free a day later.
    test.clock.advance(Unit::Day.micros());
    test.decider.tell_shadow().await;
    let report = test.decider.shadow_report(None).await.unwrap();
    assert_eq!(report.left_out, 0);
}

#[test]
fn what_could_not_be_told_is_told_later() {
    let shadow = Shadow::default();
    let rules = Rules::default();
    let key = Key::read("tg1:token_bucket:test:user=ada");
    shadow.would_refuse("test:user", &key);
    let news = shadow.take(&rules, Timestamp::default());
    assert!(shadow.take(&rules, Timestamp::default()).is_empty());
    shadow.put_back(news.into_iter());
    shadow.would_refuse("test:user", &key);
    let news = shadow.take(&rules, Timestamp::default());
    let counters = news[0].1.top.counters();
    assert_eq!((&*counters[0].key, counters[0].count, counters.len()), ("test:user=ada", 2, 1));
}
