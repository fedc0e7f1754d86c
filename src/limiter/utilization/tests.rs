use super::*;
use crate::worker::Counts;

const SECOND: u64 = 1_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn limit(class: u32, draw: Draw) -> Limit {
    Limit { settings: Settings::default(), classes: 4, class, draw }
}

/// Workers that shed so much, in millionths, and are neither too busy nor idle.
fn shedding(amount_parts: i64) -> Workers {
    let mut workers = Workers::at(None, &Settings::default(), at(0));
    workers.pressure = amount_parts * 120_000_000;
    workers.add(at(3_600 * SECOND), Counts { workers: 1, slots: 1, load: 750_000 });
    workers
}

#[test]
fn chances_follow_one_another() {
    for (amount, chances) in [
        (-200_000, [0.0, 0.0, 0.0, 0.0]),
        (0, [0.0, 0.0, 0.0, 0.0]),
        (125_000, [0.5, 0.0, 0.0, 0.0]),
        (250_000, [1.0, 0.0, 0.0, 0.0]),
        (625_000, [1.0, 1.0, 0.5, 0.0]),
        (1_000_000, [1.0, 1.0, 1.0, 1.0]),
    ] {
        let workers = shedding(amount);
        let found = [0, 1, 2, 3].map(|class| limit(class, Draw::Request(0)).chance(&workers));
        assert_eq!(found, chances, "{amount}");
    }
}

#[test]
fn who_draws_less_than_the_chance_is_dropped() {
    let workers = shedding(125_000);
    let over =
        |number| limit(0, Draw::Request(number)).check(Some(&workers), at(0), Cost::Take(1)).over;
    assert!(over(0).is_some());
    assert!(over((1 << 31) - 1).is_some());
    assert!(over(1 << 31).is_none());
    assert!(over(u32::MAX).is_none());
    let all = shedding(1_000_000);
    let last = limit(3, Draw::Request(u32::MAX)).check(Some(&all), at(0), Cost::Take(1)).over;
    assert!(last.is_some(), "all is all");
    let none = shedding(0);
    assert_eq!(limit(0, Draw::Request(0)).check(Some(&none), at(0), Cost::Take(1)).over, None);
    assert_eq!(limit(0, Draw::Request(0)).check(None, at(0), Cost::Take(1)).over, None);
}

#[test]
fn who_is_dropped_is_told_when_he_would_be_safe() {
    let workers = shedding(625_000);
    let wait =
        |class| limit(class, Draw::Request(0)).check(Some(&workers), at(0), Cost::Take(1)).over;
    // At rest the amount falls by 1 in 120 seconds; class 2 of four is safe at a half.
    assert_eq!(wait(0), Some(Wait::Micros(75 * SECOND)));
    assert_eq!(wait(1), Some(Wait::Micros(45 * SECOND)));
    assert_eq!(wait(2), Some(Wait::Micros(15 * SECOND)));
    assert_eq!(wait(3), None);
    // But whose turn it is to draw anew may try.
    let soon = Draw::Caller { number: 0, turns_us: TURN_US - 2 * SECOND };
    let caller = limit(0, soon).check(Some(&workers), at(0), Cost::Take(1)).over;
    assert_eq!(caller, Some(Wait::Micros(2 * SECOND)));
}

#[test]
fn draws_of_a_caller_are_spread_evenly() {
    let draw = Draw::Caller { number: 3_000_000_000, turns_us: 0 };
    let mut drawn: Vec<u64> = (0..64).map(|turn| draw.at(at(turn * TURN_US)).0).collect();
    assert_eq!(draw.at(at(TURN_US - 1)).0, 3_000_000_000, "until his turn");
    assert_eq!(drawn[1], 1_359_468_473, "3,000,000,000 + 2,654,435,769 − 2^32");
    drawn.sort_unstable();
    let gaps = drawn.windows(2).map(|pair| pair[1] - pair[0]);
    let (least, most) = (gaps.clone().min().unwrap(), gaps.max().unwrap());
    let even = (1_u64 << 32) / 64;
    assert!(least > even / 3 && most < even * 2, "{least} to {most}, and {even} is even");
}

#[test]
fn draws_go_on_for_ever() {
    let draw = Draw::Caller { number: u32::MAX, turns_us: TURN_US - 1 };
    for now in [0, 1_800_000_000_000_000, 1 << 53, u64::MAX] {
        let (drawn, turns_in_us) = draw.at(at(now));
        assert!(drawn < 1 << 32);
        assert!(turns_in_us.is_some_and(|micros| (1..=TURN_US).contains(&micros)));
    }
}
