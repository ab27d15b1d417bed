//! Threads for jobs, reused in last-in, first-out order: there are never more threads than there were jobs at a time,
//! and no more of them are in use than there are jobs now. Each thread has memory of its own in the allocator; jobs
//! that rotate through all threads would fill all of it (benches/record/2026-11-22-epyc-2-cores-soak.md).

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::{io, thread};

/// Job of a thread; it must not panic.
type Job = Box<dyn FnOnce(Thread) + Send>;

/// The free threads. They end when this value is dropped.
pub(super) struct Threads(Arc<Shared>);

struct Shared {
    name: String,
    /// Free threads; the last to become free is at the end.
    free: Mutex<Vec<Sender<Work>>>,
}

struct Work {
    job: Job,
    thread: Thread,
}

/// The thread that a job runs on. It ends with the job unless it is released.
pub(super) struct Thread {
    threads: Weak<Shared>,
    /// Sender of the thread's next job.
    work: Sender<Work>,
}

impl Thread {
    /// Makes the thread free for another job; to be called when the current one is about to end.
    pub(super) fn release(self) {
        if let Some(threads) = self.threads.upgrade() {
            threads.free().push(self.work);
        }
    }
}

impl Shared {
    fn free(&self) -> MutexGuard<'_, Vec<Sender<Work>>> {
        // No code panics while it holds the lock.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Threads {
    /// Creates an empty set of threads. `name` is their name in a debugger.
    pub(super) fn new(name: &str) -> Threads {
        Threads(Arc::new(Shared { name: name.to_owned(), free: Mutex::default() }))
    }

    /// Runs `job` on a thread that is free, or else on a new one.
    ///
    /// # Errors
    /// When the system cannot create another thread. `job` is dropped then.
    pub(super) fn run(&self, job: impl FnOnce(Thread) + Send + 'static) -> io::Result<()> {
        let threads = Arc::downgrade(&self.0);
        let job: Job = Box::new(job);
        let free = self.0.free().pop();
        let Some(work) = free else {
            return self.start(job);
        };
        let thread = Thread { threads, work: work.clone() };
        match work.send(Work { job, thread }) {
            Ok(()) => Ok(()),
            // The thread is gone: its last job panicked after all.
            Err(unsent) => self.start(unsent.0.job),
        }
    }

    fn start(&self, job: Job) -> io::Result<()> {
        let (work, more) = channel();
        let thread = Thread { threads: Arc::downgrade(&self.0), work };
        let run = move || {
            let mut next = Ok(Work { job, thread });
            while let Ok(Work { job, thread }) = next {
                job(thread);
                next = more.recv();
            }
        };
        thread::Builder::new().name(self.0.name.clone()).spawn(run).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::sync::mpsc::Receiver;
    use std::thread::ThreadId;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Starts a job that ends once `go` is dropped; returns its thread, `go`, and a receiver that closes at its end.
    fn held(threads: &Threads) -> (ThreadId, Sender<()>, Receiver<()>) {
        let ((go, going), (started, on)) = (channel::<()>(), channel());
        let (over, is_over) = channel();
        let job = move |thread: Thread| {
            started.send(thread::current().id()).unwrap();
            going.recv().unwrap_err();
            thread.release();
            drop(over);
        };
        threads.run(job).unwrap();
        (on.recv_timeout(PATIENCE).unwrap(), go, is_over)
    }

    /// Ends a job, and waits for its end.
    fn end((_, go, is_over): (ThreadId, Sender<()>, Receiver<()>)) {
        drop(go);
        is_over.recv_timeout(PATIENCE).unwrap_err();
    }

    #[test]
    fn the_last_to_become_free_goes_first_and_no_more_are_made_than_are_needed() {
        let threads = Threads::new("test");
        let (a, b, c) = (held(&threads), held(&threads), held(&threads));
        let all: HashSet<ThreadId> = [a.0, b.0, c.0].into();
        assert_eq!(all.len(), 3);
        let last = b.0;
        end(a);
        end(c);
        end(b);
        for _ in 0..100 {
            let job = held(&threads);
            assert_eq!(job.0, last);
            end(job);
        }
        let (a, b, c) = (held(&threads), held(&threads), held(&threads));
        assert_eq!(HashSet::from([a.0, b.0, c.0]), all);
    }

    /// A thread that is released while its job still runs takes the next job all the same.
    #[test]
    fn every_job_runs() {
        let threads = Threads::new("test");
        let (done, n_done) = channel();
        for n in 0..10_000 {
            let done = done.clone();
            let job = move |thread: Thread| {
                thread.release();
                done.send(n).unwrap();
            };
            threads.run(job).unwrap();
        }
        drop(done);
        let mut all: Vec<i32> = n_done.iter().collect();
        all.sort_unstable();
        assert_eq!(all, (0..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn threads_end_with_their_pool_and_with_jobs_that_do_not_give_them_back() {
        thread_local! {
            static ENDS: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
        }
        let threads = Threads::new("test");
        let run = |gives_back: bool| {
            let (sender, ends) = channel();
            let job = move |thread: Thread| {
                ENDS.set(Some(sender));
                if gives_back {
                    thread.release();
                }
            };
            threads.run(job).unwrap();
            ends
        };
        run(false).recv_timeout(PATIENCE).unwrap_err();
        assert!(threads.0.free().is_empty());
        let ends = run(true);
        drop(threads);
        ends.recv_timeout(PATIENCE).unwrap_err();
    }
}
