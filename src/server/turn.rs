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
            loop {
                if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                    return Poll::Ready(ended);
                }
                let come = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
                if come.is_empty() {
                    return Poll::Pending;
                }
                for mut work in come {
                    // A bug in one is not the others' end: it is dropped, and its caller hears that it is over.
                    let look = AssertUnwindSafe(|| work.as_mut().poll(context));
                    if let Ok(Poll::Pending) = catch_unwind(look) {
                        tokio::spawn(work);
                    }
                }
            }
        })
        .await
    }
}
