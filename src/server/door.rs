//! A door: a listener, and how callers come in. Whatever stands behind it, each connection takes a place, of
//! which there are so many, and is served in a task of its own, so that nobody's slowness keeps others out.

use super::{
    connection::{Connection, Stream},
    cores::Cores,
    places::{Full, LONGEST_IDLE_S, Place, Places},
    tls::{self, Current, Names},
    until_closed,
};
use crate::{
    http::Caller,
    telemetry::{DoorCounts, DoorView},
};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{self, MissedTickBehavior},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;

/// How long to wait after the system could not accept a connection, for want of files or memory: it will not
/// have more of them at once.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How long a TLS handshake may take.
const SLOWEST_HANDSHAKE: Duration = Duration::from_secs(10);

/// A door that nobody has come through yet.
pub(super) struct Door {
    listener: TcpListener,
    places: Places,
    entrance: Entrance,
    /// Where connections are served, if not where the door is.
    cores: Option<Cores>,
}

/// What callers pass on their way in.
#[derive(Clone)]
struct Entrance {
    tls: Option<(Current, Arc<Names>)>,
    counts: Arc<watch::Sender<DoorCounts>>,
}

impl Door {
    /// A door with room for so many connections at a time.
    pub(super) fn new(listener: TcpListener, most: usize) -> Self {
        let places = Places::new(most, LONGEST_IDLE_S);
        let entrance = Entrance { tls: None, counts: Arc::default() };
        Self { listener, places, entrance, cores: None }
    }

    /// The same door, but connections are served on these runtimes.
    pub(super) fn on(self, cores: Cores) -> Self {
        Self { cores: Some(cores), ..self }
    }

    /// The same door, but with TLS, where those are known whose certificate has one of these names.
    pub(super) fn with_tls(mut self, tls: Current, names: Names) -> Self {
        self.entrance.tls = Some((tls, Arc::new(names)));
        self
    }

    /// What happens here, under this name.
    pub(super) fn view(&self, name: &'static str) -> DoorView {
        let counts = self.entrance.counts.subscribe();
        DoorView { name, counts, open: Arc::clone(self.places.taken()) }
    }

    /// Lets callers in until the doors close, and then waits for those who are in. Dropped, it cuts them off.
    pub(super) async fn open<Serve, Serving>(self, closed: watch::Receiver<()>, serve: Serve)
    where
        Serve: Fn(Connection) -> Serving + Clone + Send + 'static,
        Serving: Future<Output = ()> + Send + 'static,
    {
        let mut connections = JoinSet::new();
        let closing = until_closed(closed.clone());
        tokio::pin!(closing);
        let mut seconds = time::interval(Duration::from_secs(1));
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                _ = seconds.tick() => {
                    self.places.tick();
                    continue;
                }
                () = &mut closing => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let place = match self.places.take(peer.ip()) {
                        Ok((place, closed)) => {
                            let evicted = closed as u64;
                            self.entrance.count(|counts| &mut counts.evicted, evicted);
                            place
                        }
                        // Better told so at once than left to wait.
                        Err(Full) => {
                            self.entrance.count(|counts| &mut counts.full, 1);
                            continue;
                        }
                    };
                    let evicted = place.evicted();
                    let (entrance, serve) = (self.entrance.clone(), serve.clone());
                    let closed = until_closed(closed.clone());
                    let seat = self.cores.as_ref().and_then(Cores::seat);
                    let runtime = seat.as_ref().map(|seat| seat.runtime().clone());
                    // It is registered anew where it is served.
                    let Ok(stream) = stream.into_std() else { continue };
                    let served = async move {
                        let _seat = seat;
                        let Ok(stream) = TcpStream::from_std(stream) else { return };
                        let entered = tokio::select! {
                            entered = entrance.enter(stream, place) => entered,
                            () = closed => None,
                        };
                        if let Some(connection) = entered {
                            serve(connection).await;
                        }
                    };
                    let served = async move {
                        tokio::select! {
                            () = served => {}
                            () = evicted => {}
                        }
                    };
                    match runtime {
                        Some(runtime) => connections.spawn_on(served, &runtime),
                        None => connections.spawn(served),
                    };
                }
                // One who left before he came in.
                Err(error) if is_of_one_caller(&error) => {}
                Err(_) => {
                    self.entrance.count(|counts| &mut counts.not_accepted, 1);
                    time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
        drop((self, serve));
        while connections.join_next().await.is_some() {}
    }
}

impl Entrance {
    async fn enter(&self, stream: TcpStream, place: Place) -> Option<Connection> {
        // Answers are small, and waited for. A socket that has gone already is found out by whoever reads it.
        let _ = stream.set_nodelay(true);
        let (stream, caller) = match &self.tls {
            None => (Either::Left(stream), Caller::Unknown),
            Some((tls, names)) => self.shake_hands(stream, tls, names).await?,
        };
        Some(Connection::new(stream, caller, place, Arc::clone(&self.counts)))
    }

    async fn shake_hands(
        &self,
        stream: TcpStream,
        tls: &Current,
        names: &Names,
    ) -> Option<(Stream, Caller)> {
        let acceptor = TlsAcceptor::from(Arc::clone(&tls.borrow()));
        let stream = match time::timeout(SLOWEST_HANDSHAKE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                if let Some(count) = tls::count_of(&error) {
                    self.count(count, 1);
                }
                return None;
            }
            Err(_) => return None,
        };
        let (_, session) = stream.get_ref();
        let caller = match session.peer_certificates().and_then(<[_]>::first) {
            None => Caller::Unknown,
            Some(certificate) if names.allow(certificate) => Caller::Known,
            Some(_) => {
                self.count(|counts| &mut counts.strangers, 1);
                Caller::Stranger
            }
        };
        Some((Either::Right(Box::new(stream)), caller))
    }

    fn count(&self, which: fn(&mut DoorCounts) -> &mut u64, more: u64) {
        if more > 0 {
            self.counts.send_modify(|counts| *which(counts) += more);
        }
    }
}

fn is_of_one_caller(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
