//! One thread that asks: connections, the streams on each, and what became of their requests.

use super::{
    Plan,
    keys::Keys,
    line::{Connection, Line},
    pace::Pace,
    schedule::Schedule,
    tally::{Outcome, Tally},
};
use std::{cell::RefCell, io, rc::Rc, sync::Arc, time::Duration};
use tokio::{
    runtime::{Builder, LocalOptions},
    sync::{mpsc, watch},
    task::JoinSet,
    time,
};
use tollgate::clock::{Clock, Timestamp};

/// How often a thread tells what it has counted.
const TELL: Duration = Duration::from_secs(1);

/// How long to wait before connecting anew.
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
        failed = generator.pace.give_out() => drop(failed?),
        () = telling => {}
    }
    generator.pace.end();
    let _ = time::timeout(LAST_ANSWERS, async { while calls.join_next().await.is_some() {} }).await;
    // Whoever is dropped on the way says that it has no answer.
    calls.shutdown().await;
    for due in generator.pace.untaken() {
        generator.count(due, Outcome::UNSENT);
    }
    generator.tell(events).await;
    Ok(())
}

impl Generator {
    /// Asks on a connection, and on another when it is lost.
    async fn keep_asking(self: Rc<Self>, first: Connection) {
        let mut connection = Some(first);
        while !self.pace.is_over() {
            if let Some(connection) = connection.take() {
                let mut streams = JoinSet::new();
                for _ in 0..self.plan.streams {
                    streams.spawn_local(Rc::clone(&self).ask_in_turn(connection.line()));
                }
                while streams.join_next().await.is_some() {}
            } else {
                time::sleep(CONNECT_AGAIN).await;
                connection = Connection::open(&self.plan.target, self.plan.head.clone()).await.ok();
            }
        }
    }

    /// One request after the other, until there is no turn or no connection any more.
    async fn ask_in_turn(self: Rc<Self>, mut line: Line) {
        while line.is_ready().await {
            let Some(began) = self.pace.turn().await else { return };
            let message = self.plan.message.with(|| self.keys.borrow_mut().draw());
            let mut underway = Underway { generator: &self, began, outcome: Outcome::UNANSWERED };
            underway.outcome = line.ask(message).await;
        }
    }

    /// Counts what became of a request.
    fn count(&self, began: Timestamp, outcome: Outcome) {
        if began >= self.counting {
            self.tally.borrow_mut().count(outcome, self.clock.now() - began);
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
    began: Timestamp,
    outcome: Outcome,
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.generator.count(self.began, self.outcome);
    }
}
