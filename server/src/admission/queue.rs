//! Queue: who works, who may wait for a worker, and for how long. A state machine without a clock or a thread.
//!
//! Four rules keep what is accepted fast ([why](../../../docs/decisions/0009-admission.md)):
//! * an idle worker takes a call at once, whatever else holds;
//! * one call a worker may wait; more only while the wait that is expected of them is within the limit, and nobody who waits has
//!   proven that expectation wrong;
//! * once the queue has not been empty for as long as the limit, it is no burst but too much ([`Standing`]): nobody waits until
//!   less is asked than can be done;
//! * and then no more work at a time than there are cores to be had ([`Concurrency`]): the others count as busy.

mod concurrency;
mod standing;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use concurrency::Concurrency;
pub(crate) use concurrency::Service;
use standing::Standing;

/// Most that may wait, however short they are.
const MAX_WAITING: usize = 1024;
/// Whoever was let in waits this many times the limit at most: what it waits for may take longer than such calls did so far.
const PATIENCE: u32 = 10;
/// Least and most that a refused call is told to wait before it tries again.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(30));

/// Workers, and who waits for one. `W` is how a waiting call is told.
#[derive(Debug)]
pub(crate) struct Queue<W> {
    n_workers: usize,
    max_wait: Duration,
    /// Workers that may work at a time.
    n_open: usize,
    n_busy: usize,
    calls: VecDeque<Waiting<W>>,
    /// Requests of streams: they are not refused, so they are no reason to refuse others either.
    streams: VecDeque<Waiting<W>>,
    /// Who is next where both wait.
    is_streams_turn: bool,
    standing: Standing,
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

/// What became of a call that was let in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It has a worker.
    Begun,
    /// It is told when it has one; it gives up by [`Queue::leave`].
    Waits {
        /// Its name in the queue.
        ticket: u64,
        /// When it is to give up, if it ever is.
        until: Option<Instant>,
    },
}

/// A call would wait for too long.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// When the queue should be short again.
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
            standing: Standing::new(max_wait),
            concurrency: Concurrency::new(n_workers, max_wait),
            service: Mean::default(),
            next_ticket: 0,
        }
    }

    /// Whether a call that has come would be let in; `deadline` is its own.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn check(&mut self, now: Instant, deadline: Option<Instant>) -> Result<(), Refused> {
        let checked = self.look(now, deadline);
        // One that passes is counted when it enters.
        if checked.is_err() {
            self.standing.count();
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

    /// Opens as many workers as may work now; whether the queue stands.
    fn open(&mut self, now: Instant) -> bool {
        let (service, n_open) = (self.service, self.n_open);
        let is_standing = self.standing.is_standing(now, |time| service.n_in(time, n_open));
        self.n_open = if is_standing { self.concurrency.limit() } else { self.n_workers };
        is_standing
    }

    /// Lets a call in; `waiter` makes what it is told by where it has to wait.
    ///
    /// # Errors
    /// [`Refused`], as of [`Queue::check`].
    pub(crate) fn enter(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
        waiter: impl FnOnce() -> W,
    ) -> Result<Entry, Refused> {
        let looked = self.look(now, deadline);
        self.standing.count();
        looked?;
        if self.n_busy < self.n_open {
            self.n_busy += 1;
            return Ok(Entry::Begun);
        }
        let patience = now + self.max_wait.saturating_mul(PATIENCE);
        let until = deadline.map_or(patience, |deadline| deadline.min(patience));
        self.standing.note_waiting(now);
        let waiting = Waiting { ticket: self.take_ticket(), since: now, worker: waiter() };
        let ticket = waiting.ticket;
        self.calls.push_back(waiting);
        Ok(Entry::Waits { ticket, until: Some(until) })
    }

    /// Lets a request of a stream in, which waits as long as it takes: its stream sends no more meanwhile.
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

    /// A call gives up waiting; false where it was given a worker before.
    pub(crate) fn leave(&mut self, ticket: u64) -> bool {
        let n_before = self.n_waiting();
        self.calls.retain(|waiting| waiting.ticket != ticket);
        self.streams.retain(|waiting| waiting.ticket != ticket);
        self.note_length();
        self.n_waiting() < n_before
    }

    /// A worker is free; `service` is what its call took of it, where it was begun. [`Queue::next`] says whose it is now.
    pub(crate) fn finish(&mut self, now: Instant, service: Option<Service>) {
        self.n_busy = self.n_busy.saturating_sub(1);
        if let Some(service) = service {
            self.service.add(service.time);
            self.concurrency.add(now, service);
        }
    }

    /// Whom to tell that it has a worker now, and since when that one waited; as long as there is a worker, there may be more.
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

    /// Calls, and requests of streams, that wait.
    pub(crate) fn n_waiting(&self) -> usize {
        self.calls.len() + self.streams.len()
    }

    /// Workers that work.
    pub(crate) fn n_busy(&self) -> usize {
        self.n_busy
    }

    /// Workers that may work at a time.
    pub(crate) fn n_open(&mut self, now: Instant) -> usize {
        self.open(now);
        self.n_open
    }

    /// How long a call that came now would wait, by what such calls took. Streams take turns with calls.
    fn expected_wait(&self) -> Duration {
        let n_calls = self.calls.len() + 1;
        let n_ahead = n_calls + self.streams.len().min(n_calls);
        self.service.times(n_ahead, self.n_open)
    }

    /// As a call is told that comes now and may not wait.
    pub(crate) fn refused(&self) -> Refused {
        Refused { retry_after: self.expected_wait().clamp(RETRY_AFTER.0, RETRY_AFTER.1) }
    }

    fn take_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    fn note_length(&mut self) {
        if self.calls.is_empty() {
            self.standing.note_empty();
        }
    }
}

/// How long calls took lately, each one counting an eighth. One that took much longer than usual counts as four times the
/// usual only: a batch of 100,000 pods says little of the next listing, and a lane of nothing but such batches is learned in
/// some twenty of them; until then those who wait longer than expected are what proves it.
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
    /// Less cannot be told from nothing.
    const LEAST_SECONDS: f64 = 1e-6;

    fn add(&mut self, took: Duration) {
        let took = took.as_secs_f64().min(self.seconds * Mean::MOST);
        self.seconds += (took - self.seconds) * Mean::WEIGHT;
        self.seconds = self.seconds.max(Mean::LEAST_SECONDS);
    }

    /// What so many calls take that so many workers share.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand at most")]
    fn times(self, n_calls: usize, n_workers: usize) -> Duration {
        let seconds = self.seconds * n_calls as f64 / n_workers as f64;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// How many calls so many workers carry out in a time.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand at most")]
    fn n_in(self, time: Duration, n_workers: usize) -> f64 {
        time.as_secs_f64() * n_workers as f64 / self.seconds
    }
}

#[cfg(test)]
mod tests;
