use super::*;
use crate::order::{Position, Switch};

const FIELD: &str = "on edge:user";

fn off() -> Vec<Order> {
    Order::switch("edge:user", Position::Off)
}

fn on() -> Vec<Order> {
    Order::switch("edge:user", Position::On)
}

fn fields(all: &[(&str, &str)]) -> Fields {
    all.iter().map(|(field, text)| ((*field).to_owned(), (*text).to_owned())).collect()
}

/// The switch that is to be put in force, where that is not in force already.
fn next(book: &mut Book) -> Option<Option<bool>> {
    let (_, orders) = book.next(0)?;
    Some(orders.switches.get("edge:user").and_then(|switch| switch.enabled))
}

fn version(number: u64) -> Version {
    Version { epoch: 1, number, mark: number }
}

#[test]
fn what_is_said_here_is_in_force_before_the_store_is_told() {
    let mut book = Book::default();
    assert_eq!(next(&mut book), None);
    book.add_all(&off());
    assert!(book.has_untold());
    assert_eq!(next(&mut book), Some(Some(false)));
    assert_eq!(next(&mut book), None, "it is in force");
}

#[test]
fn what_was_told_is_not_told_again() {
    let mut book = Book::default();
    book.add_all(&off());
    let changes = book.changes();
    assert_eq!(changes.len(), 1);
    book.hear(version(1), Some(fields(&[(FIELD, "false")])));
    assert_eq!(book.settle(changes, vec![Changed::Done]).len(), 1);
    assert!(!book.has_untold() && book.changes().is_empty());
    assert_eq!(next(&mut book), Some(Some(false)));
}

#[test]
fn what_was_said_while_the_store_was_told_is_told_next() {
    let mut book = Book::default();
    book.add_all(&off());
    let changes = book.changes();
    book.add_all(&on());
    assert!(book.settle(changes, vec![Changed::Done]).is_empty());
    assert_eq!(book.changes().first().and_then(|change| change.is.as_deref()), Some("true"));
    assert_eq!(next(&mut book), Some(Some(true)));
}

#[test]
fn what_the_store_did_not_take_is_not_in_force_any_more() {
    let mut book = Book::default();
    book.add_all(&off());
    assert_eq!(next(&mut book), Some(Some(false)));
    let changes = book.changes();
    book.hear(version(1), Some(fields(&[(FIELD, "true")])));
    let settled = book.settle(changes, vec![Changed::Differs]);
    assert!(matches!(settled.as_slice(), [(_, Changed::Differs)]));
    assert_eq!(next(&mut book), Some(Some(true)));
}

#[test]
fn a_store_that_has_lost_something_is_told_it_again_unless_it_says_something_else() {
    let mut book = Book::default();
    book.hear(version(2), Some(fields(&[(FIELD, "false"), ("on mall", "false")])));
    book.hear_of_loss(version(1), fields(&[("on mall", "true")]));
    let changes = book.changes();
    let told: Vec<_> = changes.iter().map(|it| (&*it.field, &it.was, it.is.as_deref())).collect();
    assert_eq!(told, [(FIELD, &None, Some("false"))]);
    let (_, orders) = book.next(0).unwrap();
    let mall = Switch { enabled: Some(true), shadow_mode: None };
    assert_eq!(orders.switches.get("mall"), Some(&mall));
}

#[test]
fn a_limit_whose_time_is_over_by_the_clock_of_the_store_is_taken_out_of_it() {
    let set = SetLimit {
        rule: "edge:user".to_owned(),
        amount: serde_json::from_str(r#"{"concurrency":{"max":5}}"#).unwrap(),
        until_us: Some(1000),
    };
    let order = Order::limit("edge:user=ada", Some(&set));
    let mut book = Book { ahead_us: Some(-500), ..Book::default() };
    book.hear(version(1), Some(fields(&[(&order.field, order.text.as_deref().unwrap())])));
    assert_eq!(book.next(1000).unwrap().1.limits.len(), 1, "it is 500 there");
    assert!(book.changes().is_empty());
    assert!(book.next(1500).unwrap().1.limits.is_empty());
    let changes = book.changes();
    let taken_out = Change { field: order.field, was: order.text, is: None };
    assert_eq!(changes, [taken_out]);
    book.settle(changes, vec![Changed::Done]);
    assert!(book.changes().is_empty(), "once");
}
