//! Overload: finds the highest rate that a server takes, then sends half of it, several times it, and half of it again.
//! The report counts accepted and refused calls with their latencies, and compares the pods that callers were granted
//! with those of the server.
//!
//! Load is sent in an open loop: each call is due at a scheduled time, independent of earlier calls, and its latency
//! counts from that time. The number of calls in flight is limited; a call that is due beyond the limit is counted as
//! not sent.

pub mod assumed;
pub mod open_loop;
pub mod search;
pub mod stats;
pub mod watch;
pub mod work;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use berth_client::raw::RawCaller;
use berth_client::{Client, ClientError, Credentials};
use berth_synthetic::workload::Mix;
use tokio::time::Instant;

use crate::load::LoadError;
use crate::report::overload::{OverloadReport, PhaseReport};
use assumed::{AssumedPods, NAMESPACE};
use open_loop::{OfferedLoad, OpenLoop};
use search::Highest;
use stats::CallStats;
use watch::Watch;
use work::{Work, WorkKind};

/// Settings of an overload.
#[derive(Debug, Clone, PartialEq)]
pub struct OverloadSpec {
    /// The RPC of the calls.
    pub kind: WorkKind,
    /// Pods a call, as replicas of one pod; 1 for kinds that place or explain one pod.
    pub pods_per_call: u32,
    /// Kinds of the pods in the calls.
    pub mix: Mix,
    /// Seed by which the pods are drawn.
    pub seed: u64,
    /// The highest rate in calls a second; searched for when absent.
    pub rate: Option<f64>,
    /// Callers of the closed loop with which the search begins.
    pub n_callers: usize,
    /// Duration of each trial of the search.
    pub trial: Duration,
    /// Duration of each of the two phases at half of the highest rate.
    pub half_duration: Duration,
    /// Duration of the overload phase.
    pub duration: Duration,
    /// Rate of the overload phase, as a multiple of the highest rate.
    pub factor: f64,
    /// Timeout of a call, sent to the server as its deadline.
    pub timeout: Duration,
    /// Limit of calls in flight; refused calls that wait for a retry count.
    pub max_in_flight: usize,
    /// Retries a refused call after the delay that the refusal names.
    pub retry: bool,
    /// Approximate number of pods that accepted calls of the overload phase assume; 0 makes every call a dry run.
    pub n_assumed_pods: u32,
    /// Id of the server's process, whose memory is sampled.
    pub pid: Option<u32>,
    /// HTTP address of the server, `http://HOST:PORT`, whose metrics are read.
    pub http: Option<String>,
    /// Credentials for the HTTP port.
    pub credentials: Credentials,
}

/// Reason why an overload could not be run.
#[derive(Debug, thiserror::Error)]
pub enum OverloadError {
    /// A flag that contradicts another or is out of range.
    #[error("`--{field}`: {reason}")]
    Spec {
        /// Name of the flag.
        field: &'static str,
        /// Reason why the value is refused.
        reason: String,
    },
    /// A call of the client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The closed loop could not be run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The process or the metrics cannot be read.
    #[error(transparent)]
    Watch(#[from] watch::WatchError),
    /// The server accepted none of the calls of the closed loop.
    #[error("cannot find the highest rate: the server accepted no call: {0}")]
    NothingDone(String),
    /// A signal ended the search for the highest rate.
    #[error("stopped before the server was overloaded")]
    Stopped,
}

impl OverloadSpec {
    /// Refuses values that contradict each other or are out of range, naming the flag.
    pub fn check(&self) -> Result<(), OverloadError> {
        let refuse =
            |field, reason: &str| Err(OverloadError::Spec { field, reason: reason.to_owned() });
        if self.kind != WorkKind::Batch && self.pods_per_call != 1 {
            return refuse("pods", "more than 1 needs `--kind batch`");
        }
        if !(1..=100_000).contains(&self.pods_per_call) {
            return refuse("pods", "must be between 1 and 100,000");
        }
        if self.rate.is_some_and(|rate| !(0.1..=1e6).contains(&rate)) {
            return refuse("rate", "must be between 0.1 and 1,000,000 calls a second");
        }
        if !(1.0..=1000.0).contains(&self.factor) {
            return refuse("factor", "must be between 1 and 1,000");
        }
        if !(1..=1_000).contains(&self.n_callers) {
            return refuse("callers", "must be between 1 and 1,000");
        }
        if !(1..=1_000_000).contains(&self.max_in_flight) {
            return refuse("in-flight", "must be between 1 and 1,000,000");
        }
        Ok(())
    }
}

/// Names of the three phases, in order.
const PHASES: [&str; 3] = ["half", "overload", "half again"];

/// Overloads the server behind `client`. `notify` receives a line at the start of each step; `stop` ends the phases
/// early.
pub async fn run(
    client: &Client,
    spec: &OverloadSpec,
    notify: impl Fn(&str),
    stop: impl Future<Output = ()>,
) -> Result<OverloadReport, OverloadError> {
    spec.check()?;
    let mut stop = pin!(stop);
    let watch = Watch::open(spec.pid, spec.http.as_deref(), &spec.credentials).await?;
    let assumed = Arc::new(AssumedPods::open(client).await?);
    let callers = (0..client.n_connections()).map(|n| RawCaller::new(client, n)).collect();
    let work = Arc::new(Work::new(client, spec).await?);
    let open_loop = OpenLoop { callers, work, assumed: assumed.clone(), spec: spec.clone() };
    let highest = tokio::select! {
        highest = search::highest(&open_loop, &notify) => highest?,
        () = stop.as_mut() => return Err(OverloadError::Stopped),
    };
    let rates = [highest.rate / 2.0, highest.rate * spec.factor, highest.rate / 2.0];
    let durations = [spec.half_duration, spec.duration, spec.half_duration];
    let assume_every = assume_every(spec, &highest);
    let calls_before = watch.calls().await;
    let origin = Instant::now();
    let watching = watch.begin(origin);
    let mut offered: Vec<(OfferedLoad, f64, Duration)> = Vec::new();
    for (n, name) in PHASES.into_iter().enumerate() {
        notify(&format!("{name}: {:.0} calls/s for {:.0} s", rates[n], durations[n].as_secs_f64()));
        let begun = origin.elapsed();
        let phase = open_loop.begin(rates[n], durations[n], origin, assume_every);
        // The next phase begins immediately; calls of this phase that are still in flight are counted in this phase.
        let stopped = tokio::select! {
            () = phase.all_sent() => false,
            () = stop.as_mut() => { phase.stop(); true }
        };
        offered.push((phase, rates[n], begun));
        if stopped {
            break;
        }
    }
    notify("waiting for the calls in flight");
    let mut phases = Vec::new();
    let mut seconds = Vec::new();
    for (name, (phase, rate, begun)) in PHASES.into_iter().zip(offered) {
        let took = phase.elapsed();
        let (stats, n_unanswered): (CallStats, u64) = phase.settle().await;
        seconds = stats::add_seconds(seconds, stats.seconds());
        phases.push(PhaseReport::new(name, rate, begun, took, &stats, n_unanswered));
    }
    let memory = watching.end().await;
    let server_calls = watch.calls_since(calls_before, open_loop.work.path()).await;
    notify(&format!("comparing with the server's pods in `{NAMESPACE}`"));
    let balance = assumed.close(client).await?;
    Ok(OverloadReport {
        interrupted: phases.len() < PHASES.len(),
        ..OverloadReport::new(
            spec,
            client,
            highest,
            phases,
            &seconds,
            memory,
            server_calls,
            balance,
        )
    })
}

/// The interval of assuming calls among all calls at which accepted calls of the overload assume about
/// `n_assumed_pods`.
fn assume_every(spec: &OverloadSpec, highest: &Highest) -> Option<u64> {
    if spec.n_assumed_pods == 0 {
        return None;
    }
    let n_accepted = highest.rate * spec.duration.as_secs_f64();
    let n_pods = n_accepted * f64::from(spec.pods_per_call);
    // The cast saturates.
    Some(((n_pods / f64::from(spec.n_assumed_pods)).ceil() as u64).max(1))
}
