//! Rust and Lua are twins: for random histories the scripts give the same answers as the steps in Rust, and
//! leave the same states for the same time. On a real Redis, whose own clock stands still so that nothing
//! expires; the scripts are joined with a clock that is told the time.

mod batch;
mod grant;
mod history;
mod refund;
mod shadow;
mod stored;
mod support;

use super::script::{self, Call, Reply, Script};
use crate::{
    clock::Timestamp,
    key::Key,
    lease::{LeaseId, Release, Term},
    limiter::{
        State,
        samples::{Samples, WORKERS, any_broken_of, any_limit, doubles},
    },
    release, renew, report,
    verdict::{self, Write},
    worker::{Load, Report, Settings},
};
use history::{Event, SECOND, What, YEAR, any_check, any_history, any_state, id, key, keys};
use proptest::{
    prelude::*,
    test_runner::{FileFailurePersistence, TestRunner},
};
use redis::{Cmd, Commands as _, Connection, Value};
use std::{cell::RefCell, collections::BTreeMap, fmt::Debug};
use support::Redis;

/// The clock of this test.
const TOLD: &str = "local function now_us() return tonumber(ARGV[#ARGV]) end";

/// How much longer a key is kept than its state means anything, in milliseconds.
const MARGIN_MS: u64 = 1000;

/// What Redis calls the scripts, each at its place.
type Names = [String; Script::ALL.len()];

/// What is known of each key: its state, and its time to live in milliseconds when it was written.
#[derive(Default)]
struct World(BTreeMap<Key, (State, u64)>);

impl World {
    fn stored(&self, keys: &[Key]) -> Vec<Option<State>> {
        keys.iter().map(|key| self.0.get(key).map(|(state, _)| state.clone())).collect()
    }

    fn write(&mut self, keys: &[Key], writes: impl IntoIterator<Item = Write>, now: Timestamp) {
        for Write { slot, kept, is_extension } in writes {
            match kept {
                Some(kept) if is_extension => self.extend(&keys[slot], kept.fresh_at, now),
                Some(kept) => {
                    let ttl_ms = (kept.fresh_at - now).div_ceil(1000) + MARGIN_MS;
                    let is_record = kept.state.record().is_some();
                    let ttl_ms = ttl_ms + if is_record { now.as_micros() % 1000 * 10 } else { 0 };
                    self.0.insert(keys[slot].clone(), (kept.state, ttl_ms));
                }
                None => {
                    self.0.remove(&keys[slot]);
                }
            }
        }
    }

    /// Keeps a state until then, where it would be forgotten before. Its time does not pass here.
    fn extend(&mut self, key: &Key, fresh_at: Timestamp, now: Timestamp) {
        let left_ms = (fresh_at - now).div_ceil(1000);
        let (_, ttl_ms) = self.0.get_mut(key).unwrap();
        if *ttl_ms < left_ms {
            *ttl_ms = left_ms + MARGIN_MS;
        }
    }

    /// The keys of a lease: its record's, and those of all states that it names.
    fn keys_of(&self, id: &LeaseId) -> Vec<Key> {
        let mut keys = vec![id.key().clone()];
        let record = self.0.get(id.key()).and_then(|(state, _)| state.record());
        for hold in record.into_iter().flat_map(|it| &it.entries).flat_map(|it| &it.holds) {
            if !keys.contains(&hold.key) {
                keys.push(hold.key.clone());
            }
        }
        keys
    }
}

/// Runs a history in Rust and on a Redis that holds the same, and compares what both say and keep.
fn run(
    mut world: World,
    redis: &mut Connection,
    names: &Names,
    history: &[Event],
) -> Result<(), TestCaseError> {
    let mut now_us = 1_800_000_000 * SECOND;
    for Event { step_us, what } in history {
        now_us = (now_us + step_us).clamp(0, 130 * YEAR);
        let now = Timestamp::from_micros(now_us.unsigned_abs());
        let mut ask = |call: &Call<'_>| told(call, names, now).query::<Value>(redis).unwrap();
        match what {
            What::Ask(..) => {
                let question = what.question().unwrap();
                let stored = world.stored(&question.keys);
                let (answer, writes) = verdict::settle(&question, &stored, now);
                world.write(&question.keys, writes, now);
                let reply = ask(&Call::request(&question));
                prop_assert_eq!(script::read_answer(&reply, &question), Some(Reply::Done(answer)));
            }
            What::Release { id: number, what } => {
                let (id, keys) = (id(*number), world.keys_of(&id(*number)));
                let (was, writes) = release::release(&keys, &world.stored(&keys), *what, now);
                world.write(&keys, writes, now);
                let reply = ask(&Call::release(&id, *what));
                prop_assert_eq!(script::read_released(&reply), Some(Reply::Done(was)));
            }
            What::Renew { id: number, term_us } => {
                let (id, keys) = (id(*number), world.keys_of(&id(*number)));
                let term = term_us.map(Term::of_micros);
                let (found, writes) = renew::renew(&keys, &world.stored(&keys), term, now);
                world.write(&keys, writes, now);
                let reply = ask(&Call::renew(&id, term));
                prop_assert_eq!(script::read_renewed(&reply), Some(Reply::Done(found)));
            }
            What::Report { name, worker, report: what } => {
                let keys = history::report_keys(*name, *worker);
                let (reported, writes) = report::report(&world.stored(&keys), what, now);
                world.write(&keys, writes, now);
                let reply = ask(&Call::report(&keys, what));
                prop_assert_eq!(script::read_reported(&reply), Some(Reply::Done(reported)));
            }
            What::Lose(number) => {
                let key = history::lost(*number);
                world.0.remove(&key);
                redis::cmd("UNLINK").arg(key.as_str()).exec(redis).unwrap();
            }
        }
        is_in(redis, &world)?;
    }
    Ok(())
}

/// Holds that Redis has what is known of each key, and nothing else.
fn is_in(redis: &mut Connection, world: &World) -> Result<(), TestCaseError> {
    for key in keys() {
        let (stored, ttl_ms): (Option<Vec<u8>>, i64) =
            redis::pipe().get(key.as_str()).pttl(key.as_str()).query(redis).unwrap();
        let there = stored.map(|bytes| (stored::read(&key, &bytes), ttl_ms.unsigned_abs()));
        prop_assert_eq!(there.as_ref(), world.0.get(&key), "{}", key.as_str());
    }
    prop_assert_eq!(redis.keys::<_, Vec<String>>("*").unwrap().len(), world.0.len());
    Ok(())
}

/// The command of a call, with the time.
fn told(call: &Call<'_>, names: &Names, now: Timestamp) -> Cmd {
    let mut command = call.by_name(&names[call.script.place()]);
    command.arg(now.as_micros());
    command
}

#[tokio::test]
async fn the_scripts_answer_and_store_what_rust_does() {
    for_all(&any_history(), |redis, names, history| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        run(World::default(), redis, names, history)
    })
    .await;
}

#[tokio::test]
async fn the_scripts_make_of_any_state_what_rust_does() {
    for_all(&(any_state(), any_history()), |redis, names, ((key, state), history)| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        redis.set_ex::<_, _, ()>(key.as_str(), stored::write(state), 1).unwrap();
        run(World(BTreeMap::from([(key.clone(), (state.clone(), 1000))])), redis, names, history)
    })
    .await;
}

#[tokio::test]
async fn the_script_deletes_what_is_no_state_of_its_limiter_and_decides_from_then_on() {
    // A request reads only the head of what stands under a pool's key: reports, which write it, read all of it.
    let limiters = [Samples::of_rates(), Samples::of_slots()].concat();
    for Samples { name: limiter, limits, broken, .. } in limiters {
        for_all(&(broken, any_check(limits)), |redis, names, (bytes, asking)| {
            redis::cmd("FLUSHALL").exec(redis).unwrap();
            let mut asking = asking.clone();
            asking.name = 0;
            let asked = What::Ask(vec![asking], None);
            let question = asked.question().unwrap();
            let key = key(limiter, 0);
            let place = question.keys.iter().position(|its| *its == key).unwrap();
            redis.set::<_, _, ()>(key.as_str(), bytes).unwrap();
            let mut answer = || {
                let now = Timestamp::from_micros(1_800_000_000_000_000);
                let reply = told(&Call::request(&question), names, now).query(redis).unwrap();
                script::read_answer(&reply, &question)
            };
            prop_assert_eq!(answer(), Some(Reply::Deleted(place)), "{}", limiter);
            prop_assert!(matches!(answer(), Some(Reply::Done(_))));
            Ok(())
        })
        .await;
    }
}

/// Bytes that are no record: one that is cut off, or has a kind that there is none of, or more behind it.
fn any_bytes_of_a_record() -> impl Strategy<Value = Vec<u8>> {
    let record = history::any_record().prop_map(|state| stored::write(&state));
    (record, any::<prop::sample::Index>(), 4..=255_u8, 0..3_u8).prop_map(
        |(mut bytes, place, kind, mistake)| {
            match mistake {
                0 => bytes[0] = kind,
                1 => bytes.push(kind),
                // An entry has more than that.
                _ => bytes.truncate(place.index(20)),
            }
            bytes
        },
    )
}

#[tokio::test]
async fn what_is_no_record_of_a_lease_is_deleted_as_well() {
    let asking = any_check(any_limit(&Samples::of_slots()));
    let asking = asking.prop_filter("takes", |asking| asking.takes());
    for_all(&(any_bytes_of_a_record(), asking), |redis, names, (record, asking)| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        let mut asking = asking.clone();
        asking.name = 0;
        let question = What::Ask(vec![asking], None).question().unwrap();
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let [.., lease] = &question.keys[..] else { panic!("{question:?}") };
        redis.set::<_, _, ()>(lease.as_str(), record).unwrap();
        let reply = told(&Call::request(&question), names, now).query(redis).unwrap();
        let answer = script::read_answer(&reply, &question);
        prop_assert_eq!(answer, Some(Reply::Deleted(question.keys.len() - 1)));
        prop_assert_eq!(redis.keys::<_, Vec<String>>("*").unwrap().len(), 0);
        // Whoever releases or renews meets it, too.
        redis.set::<_, _, ()>(lease.as_str(), record).unwrap();
        let id = id(0);
        let release = Call::release(&id, Release::Last { marks: false });
        let reply = told(&release, names, now).query(redis).unwrap();
        prop_assert_eq!(script::read_released(&reply), Some(Reply::Deleted(0)));
        redis.set::<_, _, ()>(lease.as_str(), record).unwrap();
        let reply = told(&Call::renew(&id, None), names, now).query(redis).unwrap();
        prop_assert_eq!(script::read_renewed(&reply), Some(Reply::Deleted(0)));
        Ok(())
    })
    .await;
}

/// What a worker said last.
const WORKER: &[f64] = &[1.7e15, 1.9e15, 1.0, 1e6, 5.0];

#[tokio::test]
async fn what_is_no_pool_and_no_worker_is_deleted_as_well() {
    let found = (any_broken_of(WORKERS), any_broken_of(WORKER));
    for_all(&found, |redis, names, (workers, worker)| {
        let keys = history::report_keys(0, 0);
        let settings = Settings::default();
        let load = Load::of_ratio(0.5, 1, "ratio").ok();
        let report = Report { settings, load, measured: None };
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let say = |redis: &mut Connection| {
            let reply = told(&Call::report(&keys, &report), names, now).query(redis).unwrap();
            script::read_reported(&reply)
        };
        let plain = |numbers: &[f64]| -> Vec<u8> { doubles(numbers.iter().copied()) };
        for (place, pair) in
            [[workers.clone(), plain(WORKER)], [plain(WORKERS), worker.clone()]].iter().enumerate()
        {
            for (key, bytes) in keys.iter().zip(pair) {
                redis.set::<_, _, ()>(key.as_str(), bytes).unwrap();
            }
            prop_assert_eq!(stored::read_any(&keys[place], &pair[place]), None);
            prop_assert_eq!(say(redis), Some(Reply::Deleted(place)));
            prop_assert_eq!(redis.exists::<_, bool>(keys[place].as_str()).unwrap(), false);
            prop_assert!(matches!(say(redis), Some(Reply::Done(_))));
            redis::cmd("FLUSHALL").exec(redis).unwrap();
        }
        Ok(())
    })
    .await;
}

/// Holds a property for random values, on a Redis that has the scripts.
async fn for_all<T: Debug>(
    values: &impl Strategy<Value = T>,
    holds: impl Fn(&mut Connection, &Names, &T) -> Result<(), TestCaseError>,
) {
    let server = Redis::start_at("2030-01-01 00:00:00").await;
    let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let names = Script::ALL.map(|script| {
        redis::cmd("SCRIPT").arg("LOAD").arg(script.join(TOLD)).query(&mut redis).unwrap()
    });
    let usual = ProptestConfig::default();
    let mut runner = TestRunner::new(ProptestConfig {
        // More with PROPTEST_CASES.
        cases: usual.cases.max(1000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        source_file: Some(file!()),
        ..usual
    });
    let redis = RefCell::new(redis);
    runner
        .run(values, |value| holds(&mut redis.borrow_mut(), &names, &value))
        .unwrap_or_else(|failure| panic!("{failure}"));
}
