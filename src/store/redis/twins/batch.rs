//! A batch is as good as its requests one after the other, and what befalls one of them befalls no other.

use super::{
    Names, TOLD, World, for_all,
    history::{Event, SECOND, What, any_check, any_history, any_step},
    is_in, key,
    support::Redis,
    told as command,
};
use crate::{
    clock::Timestamp,
    key::Key,
    limiter::{
        Cost, Limit,
        samples::{Samples, any_limit},
        token_bucket,
    },
    store::redis::{
        batch::{Batch, Said},
        script::{self, CLOCK, Call, Reply, Script},
    },
    unit::Unit,
    verdict::{self, Answer, Check, Question, Verdict},
};
use proptest::prelude::*;
use redis::{Connection, Value};

/// How many requests a batch has here.
const TOGETHER: usize = 7;

fn run(redis: &mut Connection, names: &Names, history: &[Event]) -> Result<(), TestCaseError> {
    let (mut world, mut now_us) = (World::default(), 1_800_000_000 * SECOND);
    for events in history.chunks(TOGETHER) {
        now_us += events[0].step_us.max(0);
        let now = Timestamp::from_micros(now_us.unsigned_abs());
        let questions: Vec<Question> =
            events.iter().filter_map(|event| event.what.question()).collect();
        let mut batch = Batch::default();
        let answers = questions.iter().enumerate().map(|(place, question)| {
            assert_eq!(batch.push(question), Some(place));
            let (answer, writes) = verdict::settle(question, &world.stored(&question.keys), now);
            world.write(&question.keys, writes, now);
            Some(Reply::Done(answer))
        });
        let answers: Vec<_> = answers.collect();
        let mut call = batch.by_name(&names[Script::Request.place()]);
        let said = batch.read(call.arg(now.as_micros()).query(redis).unwrap()).unwrap();
        let are_said =
            questions.iter().enumerate().map(|(place, question)| said.of(place, question));
        prop_assert_eq!(are_said.collect::<Vec<_>>(), answers);
        is_in(redis, &world)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_batch_answers_and_stores_what_its_requests_do_one_after_the_other() {
    for_all(&any_history(), |redis, names, history| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        run(redis, names, history)
    })
    .await;
}

/// Of five a day under each key.
fn question(keys: Vec<Key>, cost: Cost) -> Question {
    let limit = Limit::TokenBucket(token_bucket::Limit::per_unit(5, Unit::Day));
    let checks = (0..keys.len()).map(|slot| Check::of(slot, limit, cost)).collect();
    Question::new(keys, checks)
}

/// What each of these is answered, on the served script.
async fn ask(redis: &Redis, questions: &[Question]) -> Said {
    let mut connection = redis.connect().await;
    let sha: String = redis.ask(&["SCRIPT", "LOAD", &Script::Request.join(CLOCK)]).await;
    let mut batch = Batch::default();
    for question in questions {
        assert!(batch.push(question).is_some());
    }
    let reply: Value = connection.send_packed_command(&batch.by_name(&sha)).await.unwrap();
    batch.read(reply).unwrap()
}

/// What is left of the limit of a question with one check; `None` where it was not decided.
fn left(said: &Said, place: usize, question: &Question) -> Option<u64> {
    match said.of(place, question)? {
        Reply::Done(answer) => Some(answer.outcomes[0].remaining),
        Reply::Deleted(_) | Reply::Failed(_) => None,
    }
}

#[tokio::test]
async fn requests_of_a_batch_on_one_key_see_each_other_in_order() {
    let redis = Redis::start().await;
    let same = || vec![key("token_bucket", 0)];
    let takes = [1, 3, 2, 1].map(|hits| question(same(), Cost::Take(hits)));
    let said = ask(&redis, &takes).await;
    let left: Vec<_> = takes.iter().enumerate().map(|(at, it)| left(&said, at, it)).collect();
    // The third asks for more than there is, and takes nothing.
    assert_eq!(left, [Some(4), Some(1), Some(0), Some(0)]);
    let Some(Reply::Done(third)) = said.of(2, &takes[2]) else { panic!("{said:?}") };
    assert!(third.outcomes[0].over.is_some());
}

#[tokio::test]
async fn garbage_under_the_key_of_one_request_is_that_requests_fault_alone() {
    let redis = Redis::start().await;
    let keys = [0, 1, 2, 3].map(|name| key("token_bucket", name));
    redis.ask::<()>(&["RPUSH", keys[1].as_str(), "no state"]).await;
    redis.ask::<()>(&["SET", keys[3].as_str(), "no state"]).await;
    let [a, b, c, d] = keys.clone();
    let takes = [vec![a], vec![c.clone(), b], vec![c], vec![d]];
    let takes = takes.map(|keys| question(keys, Cost::Take(1)));
    let said = ask(&redis, &takes).await;
    assert_eq!(left(&said, 0, &takes[0]), Some(4));
    assert_eq!(said.of(1, &takes[1]), Some(Reply::Deleted(1)));
    assert_eq!(left(&said, 2, &takes[2]), Some(4), "the second has charged nothing");
    assert_eq!(said.of(3, &takes[3]), Some(Reply::Deleted(0)));
    // From then on all is well.
    let said = ask(&redis, &takes).await;
    let left: Vec<_> = takes.iter().enumerate().map(|(at, it)| left(&said, at, it)).collect();
    assert_eq!(left, [Some(3), Some(3), Some(2), Some(4)]);
}

#[tokio::test]
async fn where_there_is_no_room_those_who_would_write_are_refused_and_all_others_answered() {
    let redis = Redis::start().await;
    let keys = [0, 1, 2, 3].map(|name| vec![key("token_bucket", name)]);
    ask(&redis, &[question(keys[2].clone(), Cost::Take(5))]).await;
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let costs = [Cost::Peek, Cost::Take(1), Cost::Take(1), Cost::Take(1)];
    let asked = [0, 1, 2, 3].map(|at| question(keys[at].clone(), costs[at]));
    let said = ask(&redis, &asked).await;
    assert_eq!(left(&said, 0, &asked[0]), Some(5));
    assert_eq!(left(&said, 2, &asked[2]), Some(0), "a refusal writes nothing");
    for place in [1, 3] {
        let Some(Reply::Failed(error)) = said.of(place, &asked[place]) else { panic!("{said:?}") };
        assert_eq!(error.code(), "OOM", "{error:?}");
        assert!(!redis.ask::<bool>(&["EXISTS", keys[place][0].as_str()]).await);
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_and_ends() {
    let redis = Redis::start().await;
    let sha: String = redis.ask(&["SCRIPT", "LOAD", &Script::Request.join(CLOCK)]).await;
    let mut connection = redis.connect().await;
    let asked = question(vec![key("token_bucket", 0)], Cost::Take(1));
    let mut batch = Batch::default();
    batch.push(&asked).unwrap();
    let whole = batch.by_name(&sha);
    let mut cut = redis::cmd("EVALSHA");
    for argument in whole.args_iter().skip(1) {
        let redis::Arg::Simple(bytes) = argument else { panic!("{whole:?}") };
        // Of the row that tells of the request, the last argument, there is only a part.
        cut.arg(if bytes.len() == 32 { &bytes[..20] } else { bytes });
    }
    let reply: Result<Value, _> = connection.send_packed_command(&cut).await;
    let reply = reply.and_then(Value::extract_error);
    assert!(reply.is_err_and(|error| error.to_string().contains("cannot be read")));
    assert_eq!(left(&ask(&redis, std::slice::from_ref(&asked)).await, 0, &asked), Some(4));
}

#[tokio::test]
async fn where_many_keys_may_not_be_read_at_once_each_is() {
    let redis = Redis::start().await;
    let questions = [0, 1, 1].map(|name| question(vec![key("token_bucket", name)], Cost::Take(1)));
    ask(&redis, &questions).await;
    redis.ask::<()>(&["ACL", "SETUSER", "default", "-mget"]).await;
    let said = ask(&redis, &questions).await;
    let left: Vec<_> = questions.iter().enumerate().map(|(at, it)| left(&said, at, it)).collect();
    assert_eq!(left, [Some(3), Some(2), Some(1)]);
}

/// The same question, but none for the short paths: it has a key that no check is about.
fn at_length(short: &Question) -> Question {
    let mut long = short.clone();
    long.keys.push(key("token_bucket", 9));
    long
}

/// Checks of rates, each of a state of its own, one question after the other.
fn any_of_rates() -> impl Strategy<Value = Vec<(i64, Question)>> {
    let rate = any_limit(&Samples::of_rates());
    prop::collection::vec(rate, 1..3).prop_flat_map(|rates| {
        let check = any_check(prop::sample::select(rates));
        let asked = prop::collection::vec(check, 1..4).prop_map(|mut asked| {
            let mut names = Vec::new();
            asked.retain(|asking| {
                let is_new = !names.contains(&asking.name);
                names.push(asking.name);
                is_new
            });
            What::Ask(asked, None).question().unwrap()
        });
        prop::collection::vec((any_step(), asked), 1..30)
    })
}

#[tokio::test]
async fn the_short_paths_of_rates_answer_and_store_what_the_long_one_does() {
    for_all(&any_of_rates(), |redis, names, history| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        let mut now_us = 1_800_000_000 * SECOND;
        for (step_us, short) in history {
            now_us = (now_us + step_us).max(0);
            let now = Timestamp::from_micros(now_us.unsigned_abs());
            let long = at_length(short);
            let mut done = [short, &long].into_iter().enumerate().map(|(database, question)| {
                redis::cmd("SELECT").arg(database).exec(redis).unwrap();
                let reply = command(&Call::request(question), names, now).query(redis).unwrap();
                let stored = short.keys.iter().map(|key| {
                    let both = redis::pipe().get(key.as_str()).pttl(key.as_str()).query(redis);
                    both.unwrap()
                });
                let stored: Vec<(Option<Vec<u8>>, i64)> = stored.collect();
                (script::read_answer(&reply, question), stored)
            });
            let [short, long] = [done.next().unwrap(), done.next().unwrap()];
            prop_assert!(matches!(short.0, Some(Reply::Done(_))), "{:?}", short.0);
            prop_assert_eq!(short, long);
        }
        Ok(())
    })
    .await;
}

/// Microseconds for which each charge of a rate delays its request, on a script that was changed so.
const DELAY_US: u64 = 250_000;

/// The script that decides, with rates that delay.
fn delaying() -> String {
    let delaying = format!(
        "local undelayed = make_rate
        local function make_rate(number)
          local rate = undelayed(number)
          local check = rate and rate.check
          if rate then
            rate.check = function(limit, text, now, cost, amount)
              local over, state, remaining, full_in_us = check(limit, text, now, cost, amount)
              if over and cost == 0 and (over == 0 or over < -1) then
                over = -1 - {DELAY_US}
              end
              return over, state, remaining, full_in_us
            end
          end
          return rate
        end
        local function others()"
    );
    Script::Request.join(TOLD).replacen("local function others()", &delaying, 1)
}

#[tokio::test]
async fn what_delays_is_charged_and_told_like_what_passes_at_once() {
    for_all(&any_of_rates(), |redis, names, history| {
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        let mut names = names.clone();
        names[Script::Request.place()] =
            redis::cmd("SCRIPT").arg("LOAD").arg(delaying()).query(redis).unwrap();
        let (mut world, mut now_us) = (World::default(), 1_800_000_000 * SECOND);
        for (step_us, short) in history {
            now_us = (now_us + step_us).max(0);
            let now = Timestamp::from_micros(now_us.unsigned_abs());
            let (mut answer, writes) = verdict::settle(short, &world.stored(&short.keys), now);
            world.write(&short.keys, writes, now);
            let is_admitted = Verdict::of(&short.checks, answer.clone()).refusal.is_none();
            for (check, outcome) in short.checks.iter().zip(&mut answer.outcomes) {
                if is_admitted && outcome.over.is_none() && matches!(check.cost, Cost::Take(_)) {
                    outcome.delay_us = DELAY_US;
                }
            }
            let long = at_length(short);
            for (database, question) in [short, &long].into_iter().enumerate() {
                redis::cmd("SELECT").arg(database).exec(redis).unwrap();
                let reply = command(&Call::request(question), &names, now).query(redis).unwrap();
                let said = script::read_answer(&reply, question);
                prop_assert_eq!(said, Some(Reply::Done(answer.clone())));
                is_in(redis, &world)?;
            }
        }
        Ok(())
    })
    .await;
}

/// Whether each check is over, and what it leaves.
fn told(answer: &Answer) -> Vec<(bool, u64)> {
    answer.outcomes.iter().map(|outcome| (outcome.over.is_some(), outcome.remaining)).collect()
}

#[tokio::test]
async fn of_checks_apart_from_each_other_rust_and_lua_refuse_and_take_the_same() {
    let redis = Redis::start().await;
    // Of five, three are gone: these pass, wait, never pass, and ask.
    let costs = [Cost::Take(1), Cost::Take(4), Cost::Take(6), Cost::Peek];
    let modes = [(false, false), (true, false), (false, true), (true, true)];
    let one = |slot, pair: usize| {
        let (shadow_mode, quota_mode) = modes[pair / costs.len()];
        let check = question(vec![key("token_bucket", slot)], costs[pair % costs.len()]).checks[0];
        Check { slot, shadow_mode, quota_mode, ..check }
    };
    let kinds = costs.len() * modes.len();
    let now = Timestamp::from_micros(1_800_000_000 * 1_000_000);
    for (first, second) in (0..kinds).flat_map(|first| (0..kinds).map(move |it| (first, it))) {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let keys: Vec<Key> = (0..2).map(|name| key("token_bucket", name)).collect();
        let before = question(keys.clone(), Cost::Take(3));
        let asked = Question::new(keys.clone(), vec![one(0, first), one(1, second)]);
        let after = question(keys.clone(), Cost::Peek);
        let mut world = World::default();
        let expected = [&before, &asked, &after].map(|question| {
            let (answer, writes) = verdict::settle(question, &world.stored(&question.keys), now);
            world.write(&question.keys, writes, now);
            told(&answer)
        });
        let said = ask(&redis, &[before.clone(), asked.clone(), after.clone()]).await;
        let found = [&before, &asked, &after].into_iter().enumerate().map(|(place, question)| {
            let Some(Reply::Done(answer)) = said.of(place, question) else { panic!("{said:?}") };
            told(&answer)
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{:?}", asked.checks);
    }
}
