//! The requests of a connection are worked on turn by turn: first the connection is read, for so many bytes at most,
//! then all requests that this has brought are polled, and then their answers are written together. Most requests are
//! answered at the first poll, and so need no task of their own, and no wake-up; one that has to wait for something
//! becomes a task.
//!
//! A turn is bounded by bytes and not by requests: what a request costs grows with its length.

use crate::telemetry::DoorCounts;
use hyper::rt::Executor;
use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};
use tokio::sync::{Semaphore, watch};

/// How many bytes of a connection are read in a turn, give or take what one read brings: some hundred usual calls,
/// or a few with a hundred descriptors each, which take about half a millisecond.
pub(super) const BYTES_A_TURN: usize = 8 << 10;

/// How many requests may be pending in the process, those whose answers are not read among them. A request takes about
/// 3 KiB. There are places for all, and as many more that only connections with few pending requests may have: so a
/// connection that takes all it can get does not cause errors for the others.
static PLACES: Semaphore = Semaphore::const_new(16_384);
static PLACES_OF_FEW: Semaphore = Semaphore::const_new(32_768);
const FEW_PENDING: usize = 64;

/// Room for how many requests a connection keeps from turn to turn.
const MOST_ROOM: usize = 32;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The requests that came on one connection and were not polled yet, and what may be read before others have their
/// turn. Clones share it.
#[derive(Clone)]
pub(super) struct Turn(Arc<Shared>);

struct Shared {
    work: Mutex<Vec<Work>>,
    /// Bytes that may still be read in this turn.
    left: AtomicUsize,
    /// Header blocks that the library was given since it was last polled, and how many of them were large.
    blocks: AtomicUsize,
    large: AtomicUsize,
    /// Requests that became tasks and have not ended.
    pending: AtomicUsize,
    counts: Arc<watch::Sender<DoorCounts>>,
}

impl<F> Executor<F> for Turn
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: F) {
        self.0.work.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(work));
    }
}

impl Turn {
    /// Nothing yet. What is refused is counted here.
    pub(super) fn new(counts: Arc<watch::Sender<DoorCounts>>) -> Self {
        let (work, zero) = (Mutex::default(), AtomicUsize::default);
        let (left, blocks, large, pending) = (zero(), zero(), zero(), zero());
        Self(Arc::new(Shared { work, left, blocks, large, pending, counts }))
    }

    /// Begins a turn.
    pub(super) fn begin(&self) {
        self.0.left.store(BYTES_A_TURN, Ordering::Relaxed);
    }

    /// Whether as much was read in this turn as may be.
    pub(super) fn is_spent(&self) -> bool {
        self.0.left.load(Ordering::Relaxed) == 0
    }

    /// So many bytes were read.
    pub(super) fn spend(&self, bytes: usize) {
        let left = self.0.left.load(Ordering::Relaxed);
        self.0.left.store(left.saturating_sub(bytes), Ordering::Relaxed);
    }

    /// The library was given so many header blocks, of which so many were large.
    pub(super) fn note_blocks(&self, blocks: usize, large: usize) {
        let add = |to: &AtomicUsize, more: usize| {
            to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        if blocks > 0 {
            add(&self.0.blocks, blocks);
            add(&self.0.large, large);
        }
    }

    /// The library has made so many requests of the header blocks that it was given. It refuses a header list that is
    /// too large by itself, and says nothing of it: a large block that became no request was one.
    pub(super) fn count_refused(&self, requests: usize) {
        let take = |from: &AtomicUsize| from.swap(0, Ordering::Relaxed);
        if self.0.blocks.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (blocks, large) = (take(&self.0.blocks), take(&self.0.large));
        let refused = large.min(blocks.saturating_sub(requests)) as u64;
        if refused > 0 {
            self.0.counts.send_modify(|counts| counts.large_heads += refused);
        }
    }

    /// Makes a task of a request that has to wait. Where too many do, it is dropped, and its stream reset.
    fn wait_for(&self, work: Work) {
        let before = self.0.pending.fetch_add(1, Ordering::Relaxed);
        let pending = Pending(self.clone());
        let of_few = || PLACES_OF_FEW.try_acquire();
        let place = if before < FEW_PENDING {
            of_few().or_else(|_| PLACES.try_acquire())
        } else {
            PLACES.try_acquire()
        };
        let Ok(place) = place else {
            self.0.counts.send_modify(|counts| counts.crowded += 1);
            return;
        };
        tokio::spawn(async move {
            let _pending = (pending, place);
            work.await;
        });
    }

    /// Serves a connection that leaves its requests here.
    pub(super) async fn by_turn<C: Future>(&self, connection: C) -> C::Output {
        let mut connection = pin!(connection);
        let mut come = Vec::new();
        std::future::poll_fn(|context| {
            self.begin();
            loop {
                let polled = connection.as_mut().poll(context);
                // Both lists keep their room from turn to turn, unless a turn brought many.
                come.shrink_to(MOST_ROOM);
                let work = &self.0.work;
                mem::swap(&mut *work.lock().unwrap_or_else(PoisonError::into_inner), &mut come);
                // Also of a connection that ended in this poll: its caller may have left at once.
                self.count_refused(come.len());
                if polled.is_ready() {
                    return polled;
                }
                if come.is_empty() {
                    if self.is_spent() {
                        // There may be more to read: after the other connections of this core.
                        context.waker().wake_by_ref();
                    }
                    return Poll::Pending;
                }
                for mut work in come.drain(..) {
                    // A bug in one is not the others' end: it is dropped, and its caller hears that it is over.
                    let look = AssertUnwindSafe(|| work.as_mut().poll(context));
                    if let Ok(Poll::Pending) = catch_unwind(look) {
                        self.wait_for(work);
                    }
                }
            }
        })
        .await
    }
}

/// A request that became a task.
struct Pending(Turn);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.0.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicU32, Ordering},
    };
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn what_has_come_is_done_before_the_connection_is_looked_at_again_and_what_waits_is_a_task()
     {
        let (turn, done) = (Turn::new(Arc::default()), Arc::new(AtomicU32::new(0)));
        let (ring, rung) = oneshot::channel();
        let (leaving, count) = (turn.clone(), Arc::clone(&done));
        let mut looks = 0;
        let mut rung = Some(rung);
        let connection = poll_fn(move |context| {
            looks += 1;
            match looks {
                1 => {
                    for _ in 0..3 {
                        let count = Arc::clone(&count);
                        leaving.execute(async move {
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                    let (count, rung) = (Arc::clone(&count), rung.take().unwrap());
                    leaving.execute(async move {
                        rung.await.unwrap();
                        count.fetch_add(10, Ordering::Relaxed);
                    });
                    leaving.execute(async { panic!("a bug") });
                    Poll::Pending
                }
                2 => Poll::Ready(count.load(Ordering::Relaxed)),
                _ => unreachable!("{context:?}"),
            }
        });
        assert_eq!(turn.by_turn(connection).await, 3);
        ring.send(()).unwrap();
        while done.load(Ordering::Relaxed) < 13 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn requests_that_wait_are_bounded_and_what_is_dropped_ends() {
        let turn = Turn::new(Arc::default());
        let (alive, mut ended) = tokio::sync::mpsc::channel::<()>(1);
        let most = FEW_PENDING + PLACES.available_permits();
        for _ in 0..most + 10 {
            let alive = alive.clone();
            turn.wait_for(Box::pin(async move {
                let _alive = alive;
                std::future::pending::<()>().await;
            }));
        }
        assert_eq!(turn.0.pending.load(Ordering::Relaxed), most);
        assert_eq!(PLACES.available_permits(), 0);
        assert_eq!(turn.0.counts.borrow().crowded, 10);
        // On another connection a few may wait all the same.
        let other = Turn::new(Arc::default());
        other.wait_for(Box::pin(async move {
            drop(alive);
        }));
        assert_eq!(other.0.pending.load(Ordering::Relaxed), 1);
        while other.0.pending.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        assert!(ended.try_recv().is_err());
    }
}
