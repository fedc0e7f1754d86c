//! A runtime for each core, each on a thread of its own: a connection stays on one of them, so nothing of a
//! request is handed from thread to thread, and no thread waits for another's queue. Whoever comes in is given to
//! the runtime that has the fewest, so also a few connections are spread evenly; a listener for each core
//! (`SO_REUSEPORT`) would leave that to a hash.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use tokio::{
    runtime::{Builder, Handle},
    sync::watch,
};

/// After how many tasks the runtime looks at the sockets again. A connection that goes on sending has a turn of half a
/// millisecond, and another one, while those of the others wait to be looked at: by default for 61 turns.
const LOOKS_AFTER: u32 = 4;

/// Runtimes, for as long as any clone of this is there.
#[derive(Debug, Clone)]
pub struct Cores {
    cores: Arc<[Core]>,
    /// Dropped, it ends the threads.
    _running: Arc<watch::Sender<()>>,
}

#[derive(Debug)]
struct Core {
    runtime: Handle,
    /// How many connections it has.
    seated: Arc<AtomicUsize>,
}

/// A connection's place on a runtime, free again when it is dropped.
#[derive(Debug)]
pub struct Seat {
    runtime: Handle,
    seated: Arc<AtomicUsize>,
}

impl Cores {
    /// So many runtimes, at least one.
    ///
    /// # Errors
    ///
    /// Where the system gives no thread or no room to wait in.
    pub fn start(count: usize) -> io::Result<Self> {
        Self::start_threads(count.max(1), |place| format!("tollgate-{place}"), || {})
    }

    /// A single runtime that the system lets run after others: for messages that take so long to decode that the
    /// calls beside them would be late.
    ///
    /// # Errors
    ///
    /// Where the system gives no thread or no room to wait in.
    pub fn start_low() -> io::Result<Self> {
        Self::start_threads(1, |_| "tollgate-large".to_owned(), lower_priority)
    }

    fn start_threads(count: usize, name: fn(usize) -> String, prepare: fn()) -> io::Result<Self> {
        let (running, stopped) = watch::channel(());
        let start = |place: usize| {
            let runtime =
                Builder::new_current_thread().enable_all().event_interval(LOOKS_AFTER).build()?;
            let handle = runtime.handle().clone();
            let mut stopped = stopped.clone();
            let run = move || {
                prepare();
                runtime.block_on(async { while stopped.changed().await.is_ok() {} });
                // A look at a file on a mount that hangs is not waited for.
                runtime.shutdown_background();
            };
            thread::Builder::new().name(name(place)).spawn(run)?;
            Ok(Core { runtime: handle, seated: Arc::default() })
        };
        let cores: io::Result<Vec<Core>> = (0..count).map(start).collect();
        Ok(Self { cores: cores?.into(), _running: Arc::new(running) })
    }

    /// The first runtime; `None` where there is none, which never is.
    pub fn first(&self) -> Option<&Handle> {
        self.cores.first().map(|core| &core.runtime)
    }

    /// A place on the runtime that has the fewest; `None` where there is none, which never is.
    pub fn seat(&self) -> Option<Seat> {
        let least = self.cores.iter().min_by_key(|core| core.seated.load(Ordering::Relaxed))?;
        least.seated.fetch_add(1, Ordering::Relaxed);
        Some(Seat { runtime: least.runtime.clone(), seated: Arc::clone(&least.seated) })
    }
}

/// Lowers the priority of this thread. Linux has one for each thread; elsewhere it is the whole process's.
fn lower_priority() {
    // A thread that may not is as good as the others.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(10);
}

impl Seat {
    /// The runtime.
    pub const fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seated.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_is_given_to_the_runtime_that_has_the_fewest() {
        let cores = Cores::start(3).unwrap();
        let mut seats: Vec<Seat> = (0..6).map(|_| cores.seat().unwrap()).collect();
        let on = |seats: &[Seat]| {
            let mut ids: Vec<_> = seats.iter().map(|seat| seat.runtime().id()).collect();
            ids.sort_by_key(|id| format!("{id}"));
            ids.chunk_by(PartialEq::eq).map(<[_]>::len).collect::<Vec<_>>()
        };
        assert_eq!(on(&seats), [2, 2, 2]);
        let left = seats.remove(0).runtime().id();
        assert_eq!(cores.seat().unwrap().runtime().id(), left);
    }

    #[test]
    fn what_is_spawned_runs_until_the_runtimes_are_gone() {
        let cores = Cores::start(1).unwrap();
        let (say, said) = std::sync::mpsc::channel();
        let seat = cores.seat().unwrap();
        seat.runtime().spawn(async move {
            say.send(thread::current().name().unwrap_or_default().to_owned()).unwrap();
            std::future::pending::<()>().await;
            drop(say);
        });
        assert_eq!(said.recv().unwrap(), "tollgate-0");
        drop((seat, cores));
        said.recv().unwrap_err();
    }
}
