use super::*;

const NOW: Timestamp = Timestamp::from_micros(7);
const NEVER: Version = Version { epoch: 0, number: 0, mark: 0 };

/// The version after so many changes.
fn version(number: u64) -> Version {
    Version { epoch: 100, number, mark: 200 + number }
}

fn change(field: &str, was: Option<&str>, is: Option<&str>) -> Change {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Change { field: field.to_owned(), was: owned(was), is: owned(is) }
}

fn fields(of: &[(&str, &str)]) -> Fields {
    of.iter().map(|(field, text)| ((*field).to_owned(), (*text).to_owned())).collect()
}

fn told(version: Version, changed: &[Changed], fields: Option<Fields>) -> Told {
    Told { version, now: NOW, changed: changed.to_vec(), fields }
}

fn tell(orders: &mut Orders, known: Version, changes: &[Change]) -> Told {
    let next = orders.version.number + 1;
    orders.tell(NOW, Telling { known, changes, drawn: [100, 200 + next] })
}

#[test]
fn what_one_says_others_hear_once() {
    let mut orders = Orders::default();
    assert_eq!(tell(&mut orders, NEVER, &[]), told(NEVER, &[], None));
    let changes = [change("a", None, Some("1"))];
    let after = fields(&[("a", "1")]);
    let heard = tell(&mut orders, NEVER, &changes);
    assert_eq!(heard, told(version(1), &[Changed::Done], Some(after.clone())));
    assert_eq!(tell(&mut orders, NEVER, &[]), told(version(1), &[], Some(after)));
    assert_eq!(tell(&mut orders, version(1), &[]), told(version(1), &[], None));
    // Said twice, as when the first answer was lost, it is no change.
    let again = tell(&mut orders, version(1), &changes);
    assert_eq!(again, told(version(1), &[Changed::Done], None));
}

#[test]
fn what_was_said_meanwhile_is_not_lost() {
    let mut orders = Orders::default();
    tell(&mut orders, NEVER, &[change("a", None, Some("1"))]);
    let late = [
        change("a", None, Some("2")),
        change("a", Some("1"), Some("3")),
        change("b", Some("1"), None),
        change("b", Some("1"), Some("1")),
    ];
    let heard = tell(&mut orders, version(1), &late);
    let became = [Changed::Differs, Changed::Done, Changed::Done, Changed::Differs];
    assert_eq!(heard, told(version(2), &became, Some(fields(&[("a", "3")]))));
}

#[test]
fn a_store_that_has_lost_something_is_known_for_it_whatever_was_said_since() {
    let known = Version { epoch: 1, number: 5, mark: 9 };
    let other = |epoch, number, mark| Version { epoch, number, mark };
    for lost in [NEVER, other(1, 4, 8), other(1, 5, 8), other(2, 5, 9), other(2, 9, 9)] {
        assert!(known.is_lost(lost), "{lost:?}");
    }
    for newer in [known, other(1, 6, 7)] {
        assert!(!known.is_lost(newer), "{newer:?}");
    }
    assert!(!NEVER.is_lost(known) && !NEVER.is_lost(NEVER));
    let mut orders = Orders::default();
    let heard = tell(&mut orders, known, &[change("b", None, Some("2"))]);
    assert_eq!(
        heard,
        told(NEVER, &[], Some(Fields::new())),
        "nothing is changed until it is heard"
    );
}

#[test]
fn there_are_at_most_so_many_limits_and_always_room_for_a_switch() {
    let mut orders = Orders::default();
    let limit = |i: usize| change(&format!("limit {i}"), None, Some("1"));
    let many: Vec<_> = (0..=MOST_LIMITS).map(limit).collect();
    let heard = tell(&mut orders, NEVER, &many);
    assert_eq!(heard.changed.iter().filter(|it| **it == Changed::Done).count(), MOST_LIMITS);
    assert_eq!(heard.changed.last(), Some(&Changed::Full));
    let more = [
        change("on *", None, Some("false")),
        change("limit 0", Some("1"), Some("2")),
        change("limit 1", Some("1"), None),
        limit(MOST_LIMITS),
    ];
    assert_eq!(tell(&mut orders, version(1), &more).changed, [Changed::Done; 4]);
}
