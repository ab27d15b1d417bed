//! Where long work runs: on threads beside the reactor, as many at a time as the lane has workers. Whoever waits for one waits in
//! [`Workers`] and nowhere else: a job that has a worker is run at once.

mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::deadline::{Cancel, CancelOnDrop, Deadline};
use super::error::CallError;
use super::response_cache;
use crate::admission::{Lane, Worker, Workers};
use crate::telemetry::AdmissionCounts;
use threads::{Thread, Threads};

pub(crate) struct Pool {
    workers: Workers,
    threads: Threads,
}

impl Pool {
    /// Decisions: one thread a core, for the work is computation, and more threads would only take turns.
    pub(crate) fn of_decisions(max_queue_time: Duration, counts: &AdmissionCounts) -> Pool {
        Pool::of(Lane::Decision, n_cores(), max_queue_time, counts)
    }

    /// Simulations: one thread a core but one, for long work that is not to keep others from theirs.
    pub(crate) fn of_simulations(max_queue_time: Duration, counts: &AdmissionCounts) -> Pool {
        let n_threads = n_cores().saturating_sub(1).max(1);
        Pool::of(Lane::Simulation, n_threads, max_queue_time, counts)
    }

    /// As many threads as `n_threads`, for work that waits.
    pub(crate) fn of(
        lane: Lane,
        n_threads: usize,
        max_queue_time: Duration,
        counts: &AdmissionCounts,
    ) -> Pool {
        let workers = Workers::new(lane, n_threads, max_queue_time, counts);
        Pool { workers, threads: Threads::new(lane.name()) }
    }

    /// Its workers, for whoever asks at the door.
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Runs `job` on a thread of the pool.
    ///
    /// # Errors
    /// [`CallError::Overloaded`] where it would wait too long for a thread, [`CallError::DeadlineExceeded`] when the deadline
    /// passes before one is free, [`CallError::Broken`] when the job panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        self.run_on(self.workers.take(deadline.0).await?, deadline, job).await
    }

    /// The same for a stream's request, which waits rather than being refused: its stream sends no more meanwhile.
    ///
    /// # Errors
    /// As [`Pool::run`], without being overloaded.
    pub(crate) async fn run_patiently<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        self.run_on(self.workers.take_patiently(deadline.0).await?, deadline, job).await
    }

    async fn run_on<T: Send + 'static>(
        &self,
        mut worker: Worker,
        deadline: Deadline,
        job: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        if deadline.has_passed() {
            return Err(CallError::DeadlineExceeded);
        }
        let caller = CancelOnDrop::new(deadline);
        let cancel = caller.token();
        let (span, runtime) = (tracing::Span::current(), Handle::current());
        let named = response_cache::in_progress();
        let (told, outcome) = oneshot::channel();
        let begin = move |thread: Thread| {
            let _runtime = runtime.enter();
            let done = catch_unwind(AssertUnwindSafe(|| {
                let _named = named;
                // Its caller may have gone since.
                if cancel.is_cancelled() {
                    return Err(CallError::DeadlineExceeded);
                }
                worker.begin();
                Ok(span.in_scope(|| job(&cancel)))
            }));
            // The thread before the worker: whoever has the worker next finds the thread. Both before the answer, for who asks again
            // is not to wait for them. A panic was logged as it happened.
            thread.release();
            drop(worker);
            drop(told.send(done.unwrap_or(Err(CallError::Broken))));
        };
        if let Err(error) = self.threads.run(begin) {
            tracing::error!(%error, "no thread for a call");
        }
        let outcome = outcome.await.unwrap_or(Err(CallError::Broken));
        drop(caller);
        outcome
    }
}

fn n_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;
    use std::sync::mpsc;

    fn pool() -> Pool {
        Pool::of_decisions(Duration::from_secs(60), Metrics::new().admission())
    }

    #[tokio::test]
    async fn a_job_learns_that_its_caller_went_away() {
        let pool = pool();
        let ((begun, is_begun), (sender, receiver)) = (mpsc::channel(), mpsc::channel());
        let job = pool.run(Deadline(None), move |cancel: &Cancel| {
            begun.send(()).unwrap();
            let deadline = std::time::Instant::now() + Duration::from_secs(60);
            while !cancel.is_cancelled() && std::time::Instant::now() < deadline {
                std::thread::yield_now();
            }
            sender.send(cancel.is_cancelled()).unwrap();
        });
        let begins = tokio::task::spawn_blocking(move || is_begun.recv().unwrap());
        tokio::select! {
            _ = job => panic!("nobody cancelled it"),
            begun = begins => begun.unwrap(),
        }
        assert!(receiver.recv().unwrap());
    }

    /// A call that is gone while it waits never runs, and its worker is free for the next.
    #[tokio::test]
    async fn a_cancelled_job_frees_its_worker() {
        let pool = Pool::of(Lane::Decision, 1, Duration::from_secs(60), Metrics::new().admission());
        let (go, going) = mpsc::channel::<()>();
        let first = pool.run(Deadline(None), move |_| going.recv().is_err());
        let (ran, has_run) = mpsc::channel();
        let second = pool.run(Deadline(None), move |_| ran.send(()).unwrap());
        let (mut first, mut second) = (Box::pin(first), Box::pin(second));
        std::future::poll_fn(|cx| {
            assert!(first.as_mut().poll(cx).is_pending());
            assert!(second.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        assert_eq!(pool.workers().load(), (1, 1));
        drop(second);
        drop(go);
        assert_eq!(first.await, Ok(true));
        assert_eq!(pool.run(Deadline(None), |_| 7).await, Ok(7));
        assert_eq!(pool.workers().load(), (0, 0));
        assert!(has_run.recv().is_err(), "nobody waited for it");
    }

    #[tokio::test]
    async fn a_panicking_job_is_an_error_and_frees_its_thread() {
        let pool = pool();
        for _ in 0..100 {
            let outcome: Result<(), CallError> =
                pool.run(Deadline(None), |_| panic!("on purpose")).await;
            assert!(matches!(outcome, Err(CallError::Broken)));
        }
        assert_eq!(pool.run(Deadline(None), |_| 7).await.unwrap(), 7);
        assert_eq!(pool.workers().load(), (0, 0));
    }
}
