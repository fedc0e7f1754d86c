use super::*;
use crate::{
    lease::Term,
    limiter::{Limit, Setting, concurrency, token_bucket},
    unit::{Rate, Unit},
};

const ON: (bool, bool) = (true, false);

/// The orders that these say together.
fn orders(orders: &[Vec<Order>]) -> Orders {
    let fields = orders.iter().flatten().filter_map(|it| Some((&*it.field, it.text.as_deref()?)));
    Orders::read(fields, 0)
}

fn put(path: &str, position: Position) -> Vec<Order> {
    Order::switch(path, position)
}

fn of_user(orders: &Orders, written: (bool, bool)) -> (bool, bool) {
    in_force(orders, ("edge", "edge:user"), true, written)
}

#[test]
fn a_rule_goes_by_its_file_until_something_is_said_of_it() {
    for written in [(true, false), (true, true), (false, false), (false, true)] {
        assert_eq!(of_user(&Orders::default(), written), written);
    }
    let is_off = orders(&[put("edge:user", Position::Off)]);
    assert_eq!(of_user(&is_off, ON), (false, false));
    assert_eq!(in_force(&is_off, ("edge", "edge:other"), true, ON), ON);
}

#[test]
fn main_switches_hold_whatever_is_said_of_a_rule() {
    for main in ["edge", EVERYTHING] {
        let own = [put("edge:user", Position::On), put("edge:user", Position::Enforce)].concat();
        let shadow = orders(&[own.clone(), put(main, Position::Shadow)]);
        assert_eq!(of_user(&shadow, (false, true)), (true, true));
        let both = orders(&[own, put(main, Position::Shadow), put(main, Position::Off)]);
        assert_eq!(of_user(&both, (false, true)), (false, true));
        let off = orders(&[put(main, Position::Off)]);
        assert_eq!(of_user(&off, ON), (false, false));
        assert_eq!(in_force(&off, ("edge", "edge:report"), false, ON), ON, "it is no limit");
    }
    let other = orders(&[put("mall", Position::Off)]);
    assert_eq!(of_user(&other, ON), ON);
}

#[test]
fn who_says_one_thing_takes_nothing_back_of_the_other() {
    let both = orders(&[put("edge:user", Position::Off), put("edge:user", Position::Shadow)]);
    let said = Switch { enabled: Some(false), shadow_mode: Some(true) };
    assert_eq!(both.switches["edge:user"], said);
    let taken_back = put("edge:user", Position::Clear);
    assert!(taken_back.iter().all(|order| order.text.is_none()));
    let fields = |orders: Vec<Order>| orders.into_iter().map(|it| it.field).collect::<Vec<_>>();
    let said = [put("edge:user", Position::Off), put("edge:user", Position::Enforce)].concat();
    assert_eq!(fields(taken_back), fields(said));
}

#[test]
fn a_limit_takes_what_is_set_and_keeps_what_else_it_is() {
    let rate = Setting { rate: Some(Rate::per(500, Unit::Second)), burst: Some(1000), max: None };
    let bucket = token_bucket::Limit::per_unit(5, Unit::Second);
    let set = token_bucket::Limit::new(Rate::per(500, Unit::Second), 1000);
    let (amount, limit) = Amount::of(Limit::TokenBucket(bucket), rate).unwrap();
    assert_eq!(limit, Limit::TokenBucket(set));
    let overdrawn = amount.applied_to(Limit::TokenBucket(bucket.with_overdraw()));
    assert_eq!(overdrawn, Some(Limit::TokenBucket(set.with_overdraw())));
    let slots = concurrency::Limit { max: 5, term: Term::of_micros(7), weighs_hits: true };
    let max = Setting { max: Some(50), ..Setting::default() };
    let (_, limit) = Amount::of(Limit::Concurrency(slots), max).unwrap();
    assert_eq!(limit, Limit::Concurrency(concurrency::Limit { max: 50, ..slots }));
    assert_eq!(amount.applied_to(Limit::Concurrency(slots)), None);
    assert_eq!(Amount::of(Limit::Concurrency(slots), rate), None);
    assert_eq!(Amount::of(Limit::TokenBucket(bucket), max), None);
}

/// Processes of version 0.1 may have written it, and overrides last.
#[test]
fn an_amount_is_written_by_its_limiter_and_read_in_its_former_words_too() {
    let forms = [
        (
            r#"{"rate":{"tokens":5,"period_us":1000000,"burst":9}}"#,
            r#"{"token_bucket":{"tokens":5,"period_us":1000000,"burst":9}}"#,
        ),
        (r#"{"in_flight":{"max":3}}"#, r#"{"concurrency":{"max":3}}"#),
    ];
    for (former, now) in forms {
        let amount: Amount = serde_json::from_str(former).unwrap();
        assert_eq!(serde_json::from_str::<Amount>(now).unwrap(), amount);
        assert_eq!(serde_json::to_string(&amount).unwrap(), now);
    }
    let unreadable = [
        "{}",
        r#"{"no_limiter":{"max":3}}"#,
        r#"{"concurrency":{"max":3},"fleet":{"max":3}}"#,
        r#"{"concurrency":{"max":3,"more":1}}"#,
        r#"{"token_bucket":{"tokens":5}}"#,
    ];
    for text in unreadable {
        assert!(serde_json::from_str::<Amount>(text).is_err(), "{text}");
    }
}

#[test]
fn limits_end_and_what_cannot_be_read_does_nothing() {
    let amount: Amount = serde_json::from_str(r#"{"concurrency":{"max":50}}"#).unwrap();
    let set = |until_us| SetLimit { rule: "edge:user".to_owned(), amount, until_us };
    let fields = [
        Order::limit("edge:user=a", Some(&set(None))),
        Order::limit("edge:user=b", Some(&set(Some(100)))),
        Order::limit("edge:user=c", Some(&set(Some(101)))),
    ];
    let fields = fields.iter().map(|it| (&*it.field, it.text.as_deref().unwrap()));
    let orders = Orders::read(fields, 100);
    assert_eq!(orders.limits.keys().collect::<Vec<_>>(), ["edge:user=a", "edge:user=c"]);
    assert_eq!(orders.first_end_us(), Some(101));
    let endless = r#"{"rule":"a","amount":{"rate":{"tokens":1,"period_us":0,"burst":1}}}"#;
    let garbage = [
        ("on edge", "off"),
        ("shadow edge", ""),
        ("limit edge:user=a", "{}"),
        ("limit edge:user=a", endless),
        ("version", "7"),
        ("", ""),
    ];
    assert!(Orders::read(garbage.into_iter(), 0).is_empty());
}
