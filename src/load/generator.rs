//! One thread that asks: connections, the streams on each, and what became of their requests.

use super::{
    Plan,
    keys::Keys,
    line::{Connection, Line},
    pace::Pace,
    schedule::Schedule,
    tally::{Outcome, Tally},
};
use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{
    runtime::{Builder, LocalOptions},
    sync::{mpsc, watch},
    task::{self, JoinSet},
    time::{self, MissedTickBehavior},
};
use tollgate::clock::{Clock, Timestamp};

/// How often a thread tells what it has counted.
const TELL: Duration = Duration::from_secs(1);

/// How long a connection has, at least, until there is another in its place: a server that hangs up at once is not to
/// be flooded.
const CONNECT_AGAIN: Duration = Duration::from_millis(100);

/// How long to wait, when all is over, for what is still under way, or still to be sent.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// What a thread tells.
#[derive(Debug)]
pub(super) enum Event {
    /// It is connected, and waits for the beginning.
    Connected,
    /// What became of requests since it told last.
    Counted(Box<Tally>),
    /// It cannot connect, or not go on.
    Failed(io::Error),
}

/// What threads are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// To connect.
    Connect,
    /// To ask, from this instant on.
    Ask { begin: Timestamp },
    /// To come to an end.
    End,
}

/// A thread at work.
struct Generator {
    plan: Arc<Plan>,
    clock: Clock,
    pace: Pace,
    /// From when on requests count.
    counting: Timestamp,
    keys: RefCell<Keys>,
    tally: RefCell<Tally>,
}

/// Asks as the plan says, as thread number `thread`, until it is told to end, or nobody tells it anything any more.
pub(super) fn run(
    plan: &Arc<Plan>,
    thread: u32,
    clock: &Clock,
    orders: watch::Receiver<Order>,
    events: &mpsc::Sender<Event>,
) {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let asked =
        runtime.and_then(|runtime| runtime.block_on(ask(plan, thread, clock, orders, events)));
    if let Err(error) = asked {
        // Whoever does not listen any more needs no telling.
        let _ = events.blocking_send(Event::Failed(error));
    }
}

async fn ask(
    plan: &Arc<Plan>,
    thread: u32,
    clock: &Clock,
    mut orders: watch::Receiver<Order>,
    events: &mpsc::Sender<Event>,
) -> io::Result<()> {
    let mut connections = Vec::new();
    // So that all threads together have all connections.
    for _ in (thread..plan.connections).step_by(plan.threads as usize) {
        connections.push(Connection::open(&plan.target, plan.head.clone()).await?);
    }
    // Whoever does not listen any more says the same by leaving.
    let _ = events.send(Event::Connected).await;
    let begun = orders.wait_for(|order| *order != Order::Connect).await.map(|order| *order);
    let Ok(Order::Ask { begin }) = begun else { return Ok(()) };

    let schedule = plan.rate.map(|rate| Schedule::new(rate, plan.threads, thread));
    let keys = Keys::new(plan.keys, plan.zipf, thread.into()).map_err(io::Error::other)?;
    let tally = Tally::new().map_err(io::Error::other)?;
    let generator = Rc::new(Generator {
        plan: Arc::clone(plan),
        clock: clock.clone(),
        pace: Pace::new(clock.clone(), begin..plan.end(begin), schedule),
        counting: plan.counting(begin),
        keys: keys.into(),
        tally: tally.into(),
    });
    let mut calls = JoinSet::new();
    for connection in connections {
        calls.spawn_local(Rc::clone(&generator).keep_asking(connection));
    }
    // On its own, so that nothing else is looked at whenever a request is due.
    let giver = Rc::clone(&generator);
    let mut giving = JoinSet::new();
    giving.spawn_local(async move { giver.pace.give_out().await });
    let until_end = async {
        let _ = orders.wait_for(|order| *order == Order::End).await;
    };
    let telling = async {
        let mut ticks = time::interval(TELL);
        loop {
            ticks.tick().await;
            generator.tell(events).await;
        }
    };
    tokio::select! {
        () = until_end => {}
        Some(Ok(failed)) = giving.join_next() => drop(failed?),
        () = telling => {}
    }
    generator.pace.end();
    let _ = time::timeout(LAST_ANSWERS, async { while calls.join_next().await.is_some() {} }).await;
    // Whoever is dropped on the way says that it has no answer.
    calls.shutdown().await;
    giving.shutdown().await;
    // What was asked on a connection is dropped after it, a few at a time.
    let dropped = async {
        while Rc::strong_count(&generator) > 1 {
            task::yield_now().await;
        }
    };
    let _ = time::timeout(LAST_ANSWERS, dropped).await;
    for due in generator.pace.untaken() {
        generator.count(due, Outcome::UNSENT);
    }
    generator.tell(events).await;
    Ok(())
}

impl Generator {
    /// Asks on a connection, and on another when it has ended.
    async fn keep_asking(self: Rc<Self>, first: Connection) {
        let mut first = Some(first);
        let mut next = time::interval(CONNECT_AGAIN);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.pace.is_over() {
            next.tick().await;
            let connection = match first.take() {
                Some(connection) => Ok(connection),
                None => Connection::open(&self.plan.target, self.plan.head.clone()).await,
            };
            if let Ok(connection) = connection {
                self.ask_on(connection).await;
            }
        }
    }

    /// Asks on a connection, on all its streams, until it has ended or there are no turns any more.
    async fn ask_on(self: &Rc<Self>, connection: Connection) {
        let underway = Rc::new(Cell::new(0));
        let mut streams = JoinSet::new();
        for _ in 0..self.plan.streams {
            let asking = Rc::clone(self).ask_in_turn(connection.line(), Rc::clone(&underway));
            streams.spawn_local(asking);
        }
        let all_done = async { while streams.join_next().await.is_some() {} };
        tokio::select! {
            biased;
            () = connection.run() => {}
            () = all_done => {}
        }
        // Whoever has asked knows by now that no answer comes. Whoever waits for a turn knows nothing, and is dropped.
        while underway.get() > 0 && streams.join_next().await.is_some() {}
    }

    /// One request after the other, until there is no turn or no connection any more.
    async fn ask_in_turn(self: Rc<Self>, mut line: Line, underway: Rc<Cell<u32>>) {
        while line.is_ready().await {
            let Some(since) = self.pace.turn().await else { return };
            let message = self.plan.message.with(|| self.keys.borrow_mut().draw());
            let mut request = Underway::new(&self, &underway, since);
            request.outcome = line.ask(message).await;
        }
    }

    /// Counts what became of a request.
    fn count(&self, since: Timestamp, outcome: Outcome) {
        if since >= self.counting {
            self.tally.borrow_mut().count(outcome, self.clock.now() - since);
        }
    }

    /// Tells what was counted since it told last.
    async fn tell(&self, events: &mpsc::Sender<Event>) {
        let counted = Box::new(self.tally.borrow().clone());
        self.tally.borrow_mut().clear();
        // Whoever does not listen any more needs no telling.
        let _ = events.send(Event::Counted(counted)).await;
    }
}

/// A request that is under way. It is counted when it is dropped, also where nobody waits for it any more.
struct Underway<'a> {
    generator: &'a Generator,
    /// How many there are on its connection.
    underway: &'a Cell<u32>,
    since: Timestamp,
    /// `None` where it is to be asked again.
    outcome: Option<Outcome>,
}

impl<'a> Underway<'a> {
    fn new(generator: &'a Generator, underway: &'a Cell<u32>, since: Timestamp) -> Self {
        underway.set(underway.get() + 1);
        Self { generator, underway, since, outcome: Some(Outcome::UNANSWERED) }
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.underway.set(self.underway.get() - 1);
        match self.outcome {
            Some(outcome) => self.generator.count(self.since, outcome),
            None => self.generator.pace.give_back(self.since),
        }
    }
}
