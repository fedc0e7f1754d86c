use super::*;
use crate::{
    limiter::{Limit, fleet, token_bucket},
    unit::Unit,
};
use proptest::prelude::*;
use serde_json::Map;
use sfv::{List, ListEntry, Parser};

fn per(amount: u32, unit: Unit) -> Limit {
    Limit::TokenBucket(token_bucket::Limit::per_unit(amount, unit))
}

fn bursts(rate: token_bucket::Rate, burst: u32) -> Limit {
    Limit::TokenBucket(token_bucket::Limit::new(rate, burst))
}

fn slots(max: u32) -> Limit {
    let term = crate::lease::Term::default();
    Limit::Concurrency(crate::limiter::concurrency::Limit { max, term, weighs_hits: false })
}

fn status(name: Option<&str>, limit: Limit, remaining: u32, reset_s: Option<u64>) -> Status {
    let requests_per_unit = limit.amount().unwrap();
    let name = name.map(str::to_owned);
    let limit = Some(ShownLimit { name, requests_per_unit, limit });
    Status { code: Code::Ok, limit, remaining, reset_s }
}

fn over(status: Status) -> Status {
    Status { code: Code::OverLimit, remaining: 0, ..status }
}

pub(in crate::grpc) fn decision(statuses: Vec<Status>) -> Decision {
    Decision {
        code: Code::Ok,
        delay_us: 0,
        statuses,
        enforced_over: None,
        standings: Vec::new(),
        refused: None,
        lease: None,
        metadata: Map::new(),
        degraded: false,
        limit_matched: true,
    }
}

fn standing(name: &str, limit: Limit, remaining: u32, reset_s: Option<u64>) -> Standing {
    Standing { name: name.to_owned(), status: status(None, limit, remaining, reset_s) }
}

fn pairs(headers: Vec<HeaderValue>) -> Vec<(String, String)> {
    headers.into_iter().map(|header| (header.key, header.value)).collect()
}

/// What is written in Envoy's dialect, name by name.
fn in_envoys(decision: &Decision) -> Vec<(String, String)> {
    pairs(rate_limit(decision, &RateLimitHeaders::XRateLimit))
}

/// `RateLimit-Policy` and `RateLimit`; both empty where they are left out.
fn in_the_ietfs(standings: Vec<Standing>) -> [String; 2] {
    let decision = Decision { standings, ..decision(vec![]) };
    let headers = pairs(rate_limit(&decision, &RateLimitHeaders::Ietf));
    let names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
    assert!(matches!(names[..], [] | ["RateLimit-Policy", "RateLimit"]), "{names:?}");
    let mut values = headers.into_iter().map(|(_, value)| value);
    [(); 2].map(|()| values.next().unwrap_or_default())
}

/// The names in a list, which must be one of structured fields.
fn names_in(list: &str) -> Vec<String> {
    let parsed: List = Parser::new(list).parse().unwrap_or_else(|error| panic!("{list}: {error}"));
    let items = parsed.into_iter().map(|entry| match entry {
        ListEntry::Item(item) => item.bare_item.as_string().unwrap().as_str().to_owned(),
        ListEntry::InnerList(_) => panic!("{list}"),
    });
    items.collect()
}

#[test]
fn envoys_dialect_shows_the_least_that_is_left_and_every_policy() {
    let minute = status(Some("per minute"), per(10, Unit::Minute), 7, Some(18));
    let day = status(None, per(100, Unit::Day), 3, Some(90));
    let bursts = bursts(token_bucket::Rate::per(100, Unit::Second), 250);
    let bursts = status(None, bursts, 200, Some(1));
    let headers = in_envoys(&decision(vec![minute, day, bursts]));
    let policies = "100, 10;w=60;name=\"per minute\", 100;w=86400, 250;w=3";
    let expected = [
        ("x-ratelimit-limit", policies),
        ("x-ratelimit-remaining", "3"),
        ("x-ratelimit-reset", "90"),
    ];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn what_refuses_by_itself_is_shown_though_a_quota_has_as_little_left() {
    let quota = over(status(None, per(500, Unit::Day), 0, Some(9)));
    let enforced = over(status(None, per(5, Unit::Minute), 0, Some(12)));
    let decision =
        Decision { enforced_over: Some(enforced.clone()), ..decision(vec![quota, enforced]) };
    assert_eq!(in_envoys(&decision)[0].1, "5, 500;w=86400, 5;w=60");
    let names = HeaderNames { limit: "L".into(), remaining: "R".into(), reset: "T".into() };
    let separate = pairs(rate_limit(&decision, &RateLimitHeaders::Separate(names)));
    let expected = [("L", "5"), ("R", "0"), ("T", "12")];
    assert_eq!(separate, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn a_limit_that_never_resets_says_no_time() {
    let never = over(status(None, per(0, Unit::Day), 0, None));
    let headers = in_envoys(&decision(vec![never]));
    assert_eq!(headers.len(), 2);
    assert_eq!(headers[0].1, "0", "0 in no time is no policy");
    let [policy, state] = in_the_ietfs(vec![standing("none", per(0, Unit::Day), 0, None)]);
    assert_eq!([policy, state], ["\"none\";q=0", "\"none\";r=0"]);
}

#[test]
fn how_much_room_a_pool_has_is_nobodys_business() {
    let term = crate::lease::Term::default();
    let fleet = Limit::Fleet(fleet::Limit {
        capacity: fleet::Capacity::Slots(1000),
        reserved_parts: 0,
        critical: false,
        term,
        weighs_hits: false,
    });
    let pool = over(status(None, fleet, 0, Some(1)));
    let minute = status(None, per(10, Unit::Minute), 7, Some(18));
    assert_eq!(in_envoys(&decision(vec![pool.clone(), minute.clone()]))[0].1, "10, 10;w=60");
    let refused = Decision { enforced_over: Some(pool), ..decision(vec![minute]) };
    assert_eq!(in_envoys(&refused), []);
}

#[test]
fn nothing_is_added_where_nothing_limits_or_nothing_is_wanted() {
    let bare = Status { code: Code::Ok, limit: None, remaining: u32::MAX, reset_s: None };
    assert_eq!(in_envoys(&decision(vec![bare])), []);
    assert_eq!(in_the_ietfs(vec![]), ["", ""]);
    let limited = decision(vec![status(None, per(10, Unit::Minute), 7, Some(18))]);
    assert_eq!(rate_limit(&limited, &RateLimitHeaders::None), []);
}

#[test]
fn the_ietfs_dialect_lists_every_limit_with_its_window() {
    let [policies, states] = in_the_ietfs(vec![
        standing("daily", per(1000, Unit::Day), 990, Some(864)),
        standing("plan, user", per(50, Unit::Second), 0, Some(1)),
        standing("slots", slots(20), 12, Some(1)),
    ]);
    assert_eq!(
        policies,
        r#""daily";q=1000;w=86400, "plan, user";q=50;w=1, "slots";q=20;qu="concurrent-requests""#
    );
    assert_eq!(states, r#""daily";r=990;t=864, "plan, user";r=0;t=1, "slots";r=12"#);
}

#[test]
fn one_limit_met_twice_is_told_once_as_it_is_nearest_to_a_refusal() {
    let user = per(50, Unit::Second);
    let [policies, states] =
        in_the_ietfs(vec![standing("user", user, 9, Some(1)), standing("user", user, 8, Some(2))]);
    assert_eq!([policies, states], [r#""user";q=50;w=1"#, r#""user";r=8;t=2"#]);
}

#[test]
fn limits_of_one_name_are_told_apart() {
    let [policies, states] = in_the_ietfs(vec![
        standing("user", per(50, Unit::Second), 9, Some(1)),
        standing("user", per(1000, Unit::Day), 8, Some(90)),
        standing("user 2", per(7, Unit::Hour), 7, Some(90)),
        standing("user", per(1000, Unit::Day), 6, Some(99)),
    ]);
    let names = ["user", "user 2", "user 2 2"];
    assert_eq!(names_in(&policies), names);
    assert_eq!(names_in(&states), names);
    assert!(states.contains(r#""user 2";r=6;t=99"#), "{states}");
}

#[test]
fn a_window_is_so_long_that_all_of_the_quota_arrives_in_it() {
    let rate = |tokens, period_us| token_bucket::Rate { tokens, period_us };
    let cases = [
        (rate(100, 1_000_000), 1, 1),
        (rate(100, 1_000_000), 100, 1),
        (rate(100, 1_000_000), 101, 2),
        (rate(3, 30_000_000), 10, 100),
        (rate(1, 365 * 86_400_000_000), u32::MAX, GREATEST),
    ];
    for (rate, burst, window) in cases {
        let [policy, _] = in_the_ietfs(vec![standing("a", bursts(rate, burst), 1, Some(1))]);
        assert_eq!(policy, format!(r#""a";q={burst};w={window}"#));
        names_in(&policy);
    }
}

#[test]
fn however_many_and_long_the_names_the_headers_stay_short() {
    let limits = (1..500).map(|amount| per(amount, Unit::Day)).collect::<Vec<_>>();
    for name in ["a".repeat(10), "ü".repeat(300), "\"".repeat(9000)] {
        let standings = limits.iter().map(|&limit| standing(&name, limit, 1, Some(1))).collect();
        let [policies, states] = in_the_ietfs(standings);
        assert!(policies.len() <= LONGEST && states.len() <= LONGEST);
        if !policies.is_empty() {
            assert_eq!(names_in(&policies), names_in(&states));
        }
        let statuses = limits.iter().map(|&limit| status(Some(&name), limit, 1, Some(1)));
        assert!(in_envoys(&decision(statuses.collect()))[0].1.len() <= LONGEST);
    }
}

proptest! {
    #[test]
    fn whatever_a_limit_is_called_its_headers_can_be_read(name in any::<String>()) {
        let [policies, states] = in_the_ietfs(vec![standing(&name, per(5, Unit::Hour), 4, Some(720))]);
        let names = names_in(&policies);
        prop_assert_eq!(names.len(), 1);
        prop_assert_eq!(&names, &names_in(&states));
        if name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            prop_assert_eq!(&names[0], &name);
        }
    }
}
