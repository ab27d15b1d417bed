//! Where long work runs: a bounded number of threads beside the reactor, and a bounded queue before them.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::deadline::{Cancel, CancelOnDrop, Deadline};
use super::status::CallError;

/// Most jobs that may wait for a thread; more callers than that are told to come back.
const MAX_WAITING: usize = 1024;

pub(crate) struct Pool {
    running: Arc<Semaphore>,
    admitted: Semaphore,
}

impl Pool {
    /// One thread a core: the work is computation, more threads would only take turns.
    pub(crate) fn new() -> Pool {
        Pool::of(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// One thread a core but one, for long work that is not to keep others from theirs.
    pub(crate) fn beside_others() -> Pool {
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
        Pool::of(n_cores.saturating_sub(1).max(1))
    }

    /// As many threads as `n_threads`, for work that waits.
    pub(crate) fn of(n_threads: usize) -> Pool {
        Pool {
            running: Arc::new(Semaphore::new(n_threads)),
            admitted: Semaphore::new(n_threads + MAX_WAITING),
        }
    }

    /// Runs `job` on a thread of the pool.
    ///
    /// # Errors
    /// [`CallError::Busy`] when the queue is full, [`CallError::DeadlineExceeded`] when the deadline passes before a
    /// thread is free, [`CallError::Broken`] when the job panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let _admitted = self.admitted.try_acquire().map_err(|_| CallError::Busy)?;
        let permit = self.running.clone().acquire_owned().await.map_err(|_| CallError::Broken)?;
        if deadline.has_passed() {
            return Err(CallError::DeadlineExceeded);
        }
        let caller = CancelOnDrop::new(deadline);
        let cancel = caller.token();
        let running = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            job(&cancel)
        });
        let outcome = running.await.map_err(|_| CallError::Broken);
        drop(caller);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_job_learns_that_its_caller_went_away() {
        let pool = Pool::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        let job = pool.run(Deadline(None), move |cancel: &Cancel| {
            let deadline = std::time::Instant::now() + Duration::from_secs(20);
            while !cancel.is_cancelled() && std::time::Instant::now() < deadline {
                std::thread::yield_now();
            }
            sender.send(cancel.is_cancelled()).unwrap();
        });
        assert!(tokio::time::timeout(Duration::from_millis(20), job).await.is_err());
        assert!(receiver.recv().unwrap());
    }

    #[tokio::test]
    async fn a_panicking_job_is_an_error_and_frees_its_thread() {
        let pool = Pool::new();
        for _ in 0..100 {
            let outcome: Result<(), CallError> =
                pool.run(Deadline(None), |_| panic!("on purpose")).await;
            assert!(matches!(outcome, Err(CallError::Broken)));
        }
        assert_eq!(pool.run(Deadline(None), |_| 7).await.unwrap(), 7);
    }
}
