//! An open loop without mercy: every call is sent when it is due, however many are under way, up to a bound.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::raw::RawCaller;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::OverloadSpec;
use super::account::Account;
use super::book::{Book, Times};
use super::work::{Call, Work};
use crate::arrival::Schedule;

/// What all loads of a run share.
#[derive(Debug)]
pub struct Offer {
    /// One a connection.
    pub callers: Vec<RawCaller>,
    /// What is asked.
    pub work: Arc<Work>,
    /// What was granted.
    pub account: Arc<Account>,
    /// How.
    pub spec: OverloadSpec,
}

/// Books that callers write into at the same time.
const N_BOOKS: usize = 8;
/// The pacing thread looks this often whether it is to stop.
const LONGEST_NAP: Duration = Duration::from_millis(20);
/// Beyond a call's own timeout: then something is wrong with the generator or the connection, and it is waited for no longer.
const GRACE: Duration = Duration::from_secs(5);

/// A load that is being offered, or was.
#[derive(Debug)]
pub struct Offered {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    offer: Arc<OfferParts>,
    start: Instant,
    origin: Instant,
    n_in_flight: AtomicUsize,
    stop: AtomicBool,
    books: [Mutex<Book>; N_BOOKS],
    /// When the last call was sent, once it was.
    all_sent: watch::Sender<Option<Instant>>,
}

/// The parts of an [`Offer`] that a call needs.
#[derive(Debug)]
struct OfferParts {
    callers: Vec<RawCaller>,
    work: Arc<Work>,
    account: Arc<Account>,
    max_in_flight: usize,
    timeout: Duration,
    retry: bool,
}

impl Offer {
    /// Begins to offer `rate` calls a second for `duration`, one in `assume_every` of which assumes; returns at once. Seconds are
    /// counted from `origin`.
    pub fn begin(
        &self,
        rate: f64,
        duration: Duration,
        origin: Instant,
        assume_every: Option<u64>,
    ) -> Offered {
        let shared = Arc::new(Shared {
            offer: Arc::new(self.parts()),
            start: Instant::now(),
            origin,
            n_in_flight: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            books: std::array::from_fn(|_| Mutex::new(Book::new(origin))),
            all_sent: watch::Sender::new(None),
        });
        let (pacing, runtime) = (shared.clone(), tokio::runtime::Handle::current());
        // A thread, because the runtime's timers round up to a millisecond, which would be counted as latency.
        std::thread::spawn(move || {
            if let Some(schedule) = Schedule::new(rate) {
                pace(&pacing, &runtime, schedule, schedule.n_within(duration), assume_every);
            }
            pacing.all_sent.send_replace(Some(Instant::now()));
        });
        Offered { shared }
    }

    fn parts(&self) -> OfferParts {
        OfferParts {
            callers: self.callers.clone(),
            work: self.work.clone(),
            account: self.account.clone(),
            max_in_flight: self.spec.max_in_flight,
            timeout: self.spec.timeout,
            retry: self.spec.retry,
        }
    }
}

fn pace(
    shared: &Arc<Shared>,
    runtime: &tokio::runtime::Handle,
    schedule: Schedule,
    n_calls: u64,
    assume_every: Option<u64>,
) {
    let mut number = 0;
    while number < n_calls && !shared.stop.load(Ordering::Relaxed) {
        let intended = shared.start + schedule.intended_offset(number);
        let wait = intended.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait.min(LONGEST_NAP));
            continue;
        }
        // The first of every so many.
        let assumes = assume_every.is_some_and(|every| number.is_multiple_of(every));
        shared.clone().start(runtime, number, intended, assumes);
        number += 1;
    }
}

impl Shared {
    fn start(
        self: Arc<Self>,
        runtime: &tokio::runtime::Handle,
        number: u64,
        intended: Instant,
        assumes: bool,
    ) {
        // Only this thread adds.
        if self.n_in_flight.load(Ordering::Acquire) >= self.offer.max_in_flight {
            self.book(number).not_sent(intended);
            return;
        }
        self.n_in_flight.fetch_add(1, Ordering::AcqRel);
        runtime.spawn(async move {
            self.carry_out(number, intended, assumes).await;
            self.n_in_flight.fetch_sub(1, Ordering::AcqRel);
        });
    }

    async fn carry_out(&self, number: u64, intended: Instant, assumes: bool) {
        let offer = &self.offer;
        let call = offer.work.next(assumes);
        // The remainder is below the number of connections.
        let caller = &offer.callers[(number % offer.callers.len() as u64) as usize];
        let sent = Instant::now();
        let (mut last_sent, mut n_retries) = (sent, 0);
        let answer = loop {
            let Call { path, message, .. } = call.clone();
            let answer = caller.call(path, message, offer.timeout).await;
            let retry_after = answer.as_ref().err().and_then(retry_after);
            if let Some(delay) = retry_after {
                self.book(number).retry_after(delay);
            }
            match retry_after
                .filter(|delay| offer.retry && Instant::now() + *delay < intended + offer.timeout)
            {
                Some(delay) => tokio::time::sleep(delay).await,
                None => break answer,
            }
            (last_sent, n_retries) = (Instant::now(), n_retries + 1);
        };
        let times = Times { intended, sent, last_sent, answered: Instant::now() };
        let status = answer.as_ref().err();
        let code = status.map_or(Code::Ok, Status::code);
        if let Some(sequence) = call.assumes {
            offer.account.note(&offer.work, sequence, &answer);
        }
        let mut book = self.book(number);
        book.n_retries += n_retries;
        book.answered(times, code, status.map_or("", Status::message));
    }

    fn book(&self, number: u64) -> MutexGuard<'_, Book> {
        // The remainder is below the number of books; a book is whole even if a thread panicked while holding it.
        let book = &self.books[(number % N_BOOKS as u64) as usize];
        book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// After what time a refusal says to try again.
fn retry_after(status: &Status) -> Option<Duration> {
    if status.code() != Code::ResourceExhausted {
        return None;
    }
    status.get_details_retry_info()?.retry_delay
}

impl Offered {
    /// Resolves when the last call was sent.
    pub async fn all_sent(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        drop(self.shared.all_sent.subscribe().wait_for(Option::is_some).await);
    }

    /// Sends nothing more.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Calls that are under way.
    pub fn n_in_flight(&self) -> usize {
        self.shared.n_in_flight.load(Ordering::Acquire)
    }

    /// From the first call to the sending of the last one, or to now.
    pub fn elapsed(&self) -> Duration {
        let end = self.shared.all_sent.borrow().unwrap_or_else(Instant::now);
        end - self.shared.start
    }

    /// Waits for the calls under way: all that was counted, and how many were given up waiting for.
    pub async fn settle(self) -> (Book, u64) {
        self.all_sent().await;
        let deadline = Instant::now() + self.shared.offer.timeout + GRACE;
        while self.n_in_flight() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut total = Book::new(self.shared.origin);
        for number in 0..N_BOOKS as u64 {
            total.add(&self.shared.book(number));
        }
        (total, self.n_in_flight() as u64)
    }
}

/// Whoever does not wait for a load does not want it.
impl Drop for Offered {
    fn drop(&mut self) {
        self.stop();
    }
}
