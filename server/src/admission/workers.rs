//! Workers: the queue of a lane, shared by calls. The lock is held for as long as it takes to look at a few numbers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::queue::{Entry, Queue, Refused, Service};
use super::user::User;
use super::{AdmissionError, Lane};
use crate::clock;
use crate::telemetry::{AdmissionCounts, LaneCounts};

/// Interval at which a waiting call looks whether a call of another user has become long.
const LOOK: Duration = Duration::from_millis(20);

/// The workers of one lane. Clones share them.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Shared>);

struct Shared {
    lane: Lane,
    queue: Mutex<Queue<oneshot::Sender<Worker>>>,
    counts: LaneCounts,
}

/// One worker, held while this value lives; then the next call in the queue gets it.
pub(crate) struct Worker {
    workers: Workers,
    /// Id of the call that runs.
    id: u64,
    began: Option<Began>,
}

/// Begin of a worker's work.
struct Began {
    at: Instant,
    /// On-core time of the current thread.
    on_core: Duration,
}

impl Workers {
    pub(crate) fn new(
        lane: Lane,
        n_workers: usize,
        max_queue_time: Duration,
        counts: &AdmissionCounts,
    ) -> Workers {
        let queue = Mutex::new(Queue::new(n_workers, lane.wait_limit(max_queue_time)));
        Workers(Arc::new(Shared { lane, queue, counts: counts.lane(lane.name()) }))
    }

    /// Checks whether a call would be admitted now, before its message is read.
    ///
    /// # Errors
    /// [`AdmissionError::Overloaded`]
    pub(crate) fn check(
        &self,
        now: Instant,
        deadline: Option<Instant>,
        user: &User,
    ) -> Result<(), AdmissionError> {
        self.queue().check(now, deadline, user).map_err(too_long)
    }

    /// Waits for a worker for the current user, within the lane's limits and the deadline.
    ///
    /// # Errors
    /// [`AdmissionError::Overloaded`] if that would take too long, or did; [`AdmissionError::DeadlineExceeded`].
    pub(crate) async fn take(&self, deadline: Option<Instant>) -> Result<Worker, AdmissionError> {
        let (notifier, worker) = oneshot::channel();
        let (now, user) = (clock::now(), User::current());
        let entry = self.queue().enter(now, deadline, &user, || notifier).map_err(|refused| {
            self.0.counts.count_refused();
            too_long(refused)
        })?;
        self.wait(entry, worker, &user, now, deadline).await
    }

    /// Waits for a worker for as long as it takes, or until the deadline.
    ///
    /// # Errors
    /// [`AdmissionError::DeadlineExceeded`]
    pub(crate) async fn take_patiently(
        &self,
        deadline: Option<Instant>,
    ) -> Result<Worker, AdmissionError> {
        let (notifier, worker) = oneshot::channel();
        let (now, user) = (clock::now(), User::current());
        let entry = self.queue().enter_patiently(now, &user, || notifier);
        self.wait(entry, worker, &user, now, deadline).await
    }

    async fn wait(
        &self,
        entry: Entry,
        worker: oneshot::Receiver<Worker>,
        user: &User,
        since: Instant,
        deadline: Option<Instant>,
    ) -> Result<Worker, AdmissionError> {
        let (ticket, until) = match entry {
            Entry::Begun { id } => {
                self.0.counts.record_wait(Duration::ZERO);
                return Ok(Worker { workers: self.clone(), id, began: None });
            }
            Entry::Waits { ticket, until } => (ticket, until.or(deadline)),
        };
        let mut place = QueueSlot { workers: self, ticket, worker };
        let given = self.given(&mut place.worker, until).await;
        drop(place);
        let now = clock::now();
        self.0.counts.record_wait(now.saturating_duration_since(since));
        match given {
            Some(worker) => Ok(worker),
            None if deadline.is_some_and(|at| at <= now) => Err(AdmissionError::DeadlineExceeded),
            None => {
                self.0.counts.count_refused();
                Err(too_long(self.queue().refused(user)))
            }
        }
    }

    /// The worker once there is one, `None` at `until`. Meanwhile others' calls may become long, and give theirs up.
    async fn given(
        &self,
        worker: &mut oneshot::Receiver<Worker>,
        until: Option<Instant>,
    ) -> Option<Worker> {
        loop {
            let now = clock::now();
            let look = until.map_or(now + LOOK, |at| at.min(now + LOOK));
            if let Ok(given) = tokio::time::timeout_at(look.into(), &mut *worker).await {
                return given.ok();
            }
            let now = clock::now();
            if until.is_some_and(|at| at <= now) {
                return None;
            }
            self.assign(now);
        }
    }

    /// Numbers of waiting calls and of running workers.
    pub(crate) fn load(&self) -> (usize, usize) {
        let queue = self.queue();
        (queue.n_waiting(), queue.n_busy())
    }

    /// Number of workers that may run at a time.
    pub(crate) fn n_open(&self) -> usize {
        self.queue().n_open(clock::now())
    }

    /// Frees the worker of a call, and assigns all workers that may run now.
    fn finish(&self, now: Instant, id: u64, service: Option<Service>) {
        self.queue().finish(now, id, service);
        self.assign(now);
    }

    /// Assigns all workers that may run now.
    fn assign(&self, now: Instant) {
        loop {
            let Some(next) = self.queue().next(now) else { return };
            let worker = Worker { workers: self.clone(), id: next.id, began: None };
            // A waiting call leaves the queue before it drops its receiver, so the receiver is there. If it were not,
            // the worker would be dropped here, and go to the next call: hence not under the lock.
            drop(next.worker.send(worker));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<oneshot::Sender<Worker>>> {
        // No code that holds the lock panics in a way that leaves the queue half changed.
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    /// Begins the work: from here on its time counts as service. Must be dropped on the thread on which it began.
    pub(crate) fn begin(&mut self) {
        self.began = Some(Began { at: clock::now(), on_core: clock::on_core() });
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let now = clock::now();
        let is_computation = self.workers.0.lane.is_computation();
        let service = self.began.as_ref().map(|began| {
            let time = now.saturating_duration_since(began.at);
            let on_core = clock::on_core().saturating_sub(began.on_core);
            // Waiting for the disk needs no core.
            Service { time, on_core: if is_computation { on_core } else { time } }
        });
        self.workers.finish(now, self.id, service);
    }
}

/// A waiting call's position in the queue, given up when dropped, for the caller may go away. If a worker was assigned
/// just before, the next call gets it.
struct QueueSlot<'a> {
    workers: &'a Workers,
    ticket: u64,
    worker: oneshot::Receiver<Worker>,
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.workers.queue().leave(self.ticket);
    }
}

fn too_long(refused: Refused) -> AdmissionError {
    AdmissionError::overloaded("calls would wait too long for a worker", refused.retry_after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    fn one() -> Workers {
        Workers::new(Lane::Decision, 1, Duration::from_secs(60), Metrics::new().admission())
    }

    /// A caller that goes away while it waits leaves no gap in the queue, and takes no worker with it.
    #[tokio::test]
    async fn a_caller_that_goes_away_leaves_no_gap() {
        let workers = one();
        let first = workers.take(None).await.unwrap();
        let mut gone = Box::pin(workers.take(None));
        let mut next = Box::pin(workers.take(None));
        for waiting in [&mut gone, &mut next] {
            assert!(
                std::future::poll_fn(|cx| {
                    std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending())
                })
                .await
            );
        }
        assert_eq!(workers.load(), (2, 1));
        drop(gone);
        assert_eq!(workers.load(), (1, 1));
        drop(first);
        drop(next.await.unwrap());
        assert_eq!(workers.load(), (0, 0));
    }

    /// The receiver was given a worker and was never polled again.
    #[tokio::test]
    async fn an_unused_worker_goes_to_the_next_call() {
        let workers = one();
        let first = workers.take(None).await.unwrap();
        let mut waits = Box::pin(workers.take(None));
        assert!(
            std::future::poll_fn(|cx| {
                std::task::Poll::Ready(waits.as_mut().poll(cx).is_pending())
            })
            .await
        );
        drop(first);
        assert_eq!(workers.load(), (0, 1));
        drop(waits);
        assert_eq!(workers.load(), (0, 0));
    }

    #[tokio::test]
    async fn a_deadline_ends_the_waiting() {
        let workers = one();
        let first = workers.take(None).await.unwrap();
        let at = clock::now() + Duration::from_millis(20);
        assert_eq!(
            workers.take_patiently(Some(at)).await.err(),
            Some(AdmissionError::DeadlineExceeded)
        );
        // By now the deadline has passed: nothing could be done in time.
        let late = workers.take(Some(at)).await.err();
        assert!(matches!(late, Some(AdmissionError::Overloaded(_))), "{late:?}");
        assert_eq!(workers.load(), (0, 1));
        drop(first);
    }
}
