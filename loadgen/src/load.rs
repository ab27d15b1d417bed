//! A load run: places pods through a server in an open or closed loop, and measures.

pub mod request;
pub mod tally;
pub mod timeline;
mod wire;

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::code::Effect;
use berth_client::{Caller, Client, ClientError, Mode, OnProgress, PlaceOptions};
use berth_proto::berth_v1::PlaceMode;
use berth_proto::core_v1::Pod;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::arrival::{Schedule, Tickets, pace};
use crate::report::LoadReport;
use request::Requests;
use tally::{Tally, Times};

/// Time from the creation of an open loop to its first request, in which all callers are started; a caller that starts
/// later would send it late.
const LEAD: Duration = Duration::from_millis(20);

/// Settings of a load run.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSpec {
    /// The RPC that places the pods.
    pub mode: Mode,
    /// Dry run or assume, ties, timeout.
    pub options: PlaceOptions,
    /// Time when requests are due.
    pub arrival: Arrival,
    /// Requests in flight at the same time, over all connections.
    pub concurrency: usize,
    /// Pods a request; 1 in the unary mode.
    pub batch_size: usize,
    /// Replicas a batch entry; each entry places this number of replicas of one pod. Divides `batch_size`.
    pub replicas: u32,
    /// Time when the run ends.
    pub limit: Limit,
    /// Pods placed before measuring starts.
    pub n_warmup_pods: u64,
    /// Deletes the assumed pods at the end.
    pub release: bool,
}

impl Default for LoadSpec {
    /// 10,000 pods one by one in a closed loop of 16 callers, as a dry run.
    fn default() -> Self {
        Self {
            mode: Mode::Unary,
            options: PlaceOptions::default(),
            arrival: Arrival::Closed,
            concurrency: 16,
            batch_size: 1,
            replicas: 1,
            limit: Limit::Pods(10_000),
            n_warmup_pods: 0,
            release: false,
        }
    }
}

/// The kind of loop, which decides when the next request is due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// A closed loop: a request is due when a caller is free.
    Closed,
    /// An open loop: requests are due at a fixed rate, independent of the server.
    Open {
        /// Pods, not requests, a second.
        pods_per_second: f64,
    },
}

/// Time when a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// After this many pods.
    Pods(u64),
    /// After this time, when the requests in flight are answered.
    Duration(Duration),
}

/// Reason why a load run failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A field of the specification that contradicts another or is out of range.
    #[error("`--{field}`: {reason}")]
    Spec {
        /// Name of the field's flag.
        field: &'static str,
        /// Reason why the value is refused.
        reason: String,
    },
    /// A call of the client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The operating system provides no timer for an open loop.
    #[error("cannot create a timer: {0}")]
    Timer(#[from] io::Error),
    /// A task of the load generator panicked.
    #[error("a caller crashed: {0}")]
    Caller(#[from] tokio::task::JoinError),
}

impl LoadSpec {
    /// Refuses values that contradict each other or are out of range, naming the field.
    pub fn check(&self) -> Result<(), LoadError> {
        let refuse =
            |field, reason: &str| Err(LoadError::Spec { field, reason: reason.to_owned() });
        if !(1..=100_000).contains(&self.concurrency) {
            return refuse("concurrency", "must be between 1 and 100,000");
        }
        if !(1..=100_000).contains(&self.batch_size) {
            return refuse("batch-size", "must be between 1 and 100,000");
        }
        if self.mode == Mode::Unary && (self.batch_size != 1 || self.replicas != 1) {
            return refuse("batch-size", "must be 1 in the unary mode, and `--replicas` too");
        }
        if self.replicas == 0 || !self.batch_size.is_multiple_of(self.replicas as usize) {
            return refuse("replicas", "must be at least 1 and divide `--batch-size`");
        }
        if matches!(self.limit, Limit::Pods(0)) {
            return refuse("pods", "must be at least 1");
        }
        if let Arrival::Open { pods_per_second } = self.arrival
            && Schedule::new(pods_per_second).is_none()
        {
            return Err(rate_error());
        }
        Ok(())
    }

    /// Tickets for `limit`. A closed loop starts now; an open loop starts after [`LEAD`] and is paced in the
    /// background.
    fn tickets(&self, limit: Limit) -> Result<Arc<Tickets>, LoadError> {
        let start = match self.arrival {
            Arrival::Closed => Instant::now(),
            Arrival::Open { .. } => Instant::now() + LEAD,
        };
        let pods_per_request = self.batch_size as u64;
        let n_requests_of = |n_pods: u64| n_pods.div_ceil(pods_per_request);
        Ok(match self.arrival {
            Arrival::Closed => Arc::new(match limit {
                Limit::Pods(n_pods) => Tickets::closed(start, n_requests_of(n_pods), None),
                Limit::Duration(duration) => {
                    Tickets::closed(start, u64::MAX, start.checked_add(duration))
                }
            }),
            Arrival::Open { pods_per_second } => {
                let schedule = Schedule::new(pods_per_second / pods_per_request as f64)
                    .ok_or_else(rate_error)?;
                let n_requests = match limit {
                    Limit::Pods(n_pods) => n_requests_of(n_pods),
                    Limit::Duration(duration) => schedule.n_within(duration),
                };
                let tickets = Arc::new(Tickets::open(start, n_requests, schedule));
                pace(&tickets)?;
                tickets
            }
        })
    }
}

fn rate_error() -> LoadError {
    LoadError::Spec {
        field: "rate",
        reason: "must be a positive number of pods a second, at most 1,000,000,000".to_owned(),
    }
}

/// Places `pods`, over and over when the run is longer, and reports.
///
/// A repeated pod gets a new name, so that it can be assumed again. Failed requests are counted by code and do not end
/// the run; a failed connection is retried with a backoff of at most a second. `on_progress` receives the number of
/// pods of each request when it ends.
pub async fn run(
    client: &Client,
    pods: Arc<[Pod]>,
    spec: &LoadSpec,
    on_progress: OnProgress,
) -> Result<LoadReport, LoadError> {
    run_until(client, pods, spec, on_progress, std::future::pending()).await
}

/// Does what [`run`] does, but ends early when `stop` resolves: sends no further request, waits for those in flight,
/// reports the measurements so far, and releases the assumed pods if the settings say so.
pub async fn run_until(
    client: &Client,
    pods: Arc<[Pod]>,
    spec: &LoadSpec,
    on_progress: OnProgress,
    stop: impl Future<Output = ()>,
) -> Result<LoadReport, LoadError> {
    spec.check()?;
    if pods.is_empty() {
        return Err(LoadError::Spec {
            field: "pods",
            reason: "there are no pods to place".to_owned(),
        });
    }
    let requests = Arc::new(Requests::new(&pods, spec));
    drop(pods);
    let callers = (0..client.n_connections())
        .map(|connection| Caller::new(client, connection, spec.mode, spec.options.timeout))
        .collect();
    let generator = Generator { callers, requests, spec, on_progress };
    let mut stop = Stop { signal: pin!(stop), is_stopped: false };
    let mut warmup = None;
    if spec.n_warmup_pods > 0 {
        warmup = Some(generator.drive(Limit::Pods(spec.n_warmup_pods), &mut stop).await?);
    }
    let mut tally = if stop.is_stopped {
        Tally::new(Instant::now(), generator.keeps_assumed())
    } else {
        generator.drive(spec.limit, &mut stop).await?
    };
    let elapsed = tally.timeline.start().elapsed();
    let release = if spec.release {
        release(client, warmup.as_mut().into_iter().chain([&mut tally])).await
    } else {
        Release::default()
    };
    let report = LoadReport::new(spec, client.n_connections(), elapsed, tally, release);
    Ok(LoadReport { interrupted: stop.is_stopped, ..report })
}

/// Result of deleting the pods that a run assumed.
#[derive(Debug, Default)]
pub(crate) struct Release {
    /// Assumed pods that were deleted.
    pub(crate) n_released: usize,
    /// Reason why a deletion failed.
    pub(crate) failure: Option<String>,
}

/// Deletes the assumed pods and the pods of requests with an unknown effect.
async fn release<'a>(client: &Client, tallies: impl Iterator<Item = &'a mut Tally>) -> Release {
    let mut release = Release::default();
    for tally in tallies {
        let mut keys = std::mem::take(&mut tally.assumed);
        let n_assumed = keys.len();
        keys.append(&mut tally.unanswered);
        match client.delete_pods(&keys).await {
            Ok(()) => release.n_released += n_assumed,
            Err(error) => release.failure = Some(error.to_string()),
        }
    }
    release
}

/// Signal that ends a run early; not polled again once it has come.
struct Stop<'a, F> {
    signal: Pin<&'a mut F>,
    is_stopped: bool,
}

/// State that both phases of a run, warm-up and measurement, share.
struct Generator<'a> {
    callers: Vec<Caller>,
    requests: Arc<Requests>,
    spec: &'a LoadSpec,
    on_progress: OnProgress,
}

impl Generator<'_> {
    fn keeps_assumed(&self) -> bool {
        self.spec.release && self.spec.options.mode == PlaceMode::Assume
    }

    /// Runs one phase: `spec.concurrency` tasks share the tickets until none are left.
    async fn drive(
        &self,
        limit: Limit,
        stop: &mut Stop<'_, impl Future<Output = ()>>,
    ) -> Result<Tally, LoadError> {
        let tickets = self.spec.tickets(limit)?;
        let start = tickets.start();
        let tallies = Tallies::new(self.spec.concurrency, start, self.keeps_assumed());
        let mut tasks = JoinSet::new();
        for task in 0..self.spec.concurrency {
            let caller = self.callers[task % self.callers.len()].clone();
            let requests = (Arc::clone(&tickets), Arc::clone(&self.requests));
            let tallies = (Arc::clone(&tallies), task);
            tasks.spawn(send(caller, requests, tallies, Arc::clone(&self.on_progress)));
        }
        loop {
            tokio::select! {
                joined = tasks.join_next() => match joined {
                    Some(ended) => ended?,
                    None => return Ok(tallies.total(&Tally::new(start, self.keeps_assumed()))),
                },
                () = stop.signal.as_mut(), if !stop.is_stopped => {
                    stop.is_stopped = true;
                    tickets.stop();
                }
            }
        }
    }
}

/// Tallies that callers share. One tally a caller would mean hundreds of histograms that grow when the load begins, and
/// the time for that would count as latency of the server.
struct Tallies(Box<[Mutex<Tally>]>);

impl Tallies {
    /// Limit of the tallies: enough that callers rarely wait for the same lock.
    const MAX_TALLIES: usize = 16;

    fn new(n_callers: usize, start: Instant, keeps_assumed: bool) -> Arc<Tallies> {
        let tally = |_| Mutex::new(Tally::new(start, keeps_assumed));
        Arc::new(Tallies((0..n_callers.clamp(1, Tallies::MAX_TALLIES)).map(tally).collect()))
    }

    fn of_caller(&self, number: usize) -> MutexGuard<'_, Tally> {
        // A poisoned lock is taken all the same: a panic leaves counts valid.
        self.0[number % self.0.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the sum of all tallies; `empty` is an empty tally.
    fn total(&self, empty: &Tally) -> Tally {
        let mut total = empty.clone();
        for number in 0..self.0.len() {
            total.merge(std::mem::replace(&mut self.of_caller(number), empty.clone()));
        }
        total
    }
}

/// One caller: sends one request after another until no tickets are left.
async fn send(
    caller: Caller,
    (tickets, requests): (Arc<Tickets>, Arc<Requests>),
    (tallies, number): (Arc<Tallies>, usize),
    on_progress: OnProgress,
) {
    loop {
        // Waits before taking a ticket, so that in a closed loop the wait for a connection is not part of a request's
        // time.
        tokio::select! {
            biased;
            () = caller.ready() => {}
            () = tickets.over() => return,
        }
        let Some(ticket) = tickets.take().await else { return };
        let request = requests.next();
        let (sequence, n_pods) = (request.sequence, request.n_pods);
        let sent = Instant::now();
        let response = caller.place(sequence, request.message).await;
        let times = Times { intended: ticket.intended, sent, answered: Instant::now() };
        let mut tally = tallies.of_caller(number);
        if tally.record(times, n_pods, response) == Effect::Unknown {
            tally.keep_unanswered(|| requests.keys(sequence));
        }
        drop(tally);
        on_progress(n_pods);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_open_loop_begins_when_its_callers_wait() {
        let open =
            LoadSpec { arrival: Arrival::Open { pods_per_second: 1_000.0 }, ..LoadSpec::default() };
        let now = Instant::now();
        let [open, closed] =
            [open, LoadSpec::default()].map(|spec| spec.tickets(Limit::Pods(1)).unwrap());
        assert_eq!((open.start(), closed.start()), (now + LEAD, now));
        let ticket = tokio::time::timeout(LEAD / 2, open.take()).await;
        assert!(ticket.is_err(), "{ticket:?} is early");
    }
}
