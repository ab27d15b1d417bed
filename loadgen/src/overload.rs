//! More load than a server can take: the highest rate that it takes is found, half of it is offered, then many times of it,
//! then half again; what was accepted, what was refused and how fast, and whether the server's books agree at the end.
//!
//! Load is offered in an open loop: a call is due at a time of its own, whatever became of those before it, and what it waits for
//! counts from there. Calls under way are bounded; one that is due beyond that is counted as not sent.

pub mod account;
pub mod book;
pub mod offer;
pub mod search;
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
use account::{Account, NAMESPACE};
use book::Book;
use offer::{Offer, Offered};
use search::Highest;
use watch::Watch;
use work::{Work, WorkKind};

/// How a server is overloaded.
#[derive(Debug, Clone, PartialEq)]
pub struct OverloadSpec {
    /// What a call asks.
    pub kind: WorkKind,
    /// Pods a call, as replicas of one; 1 for kinds that ask about one pod.
    pub pods_per_call: u32,
    /// Kinds of the pods that are asked about.
    pub mix: Mix,
    /// Chooses the pods.
    pub seed: u64,
    /// The highest rate in calls a second, where it is known; else it is searched.
    pub rate: Option<f64>,
    /// Callers of the closed loop that the search begins with.
    pub n_callers: usize,
    /// How long each rate is tried in the search.
    pub trial: Duration,
    /// How long half of the highest rate is offered, before and after.
    pub half_duration: Duration,
    /// How long many times the highest rate is offered.
    pub duration: Duration,
    /// How many times the highest rate.
    pub factor: f64,
    /// After which a call gives up; the server is told.
    pub timeout: Duration,
    /// Calls under way at most, refused ones that wait for their next attempt included.
    pub max_in_flight: usize,
    /// Tries a refused call again when the server says.
    pub retry: bool,
    /// About how many pods the calls of the overload that are accepted assume; 0 assumes none, and every call is a dry run.
    pub n_assumed_pods: u32,
    /// The server's process, whose memory is watched.
    pub pid: Option<u32>,
    /// The server's HTTP address, `http://HOST:PORT`, whose metrics are read.
    pub http: Option<String>,
    /// What the HTTP port is shown.
    pub credentials: Credentials,
}

/// Why a server was not overloaded.
#[derive(Debug, thiserror::Error)]
pub enum OverloadError {
    /// A flag that contradicts another or is out of range.
    #[error("`--{field}`: {reason}")]
    Spec {
        /// The flag.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The server could not be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The closed loop could not be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// What was to be watched cannot be.
    #[error(transparent)]
    Watch(#[from] watch::WatchError),
    /// Not one call was carried out.
    #[error("the server carried out none of the calls that were to find its highest rate: {0}")]
    NothingDone(String),
    /// Stopped by a signal before the overload had begun.
    #[error("stopped before the server was overloaded")]
    Stopped,
}

impl OverloadSpec {
    /// Refuses what contradicts itself, naming the flag.
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

/// The three loads, in order.
const PHASES: [&str; 3] = ["half", "overload", "half again"];

/// Overloads the server behind `client`. `say` hears what is done now; `stop` ends the loads early.
pub async fn run(
    client: &Client,
    spec: &OverloadSpec,
    say: impl Fn(&str),
    stop: impl Future<Output = ()>,
) -> Result<OverloadReport, OverloadError> {
    spec.check()?;
    let mut stop = pin!(stop);
    let watch = Watch::open(spec.pid, spec.http.as_deref(), &spec.credentials).await?;
    let account = Arc::new(Account::open(client).await?);
    let callers = (0..client.n_connections()).map(|n| RawCaller::new(client, n)).collect();
    let work = Arc::new(Work::new(client, spec).await?);
    let offer = Offer { callers, work, account: account.clone(), spec: spec.clone() };
    let highest = tokio::select! {
        highest = search::highest(&offer, &say) => highest?,
        () = stop.as_mut() => return Err(OverloadError::Stopped),
    };
    let rates = [highest.rate / 2.0, highest.rate * spec.factor, highest.rate / 2.0];
    let durations = [spec.half_duration, spec.duration, spec.half_duration];
    let assume_every = assume_every(spec, &highest);
    let calls_before = watch.calls().await;
    let origin = Instant::now();
    let watching = watch.begin(origin);
    let mut offered: Vec<(Offered, f64, Duration)> = Vec::new();
    for (n, name) in PHASES.into_iter().enumerate() {
        say(&format!("{name}: {:.0} calls/s for {:.0} s", rates[n], durations[n].as_secs_f64()));
        let begun = origin.elapsed();
        let phase = offer.begin(rates[n], durations[n], origin, assume_every);
        // The next load begins at once: what is still under way of this one is its own.
        let stopped = tokio::select! {
            () = phase.all_sent() => false,
            () = stop.as_mut() => { phase.stop(); true }
        };
        offered.push((phase, rates[n], begun));
        if stopped {
            break;
        }
    }
    say("waiting for the calls under way");
    let mut phases = Vec::new();
    let mut seconds = Vec::new();
    for (name, (phase, rate, begun)) in PHASES.into_iter().zip(offered) {
        let took = phase.elapsed();
        let (book, n_unanswered): (Book, u64) = phase.settle().await;
        seconds = book::add_seconds(seconds, book.seconds());
        phases.push(PhaseReport::new(name, rate, begun, took, &book, n_unanswered));
    }
    let memory = watching.end().await;
    let server_calls = watch.calls_since(calls_before, offer.work.path()).await;
    say(&format!("comparing with the server's pods in `{NAMESPACE}`"));
    let account = account.close(client).await?;
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
            account,
        )
    })
}

/// One call in so many assumes, so that the accepted ones of the overload assume about as many pods as asked.
fn assume_every(spec: &OverloadSpec, highest: &Highest) -> Option<u64> {
    if spec.n_assumed_pods == 0 {
        return None;
    }
    let n_accepted = highest.rate * spec.duration.as_secs_f64();
    let n_pods = n_accepted * f64::from(spec.pods_per_call);
    // The cast saturates.
    Some(((n_pods / f64::from(spec.n_assumed_pods)).ceil() as u64).max(1))
}
