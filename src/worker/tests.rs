use super::*;
use crate::{clock::Timestamp, key::Key, lease::Term, limiter::State, report, unit::WHOLE_PARTS};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

#[test]
fn slopes_are_a_line_on_each_side_of_a_step() {
    let settings = Settings::default();
    for (utilization, slope) in [
        (0, -1_000_000),
        (350_000, -500_000),
        (699_999, -2),
        (700_000, 0),
        (750_000, 0),
        (800_000, 0),
        (800_001, 5),
        (900_000, 500_000),
        (1_000_000, 1_000_000),
        (1_200_000, 1_000_000),
        (10_000_000, 1_000_000),
    ] {
        assert_eq!(settings.slope(utilization), slope, "{utilization}");
    }
}

#[test]
fn a_load_is_believed_up_to_ten_times_the_whole() {
    let parts = |load: Result<Load, _>| load.map(Load::utilization_parts).ok();
    assert_eq!(parts(Load::of_slots(0, 10)), Some(0));
    assert_eq!(parts(Load::of_slots(1, 3)), Some(333_333));
    assert_eq!(parts(Load::of_slots(12, 10)), Some(1_200_000));
    assert_eq!(parts(Load::of_slots(100, 10)), Some(10_000_000));
    assert_eq!(parts(Load::of_slots(101, 10)), None);
    assert_eq!(parts(Load::of_slots(u32::MAX, 100_000)), None);
    assert_eq!(parts(Load::of_slots(0, 0)), None);
    assert_eq!(parts(Load::of_slots(0, 100_001)), None);
    assert_eq!(parts(Load::of_ratio(-0.0, 1, "ratio")), Some(0));
    assert_eq!(parts(Load::of_ratio(10.0, 1, "ratio")), Some(10_000_000));
    for ratio in [f64::NAN, -1e-300, f64::NEG_INFINITY, f64::INFINITY, 10.000_001, 80.0] {
        assert_eq!(parts(Load::of_ratio(ratio, 1, "ratio")), None, "{ratio}");
    }
    assert_eq!(Load::of_permille(850).map(Load::utilization_parts), Some(850_000));
    assert_eq!(Load::of_permille(10_000).map(Load::utilization_parts), Some(10_000_000));
    assert_eq!(Load::of_permille(10_001), None);
    assert_eq!(Load::of_permille(u64::MAX), None);
}

#[test]
fn all_sums_of_a_full_pool_are_exact_in_a_double() {
    let most = u64::from(MOST_SLOTS) * u64::from(MOST_UTILIZATION_PARTS) * MOST_WORKERS;
    assert!(most < 1 << 53);
    let settings = Settings {
        hold_off_us: LONGEST_SHEDDING_US,
        shed_all_after_us: LONGEST_SHEDDING_US,
        report_ttl: Term::of_micros(LONGEST_REPORT_TTL_US),
        ..Settings::default()
    };
    let (least, most) = settings.bounds();
    let longest = (1_i64 << 32) * i64::from(WHOLE_PARTS);
    assert!(most + longest < 1 << 53 && least - longest > -(1 << 53));
    assert!(most - least <= longest, "silence of that length leaves nothing");
}

#[test]
fn a_changed_shed_all_after_keeps_the_share() {
    let settings = Settings::default();
    let mut workers = Workers::at(None, &settings, at(0));
    workers.pressure = 60_000_000 * 1_000_000;
    workers.add(at(10), Counts { workers: 1, slots: 1, load: 750_000 });
    assert_eq!(workers.amount(), 500_000);
    let slower = Settings { shed_all_after_us: 240_000_000, ..settings };
    let changed = Workers::at(Some(&workers), &slower, at(5));
    assert_eq!((changed.amount(), changed.pressure), (500_000, 120_000_000 * 1_000_000));
}

#[test]
fn a_clock_that_is_set_back_neither_stops_nor_repeats_anything() {
    let settings = Settings::default();
    let busy = Counts { workers: 1, slots: 1, load: 1_000_000 };
    let hour_us = 3_600_000_000;
    let mut workers = Workers::at(None, &settings, at(2 * hour_us));
    workers.add(at(2 * hour_us + 20_000_000), busy);
    // A little: time stands still.
    let earlier = Workers::at(Some(&workers), &settings, at(2 * hour_us - 59_000_000));
    assert_eq!(earlier.pressure, workers.pressure);
    assert_eq!(earlier.updated, workers.updated);
    // Much: all of it moves back.
    let before = at(hour_us);
    let moved = Workers::at(Some(&workers), &settings, before);
    assert_eq!((moved.updated, moved.pressure), (before, workers.pressure));
    let later = Workers::at(Some(&moved), &settings, before + 10_000_000);
    assert_eq!(later.pressure - moved.pressure, 10_000_000 * 1_000_000);
    assert_eq!(later.buckets.last().map(|it| it.deadline), Some(before + 20_000_000));
}

#[test]
fn time_that_is_left_before_shedding_is_no_share_of_it() {
    let slow = Settings { shed_all_after_us: LONGEST_SHEDDING_US, ..Settings::default() };
    let mut workers = Workers::at(None, &slow, at(0));
    workers.add(at(10), Counts { workers: 1, slots: 1, load: 750_000 });
    let fast = Settings { shed_all_after_us: 60_000_000, ..slow };
    assert_eq!(Workers::at(Some(&workers), &fast, at(5)).pressure, -28_000_000 * 1_000_000);
}

#[test]
fn a_clock_that_is_set_back_counts_nobody_twice() {
    let settings = Settings::default();
    let load = Load::of_ratio(0.5, 10, "ratio").ok();
    let what = Report { settings, load, measured: None };
    let mut states = [None, None];
    for now in [at(7_200_000_000), at(3_600_000_000), at(3_601_000_000)] {
        let (reported, writes) = report::report(&states, &what, now);
        assert_eq!((reported.outcome, reported.workers), (Outcome::Counted, 1));
        for write in writes {
            states[write.slot] = write.kept.map(|kept| kept.state);
        }
    }
}

#[test]
fn what_cannot_have_been_reported_is_nothing_of_workers() {
    let settings = Settings::default();
    let mut workers = Workers::at(None, &settings, at(0));
    workers.add(at(10), Counts { workers: 1, slots: 2, load: 3 });
    assert!(workers.is_plausible());
    for (deadline, counts) in [
        (10, Counts { workers: 1, slots: 1, load: 10_000_001 }),
        (10, Counts { workers: 1, slots: 100_001, load: 0 }),
        (10, Counts { workers: 2, slots: 1, load: 0 }),
        (10, Counts { workers: 5_001, slots: 5_001, load: 0 }),
        (1_200_000_001, Counts { workers: 1, slots: 1, load: 0 }),
    ] {
        let bucket = Bucket { deadline: at(deadline), counts };
        assert!(!Workers { buckets: vec![bucket], ..workers.clone() }.is_plausible(), "{counts:?}");
    }
}

/// What is so of a pool, counted worker by worker, and second by second.
#[derive(Default)]
struct Model {
    workers: BTreeMap<u8, (u64, Load)>,
    pressure: i128,
    updated_us: u64,
}

impl Model {
    /// Time passes, instant by instant at which something changes.
    fn pass(&mut self, settings: &Settings, now_us: u64) {
        while self.updated_us < now_us {
            let fresh = self.workers.values().filter(|(until, _)| *until > self.updated_us);
            let next = fresh.clone().map(|(until, _)| *until).min().unwrap_or(now_us).min(now_us);
            let (slots, load) = fresh.fold((0_u128, 0_u128), |(slots, sum), (_, load)| {
                let own = u128::from(load.slots());
                (slots + own, sum + own * u128::from(load.utilization_parts()))
            });
            let slope = match load.checked_div(slots) {
                Some(mean) => settings.slope(mean.try_into().unwrap()),
                None => -1_000_000,
            };
            let passed = i128::from(next - self.updated_us);
            let (least, most) = settings.bounds();
            self.pressure =
                (self.pressure + passed * i128::from(slope)).clamp(least.into(), most.into());
            self.updated_us = next;
        }
        self.workers.retain(|_, (until, _)| *until > now_us);
    }
}

proptest! {
    #[test]
    fn workers_are_counted_as_if_one_by_one(
        thresholds in (1..999_999_u32, 1..999_999_u32),
        spans in (0..=60_000_000_u64, 1..=60_000_000_u64, 1..=30_000_000_u64),
        history in prop::collection::vec(
            (prop_oneof![Just(0), 0..3_000_000_u64, 0..100_000_000_u64], 0..6_u8, 1..50_u32, 0.0..1.5_f64),
            1..80,
        ),
    ) {
        let settings = Settings {
            good_below_parts: thresholds.0.min(thresholds.1),
            bad_above_parts: thresholds.0.max(thresholds.1),
            hold_off_us: spans.0,
            shed_all_after_us: spans.1,
            report_ttl: Term::of_micros(spans.2),
        };
        let mut model = Model { pressure: settings.bounds().0.into(), ..Model::default() };
        let mut states: HashMap<Key, State> = HashMap::new();
        let mut now = at(1_000_000);
        for (passed_us, worker, slots, ratio) in history {
            now = now + passed_us;
            let keys = [Key::read("pool"), Key::read(&worker.to_string())];
            let stored: Vec<_> = keys.iter().map(|key| states.get(key).cloned()).collect();

            // What somebody sees who only looks.
            model.pass(&settings, now.as_micros());
            let seen = Workers::at(stored[0].as_ref().and_then(State::workers), &settings, now);
            prop_assert_eq!(i128::from(seen.pressure), model.pressure);
            prop_assert_eq!(seen.counts().workers, model.workers.len() as u64);
            let all: u64 = model.workers.values().map(|(_, load)| u64::from(load.slots())).sum();
            prop_assert_eq!(seen.counts().slots, all);
            prop_assert!(seen.buckets.len() <= 80);

            let load = Load::of_ratio(ratio, slots, "ratio").unwrap();
            let what = Report { settings, load: Some(load), measured: None };
            let (reported, writes) = report::report(&stored, &what, now);
            prop_assert_eq!(reported.outcome, Outcome::Counted);
            for write in writes {
                let kept = write.kept.unwrap();
                // It lasts until nothing of it matters any more.
                if let State::Workers(workers) = &kept.state {
                    let gone = Workers::at(Some(workers), &settings, kept.fresh_at);
                    prop_assert_eq!(gone.pressure, settings.bounds().0);
                    let ttl_us = settings.report_ttl.as_micros();
                    prop_assert_eq!(Workers::capacity(Some(workers), ttl_us, kept.fresh_at), None);
                }
                states.insert(keys[write.slot].clone(), kept.state);
            }
            let until = settings.report_ttl.deadline(now).as_micros();
            model.workers.insert(worker, (until, load));
        }
    }
}
