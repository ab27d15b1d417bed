//! Queue: which calls run, which may wait for a worker, and for how long. A state machine without a clock or a thread.
//!
//! Users take turns, and a call that takes long keeps no worker from other users ([`Turns`]). Four rules keep admitted
//! calls fast ([why](../../../docs/decisions/0009-admission.md)):
//! * an idle worker takes a call at once, whatever else holds;
//! * one call per worker may wait; more only while their expected wait is within the limit, and no waiting call has
//!   already waited longer than that;
//! * a queue that has not been empty for as long as the limit, and has a call refused, is no burst but a standing queue
//!   ([`StandingQueue`]): no call waits until fewer calls come than can be carried out;
//! * while the queue stands, only as many workers run as there are cores available ([`Concurrency`]): the others count
//!   as busy.

mod concurrency;
mod standing_queue;
mod turns;
mod waiting;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use concurrency::Concurrency;
pub(crate) use concurrency::Service;
use standing_queue::StandingQueue;
use turns::Turns;
use waiting::Waiting;

use super::user::User;

/// Maximum number of waiting calls, however short they are.
const MAX_WAITING: usize = 1024;
/// Factor of the limit after which an admitted call gives up: calls may take longer than they did before.
const PATIENCE: u32 = 10;
/// Number of calls of a user up to which none is refused for what other users do.
const FEW: usize = 8;
/// Factor of the limit for which the calls of other users count after they have ended: a queue that they made stands for
/// up to twice its window.
const LATELY: u32 = 2 * standing_queue::WINDOW;
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
    turns: Turns,
    standing_queue: StandingQueue,
    concurrency: Concurrency,
    service: Mean,
    next_ticket: u64,
}

/// A waiting call that gets a worker.
#[derive(Debug)]
pub(crate) struct Next<W> {
    /// Its notifier.
    pub(crate) worker: W,
    /// Id of the call that runs, for [`Queue::finish`].
    pub(crate) id: u64,
    /// Since when it waited.
    #[cfg(test)]
    pub(crate) since: Instant,
}

/// Outcome for an admitted call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The call has a worker.
    Begun {
        /// Id of the call that runs, for [`Queue::finish`].
        id: u64,
    },
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

/// Numbers of calls that run or wait.
struct UnderWay {
    n_own: usize,
    n_others: usize,
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
            turns: Turns::new(n_workers),
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
    pub(crate) fn check(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
        user: &User,
    ) -> Result<(), Refused> {
        let checked = self.look(now, deadline, user);
        // A call that passes is counted when it enters.
        if checked.is_err() {
            self.standing_queue.count();
        }
        checked
    }

    fn look(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
        user: &User,
    ) -> Result<(), Refused> {
        let is_standing = self.open(now);
        if self.has_worker(now, user) {
            return Ok(());
        }
        let expected = self.expected_wait(user);
        let is_too_late = deadline.is_some_and(|at| at.saturating_duration_since(now) < expected);
        let is_burst = self.calls.len() < MAX_WAITING
            && expected <= self.max_wait
            && self.calls.front().is_none_or(|first| now - first.since <= self.max_wait);
        let is_few = self.calls.len() < self.n_workers;
        let may_wait = !is_standing && (is_burst || is_few) || self.is_others_fault(now, user);
        if !may_wait {
            self.standing_queue.note_refused();
        }
        if may_wait && !is_too_late { Ok(()) } else { Err(self.refused(user)) }
    }

    /// Whether a call of the user would get a worker at once: a free one, or that of a long call of another user.
    fn has_worker(&mut self, now: Instant, user: &User) -> bool {
        if !self.turns.may_run(user) {
            // The user's calls that gave their workers up come first.
            while self.n_busy < self.n_open && self.turns.take_back() {
                self.n_busy += 1;
            }
            if !self.turns.may_run(user) {
                return false;
            }
        }
        if self.n_busy >= self.n_open && self.turns.give_up(user, now) {
            self.n_busy -= 1;
        }
        self.n_busy < self.n_open
    }

    /// Whether a user would be refused for what other users do: beside theirs the user has few calls under way, or fewer
    /// than they have together, and its own calls wait neither long nor would this one.
    fn is_others_fault(&self, now: Instant, user: &User) -> bool {
        let own = || self.calls.iter().filter(|waiting| waiting.user.name == user.name);
        let is_soon = || {
            self.expected_wait(user) <= self.max_wait
                && own().next().is_none_or(|first| now - first.since <= self.max_wait)
        };
        let UnderWay { n_own, n_others } = self.under_way(user);
        self.n_waiting() < MAX_WAITING && (self.has_few(now, user) || n_own < n_others && is_soon())
    }

    /// Whether the user has few calls under way while others have some, or had some lately: it is never refused then.
    fn has_few(&self, now: Instant, user: &User) -> bool {
        let UnderWay { n_own, n_others } = self.under_way(user);
        let has_others = || {
            n_others > 0
                || self.turns.has_others_within(self.max_wait.saturating_mul(LATELY), user, now)
        };
        n_own == 0 || n_own < FEW && has_others()
    }

    /// The calls that run or wait.
    fn under_way(&self, user: &User) -> UnderWay {
        let waiting = self.calls.iter().chain(&self.streams);
        let n_own_waiting = waiting.filter(|waiting| waiting.user.name == user.name).count();
        let n_own = self.turns.n_running(user) + n_own_waiting;
        let n_others = self.turns.n_running_in_all() + self.n_waiting() - n_own;
        UnderWay { n_own, n_others }
    }

    /// Sets how many workers may run now; returns whether the queue stands.
    fn open(&mut self, now: Instant) -> bool {
        let (service, n_open) = (self.service, self.n_open);
        let is_waiting = !self.calls.is_empty();
        let is_standing =
            self.standing_queue.is_standing(now, is_waiting, |time| service.n_in(time, n_open));
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
        user: &User,
        waiter: impl FnOnce() -> W,
    ) -> Result<Entry, Refused> {
        let looked = self.look(now, deadline, user);
        self.standing_queue.count();
        looked?;
        if self.has_worker(now, user) {
            self.n_busy += 1;
            return Ok(Entry::Begun { id: self.turns.begin(user, now) });
        }
        let patience = now + self.max_wait.saturating_mul(PATIENCE);
        let until = match deadline {
            // Others' calls may take the workers for as long as a call may take.
            _ if self.has_few(now, user) => deadline,
            Some(deadline) => Some(deadline.min(patience)),
            None => Some(patience),
        };
        self.standing_queue.note_waiting(now);
        let user = user.clone();
        let waiting = Waiting { ticket: self.take_ticket(), user, since: now, worker: waiter() };
        let ticket = waiting.ticket;
        self.calls.push_back(waiting);
        Ok(Entry::Waits { ticket, until })
    }

    /// Admits a request of a stream, which waits for as long as it takes: its stream sends no more meanwhile.
    pub(crate) fn enter_patiently(
        &mut self,
        now: Instant,
        user: &User,
        waiter: impl FnOnce() -> W,
    ) -> Entry {
        self.open(now);
        if self.has_worker(now, user) {
            self.n_busy += 1;
            return Entry::Begun { id: self.turns.begin(user, now) };
        }
        let user = user.clone();
        let waiting = Waiting { ticket: self.take_ticket(), user, since: now, worker: waiter() };
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

    /// Frees the worker of a call, if it still has one; `service` is the time of the call, if it began. [`Queue::next`]
    /// assigns the worker anew.
    pub(crate) fn finish(&mut self, now: Instant, id: u64, service: Option<Service>) {
        if self.turns.end(id, now) {
            self.n_busy = self.n_busy.saturating_sub(1);
        }
        if let Some(service) = service {
            self.service.add(service.time);
            self.concurrency.add(now, service);
        }
    }

    /// Assigns a worker to the next waiting call: a free one, or that of a long call of another user. To be called until
    /// it returns `None`.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Next<W>> {
        self.open(now);
        let (call, stream) = (self.turns.next(&self.calls), self.turns.next(&self.streams));
        let (of_streams, place) = match (self.is_streams_turn, call, stream) {
            (true, _, Some(place)) | (false, None, Some(place)) => (true, place),
            (_, Some(place), _) => (false, place),
            (_, None, None) => {
                while self.n_busy < self.n_open && self.turns.take_back() {
                    self.n_busy += 1;
                }
                return None;
            }
        };
        let waiting = if of_streams { &self.streams } else { &self.calls };
        let user = waiting.get(place)?.user.clone();
        if !self.has_worker(now, &user) {
            return None;
        }
        let waiting = if of_streams { &mut self.streams } else { &mut self.calls };
        let next = waiting.remove(place)?;
        self.is_streams_turn = !self.is_streams_turn;
        self.n_busy += 1;
        self.note_length();
        let id = self.turns.begin(&user, now);
        Some(Next {
            worker: next.worker,
            id,
            #[cfg(test)]
            since: next.since,
        })
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
    fn expected_wait(&self, user: &User) -> Duration {
        let n_calls = self.turns.n_ahead(user, &self.calls) + 1;
        let n_ahead = n_calls + self.streams.len().min(n_calls);
        self.service.times(n_ahead, self.n_open)
    }

    /// The refusal of a call that comes now and may not wait.
    pub(crate) fn refused(&self, user: &User) -> Refused {
        Refused { retry_after: self.expected_wait(user).clamp(RETRY_AFTER.0, RETRY_AFTER.1) }
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
