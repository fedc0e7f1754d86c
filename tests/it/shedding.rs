//! What the utilization shedder promises, over thousands of simulated seconds: made-up workers report to the
//! real steps, in Rust, and again in Lua on a real Redis whose clock is told.

#[path = "../../docs/shedding/plot.rs"]
mod plot;
#[path = "../../docs/shedding/simulation.rs"]
mod simulation;

use crate::support::Redis;
use redis::{Cmd, Connection, Value};
use simulation::{CLASSES, InMemory, SLOTS, STEP_US, Sample, Simulation, Steps, WORKERS, busy};
use std::collections::{HashMap, HashSet};
use tollgate::{
    clock::Timestamp,
    key::Key,
    lease::Term,
    limiter::{
        State, Wait,
        utilization::{Draw, TURN_US},
    },
    report,
    rules::{Reporting, pool_keys},
    store::redis::{
        script::{self, Call, Reply, Script},
        stored,
    },
    verdict::Question,
    worker::{Instant, Load, Outcome, Report, Reported, Settings, Workers},
};

/// How far apart a worker's reports are.
const REPORT_S: f64 = 5.0;

fn pool() -> Simulation<InMemory> {
    Simulation::new(InMemory::default(), Settings::default())
}

/// Reports that all say the same.
fn all(utilization: f64) -> impl Fn(f64, &Sample, usize) -> Option<f64> {
    move |_, _, _| Some(utilization)
}

fn silence(_: f64, _: &Sample, _: usize) -> Option<f64> {
    None
}

#[track_caller]
fn assert_near(is: f64, expected: f64, within: f64) {
    assert!((is - expected).abs() <= within, "{is} is not {expected} ± {within}");
}

/// The first sample of which something is so.
#[track_caller]
fn first(samples: &[Sample], what: impl Fn(&Sample) -> bool) -> f64 {
    samples.iter().find(|sample| what(sample)).expect("it never is so").at_s
}

/// Whether any request is dropped.
fn sheds(sample: &Sample) -> bool {
    sample.waits.iter().any(Option::is_some)
}

fn rises(samples: &[Sample]) -> bool {
    samples.windows(2).all(|pair| pair[0].amount <= pair[1].amount)
}

fn falls(samples: &[Sample]) -> bool {
    samples.windows(2).all(|pair| pair[0].amount >= pair[1].amount)
}

/// How often the amount changes its direction.
fn turns(samples: &[Sample]) -> usize {
    let mut directions: Vec<bool> = samples
        .windows(2)
        .filter(|pair| pair[0].amount != pair[1].amount)
        .map(|pair| pair[0].amount < pair[1].amount)
        .collect();
    directions.dedup();
    directions.len().saturating_sub(1)
}

#[test]
fn begins_after_hold_off_and_has_shed_all_after_that() {
    // What is more than all is all.
    for utilization in [1.0, 1.2, 10.0] {
        let mut pool = pool();
        pool.run(60, all(0.2));
        let busy = pool.run(300, all(utilization));
        let begins = first(&busy, sheds) - 60.0;
        // While the first of them still say what they said before, the mean is below 1.
        assert!((28.0 - REPORT_S..=28.0 + REPORT_S).contains(&begins), "{begins}");
        let complete = first(&busy, |sample| sample.chances == [1.0; 3]) - 60.0;
        assert_near(complete - begins, 120.0, 0.2);
        assert!(rises(&busy));
        assert_eq!(busy.last().unwrap().amount, 1.0, "and no further");
    }
}

#[test]
fn gives_up_one_class_after_the_other() {
    let mut pool = pool();
    for sample in pool.run(200, all(1.0)) {
        for class in 1..CLASSES.len() {
            assert!(sample.chances[class] == 0.0 || sample.chances[class - 1] == 1.0);
        }
        for class in 0..CLASSES.len() {
            let drops = sample.waits[class].is_some();
            // A sample tells the amount to the millionth.
            let is_sure = (sample.amount * 3.0 - class as f64).abs() > 1e-5;
            assert!(!is_sure || drops == (sample.chances[class] > 0.0), "{sample:?}");
        }
    }
}

#[test]
fn stays_where_it_is_between_good_and_bad() {
    let mut pool = pool();
    pool.run(100, all(1.0));
    pool.run(5, all(0.75));
    for utilization in [0.7, 0.75, 0.8] {
        let hovering = pool.run(1000, all(utilization));
        let amount = hovering[50].amount;
        assert!(amount > 0.3);
        assert!(hovering[50..].iter().all(|sample| sample.amount == amount));
    }
}

#[test]
fn comes_back_as_slowly_as_it_went() {
    for (utilization, slope) in [(0.0, 1.0), (0.35, 0.5), (0.63, 0.1)] {
        let mut pool = pool();
        pool.run(200, all(1.0));
        let mut calm = pool.run(5, all(utilization));
        calm.extend(pool.run(2000, all(utilization)));
        assert!(falls(&calm[50..]));
        let begins = calm[50].at_s - calm[50].amount.mul_add(-120.0 / slope, 120.0 / slope);
        let over = first(&calm, |sample| !sheds(sample));
        assert_near(over - begins, 120.0 / slope, 0.3);
        let at_rest = first(&calm, |sample| sample.amount <= -28.0 / 120.0 + 1e-6);
        assert_near(at_rest - over, 28.0 / slope, 0.3);
        // From there all begins anew.
        let busy = pool.run(40, all(1.0));
        assert_near(first(&busy, sheds) - busy[0].at_s, 28.0, REPORT_S);
    }
}

#[test]
fn who_is_lost_is_heard_until_the_report_is_not_fresh_any_more() {
    let mut pool = pool();
    pool.run(60, all(0.6));
    // Half of them are lost, and the others have twice as much to do.
    let lost = pool.run(100, |_, _, worker| (worker % 2 == 0).then_some(1.2));
    let utilization = |after_s: f64| {
        let sample = lost.iter().find(|sample| sample.at_s >= 60.0 + after_s).unwrap();
        sample.utilization.unwrap()
    };
    assert_near(utilization(REPORT_S), 0.9, 0.02);
    assert_near(utilization(14.0), 0.9, 0.02);
    // Twenty seconds, and up to a 32nd more.
    assert_near(utilization(21.0), 1.2, 1e-6);
    assert!(lost.windows(2).all(|pair| pair[0].utilization <= pair[1].utilization));
    assert!(rises(&lost[50..]));
}

#[test]
fn silence_never_sheds_and_never_sheds_more() {
    let mut never = pool();
    assert!(never.run(1000, silence).iter().all(|it| !sheds(it) && it.utilization.is_none()));

    let mut fallen = pool();
    fallen.run(90, all(1.0));
    let silent = fallen.run(400, silence);
    let unknown = first(&silent, |sample| sample.utilization.is_none());
    assert_near(unknown - 90.0, 20.0, 20.0 / 32.0);
    let from = silent.iter().position(|sample| sample.at_s >= unknown).unwrap();
    assert!(rises(&silent[..from]), "as long as they are known to be busy");
    assert!(falls(&silent[from..]));
    let highest = silent[from].amount;
    let over = first(&silent, |sample| sample.at_s > 100.0 && !sheds(sample));
    assert_near(over - unknown, highest * 120.0, 0.3);
    assert_eq!(silent.last().unwrap().amount, (-28.0_f64 / 120.0 * 1e6).floor() / 1e6);
}

#[test]
fn a_loop_in_which_shedding_helps_settles() {
    let mut pool = pool();
    let mut demand = |demand: f64, seconds| {
        pool.run(seconds, move |_, last, _| Some(busy(demand, &last.chances)))
    };
    demand(0.6, 60);
    for (level, least, most) in [
        // What there is to shed is enough of it.
        (1.0, 0.7, 0.8),
        (1.7, 0.7, 0.8),
        (1.1, 0.7, 0.8),
        (2.5, 0.7, 0.8),
        // Even without anything shed they have little to do.
        (0.5, 0.5, 0.5),
        // All that may be is shed, and it is not enough: critical traffic alone is too much.
        (4.0, 1.2, 1.2),
        (0.75, 0.7, 0.8),
    ] {
        let samples = demand(level, 2000);
        assert!(turns(&samples) <= 1, "{level}: {} turns", turns(&samples));
        let settled = samples.last().unwrap().utilization.unwrap();
        assert!((least - 0.005..=most + 0.005).contains(&settled), "{level}: {settled}");
        let last = &samples[samples.len() - 1000..];
        let amounts = last.iter().map(|sample| sample.amount);
        let (low, high) = amounts.fold((1.0, -1.0), |(low, high): (f64, f64), amount| {
            (low.min(amount), high.max(amount))
        });
        assert!(high - low < 0.002, "{level}: still between {low} and {high}");
    }
}

#[test]
fn reports_that_come_often_are_counted_as_exactly() {
    // Of time that passes in small pieces nothing is lost.
    let settings = Settings::default();
    let mut coarse = Simulation::new(InMemory::default(), settings);
    let samples = coarse.run(300, all(0.800_001));
    // A millionth of 0.2 above: five millionths of the slope.
    let expected = -28.0 / 120.0 + 5e-6 * 300.0 / 120.0;
    assert_near(samples.last().unwrap().amount, expected, 2e-6);
}

#[test]
fn a_callers_draw_stands_for_a_turn_and_no_caller_is_dropped_much_more_than_another() {
    let mut pool = pool();
    pool.run(45, all(1.0));
    let chance = pool.run(5, all(0.75)).last().unwrap().chances[0];
    assert!((0.3..0.99).contains(&chance), "{chance}");
    let callers: Vec<Draw> =
        (0..200_u32).map(|caller| Draw::of_caller([&caller.to_le_bytes()[..]])).collect();
    let minutes = 180;
    let (mut dropped, mut changes) = (vec![0_u32; callers.len()], vec![0_u32; callers.len()]);
    let mut before: Vec<Option<bool>> = vec![None; callers.len()];
    for _ in 0..minutes {
        pool.run(60, all(0.75));
        for (place, draw) in callers.iter().enumerate() {
            let wait = pool.ask(0, *draw);
            assert_eq!(pool.ask(0, *draw), wait, "a retry is no second chance");
            if let Some(Wait::Micros(wait_us)) = wait {
                assert!(wait_us <= TURN_US, "{wait_us}");
            }
            dropped[place] += u32::from(wait.is_some());
            let changed = before[place].replace(wait.is_some());
            changes[place] += u32::from(changed.is_some_and(|it| it != wait.is_some()));
        }
    }
    for (caller, (dropped, changes)) in dropped.iter().zip(&changes).enumerate() {
        let share = f64::from(*dropped) / f64::from(minutes);
        assert!((share - chance).abs() < 0.06, "{caller}: {share}, and {chance} is meant");
        // Sixty turns of three minutes.
        assert!(*changes <= 60, "{caller}: {changes}");
    }
    let all: u32 = dropped.iter().sum();
    let share = f64::from(all) / f64::from(minutes) / callers.len() as f64;
    assert_near(share, chance, 0.005);
}

#[test]
fn callers_do_not_all_turn_at_once() {
    let turns: HashSet<u64> = (0..1000_u32)
        .map(|caller| match Draw::of_caller([&caller.to_le_bytes()[..]]) {
            Draw::Caller { turns_us, .. } => turns_us / 1_000_000,
            Draw::Request(_) => panic!("drawn for a request"),
        })
        .collect();
    assert!(turns.len() > 170, "of 180 seconds: {}", turns.len());
    assert_ne!(Draw::of_caller([&b"ab"[..], b"c"]), Draw::of_caller([&b"a"[..], b"bc"]));
}

/// The steps in Lua.
struct InLua {
    redis: Connection,
    names: [String; Script::ALL.len()],
}

impl InLua {
    /// A Redis that has the scripts with this clock.
    fn on(server: &Redis) -> Self {
        const TOLD: &str = "local function now_us() return tonumber(ARGV[#ARGV]) end";
        let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let names = Script::ALL.map(|script| {
            let text = script.join(TOLD);
            redis::cmd("SCRIPT").arg("LOAD").arg(text).query(&mut redis).unwrap()
        });
        Self { redis, names }
    }

    fn told(&self, call: &Call<'_>, now: Timestamp) -> Cmd {
        let mut command = call.by_name(&self.names[call.script.place()]);
        command.arg(now.as_micros());
        command
    }
}

impl Steps for InLua {
    fn report(&mut self, keys: &[Key; 2], report: &Report, now: Timestamp) -> Reported {
        let command = self.told(&Call::report(keys, report), now);
        let reply: Value = command.query(&mut self.redis).unwrap();
        match script::read_reported(&reply) {
            Some(Reply::Done(reported)) => reported,
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, question: &Question, now: Timestamp) -> Option<Wait> {
        let command = self.told(&Call::request(question), now);
        let reply: Value = command.query(&mut self.redis).unwrap();
        match script::read_answer(&reply, question) {
            Some(Reply::Done(answer)) => answer.outcomes[0].over,
            other => panic!("{other:?}"),
        }
    }
}

/// A surge, a loop, half of the workers lost, silence, and a calm.
fn history(pool: &mut Simulation<impl Steps>) -> Vec<Sample> {
    let mut samples = pool.run(10, all(0.6));
    samples.extend(pool.run(80, |_, last, _| Some(busy(1.7, &last.chances))));
    samples.extend(
        pool.run(30, |_, last, worker| (worker % 2 == 0).then(|| busy(1.3, &last.chances))),
    );
    samples.extend(pool.run(30, silence));
    samples.extend(pool.run(60, all(1.2)));
    samples.extend(pool.run(20, all(0.123_456_7)));
    samples
}

#[tokio::test]
async fn the_same_histories_give_the_same_numbers_in_lua() {
    let server = Redis::start_at("2030-01-01 00:00:00").await;
    for settings in [
        Settings::default(),
        Settings {
            good_below_parts: 333_333,
            bad_above_parts: 912_345,
            hold_off_us: 7_654_321,
            shed_all_after_us: 33_333_333,
            report_ttl: Term::of_micros(11_111_111),
        },
    ] {
        server.ask::<()>(&["FLUSHALL"]).await;
        let mut in_lua = Simulation::new(InLua::on(&server), settings);
        let mut in_rust = Simulation::new(InMemory::default(), settings);
        let (lua, rust) = (history(&mut in_lua), history(&mut in_rust));
        assert_eq!(lua.len(), rust.len());
        for (lua, rust) in lua.iter().zip(&rust) {
            assert_eq!(lua, rust);
        }
        assert!(rust.iter().any(|it| it.chances[1] > 0.1), "there was something to compare");
        // What is drawn, too: of a class that is dropped in part.
        let steady = 0.5 * f64::from(settings.good_below_parts + settings.bad_above_parts) / 1e6;
        in_lua.run(5, all(steady));
        in_rust.run(5, all(steady));
        for number in 0..500_u32 {
            let caller = Draw::of_caller([&number.to_le_bytes()[..]]);
            for draw in [caller, Draw::Request(number.wrapping_mul(2_654_435_769))] {
                for class in 0..CLASSES.len() {
                    assert_eq!(in_lua.ask(class, draw), in_rust.ask(class, draw), "{draw:?}");
                }
            }
        }
    }
}

/// What Lua writes is what is read to be shown.
#[tokio::test]
async fn what_lua_keeps_is_read_in_rust() {
    let server = Redis::start_at("2030-01-01 00:00:00").await;
    let mut pool = Simulation::new(InLua::on(&server), Settings::default());
    pool.run(7, all(0.9));
    let [_, workers] = pool_keys(b"simulation", "api");
    let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let bytes: Vec<u8> = redis::cmd("GET").arg(workers.as_str()).query(&mut redis).unwrap();
    let state = stored::read(&workers, &bytes).unwrap();
    let counts = state.workers().unwrap().counts();
    assert_eq!((counts.workers, counts.slots), (50, 500));
    assert_eq!(counts.utilization(), Some(900_000));
    for length in 0..bytes.len() {
        assert_eq!(stored::read(&workers, &bytes[..length]), None, "{length} bytes");
    }
}

/// The keys of a worker, and a report of it.
fn reporting(worker: &str, load: Option<Load>, measured: Option<u64>) -> ([Key; 2], Report) {
    let measured = measured.map(Instant::of_micros);
    let report = Report { settings: Settings::default(), load, measured };
    (Reporting::new(b"edge", "api", worker.as_bytes(), report).keys, report)
}

#[test]
fn capacity_is_what_the_workers_last_had_and_is_forgotten_late() {
    let now =
        |at_s: f64| Timestamp::from_micros((1_000_000.0 * (at_s + 1_800_000_000.0)).round() as u64);
    let load = |slots| Load::of_ratio(0.5, slots, "ratio").ok();
    let mut states: HashMap<Key, State> = HashMap::new();
    let mut say = |worker: &str, slots, at_s| {
        let (keys, what) = reporting(worker, load(slots), None);
        let stored: Vec<_> = keys.iter().map(|key| states.get(key).cloned()).collect();
        let (reported, writes) = report::report(&stored, &what, now(at_s));
        assert_eq!(reported.outcome, Outcome::Counted);
        for write in writes {
            states.insert(keys[write.slot].clone(), write.kept.unwrap().state);
        }
        states[&keys[0]].workers().unwrap().clone()
    };
    let ttl_us = Settings::default().report_ttl.as_micros();
    let capacity = |state: &Workers, at_s| Workers::capacity(Some(state), ttl_us, now(at_s));
    assert_eq!(Workers::capacity(None, ttl_us, now(0.0)), None);
    // The first to report is not the only one there.
    let state = say("0", 10, -5.0);
    assert_eq!(capacity(&state, -5.0), None);
    assert_eq!(capacity(&state, 4.9), None);
    for worker in 0..10 {
        say(&worker.to_string(), 10, 0.5 * f64::from(worker));
    }
    let state = say("0", 10, 5.0);
    assert_eq!(capacity(&state, 5.0), Some(100));
    // All fall silent at once: that nine reports are not fresh any more is no sign that nine are gone.
    assert_eq!(capacity(&state, 24.9), Some(100));
    assert_eq!(capacity(&state, 44.9), Some(100));
    assert_eq!(capacity(&state, 46.0), None, "twice the time, and a 32nd");
    // One is heard of again, and the others may be any moment.
    let state = say("0", 10, 25.2);
    assert_eq!(capacity(&state, 25.2), Some(100));
    assert_eq!(capacity(&state, 35.1), Some(100));
    // They have had time to. So they are gone.
    assert_eq!(capacity(&state, 35.2), Some(10));
    let state = say("0", 10, 30.2);
    assert_eq!(capacity(&state, 35.2), Some(10));
    // Who comes back counts at once, and who has changed counts once.
    say("1", 20, 36.0);
    let state = say("1", 5, 37.0);
    assert_eq!(capacity(&state, 37.0), Some(15));
    // What was held is held again, where reports stop again before all are back.
    let state = say("1", 5, 58.0);
    assert_eq!(capacity(&state, 58.0), Some(15));
    let state = say("1", 5, 63.0);
    assert_eq!(capacity(&state, 67.9), Some(15));
    assert_eq!(capacity(&state, 68.0), Some(5));
    let state = say("2", 1, 75.0);
    assert_eq!(capacity(&state, 75.0), Some(15));
    assert_eq!(capacity(&state, 85.0), Some(6));
}

#[test]
fn who_was_counted_before_all_was_lost_takes_nobodys_place() {
    let now = Timestamp::from_micros(1_800_000_000_000_000);
    let load = Load::of_ratio(0.5, SLOTS, "ratio").ok();
    let mut states: HashMap<Key, State> = HashMap::new();
    let [pool, _] = reporting("one", load, None).0;
    let mut say = |worker: &str, at: Timestamp, is_lost: bool| {
        if is_lost {
            states.remove(&pool);
        }
        let (keys, what) = reporting(worker, load, None);
        let stored: Vec<_> = keys.iter().map(|key| states.get(key).cloned()).collect();
        let (reported, writes) = report::report(&stored, &what, at);
        for write in writes {
            states.insert(keys[write.slot].clone(), write.kept.unwrap().state);
        }
        reported.workers
    };
    assert_eq!(say("one", now, false), 1);
    // The pool is lost, and begins anew while what this worker said is fresh, with another until the same step.
    assert_eq!(say("two", now + 1, true), 1);
    assert_eq!(say("one", now + 2, false), 2);
    assert_eq!(say("one", now + 3, false), 2);
}

#[test]
fn a_pool_has_room_for_so_many_workers() {
    let load = Load::of_ratio(1.0, SLOTS, "ratio").ok();
    let mut steps = InMemory::default();
    let now = Timestamp::from_micros(1_800_000_000_000_000);
    let mut say = |worker: u32, load, now| {
        let (keys, report) = reporting(&format!("worker-{worker}"), load, None);
        steps.report(&keys, &report, now)
    };
    for worker in 0..5_000 {
        assert_eq!(say(worker, load, now).outcome, Outcome::Counted);
    }
    let before = say(0, None, now);
    for worker in 5_000..10_000 {
        assert_eq!(say(worker, load, now).outcome, Outcome::TooManyWorkers);
    }
    assert_eq!(say(0, None, now), before, "and nothing has changed");
    assert_eq!((before.workers, before.utilization_parts), (5_000, Some(1_000_000)));
    // Those that are known go on.
    let lower = Load::of_ratio(0.5, SLOTS, "ratio").ok();
    assert_eq!(say(17, lower, now + STEP_US).outcome, Outcome::Counted);
    let after = say(0, None, now + STEP_US);
    assert_eq!((after.workers, after.utilization_parts), (5_000, Some(999_900)));
    // When those are over, there is room again.
    let later = now + 21_000_000;
    assert_eq!(say(9_999, load, later).outcome, Outcome::Counted);
    assert_eq!(say(0, None, later).workers, 1);
}

#[test]
fn the_figure_is_what_the_program_draws() {
    let committed = include_str!("../../docs/shedding.svg");
    assert!(
        plot::svg() == committed,
        "draw it anew: cargo run --example shedding > docs/shedding.svg"
    );
    let samples = plot::run();
    assert!(samples.len() > WORKERS && turns(&samples) <= 2);
}
