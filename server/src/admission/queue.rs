//! Queue: which calls run, which may wait for a worker, and for how long. A state machine without a clock or a thread.
//!
//! Four rules keep admitted calls fast ([why](../../../docs/decisions/0009-admission.md)):
//! * an idle worker takes a call at once, whatever else holds;
//! * one call per worker may wait; more only while their expected wait is within the limit, and no waiting call has
//!   already waited longer than that;
//! * a queue that has not been empty for as long as the limit is no burst but a standing queue ([`StandingQueue`]): no
//!   call waits until fewer calls come than can be carried out;
//! * while the queue stands, only as many workers run as there are cores available ([`Concurrency`]): the others count
//!   as busy.

mod concurrency;
mod standing_queue;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use concurrency::Concurrency;
pub(crate) use concurrency::Service;
use standing_queue::StandingQueue;

/// Maximum number of waiting calls, however short they are.
const MAX_WAITING: usize = 1024;
/// Factor of the limit after which an admitted call gives up: calls may take longer than they did before.
const PATIENCE: u32 = 10;
/// Minimum and maximum delay that a refused call gets before a retry.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(30));

/// Workers and the calls that wait for one. `W` notifies a waiting call.
#[derive(Debug)]
pub(crate) struct Queue<W> {
    n_workers: usize,
    max_wait: Duration,
    /// Number of workers that may run at a time.
    n_open: usize,
    n_busy: usize,
    calls: VecDeque<Waiting<W>>,
    /// Requests of streams: they are not refused, so they do not cause the refusal of others either.
    streams: VecDeque<Waiting<W>>,
    /// Whether a stream's request is next when calls wait as well.
    is_streams_turn: bool,
    standing_queue: StandingQueue,
    concurrency: Concurrency,
    service: Mean,
    next_ticket: u64,
}

#[derive(Debug)]
struct Waiting<W> {
    ticket: u64,
    since: Instant,
    worker: W,
}

/// Outcome for an admitted call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The call has a worker.
    Begun,
    /// The call waits, and is notified when it has a worker; it gives up with [`Queue::leave`].
    Waits {
        /// Id of the call in the queue.
        ticket: u64,
        /// Time at which the call gives up, if ever.
        until: Option<Instant>,
    },
}

/// Refusal of a call that would wait for too long.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Delay after which the queue should be short again.
    pub(crate) retry_after: Duration,
}

impl<W> Queue<W> {
    pub(crate) fn new(n_workers: usize, max_wait: Duration) -> Queue<W> {
        let n_workers = n_workers.max(1);
        Queue {
            n_workers,
            max_wait,
            n_open: n_workers,
            n_busy: 0,
            calls: VecDeque::new(),
            streams: VecDeque::new(),
            is_streams_turn: false,
            standing_queue: StandingQueue::new(max_wait),
            concurrency: Concurrency::new(n_workers, max_wait),
            service: Mean::default(),
            next_ticket: 0,
        }
    }

    /// Checks whether a call would be admitted now; `deadline` is the call's own.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn check(&mut self, now: Instant, deadline: Option<Instant>) -> Result<(), Refused> {
        let checked = self.look(now, deadline);
        // A call that passes is counted when it enters.
        if checked.is_err() {
            self.standing_queue.count();
        }
        checked
    }

    fn look(&mut self, now: Instant, deadline: Option<Instant>) -> Result<(), Refused> {
        let is_standing = self.open(now);
        if self.n_busy < self.n_open {
            return Ok(());
        }
        let expected = self.expected_wait();
        let is_too_late = deadline.is_some_and(|at| at.saturating_duration_since(now) < expected);
        let is_burst = self.calls.len() < MAX_WAITING
            && expected <= self.max_wait
            && self.calls.front().is_none_or(|first| now - first.since <= self.max_wait);
        let may_wait = !is_standing && (is_burst || self.calls.len() < self.n_workers);
        if may_wait && !is_too_late { Ok(()) } else { Err(self.refused()) }
    }

    /// Sets how many workers may run now; returns whether the queue stands.
    fn open(&mut self, now: Instant) -> bool {
        let (service, n_open) = (self.service, self.n_open);
        let is_standing = self.standing_queue.is_standing(now, |time| service.n_in(time, n_open));
        self.n_open = if is_standing { self.concurrency.limit() } else { self.n_workers };
        is_standing
    }

    /// Admits a call; `waiter` makes its notifier if it has to wait.
    ///
    /// # Errors
    /// [`Refused`], as in [`Queue::check`].
    pub(crate) fn enter(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
        waiter: impl FnOnce() -> W,
    ) -> Result<Entry, Refused> {
        let looked = self.look(now, deadline);
        self.standing_queue.count();
        looked?;
        if self.n_busy < self.n_open {
            self.n_busy += 1;
            return Ok(Entry::Begun);
        }
        let patience = now + self.max_wait.saturating_mul(PATIENCE);
        let until = deadline.map_or(patience, |deadline| deadline.min(patience));
        self.standing_queue.note_waiting(now);
        let waiting = Waiting { ticket: self.take_ticket(), since: now, worker: waiter() };
        let ticket = waiting.ticket;
        self.calls.push_back(waiting);
        Ok(Entry::Waits { ticket, until: Some(until) })
    }

    /// Admits a request of a stream, which waits for as long as it takes: its stream sends no more meanwhile.
    pub(crate) fn enter_patiently(&mut self, now: Instant, waiter: impl FnOnce() -> W) -> Entry {
        self.open(now);
        if self.n_busy < self.n_open {
            self.n_busy += 1;
            return Entry::Begun;
        }
        let waiting = Waiting { ticket: self.take_ticket(), since: now, worker: waiter() };
        let ticket = waiting.ticket;
        self.streams.push_back(waiting);
        Entry::Waits { ticket, until: None }
    }

    /// Removes a call that gives up waiting; returns false if it was given a worker before.
    pub(crate) fn leave(&mut self, ticket: u64) -> bool {
        let n_before = self.n_waiting();
        self.calls.retain(|waiting| waiting.ticket != ticket);
        self.streams.retain(|waiting| waiting.ticket != ticket);
        self.note_length();
        self.n_waiting() < n_before
    }

    /// Frees a worker; `service` is the time of its call, if it began. [`Queue::next`] assigns the worker anew.
    pub(crate) fn finish(&mut self, now: Instant, service: Option<Service>) {
        self.n_busy = self.n_busy.saturating_sub(1);
        if let Some(service) = service {
            self.service.add(service.time);
            self.concurrency.add(now, service);
        }
    }

    /// Assigns a free worker to the next waiting call: returns its notifier, and since when it waited. To be called
    /// until it returns `None`.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(W, Instant)> {
        self.open(now);
        if self.n_busy >= self.n_open {
            return None;
        }
        let next = match (self.is_streams_turn, self.calls.is_empty(), self.streams.is_empty()) {
            (true, _, false) | (false, true, _) => self.streams.pop_front(),
            (true, _, true) | (false, false, _) => self.calls.pop_front(),
        }?;
        self.is_streams_turn = !self.is_streams_turn;
        self.n_busy += 1;
        self.note_length();
        Some((next.worker, next.since))
    }

    /// Number of calls, and requests of streams, that wait.
    pub(crate) fn n_waiting(&self) -> usize {
        self.calls.len() + self.streams.len()
    }

    /// Number of workers that run.
    pub(crate) fn n_busy(&self) -> usize {
        self.n_busy
    }

    /// Number of workers that may run at a time.
    pub(crate) fn n_open(&mut self, now: Instant) -> usize {
        self.open(now);
        self.n_open
    }

    /// Expected wait of a call that comes now, from the time that recent calls took. Streams alternate with calls.
    fn expected_wait(&self) -> Duration {
        let n_calls = self.calls.len() + 1;
        let n_ahead = n_calls + self.streams.len().min(n_calls);
        self.service.times(n_ahead, self.n_open)
    }

    /// The refusal of a call that comes now and may not wait.
    pub(crate) fn refused(&self) -> Refused {
        Refused { retry_after: self.expected_wait().clamp(RETRY_AFTER.0, RETRY_AFTER.1) }
    }

    fn take_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    fn note_length(&mut self) {
        if self.calls.is_empty() {
            self.standing_queue.note_empty();
        }
    }
}

/// Mean time of recent calls, where each new one counts an eighth. A call that took much longer than usual counts as
/// four times the mean only: a batch of 100,000 pods says little about the next listing, and a lane of nothing but such
/// batches is learned in some twenty of them; until then calls that wait longer than expected show it.
#[derive(Copy, Clone, Debug)]
struct Mean {
    seconds: f64,
}

impl Default for Mean {
    fn default() -> Mean {
        Mean { seconds: 1e-3 }
    }
}

impl Mean {
    const WEIGHT: f64 = 1.0 / 8.0;
    const MOST: f64 = 4.0;
    /// Minimum of the mean: shorter times cannot be measured.
    const LEAST_SECONDS: f64 = 1e-6;

    fn add(&mut self, took: Duration) {
        let took = took.as_secs_f64().min(self.seconds * Mean::MOST);
        self.seconds += (took - self.seconds) * Mean::WEIGHT;
        self.seconds = self.seconds.max(Mean::LEAST_SECONDS);
    }

    /// Time in which `n_workers` workers carry out `n_calls` calls.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand at most")]
    fn times(self, n_calls: usize, n_workers: usize) -> Duration {
        let seconds = self.seconds * n_calls as f64 / n_workers as f64;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Number of calls that `n_workers` workers carry out in `time`.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand at most")]
    fn n_in(self, time: Duration, n_workers: usize) -> f64 {
        time.as_secs_f64() * n_workers as f64 / self.seconds
    }
}

#[cfg(test)]
mod tests;
