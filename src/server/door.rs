//! A door: a listener, and how callers come in. Whatever stands behind it, each connection takes a place, of
//! which there are so many, and is served in a task of its own, so that nobody's slowness keeps others out.

use super::{connection::Connection, until_closed};
use crate::telemetry::DoorCounts;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time,
};

/// How long to wait after the system could not accept a connection, for want of files or memory: it will not
/// have more of them at once.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A door that nobody has come through yet.
#[derive(Debug)]
pub(super) struct Door {
    listener: TcpListener,
    places: Arc<Semaphore>,
    counts: Arc<Counts>,
}

/// [`DoorCounts`] that are being counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    full: AtomicU64,
    not_accepted: AtomicU64,
}

impl Counts {
    pub(super) fn now(&self) -> DoorCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DoorCounts { full: read(&self.full), not_accepted: read(&self.not_accepted) }
    }
}

impl Door {
    /// A door with room for so many connections at a time.
    pub(super) fn new(listener: TcpListener, most: usize) -> Self {
        let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Self { listener, places, counts: Arc::default() }
    }

    /// What happens here.
    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Lets callers in until the doors close, and then waits for those who are in. Dropped, it cuts them off.
    pub(super) async fn open<Serving>(
        self,
        closed: watch::Receiver<()>,
        serve: impl Fn(Connection) -> Serving,
    ) where
        Serving: Future<Output = ()> + Send + 'static,
    {
        let mut connections = JoinSet::new();
        let closed = until_closed(closed);
        tokio::pin!(closed);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                () = &mut closed => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    if let Some(connection) = self.let_in(stream) {
                        connections.spawn(serve(connection));
                    }
                }
                // One who left before he came in.
                Err(error) if is_of_one_caller(&error) => {}
                Err(_) => {
                    self.counts.not_accepted.fetch_add(1, Ordering::Relaxed);
                    time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
        drop((self, serve));
        while connections.join_next().await.is_some() {}
    }

    /// Gives the caller a place; where there is none, it is better told so at once than left to wait.
    fn let_in(&self, stream: TcpStream) -> Option<Connection> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.counts.full.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // Answers are small, and waited for. A socket that has gone already is found out by whoever reads it.
        let _ = stream.set_nodelay(true);
        Some(Connection::new(stream, place))
    }
}

fn is_of_one_caller(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
