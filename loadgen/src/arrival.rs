//! Arrival: the times at which requests are due.
//!
//! In a closed loop a request is due as soon as a caller is free, so a slow server receives fewer requests and its
//! worst moments are hidden. In an open loop request `k` is due at a fixed time, and its latency counts from that time
//! even if every caller is still busy: the time that requests wait for a slow server is part of the latency.

mod alarm;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use alarm::Alarm;

/// A schedule of requests at a fixed rate, without drift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    requests_per_second: f64,
}

impl Schedule {
    /// A schedule of `requests_per_second`, which must be positive and at most 10⁹; otherwise `None`.
    pub fn new(requests_per_second: f64) -> Option<Self> {
        (requests_per_second > 0.0 && requests_per_second <= 1e9)
            .then_some(Self { requests_per_second })
    }

    /// Time from the start at which request `number` (from 0) is due.
    pub fn intended_offset(self, number: u64) -> Duration {
        // Computed from the number: a sum of intervals would also sum their rounding errors.
        let seconds = number as f64 / self.requests_per_second;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Number of requests that are due at `elapsed` after the start; request 0 is due at the start.
    pub fn n_due(self, elapsed: Duration) -> u64 {
        (elapsed.as_secs_f64() * self.requests_per_second) as u64 + 1
    }

    /// Number of requests in `duration`, at least one.
    pub fn n_within(self, duration: Duration) -> u64 {
        ((duration.as_secs_f64() * self.requests_per_second).round() as u64).max(1)
    }
}

/// A request that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Position in the run, from 0.
    pub number: u64,
    /// Time when the request should be sent; its latency counts from here.
    pub intended: Instant,
}

/// Distributes the requests of one run to any number of tasks, each request exactly once.
#[derive(Debug)]
pub struct Tickets {
    start: Instant,
    next: AtomicU64,
    /// Number of the next request.
    end: u64,
    stop_at: Option<Instant>,
    /// A semaphore without permits that is closed when the run ends.
    running: Semaphore,
    open: Option<OpenLoop>,
}

#[derive(Debug)]
struct OpenLoop {
    schedule: Schedule,
    due: Semaphore,
}

impl Tickets {
    /// A closed loop of `n_requests`, ended earlier at `stop_at` when there is one.
    pub fn closed(start: Instant, n_requests: u64, stop_at: Option<Instant>) -> Self {
        let running = Semaphore::new(0);
        Self { start, next: AtomicU64::new(0), end: n_requests, stop_at, running, open: None }
    }

    /// An open loop of `n_requests` on `schedule`, whose requests [`pace`] releases when they are due.
    pub fn open(start: Instant, n_requests: u64, schedule: Schedule) -> Self {
        let open = OpenLoop { schedule, due: Semaphore::new(0) };
        Self { open: Some(open), ..Self::closed(start, n_requests, None) }
    }

    /// Start of the run: the first request of an open loop is due then.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Waits until the next request is due and returns it; `None` when the run is over.
    pub async fn take(&self) -> Option<Ticket> {
        if self.running.is_closed() {
            return None;
        }
        let Some(open) = &self.open else {
            return self.take_closed();
        };
        if self.next.load(Ordering::Relaxed) >= self.end {
            return None;
        }
        // The task that takes the last request closes the semaphore, so that no task waits for further permits.
        open.due.acquire().await.ok()?.forget();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number + 1 >= self.end {
            self.stop();
        }
        (number < self.end).then(|| Ticket {
            number,
            intended: self.start + open.schedule.intended_offset(number),
        })
    }

    /// Ends the run: no further request is returned, even if it is due.
    pub fn stop(&self) {
        self.running.close();
        if let Some(open) = &self.open {
            open.due.close();
        }
    }

    /// Waits until the run is over, for tasks that wait for something else at the same time.
    pub async fn over(&self) {
        let stopped = self.running.acquire();
        match self.stop_at {
            None => drop(stopped.await),
            Some(stop_at) => drop(tokio::time::timeout_at(stop_at, stopped).await),
        }
    }

    fn take_closed(&self) -> Option<Ticket> {
        let now = Instant::now();
        if self.stop_at.is_some_and(|stop_at| now >= stop_at) {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number.saturating_add(1) >= self.end {
            self.stop();
        }
        (number < self.end).then_some(Ticket { number, intended: now })
    }

    /// Declares `n_requests` more requests of an open loop due.
    pub fn release(&self, n_requests: usize) {
        if let Some(open) = &self.open {
            open.due.add_permits(n_requests);
        }
    }
}

/// Requests of an open loop that are due within this time are released together, because waiting for each costs the
/// generator more than sending it, and the generator often shares its cores with the server. The delay counts as
/// latency.
const QUANTUM: Duration = Duration::from_micros(50);

/// Starts a task that releases the requests of an open loop when they are due.
///
/// # Errors
/// The operating system provides no timer.
pub fn pace(tickets: &Arc<Tickets>) -> io::Result<()> {
    let (tickets, mut alarm) = (Arc::clone(tickets), Alarm::new()?);
    tokio::spawn(async move {
        let Some(open) = &tickets.open else { return };
        let mut n_released = 0;
        let mut not_before = tickets.start;
        while n_released < tickets.end && !open.due.is_closed() {
            let due_at = tickets.start + open.schedule.intended_offset(n_released);
            let now = Instant::now();
            let wait = due_at.max(not_before).saturating_duration_since(now);
            if !wait.is_zero() {
                // Limited, so that the task notices the end of a run with a very low rate.
                alarm.sleep(wait.min(Duration::from_millis(100))).await;
                continue;
            }
            let n_due =
                open.schedule.n_due(tickets.start.elapsed()).clamp(n_released + 1, tickets.end);
            tickets.release(usize::try_from(n_due - n_released).unwrap_or(usize::MAX));
            n_released = n_due;
            not_before = now + QUANTUM;
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Schedule, Tickets, pace};

    fn every_ms(milliseconds: f64) -> Schedule {
        Schedule::new(1000.0 / milliseconds).unwrap()
    }

    #[test]
    fn schedule_has_no_drift_and_counts_what_is_due() {
        let schedule = Schedule::new(3.0).unwrap();
        assert_eq!(schedule.intended_offset(0), Duration::ZERO);
        assert_eq!(schedule.intended_offset(3_000_000), Duration::from_secs(1_000_000));
        assert_eq!(schedule.n_due(Duration::ZERO), 1);
        assert_eq!(schedule.n_due(Duration::from_millis(999)), 3);
        assert_eq!(schedule.n_due(Duration::from_secs(1)), 4);
        assert_eq!(schedule.n_within(Duration::from_secs(10)), 30);
        assert_eq!(schedule.n_within(Duration::from_millis(1)), 1);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Schedule::new(bad), None);
        }
    }

    /// One caller, a request every 10 ms, a server that takes 1 ms but stalls for 100 ms on request 5.
    #[tokio::test(start_paused = true)]
    async fn a_stall_counts_in_the_latency_of_every_request_due_meanwhile() {
        let start = Instant::now();
        let tickets = Tickets::open(start, 20, every_ms(10.0));
        tickets.release(20);
        let mut latencies_ms = Vec::new();
        while let Some(ticket) = tickets.take().await {
            tokio::time::sleep_until(ticket.intended).await;
            assert_eq!(ticket.intended, start + Duration::from_millis(10 * ticket.number));
            tokio::time::sleep(Duration::from_millis(if ticket.number == 5 { 100 } else { 1 }))
                .await;
            latencies_ms.push(ticket.intended.elapsed().as_millis());
        }
        // Request 6 was due 10 ms into the stall: 90 ms of waiting and 1 ms of work; each later one 9 ms less.
        let expected = [1, 1, 1, 1, 1, 100, 91, 82, 73, 64, 55, 46, 37, 28, 19, 10, 1, 1, 1, 1];
        assert_eq!(latencies_ms, expected);
    }

    /// In a closed loop, a stall of the server shows in one request only.
    #[tokio::test(start_paused = true)]
    async fn a_closed_loop_counts_from_the_sending() {
        let tickets = Tickets::closed(Instant::now(), 20, None);
        let mut latencies_ms = Vec::new();
        while let Some(ticket) = tickets.take().await {
            tokio::time::sleep(Duration::from_millis(if ticket.number == 5 { 100 } else { 1 }))
                .await;
            latencies_ms.push(ticket.intended.elapsed().as_millis());
        }
        assert_eq!(latencies_ms.len(), 20);
        assert_eq!(latencies_ms.iter().filter(|latency| **latency > 1).count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_loop_ends_at_its_time() {
        let start = Instant::now();
        let tickets = Tickets::closed(start, u64::MAX, Some(start + Duration::from_millis(10)));
        let mut n_requests = 0;
        while tickets.take().await.is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            n_requests += 1;
        }
        assert_eq!(n_requests, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_over_with_its_time_or_its_last_request() {
        let start = Instant::now();
        Tickets::closed(start, 2, Some(start + Duration::from_millis(10))).over().await;
        assert_eq!(start.elapsed(), Duration::from_millis(10));
        let tickets = Tickets::closed(start, 1, None);
        let early = tokio::time::timeout(Duration::from_millis(5), tickets.over()).await;
        assert!(early.is_err() && tickets.take().await.is_some());
        tickets.over().await;
        assert_eq!(start.elapsed(), Duration::from_millis(15));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopped_run_returns_no_request() {
        let start = Instant::now();
        let closed = Tickets::closed(start, 20, None);
        let open = Arc::new(Tickets::open(start, 20, every_ms(1.0)));
        open.release(1);
        assert!(closed.take().await.is_some() && open.take().await.is_some());
        // No request is due: the task waits until the run is stopped.
        let waiting = tokio::spawn({
            let open = Arc::clone(&open);
            async move { open.take().await }
        });
        tokio::task::yield_now().await;
        closed.stop();
        open.stop();
        open.release(5);
        assert_eq!(waiting.await.unwrap(), None);
        open.over().await;
        assert_eq!((closed.take().await, open.take().await), (None, None));
    }

    #[tokio::test]
    async fn paced_requests_are_returned_once_each_and_never_early() {
        let tickets = Arc::new(Tickets::open(Instant::now(), 200, every_ms(0.5)));
        pace(&tickets).unwrap();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (tickets, taken) = (Arc::clone(&tickets), Arc::clone(&taken));
            callers.spawn(async move {
                while let Some(ticket) = tickets.take().await {
                    assert!(Instant::now() >= ticket.intended);
                    taken.lock().unwrap().push(ticket.number);
                }
            });
        }
        while let Some(joined) = callers.join_next().await {
            joined.unwrap();
        }
        let mut taken = std::mem::take(&mut *taken.lock().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, (0..200).collect::<Vec<u64>>());
    }
}
