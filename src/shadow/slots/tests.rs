use super::*;
use crate::{clock::ManualClock, shadow::Sketch};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// One request of this key, which would have been refused.
fn refused(key: &str) -> Seen {
    let mut sketch = Sketch::default();
    sketch.count(key);
    Seen { counts: Counts { would_refuse: 1, ..Counts::default() }, top: sketch.take() }
}

fn allowed(count: u64) -> Seen {
    Seen { counts: Counts { allowed: count, ..Counts::default() }, ..Seen::default() }
}

fn seen_in(slots: &Slots, clock: &ManualClock) -> [u64; 3] {
    Window::ALL.map(|window| slots.over(window, clock.now()).0.decided())
}

#[test]
fn what_was_is_forgotten_window_by_window() {
    let (mut slots, clock) = (Slots::default(), ManualClock::default());
    clock.advance(1000 * 24 * HOUR);
    slots.add(&allowed(1), clock.now());
    assert_eq!(seen_in(&slots, &clock), [1, 1, 1]);
    clock.advance(50 * SECOND);
    assert_eq!(seen_in(&slots, &clock), [1, 1, 1], "a minute reaches back for 50 seconds at least");
    clock.advance(10 * SECOND);
    assert_eq!(seen_in(&slots, &clock), [0, 1, 1]);
    clock.advance(50 * MINUTE);
    assert_eq!(seen_in(&slots, &clock), [0, 1, 1]);
    clock.advance(10 * MINUTE);
    assert_eq!(seen_in(&slots, &clock), [0, 0, 1]);
    clock.advance(20 * HOUR - HOUR);
    assert_eq!((seen_in(&slots, &clock), slots.are_over(clock.now())), ([0, 0, 1], false));
    clock.advance(4 * HOUR);
    assert_eq!((seen_in(&slots, &clock), slots.are_over(clock.now())), ([0, 0, 0], true));
}

#[test]
fn what_is_new_takes_the_place_of_what_is_over() {
    let (mut slots, clock) = (Slots::default(), ManualClock::default());
    for _ in 0..1000 {
        slots.add(&allowed(10), clock.now());
        clock.advance(10 * SECOND);
    }
    // 10,000 seconds are over: a slot of the minute has just begun, and one of the hour 400 seconds ago.
    assert_eq!(seen_in(&slots, &clock), [50, 3400, 10_000]);
}

#[test]
fn a_clock_that_is_set_back_shows_nothing_of_the_future() {
    let (mut slots, clock) = (Slots::default(), ManualClock::default());
    let past = clock.now();
    clock.advance(7 * 24 * HOUR);
    slots.add(&refused("ada"), clock.now());
    assert_eq!(slots.over(Window::Day, past), (Counts::default(), Vec::new()));
}

#[test]
fn keys_of_all_slots_add_up_the_heaviest_first() {
    let (mut slots, clock) = (Slots::default(), ManualClock::default());
    for key in ["ada", "bob", "bob", "eve", "ada", "bob", "dan", "eve"] {
        slots.add(&refused(key), clock.now());
        clock.advance(7 * SECOND);
    }
    let (counts, top) = slots.over(Window::Hour, clock.now());
    assert_eq!((counts.would_refuse, counts.share()), (8, Some(1.0)));
    let top: Vec<(&str, u64)> = top.iter().map(|(key, count)| (&**key, *count)).collect();
    assert_eq!(top, [("bob", 3), ("ada", 2), ("eve", 2), ("dan", 1)]);
}

#[test]
fn what_nobody_decided_is_no_part_of_the_share() {
    let counts = Counts { allowed: 3, would_refuse: 1, degraded: 96 };
    assert_eq!(counts.share(), Some(0.25));
    assert_eq!(Counts { degraded: 96, ..Counts::default() }.share(), None);
}
