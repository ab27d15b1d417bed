//! Alarm: waits for less than a millisecond, the step of the runtime's own timers.
//!
//! A thread that sleeps would do so too, and be late: on cores that are busy the operating system lets it wait for others' slices
//! when it wakes up, and what it released late would be counted as the server's latency.

use std::io;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// A timer of the kernel. It is read as a pipe is: how often it went off, once it did.
#[derive(Debug)]
pub(super) struct Alarm(Receiver);

impl Alarm {
    /// # Errors
    /// What the operating system says: it has no room for another descriptor, as a rule.
    pub(super) fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Receiver::from_owned_fd_unchecked(timer).map(Alarm)
    }

    /// Waits for `time`, and not at all for none.
    pub(super) async fn sleep(&mut self, time: Duration) {
        if time.is_zero() {
            return;
        }
        // What cannot be waited for so exactly is waited for by the millisecond.
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
    async fn it_goes_off_again_and_again_and_never_early() {
        let mut alarm = Alarm::new().unwrap();
        for time in [0, 1, 50, 3_000].map(Duration::from_micros) {
            let start = Instant::now();
            alarm.sleep(time).await;
            assert!(start.elapsed() >= time, "{time:?}");
        }
    }

    /// One that was given up on, and went off meanwhile, does not go off for the next.
    #[tokio::test]
    async fn a_dropped_wait_leaves_nothing_behind() {
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
