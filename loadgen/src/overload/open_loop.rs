//! The open loop of an overload: sends every call when it is due, up to a limit of calls in flight.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::raw::RawCaller;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::OverloadSpec;
use super::assumed::AssumedPods;
use super::stats::{CallStats, Times};
use super::work::{Call, Work};
use crate::arrival::Schedule;

/// The calls, callers and settings that all phases of a run share.
#[derive(Debug)]
pub struct OpenLoop {
    /// One caller a connection.
    pub callers: Vec<RawCaller>,
    /// The calls to send.
    pub work: Arc<Work>,
    /// The pods that the calls assume.
    pub assumed: Arc<AssumedPods>,
    /// Settings of the run.
    pub spec: OverloadSpec,
}

/// Number of statistics that calls record into, so that concurrent calls rarely wait for the same lock.
const N_STATS: usize = 8;
/// Interval at which the pacing thread checks whether it has to stop.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// Time that a call in flight is given beyond its timeout. A call that is still in flight then is counted as
/// unanswered.
const GRACE: Duration = Duration::from_secs(5);

/// One phase: a load that is being sent, or has been sent.
#[derive(Debug)]
pub struct OfferedLoad {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: CallSettings,
    start: Instant,
    origin: Instant,
    n_in_flight: AtomicUsize,
    stop: AtomicBool,
    stats: [Mutex<CallStats>; N_STATS],
    /// Time when the last call was sent; `None` before.
    all_sent: watch::Sender<Option<Instant>>,
}

/// The parts of an [`OpenLoop`] that a call needs.
#[derive(Debug)]
struct CallSettings {
    callers: Vec<RawCaller>,
    work: Arc<Work>,
    assumed: Arc<AssumedPods>,
    max_in_flight: usize,
    timeout: Duration,
    retry: bool,
}

impl OpenLoop {
    /// Starts to send `rate` calls a second for `duration` in the background. One call in `assume_every` assumes its
    /// pods. Seconds of the statistics count from `origin`.
    pub fn begin(
        &self,
        rate: f64,
        duration: Duration,
        origin: Instant,
        assume_every: Option<u64>,
    ) -> OfferedLoad {
        let shared = Arc::new(Shared {
            settings: self.settings(),
            start: Instant::now(),
            origin,
            n_in_flight: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            stats: std::array::from_fn(|_| Mutex::new(CallStats::new(origin))),
            all_sent: watch::Sender::new(None),
        });
        let (pacing, runtime) = (shared.clone(), tokio::runtime::Handle::current());
        // A thread of its own: the runtime's timers round up to a millisecond, which would count as latency.
        std::thread::spawn(move || {
            if let Some(schedule) = Schedule::new(rate) {
                pace(&pacing, &runtime, schedule, schedule.n_within(duration), assume_every);
            }
            pacing.all_sent.send_replace(Some(Instant::now()));
        });
        OfferedLoad { shared }
    }

    fn settings(&self) -> CallSettings {
        CallSettings {
            callers: self.callers.clone(),
            work: self.work.clone(),
            assumed: self.assumed.clone(),
            max_in_flight: self.spec.max_in_flight,
            timeout: self.spec.timeout,
            retry: self.spec.retry,
        }
    }
}

/// Starts each call when it is due. Runs on a thread of its own.
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
            std::thread::sleep(wait.min(MAX_SLEEP));
            continue;
        }
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
        // Only this thread increments the number, so it cannot pass the limit between check and increment.
        if self.n_in_flight.load(Ordering::Acquire) >= self.settings.max_in_flight {
            self.stats(number).not_sent(intended);
            return;
        }
        self.n_in_flight.fetch_add(1, Ordering::AcqRel);
        runtime.spawn(async move {
            self.call(number, intended, assumes).await;
            self.n_in_flight.fetch_sub(1, Ordering::AcqRel);
        });
    }

    /// Sends one call, retries it if refused, and records the outcome.
    async fn call(&self, number: u64, intended: Instant, assumes: bool) {
        let settings = &self.settings;
        let call = settings.work.next(assumes);
        // The remainder is below the number of connections.
        let caller = &settings.callers[(number % settings.callers.len() as u64) as usize];
        let sent = Instant::now();
        let (mut last_sent, mut n_retries) = (sent, 0);
        let response = loop {
            let Call { path, message, .. } = call.clone();
            let response = caller.call(path, message, settings.timeout).await;
            let retry_after = response.as_ref().err().and_then(retry_after);
            if let Some(delay) = retry_after {
                self.stats(number).retry_after(delay);
            }
            let is_in_time =
                |delay: &Duration| Instant::now() + *delay < intended + settings.timeout;
            match retry_after.filter(|delay| settings.retry && is_in_time(delay)) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => break response,
            }
            (last_sent, n_retries) = (Instant::now(), n_retries + 1);
        };
        let times = Times { intended, sent, last_sent, answered: Instant::now() };
        let status = response.as_ref().err();
        let code = status.map_or(Code::Ok, Status::code);
        if let Some(sequence) = call.assumes {
            settings.assumed.record(&settings.work, sequence, &response);
        }
        let mut stats = self.stats(number);
        stats.n_retries += n_retries;
        stats.answered(times, code, status.map_or("", Status::message));
    }

    /// The statistics that call `number` records into. A poisoned lock is taken all the same: a panic leaves counts
    /// valid.
    fn stats(&self, number: u64) -> MutexGuard<'_, CallStats> {
        // The remainder is below the length.
        let stats = &self.stats[(number % N_STATS as u64) as usize];
        stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The retry delay that a refusal for load names.
fn retry_after(status: &Status) -> Option<Duration> {
    if status.code() != Code::ResourceExhausted {
        return None;
    }
    status.get_details_retry_info()?.retry_delay
}

impl OfferedLoad {
    /// Waits until the last call has been sent.
    pub async fn all_sent(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        drop(self.shared.all_sent.subscribe().wait_for(Option::is_some).await);
    }

    /// Stops sending calls.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Number of calls in flight.
    pub fn n_in_flight(&self) -> usize {
        self.shared.n_in_flight.load(Ordering::Acquire)
    }

    /// Time from the first call to the sending of the last one, or until now while calls are being sent.
    pub fn elapsed(&self) -> Duration {
        let end = self.shared.all_sent.borrow().unwrap_or_else(Instant::now);
        end - self.shared.start
    }

    /// Waits for the calls in flight. Returns the statistics of all calls, and the number of calls that are still
    /// unanswered.
    pub async fn settle(self) -> (CallStats, u64) {
        self.all_sent().await;
        let deadline = Instant::now() + self.shared.settings.timeout + GRACE;
        while self.n_in_flight() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut total = CallStats::new(self.shared.origin);
        for number in 0..N_STATS as u64 {
            total.add(&self.shared.stats(number));
        }
        (total, self.n_in_flight() as u64)
    }
}

/// Dropping a load stops sending it.
impl Drop for OfferedLoad {
    fn drop(&mut self) {
        self.stop();
    }
}
