//! What the machine takes from a program that wants every core: a latency cannot be better than that.
//!
//! The hypervisor lets others run, and so does the kernel; a thread that does nothing but look at the clock sees how long it was
//! not let to.

use std::thread;
use std::time::{Duration, Instant};

/// A thread that does not look at the clock for so long was not running.
const PAUSE: Duration = Duration::from_millis(1);

/// Pauses that threads saw which looked at the clock all the time, one a core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    /// The time of all threads together.
    watched: Duration,
    /// What of it was pauses.
    paused: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Pauses {
    /// Keeps every core busy for `duration`.
    pub fn watch(duration: Duration) -> Pauses {
        let n_cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let watch = || scope.spawn(|| watch_one(duration));
            let threads: Vec<_> = (0..n_cores).map(|_| watch()).collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().ok())
                .fold(Pauses::default(), Pauses::and)
        })
    }

    /// Both together.
    pub fn and(self, other: Pauses) -> Pauses {
        Pauses {
            watched: self.watched + other.watched,
            paused: self.paused + other.paused,
            longest: self.longest.max(other.longest),
        }
    }

    /// The share of the time that was pauses, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.paused.as_secs_f64() / self.watched.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

fn watch_one(duration: Duration) -> Pauses {
    let mut pauses = Pauses::default();
    let start = Instant::now();
    let mut last = start;
    while pauses.watched < duration {
        let now = Instant::now();
        let gap = now - last;
        if gap >= PAUSE {
            pauses.paused += gap;
            pauses.longest = pauses.longest.max(gap);
        }
        pauses.watched = now - start;
        last = now;
    }
    pauses
}
