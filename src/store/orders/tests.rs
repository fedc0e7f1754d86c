use super::*;

const NOW: Timestamp = Timestamp::from_micros(7);

fn change(field: &str, was: Option<Option<&str>>, is: Option<&str>) -> Change {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Change { field: field.to_owned(), was: was.map(owned), is: owned(is) }
}

fn fields(of: &[(&str, &str)]) -> Fields {
    of.iter().map(|(field, text)| ((*field).to_owned(), (*text).to_owned())).collect()
}

fn told(version: u64, changed: &[Changed], fields: Option<Fields>) -> Told {
    Told { version, now: NOW, changed: changed.to_vec(), fields }
}

#[test]
fn what_one_says_others_hear_once() {
    let mut orders = Orders::default();
    assert_eq!(orders.tell(NOW, 0, Telling::Changes(&[])), told(0, &[], None));
    let changes = [change("a", None, Some("1"))];
    let after = fields(&[("a", "1")]);
    let heard = orders.tell(NOW, 0, Telling::Changes(&changes));
    assert_eq!(heard, told(1, &[Changed::Done], Some(after.clone())));
    assert_eq!(orders.tell(NOW, 0, Telling::Changes(&[])), told(1, &[], Some(after)));
    assert_eq!(orders.tell(NOW, 1, Telling::Changes(&[])), told(1, &[], None));
    // Said twice, as when the first answer was lost, it is no change.
    assert_eq!(orders.tell(NOW, 1, Telling::Changes(&changes)), told(1, &[Changed::Done], None));
}

#[test]
fn what_was_said_meanwhile_is_not_lost() {
    let mut orders = Orders::default();
    orders.tell(NOW, 0, Telling::Changes(&[change("a", None, Some("1"))]));
    let late = [
        change("a", Some(None), Some("2")),
        change("a", Some(Some("1")), Some("3")),
        change("b", Some(Some("1")), None),
        change("b", Some(Some("1")), Some("1")),
    ];
    let heard = orders.tell(NOW, 1, Telling::Changes(&late));
    let became = [Changed::Differs, Changed::Done, Changed::Done, Changed::Differs];
    assert_eq!(heard, told(2, &became, Some(fields(&[("a", "3")]))));
}

#[test]
fn a_store_that_has_lost_something_is_told_again_once() {
    let mut orders = Orders::default();
    let changes = [change("b", None, Some("2"))];
    assert_eq!(orders.tell(NOW, 5, Telling::Changes(&changes)), told(0, &[], Some(Fields::new())));
    let all = fields(&[("a", "1")]);
    assert_eq!(orders.tell(NOW, 5, Telling::All(&all)), told(5, &[], None));
    let older = fields(&[("z", "9")]);
    assert_eq!(orders.tell(NOW, 4, Telling::All(&older)), told(5, &[], Some(all)));
}

#[test]
fn there_are_at_most_so_many() {
    let mut orders = Orders::default();
    let many: Vec<_> = (0..=MOST_ORDERS).map(|i| change(&i.to_string(), None, Some("1"))).collect();
    let heard = orders.tell(NOW, 0, Telling::Changes(&many));
    assert_eq!(heard.changed.iter().filter(|it| **it == Changed::Done).count(), MOST_ORDERS);
    assert_eq!(heard.changed.last(), Some(&Changed::Full));
    let another =
        [change("0", None, Some("2")), change("1", None, None), change("x", None, Some("1"))];
    let heard = orders.tell(NOW, 1, Telling::Changes(&another));
    assert_eq!(heard.changed, [Changed::Done; 3], "there is room again");
}
