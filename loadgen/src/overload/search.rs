//! The highest rate that a server takes: what a closed loop gets through at most, then, in an open loop, the highest rate at which
//! nearly every call is carried out and no queue grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use berth_client::raw::RawCaller;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Code;

use super::OverloadError;
use super::offer::Offer;
use super::work::Work;

/// Share of the offered calls that have to be carried out.
const ACCEPTED: f64 = 0.99;
/// Seconds' worth of calls that may be under way when the last one has been sent: more is a queue that grows.
const UNDER_WAY_SECONDS: f64 = 0.1;
/// So many may always be under way.
const FEW: f64 = 8.0;
/// Rates tried: each halves the range, which is at last 2 % of the closed loop's rate.
const N_TRIALS: usize = 5;
/// The range searched, as shares of the closed loop's rate.
const RANGE: (f64, f64) = (0.45, 1.1);

/// What the search found.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Highest {
    /// Calls a second that a closed loop got through; absent where the rate was given.
    pub closed_loop_rate: Option<f64>,
    /// The highest rate, in calls a second.
    pub rate: f64,
    /// The rates that were tried, in order.
    pub trials: Vec<Trial>,
}

/// One rate that was tried.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Trial {
    /// Calls a second.
    pub rate: f64,
    /// Share of the calls that were carried out.
    pub accepted: f64,
    /// Calls under way when the last one had been sent.
    pub n_in_flight: usize,
    /// Whether the server took it.
    pub passed: bool,
}

/// Finds the highest rate, unless it was given.
pub async fn highest(offer: &Offer, say: &impl Fn(&str)) -> Result<Highest, OverloadError> {
    if let Some(rate) = offer.spec.rate {
        return Ok(Highest { closed_loop_rate: None, rate, trials: Vec::new() });
    }
    let trial = offer.spec.trial;
    say(&format!(
        "closed loop of {} callers for {:.0} s",
        offer.spec.n_callers,
        trial.as_secs_f64()
    ));
    let closed_loop_rate = closed_loop(offer, trial).await?;
    let (mut low, mut high) = (RANGE.0 * closed_loop_rate, RANGE.1 * closed_loop_rate);
    let mut trials = Vec::new();
    for _ in 0..N_TRIALS {
        let rate = f64::midpoint(low, high);
        say(&format!("trying {rate:.0} calls/s for {:.0} s", trial.as_secs_f64()));
        let mut tried = try_rate(offer, rate, trial).await;
        if !tried.passed {
            // What else the machine did for a moment is not the server's limit.
            tried = try_rate(offer, rate, trial).await;
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

async fn try_rate(offer: &Offer, rate: f64, trial: Duration) -> Trial {
    let offered = offer.begin(rate, trial, Instant::now(), None);
    offered.all_sent().await;
    let n_in_flight = offered.n_in_flight();
    let (book, _) = offered.settle().await;
    let n_offered = book.n_offered.max(1) as f64;
    let accepted = book.count(Code::Ok) as f64 / n_offered;
    let few = (UNDER_WAY_SECONDS * rate).max(FEW);
    let passed = accepted >= ACCEPTED && n_in_flight as f64 <= few;
    Trial { rate, accepted, n_in_flight, passed }
}

/// Calls a second that `n_callers` get through, one call after another each.
async fn closed_loop(offer: &Offer, trial: Duration) -> Result<f64, OverloadError> {
    let start = Instant::now();
    let n_accepted = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for number in 0..offer.spec.n_callers {
        let caller = offer.callers[number % offer.callers.len()].clone();
        let (work, n_accepted) = (offer.work.clone(), n_accepted.clone());
        callers.spawn(call_until(start + trial, offer.spec.timeout, caller, work, n_accepted));
    }
    let mut failure = String::new();
    while let Some(joined) = callers.join_next().await {
        if let Ok(Some(failed)) = joined {
            failure = failed;
        }
    }
    match n_accepted.load(Ordering::Relaxed) {
        0 => Err(OverloadError::NothingDone(failure)),
        // The slowest caller's last call is in both.
        n => Ok(n as f64 / start.elapsed().as_secs_f64()),
    }
}

/// The message of the last call that failed.
async fn call_until(
    end: Instant,
    timeout: Duration,
    caller: RawCaller,
    work: Arc<Work>,
    n_accepted: Arc<AtomicU64>,
) -> Option<String> {
    /// A server that refuses is not asked again at once.
    const REST: Duration = Duration::from_millis(5);
    let mut failure = None;
    while Instant::now() < end {
        let call = work.next(false);
        match caller.call(call.path, call.message, timeout).await {
            Ok(_) => {
                n_accepted.fetch_add(1, Ordering::Relaxed);
            }
            Err(status) => {
                failure = Some(format!("{:?}: {}", status.code(), status.message()));
                tokio::time::sleep(REST).await;
            }
        }
    }
    failure
}
