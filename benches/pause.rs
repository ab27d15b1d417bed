//! Pauses of the machine: the times in which hypervisor or kernel run other work. They bound every measured latency
//! from below.
//!
//! A thread on each core reads the clock in a loop; a gap between two readings is a pause.

use std::thread;
use std::time::{Duration, Instant};

/// Gap between two readings of the clock above which the thread was not running.
const PAUSE: Duration = Duration::from_millis(1);

/// Pauses measured by one thread a core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    /// Total time of all threads.
    watched: Duration,
    /// Total time of the pauses.
    paused: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Pauses {
    /// Measures for `duration` with all cores busy.
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

    /// The sum of two measurements.
    pub fn and(self, other: Pauses) -> Pauses {
        Pauses {
            watched: self.watched + other.watched,
            paused: self.paused + other.paused,
            longest: self.longest.max(other.longest),
        }
    }

    /// Share of the pauses in the total time, from 0 to 1.
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
