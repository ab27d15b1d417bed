//! Search for the highest rate that a server takes. A closed loop gives an upper estimate; a binary search in an open
//! loop then finds the highest rate at which nearly every call is accepted and no queue grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use berth_client::raw::RawCaller;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Code;

use super::OverloadError;
use super::open_loop::OpenLoop;
use super::work::Work;

/// Share of the offered calls that must be accepted.
const ACCEPTED: f64 = 0.99;
/// Limit of the calls in flight when the last call has been sent, in seconds of the rate: more is a growing queue.
const IN_FLIGHT_SECONDS: f64 = 0.1;
/// Calls that may always be in flight.
const MIN_IN_FLIGHT: f64 = 8.0;
/// Number of trials. Each halves the range; the last range is 2 % of the closed loop's rate.
const N_TRIALS: usize = 5;
/// The searched range, as shares of the closed loop's rate.
const RANGE: (f64, f64) = (0.45, 1.1);

/// Result of the search.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Highest {
    /// Calls a second of the closed loop; absent if the rate was given.
    pub closed_loop_rate: Option<f64>,
    /// The highest rate, in calls a second.
    pub rate: f64,
    /// The trials, in order.
    pub trials: Vec<Trial>,
}

/// One trial of the search.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Trial {
    /// Calls a second.
    pub rate: f64,
    /// Share of the calls that the server accepted.
    pub accepted: f64,
    /// Calls in flight when the last one had been sent.
    pub n_in_flight: usize,
    /// Whether the server took the rate.
    pub passed: bool,
}

/// The rate of the specification, or the highest rate that the search finds.
pub async fn highest(
    open_loop: &OpenLoop,
    notify: &impl Fn(&str),
) -> Result<Highest, OverloadError> {
    if let Some(rate) = open_loop.spec.rate {
        return Ok(Highest { closed_loop_rate: None, rate, trials: Vec::new() });
    }
    let trial = open_loop.spec.trial;
    notify(&format!(
        "closed loop of {} callers for {:.0} s",
        open_loop.spec.n_callers,
        trial.as_secs_f64()
    ));
    let closed_loop_rate = closed_loop(open_loop, trial).await?;
    let (mut low, mut high) = (RANGE.0 * closed_loop_rate, RANGE.1 * closed_loop_rate);
    let mut trials = Vec::new();
    for _ in 0..N_TRIALS {
        let rate = f64::midpoint(low, high);
        notify(&format!("trying {rate:.0} calls/s for {:.0} s", trial.as_secs_f64()));
        let mut tried = try_rate(open_loop, rate, trial).await;
        if !tried.passed {
            // The failure may be due to a moment of other load on the machine: try once more.
            tried = try_rate(open_loop, rate, trial).await;
        }
        if tried.passed {
            low = rate;
        } else {
            high = rate;
        }
        trials.push(tried);
    }
    Ok(Highest { closed_loop_rate: Some(closed_loop_rate), rate: low, trials })
}

async fn try_rate(open_loop: &OpenLoop, rate: f64, trial: Duration) -> Trial {
    let offered = open_loop.begin(rate, trial, Instant::now(), None);
    offered.all_sent().await;
    let n_in_flight = offered.n_in_flight();
    let (stats, _) = offered.settle().await;
    let n_offered = stats.n_offered.max(1) as f64;
    let accepted = stats.count(Code::Ok) as f64 / n_offered;
    let max_in_flight = (IN_FLIGHT_SECONDS * rate).max(MIN_IN_FLIGHT);
    let passed = accepted >= ACCEPTED && n_in_flight as f64 <= max_in_flight;
    Trial { rate, accepted, n_in_flight, passed }
}

/// Calls a second that the callers complete when each sends one call after another.
async fn closed_loop(open_loop: &OpenLoop, trial: Duration) -> Result<f64, OverloadError> {
    let start = Instant::now();
    let n_accepted = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for number in 0..open_loop.spec.n_callers {
        let caller = open_loop.callers[number % open_loop.callers.len()].clone();
        let (work, n_accepted) = (open_loop.work.clone(), n_accepted.clone());
        callers.spawn(call_until(start + trial, open_loop.spec.timeout, caller, work, n_accepted));
    }
    let mut failure = String::new();
    while let Some(joined) = callers.join_next().await {
        if let Ok(Some(failed)) = joined {
            failure = failed;
        }
    }
    match n_accepted.load(Ordering::Relaxed) {
        0 => Err(OverloadError::NothingDone(failure)),
        // Both the number and the time include the last call of the slowest caller.
        n => Ok(n as f64 / start.elapsed().as_secs_f64()),
    }
}

/// Sends one call after another until `end`; returns the message of the last call that failed.
async fn call_until(
    end: Instant,
    timeout: Duration,
    caller: RawCaller,
    work: Arc<Work>,
    n_accepted: Arc<AtomicU64>,
) -> Option<String> {
    /// Pause after a failed call.
    const PAUSE: Duration = Duration::from_millis(5);
    let mut failure = None;
    while Instant::now() < end {
        let call = work.next(false);
        match caller.call(call.path, call.message, timeout).await {
            Ok(_) => {
                n_accepted.fetch_add(1, Ordering::Relaxed);
            }
            Err(status) => {
                failure = Some(format!("{:?}: {}", status.code(), status.message()));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    failure
}
