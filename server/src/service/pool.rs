//! Pools of threads for long work, beside the reactor: at most as many jobs at a time as the lane has workers. Calls
//! that wait for a worker wait in [`Workers`] and nowhere else: a job that has a worker runs at once.

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
    /// Pool for decisions: one thread per core, for the work is computation, and more threads would only take turns.
    pub(crate) fn of_decisions(max_queue_time: Duration, counts: &AdmissionCounts) -> Pool {
        Pool::of(Lane::Decision, n_cores(), max_queue_time, counts)
    }

    /// Pool for simulations: one thread fewer than cores, since long work must leave a core to other calls.
    pub(crate) fn of_simulations(max_queue_time: Duration, counts: &AdmissionCounts) -> Pool {
        let n_threads = n_cores().saturating_sub(1).max(1);
        Pool::of(Lane::Simulation, n_threads, max_queue_time, counts)
    }

    /// Pool of `n_threads` threads, for work that waits.
    pub(crate) fn of(
        lane: Lane,
        n_threads: usize,
        max_queue_time: Duration,
        counts: &AdmissionCounts,
    ) -> Pool {
        let workers = Workers::new(lane, n_threads, max_queue_time, counts);
        Pool { workers, threads: Threads::new(lane.name()) }
    }

    /// Workers of the pool, for the admission of calls.
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Runs `job` on a thread of the pool.
    ///
    /// # Errors
    /// [`CallError::Overloaded`] where it would wait too long for a thread, [`CallError::DeadlineExceeded`] when the
    /// deadline passes before one is free, [`CallError::Broken`] when the job panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        self.run_on(self.workers.take(deadline.0).await?, deadline, job).await
    }

    /// Runs `job` like [`Pool::run`] for a stream's request, which waits rather than being refused: its stream sends no
    /// more meanwhile.
    ///
    /// # Errors
    /// The errors of [`Pool::run`] except [`CallError::Overloaded`].
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
        let (sender, outcome) = oneshot::channel();
        let begin = move |thread: Thread| {
            let _runtime = runtime.enter();
            let done = catch_unwind(AssertUnwindSafe(|| {
                let _named = named;
                // The caller may have gone since.
                if cancel.is_cancelled() {
                    return Err(CallError::DeadlineExceeded);
                }
                worker.begin();
                Ok(span.in_scope(|| job(&cancel)))
            }));
            // Release the thread before the worker, so that the next job with the worker finds the thread; and both
            // before the response is sent, so that a caller's next request does not wait for them. A panic was logged
            // when it happened.
            thread.release();
            drop(worker);
            drop(sender.send(done.unwrap_or(Err(CallError::Broken))));
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

    /// A call that is cancelled while it waits never runs, and its worker is free for the next.
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
