//! What the requests of a connection want done is done turn by turn: first the connection is read to the end of
//! what has come, then all requests that this has brought are looked at, and then their answers are written
//! together. Most requests are answered at the first look, and so need no task of their own, and no wake-up; one that
//! has to wait for something becomes a task.

use hyper::rt::Executor;
use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};

/// After how many requests of one connection others have their turn.
const MOST_AT_ONCE: usize = 256;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the requests of one connection want done, since it was last done. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Turn(Arc<Mutex<Vec<Work>>>);

impl<F> Executor<F> for Turn
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(work));
    }
}

impl Turn {
    /// Serves a connection that leaves its requests here.
    pub(super) async fn by_turn<C: Future>(&self, connection: C) -> C::Output {
        let mut connection = pin!(connection);
        std::future::poll_fn(|context| {
            let mut done = 0;
            loop {
                if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                    return Poll::Ready(ended);
                }
                let come = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
                if come.is_empty() {
                    return Poll::Pending;
                }
                done += come.len();
                for mut work in come {
                    // A bug in one is not the others' end: it is dropped, and its caller hears that it is over.
                    let look = AssertUnwindSafe(|| work.as_mut().poll(context));
                    if let Ok(Poll::Pending) = catch_unwind(look) {
                        tokio::spawn(work);
                    }
                }
                if done >= MOST_AT_ONCE {
                    // Other connections of this core have their turn first.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        })
        .await
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
        let (turn, done) = (Turn::default(), Arc::new(AtomicU32::new(0)));
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
}
