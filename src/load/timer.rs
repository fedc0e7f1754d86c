//! Waits to the microsecond. The runtime's own timers count in milliseconds, which would make requests late that are
//! due in between, and have them come in heaps.

#[cfg(target_os = "linux")]
pub(super) use precise::Timer;
#[cfg(not(target_os = "linux"))]
pub(super) use usual::Timer;

#[cfg(target_os = "linux")]
mod precise {
    use rustix::{
        fd::OwnedFd,
        time::{
            Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
            timerfd_settime,
        },
    };
    use std::{io, time::Duration};
    use tokio::io::unix::AsyncFd;

    /// A timer of the operating system, for one who waits.
    pub(in super::super) struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        #[expect(
            deprecated,
            reason = "sound here, where the descriptor is owned; its successor is `unsafe`, which this crate forbids"
        )]
        pub(in super::super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            Ok(Self(AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?))
        }

        /// Waits for so many microseconds, or less.
        pub(in super::super) async fn wait(&self, us: u64) -> io::Result<()> {
            // Of 0 the system would make never.
            let wait = Timespec::try_from(Duration::from_micros(us.max(1)));
            let it_value = wait.map_err(io::Error::other)?;
            let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
            let once = Itimerspec { it_interval, it_value };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
            // It is set anew before it is waited for again, which forgets that it rang: nobody needs to read it. Should
            // it have rung for the time before, whoever waits looks at the clock.
            self.0.readable().await?.clear_ready();
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod usual {
    use std::{io, time::Duration};
    use tokio::time;

    /// The runtime's timer: requests may be up to a millisecond late, which counts as time that they took.
    pub(in super::super) struct Timer;

    impl Timer {
        pub(in super::super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        /// Waits for so many microseconds.
        pub(in super::super) async fn wait(&self, us: u64) -> io::Result<()> {
            time::sleep(Duration::from_micros(us)).await;
            Ok(())
        }
    }
}
