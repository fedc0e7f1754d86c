//! Lanes: a way to Redis for each runtime.
//!
//! Where each core has a runtime of its own, a request that changed cores on its way to Redis and back would wait for
//! two of them to be woken. So each runtime that asks has its own connection, and tasks of its own that carry batches
//! there and back.
//!
//! Requests are gathered while a task has not begun to run that takes them along, which is when all that is ready
//! has run: so those that came together go together, and one that comes alone waits for nothing. Where as many
//! batches as may be are under way, they are gathered until one of those comes back. There is no timer.

use super::{
    CONNECTIONS,
    connection::{Connection, LONGEST_CONNECT, Manager},
    round::Round,
};
use crate::{
    task::{Task, supervise},
    verdict::Question,
};
use arc_swap::ArcSwap;
use bb8_redis::bb8::{Pool, QueueStrategy};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{self, MissedTickBehavior},
};

/// The most batches of a lane that are under way at a time: Redis has the next when it is done with one, while one is
/// on its way there, one on its way back, and one is being read. Of many lanes some always have one there.
const MOST_UNDER_WAY: usize = 4;
const MOST_UNDER_WAY_OF_ALL: usize = 16;

/// The most batches that are gathered in a lane, and in all lanes together. Redis takes some 5 ms for as many as are
/// gathered in one; more requests would only wait for each other, until all are late.
const MOST_GATHERED: usize = 16;
const MOST_GATHERED_OF_ALL: usize = 32;

/// The most lanes. Runtimes beyond that use the first.
const MOST_LANES: usize = 256;

/// How often connections are tried, and a lost Redis is looked for.
pub(super) const TRY_EVERY: Duration = Duration::from_millis(250);

/// How long a connection may take to show that it works. Longer than this process itself stands still on a busy
/// machine, and short enough that one that is dead has been replaced within a second.
const LONGEST_TRY: Duration = Duration::from_millis(500);

/// The lanes of all runtimes.
pub(super) struct Lanes {
    manager: Manager,
    timeout: Duration,
    /// That of the runtime in which the store was opened. It serves those that have none, or none yet.
    first: Arc<Lane>,
    others: ArcSwap<Vec<Arc<Lane>>>,
    adding: Mutex<()>,
    /// How many there are, as each of them knows.
    count: Arc<AtomicUsize>,
}

impl Lanes {
    /// With a lane for this runtime.
    pub(super) fn new(manager: Manager, timeout: Duration) -> Self {
        let count = Arc::new(AtomicUsize::new(1));
        let first = Lane::new(manager.clone(), timeout, Handle::current(), Arc::clone(&count));
        let (others, adding) = (ArcSwap::default(), Mutex::default());
        Self { manager, timeout, first: Arc::new(first), others, adding, count }
    }

    /// The lane of this runtime, where it has a connection.
    pub(super) fn here(&self) -> Arc<Lane> {
        let Ok(runtime) = Handle::try_current() else { return Arc::clone(&self.first) };
        if self.first.runtime.id() == runtime.id() {
            return Arc::clone(&self.first);
        }
        let others = self.others.load();
        match others.iter().find(|lane| lane.runtime.id() == runtime.id()) {
            Some(lane) if lane.is_open() => Arc::clone(lane),
            Some(_) => Arc::clone(&self.first),
            None => {
                if others.len() + 1 < MOST_LANES {
                    self.add(runtime);
                }
                Arc::clone(&self.first)
            }
        }
    }

    fn add(&self, runtime: Handle) {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others = Vec::clone(&self.others.load());
        let is_there = others.iter().any(|lane| lane.runtime.id() == runtime.id());
        if !is_there && others.len() + 1 < MOST_LANES {
            let (manager, count) = (self.manager.clone(), Arc::clone(&self.count));
            others.push(Arc::new(Lane::new(manager, self.timeout, runtime, count)));
            self.count.store(others.len() + 1, Ordering::Relaxed);
            self.others.store(Arc::new(others));
        }
    }
}

/// The way of one runtime.
pub(super) struct Lane {
    pub(super) runtime: Handle,
    pool: Pool<Manager>,
    /// Whether it had a connection when that was last looked for.
    is_open: Arc<AtomicBool>,
    gathered: Mutex<Gathered>,
    /// How many lanes there are.
    lanes: Arc<AtomicUsize>,
    /// Tries connections, for as long as there is the lane.
    _keeper: JoinSet<()>,
}

/// The requests that are not under way yet, and the tasks that take them along.
#[derive(Default)]
struct Gathered {
    rounds: VecDeque<Arc<Round>>,
    carriers: usize,
    /// Of those, the ones that have not begun to run.
    called: usize,
}

impl Lane {
    fn new(manager: Manager, timeout: Duration, runtime: Handle, lanes: Arc<AtomicUsize>) -> Self {
        let _entered = runtime.enter();
        let pool = Pool::builder()
            .max_size(CONNECTIONS)
            .min_idle(CONNECTIONS)
            .queue_strategy(QueueStrategy::Fifo)
            // Not a question to Redis, only whether it is known to be broken.
            .test_on_check_out(true)
            // Where no connection comes in that time, none is coming.
            .connection_timeout(timeout.min(LONGEST_CONNECT))
            .retry_connection(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .build_unchecked(manager);
        let is_open = Arc::new(AtomicBool::new(false));
        let mut keeper = JoinSet::new();
        let (kept, told) = (pool.clone(), Arc::clone(&is_open));
        keeper.spawn(supervise(Task::RedisConnections, async move || keep(&kept, &told).await));
        let gathered = Mutex::default();
        Self { runtime: runtime.clone(), pool, is_open, gathered, lanes, _keeper: keeper }
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Whether it has no connection.
    pub(super) fn has_none(&self) -> bool {
        self.pool.state().connections == 0
    }

    /// A connection, which others may take as well; `None` where none comes.
    pub(super) async fn connection(&self) -> Option<Connection> {
        self.pool.get().await.ok().map(|taken| taken.clone())
    }

    /// Takes in a request: the round with which it goes, and its place there; `None` where too many wait already. A
    /// carrier is to be started where it says so.
    pub(super) fn join(&self, question: &Question) -> Option<(Arc<Round>, usize, bool)> {
        let mut gathered = self.gathered();
        let joined = gathered
            .rounds
            .back()
            .and_then(|round| round.join(question).map(|place| (Arc::clone(round), place)));
        let (round, place) = match joined {
            Some(joined) => joined,
            None if gathered.rounds.len() >= self.share(MOST_GATHERED_OF_ALL, MOST_GATHERED) => {
                return None;
            }
            None => {
                let round = Arc::new(Round::default());
                let place = round.join(question)?;
                gathered.rounds.push_back(Arc::clone(&round));
                (round, place)
            }
        };
        Some((round, place, gathered.calls_carrier(self.most_under_way())))
    }

    /// What is this lane's of so many of all, at least one.
    fn share(&self, of_all: usize, most: usize) -> usize {
        (of_all / self.lanes.load(Ordering::Relaxed).max(1)).clamp(1, most)
    }

    fn most_under_way(&self) -> usize {
        self.share(MOST_UNDER_WAY_OF_ALL, MOST_UNDER_WAY)
    }

    /// The next round for a carrier, `None` where he is done.
    pub(super) fn next(&self, is_his_first: bool) -> Option<Arc<Round>> {
        let mut gathered = self.gathered();
        gathered.called = gathered.called.saturating_sub(usize::from(is_his_first));
        let round = gathered.rounds.pop_front();
        gathered.carriers = gathered.carriers.saturating_sub(usize::from(round.is_none()));
        round
    }

    /// A carrier takes no further round along, but waits for what becomes of his. Whether another is to be started in
    /// his place.
    pub(super) fn stay_behind(&self) -> bool {
        let mut gathered = self.gathered();
        gathered.carriers = gathered.carriers.saturating_sub(1);
        gathered.calls_carrier(self.most_under_way())
    }

    /// Somebody has left. A round for which nobody waits makes room for others.
    pub(super) fn forget_empty(&self) {
        self.gathered().rounds.retain(|round| !round.is_empty());
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gathered {
    /// Whether there is need of a further carrier, and room for him.
    fn calls_carrier(&mut self, most_under_way: usize) -> bool {
        let calls = self.rounds.len() > self.called && self.carriers < most_under_way;
        self.called += usize::from(calls);
        self.carriers += usize::from(calls);
        calls
    }
}

/// Tries connections now and then, and has the pool replace those that do not work.
async fn keep(pool: &Pool<Manager>, is_open: &AtomicBool) {
    let mut ticks = time::interval(TRY_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut tried = JoinSet::new();
        for _ in 0..CONNECTIONS {
            // To take one is to have broken ones replaced. Where there is none, trying again helps more
            // than waiting does.
            let taken = time::timeout(TRY_EVERY, pool.get()).await.ok().and_then(Result::ok);
            is_open.store(taken.is_some(), Ordering::Relaxed);
            if let Some(taken) = taken {
                tried.spawn(try_out(taken.clone()));
            }
        }
        tried.join_all().await;
    }
}

async fn try_out(mut connection: Connection) {
    let ping = redis::cmd("PING");
    let answered =
        time::timeout(LONGEST_TRY, ping.query_async::<redis::Value>(&mut connection.redis)).await;
    // That it may not be asked this is an answer, too.
    let is_alive =
        answered.is_ok_and(|answer| answer.err().is_none_or(|error| error.code().is_some()));
    if !is_alive {
        connection.set_broken();
    }
}
