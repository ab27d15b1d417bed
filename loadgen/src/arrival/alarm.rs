//! [`Alarm`]: waits of less than a millisecond, which is the resolution of the runtime's own timers.
//!
//! A sleeping thread would wake up late on busy cores, because the scheduler lets it wait for the time slices of other
//! threads. Requests that it releases late would count as latency of the server.

use std::io;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// A kernel timer (timerfd). Like a pipe it becomes readable when it expires; reading gives the number of expirations.
#[derive(Debug)]
pub(super) struct Alarm(Receiver);

impl Alarm {
    /// # Errors
    /// The operating system's error, usually the limit of file descriptors.
    pub(super) fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Receiver::from_owned_fd_unchecked(timer).map(Alarm)
    }

    /// Waits for `time`; returns immediately if it is zero.
    pub(super) async fn sleep(&mut self, time: Duration) {
        if time.is_zero() {
            return;
        }
        // If the timer fails, the runtime's timer with its lower resolution is used.
        if self.go_off_after(time).await.is_err() {
            tokio::time::sleep(time).await;
        }
    }

    async fn go_off_after(&mut self, time: Duration) -> io::Result<()> {
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec::try_from(time).map_err(|_| io::ErrorKind::InvalidInput)?,
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        self.0.read_u64_le().await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test]
    async fn it_expires_repeatedly_and_never_early() {
        let mut alarm = Alarm::new().unwrap();
        for time in [0, 1, 50, 3_000].map(Duration::from_micros) {
            let start = Instant::now();
            alarm.sleep(time).await;
            assert!(start.elapsed() >= time, "{time:?}");
        }
    }

    /// A wait that was cancelled, and whose timer expired since, does not end the next wait.
    #[tokio::test]
    async fn a_cancelled_wait_does_not_affect_the_next() {
        let mut alarm = Alarm::new().unwrap();
        let short = Duration::from_millis(1);
        tokio::select! {
            biased;
            () = alarm.sleep(short) => {}
            () = std::future::ready(()) => {}
        }
        std::thread::sleep(5 * short);
        let start = Instant::now();
        alarm.sleep(20 * short).await;
        assert!(start.elapsed() >= 20 * short);
    }
}
