//! Background tasks: work that goes on beside requests for as long as the process serves, such as the heartbeat.
//!
//! A panic in such work is a bug of tollgate. Without [`supervise`] it would end the task for good, and nothing would
//! say so until the work is missed. [`supervise`] logs the panic, counts it, and starts the work again:
//!
//! ```text
//! start ─▶ run ── panic ──▶ count, log, pause 100 ms, 200 ms, … 10 s ──▶ run
//!           │                          └─ the pause is 100 ms again after a run of a minute
//!           └── end ──▶ the task ends
//! ```
//!
//! The work is a closure that owns its state and is called again: what it knows survives the panic.

#[cfg(test)]
pub(crate) mod faulty_log;

use futures_util::FutureExt as _;
use std::{
    panic::{self, AssertUnwindSafe},
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::{task, time};

/// The pause before the first restart. Each further one waits twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A run of this length shows that the work goes on: the next pause is the first one again.
const STABLE: Duration = Duration::from_secs(60);

/// A background task, by what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Reloads the rule files.
    Reload,
    /// Reloads the TLS certificates.
    Certificates,
    /// Reloads the admin token.
    AdminToken,
    /// Logs the health of the store and the listeners.
    Log,
    /// Reads the pools for the log and the metrics.
    Pools,
    /// Syncs runtime overrides with the store.
    Overrides,
    /// Sends the counts of limits in shadow mode to the store.
    Shadow,
    /// Makes the releases that the store could not take.
    Releases,
    /// Updates the health of Redis.
    RedisHealth,
    /// Probes a Redis that does not answer in time.
    RedisProbe,
    /// Sends the heartbeat of this process to Redis.
    RedisHeartbeat,
    /// Checks the connections to Redis.
    RedisConnections,
    /// Prefetches tokens from Redis.
    RedisPrefetch,
    /// Subscribes to releases in Redis.
    RedisReleases,
}

/// How often each task was started again, since the process began; one count for each of [`Task::ALL`].
static RESTARTS: [AtomicU64; Task::ALL.len()] = [const { AtomicU64::new(0) }; Task::ALL.len()];

impl Task {
    /// All tasks, in the order in which they are declared.
    pub const ALL: [Self; 14] = [
        Self::Reload,
        Self::Certificates,
        Self::AdminToken,
        Self::Log,
        Self::Pools,
        Self::Overrides,
        Self::Shadow,
        Self::Releases,
        Self::RedisHealth,
        Self::RedisProbe,
        Self::RedisHeartbeat,
        Self::RedisConnections,
        Self::RedisPrefetch,
        Self::RedisReleases,
    ];

    /// Its name, in metrics and in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::Certificates => "certificates",
            Self::AdminToken => "admin_token",
            Self::Log => "log",
            Self::Pools => "pools",
            Self::Overrides => "overrides",
            Self::Shadow => "shadow",
            Self::Releases => "releases",
            Self::RedisHealth => "redis_health",
            Self::RedisProbe => "redis_probe",
            Self::RedisHeartbeat => "redis_heartbeat",
            Self::RedisConnections => "redis_connections",
            Self::RedisPrefetch => "redis_prefetch",
            Self::RedisReleases => "redis_releases",
        }
    }

    /// How often it was started again after a panic, since the process began.
    pub fn restarts(self) -> u64 {
        RESTARTS.get(self as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn count_restart(self) {
        if let Some(count) = RESTARTS.get(self as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs background work until it ends by itself. After a panic the work is started again, with the state that it owns.
pub async fn supervise(task: Task, mut work: impl AsyncFnMut()) {
    let mut pause = FIRST_PAUSE;
    loop {
        let mut run = pin!(AssertUnwindSafe(work()).catch_unwind());
        let ended = match time::timeout(STABLE, &mut run).await {
            Ok(ended) => ended,
            Err(_) => {
                pause = FIRST_PAUSE;
                run.await
            }
        };
        if ended.is_ok() {
            return;
        }
        task.count_restart();
        // The panic hook logs the place. The message of a panic may hold callers' values, so it is not logged.
        tracing::error!(
            task = task.name(),
            "a background task has panicked, which is a bug of tollgate: it is started again in {pause:?}"
        );
        time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// The result of work that blocks, done on a thread for such work; `None` where the runtime ends. A panic of the work is a
/// panic of the task that waits for it.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) => {
            if let Ok(panic) = error.try_into_panic() {
                panic::resume_unwind(panic);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize},
    };
    use tokio::sync::mpsc;

    #[test]
    fn each_task_has_a_count_and_a_name_of_its_own() {
        for (at, task) in Task::ALL.into_iter().enumerate() {
            assert_eq!(task as usize, at);
            let namesakes = Task::ALL.into_iter().filter(|other| other.name() == task.name());
            assert_eq!(namesakes.count(), 1, "{task:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_is_started_again_with_its_state_and_counted() {
        let before = Task::Pools.restarts();
        let mut runs = 0;
        let mut items = vec!["first", "second", "third"];
        supervise(Task::Pools, async || {
            runs += 1;
            while let Some(item) = items.pop() {
                assert_ne!(item, "second", "a poisonous item");
            }
        })
        .await;
        assert_eq!((runs, items.len()), (2, 0), "the second run took what was left");
        assert!(Task::Pools.restarts() > before);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_a_bound_and_are_short_again_after_a_stable_run() {
        #[expect(clippy::disallowed_methods, reason = "the clock that is paused")]
        let clock = time::Instant::now;
        let mut starts = Vec::new();
        supervise(Task::Shadow, async || {
            starts.push(clock());
            match starts.len() {
                1..10 => panic!("at once"),
                10 => {
                    time::sleep(2 * STABLE).await;
                    panic!("late");
                }
                _ => {}
            }
        })
        .await;
        let gaps: Vec<_> = starts.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
        let stable = (2 * STABLE + FIRST_PAUSE).as_millis();
        // The timer counts whole milliseconds, and may be one late.
        let expected = [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, stable];
        assert!(gaps.iter().zip(expected).all(|(gap, it)| (it..=it + 2).contains(gap)), "{gaps:?}");
        assert_eq!(gaps.len(), expected.len());
    }

    #[tokio::test]
    async fn work_that_is_dropped_ends_and_is_not_started_again() {
        struct Ended(Arc<AtomicBool>);
        impl Drop for Ended {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let (has_ended, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (started, mut has_started) = mpsc::unbounded_channel();
        let (ended, count) = (Ended(Arc::clone(&has_ended)), Arc::clone(&runs));
        let task = tokio::spawn(supervise(Task::Overrides, async move || {
            let _ended = &ended;
            count.fetch_add(1, Ordering::Relaxed);
            started.send(()).unwrap();
            std::future::pending::<()>().await;
        }));
        has_started.recv().await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(has_ended.load(Ordering::Relaxed));
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_blocking_work_is_one_of_the_task() {
        let mut runs = 0;
        let mut done = None;
        supervise(Task::AdminToken, async || {
            runs += 1;
            let is_first = runs == 1;
            done = blocking(move || {
                assert!(!is_first, "the first time");
                runs
            })
            .await;
        })
        .await;
        assert_eq!(done, Some(2));
    }
}
