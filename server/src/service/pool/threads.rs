//! Threads for jobs, the one that was free last before all others: never more than there were jobs at a time, and of those no
//! more in use than there are now. Each keeps memory of its own in the allocator; jobs that go round among all threads fill all
//! of it (benches/record/2026-11-22-epyc-2-cores-soak.md).

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::{io, thread};

/// What a thread does; it is not to panic.
type Job = Box<dyn FnOnce(Thread) + Send>;

/// The threads that are free. They end with this.
pub(super) struct Threads(Arc<Shared>);

struct Shared {
    name: String,
    /// The last to become free is at the end.
    free: Mutex<Vec<Sender<Work>>>,
}

struct Work {
    job: Job,
    thread: Thread,
}

/// The thread that a job is on. It ends with the job, unless it is free for another.
pub(super) struct Thread {
    threads: Weak<Shared>,
    /// How it is given its next job.
    work: Sender<Work>,
}

impl Thread {
    /// Lets it have another job: this one is over in a moment.
    pub(super) fn release(self) {
        if let Some(threads) = self.threads.upgrade() {
            threads.free().push(self.work);
        }
    }
}

impl Shared {
    fn free(&self) -> MutexGuard<'_, Vec<Sender<Work>>> {
        // Nothing panics under it.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Threads {
    /// None yet. `name` is what they are called in a debugger.
    pub(super) fn new(name: &str) -> Threads {
        Threads(Arc::new(Shared { name: name.to_owned(), free: Mutex::default() }))
    }

    /// Runs `job` on a thread that is free, or else on a new one.
    ///
    /// # Errors
    /// When the system has no thread left. `job` is dropped then.
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
            // Its last job has panicked after all.
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

    /// Where a job runs that ends once `go` is dropped.
    fn held(threads: &Threads) -> (ThreadId, Sender<()>, Receiver<()>) {
        let ((go, going), (told, on)) = (channel::<()>(), channel());
        let (over, is_over) = channel();
        let job = move |thread: Thread| {
            told.send(thread::current().id()).unwrap();
            going.recv().unwrap_err();
            thread.release();
            drop(over);
        };
        threads.run(job).unwrap();
        (on.recv_timeout(PATIENCE).unwrap(), go, is_over)
    }

    /// Lets a job end.
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

    /// A thread that has said that it is free, and is not quite, does what it is given all the same.
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
            let (told, is_told) = channel();
            let job = move |thread: Thread| {
                ENDS.set(Some(told));
                if gives_back {
                    thread.release();
                }
            };
            threads.run(job).unwrap();
            is_told
        };
        run(false).recv_timeout(PATIENCE).unwrap_err();
        assert!(threads.0.free().is_empty());
        let ends = run(true);
        drop(threads);
        ends.recv_timeout(PATIENCE).unwrap_err();
    }
}
