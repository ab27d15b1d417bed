//! A run: pods placed through a server under a chosen arrival, measured.

pub mod request;
pub mod tally;
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

/// From the making of an open loop to its first request: callers that are still being started when it is due would be late with it.
const LEAD: Duration = Duration::from_millis(20);

/// How load is put on a server.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSpec {
    /// Which method carries the pods.
    pub mode: Mode,
    /// Dry run or assume, ties, timeout.
    pub options: PlaceOptions,
    /// When requests are due.
    pub arrival: Arrival,
    /// Requests in flight at the same time, over all connections.
    pub concurrency: usize,
    /// Pods a request; 1 in the unary mode.
    pub batch_size: usize,
    /// Pods a batch entry: more than 1 sends that many replicas of one pod as one entry. Divides `batch_size`.
    pub replicas: u32,
    /// When the run ends.
    pub limit: Limit,
    /// Pods placed before measuring starts.
    pub n_warmup_pods: u64,
    /// Deletes at the end what was assumed.
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

/// When the next request is due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// When a caller is free.
    Closed,
    /// At a fixed rate, whatever the server does.
    Open {
        /// Pods, not requests, a second.
        pods_per_second: f64,
    },
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// After this many pods.
    Pods(u64),
    /// When no more requests are started after this time.
    Duration(Duration),
}

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A field of the specification that contradicts another or is out of range.
    #[error("`--{field}`: {reason}")]
    Spec {
        /// The field, as the command line names its flag.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The server could not be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The operating system gives no timer, by which an open loop is paced.
    #[error("no timer: {0}")]
    Timer(#[from] io::Error),
    /// A task of the load generator itself broke.
    #[error("a caller stopped: {0}")]
    Caller(#[from] tokio::task::JoinError),
}

impl LoadSpec {
    /// Refuses what contradicts itself, naming the field.
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

    /// Tickets for `limit`, starting now, or in an open loop, which is paced from here, after [`LEAD`].
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
/// A pod that comes around again has another name, so that assuming never collides. Requests that fail are counted by
/// code and do not end the run; a connection that fails is tried again at growing intervals of at most a second.
/// `on_progress` hears of pods as their requests end.
pub async fn run(
    client: &Client,
    pods: Arc<[Pod]>,
    spec: &LoadSpec,
    on_progress: OnProgress,
) -> Result<LoadReport, LoadError> {
    run_until(client, pods, spec, on_progress, std::future::pending()).await
}

/// As [`run`], ended early once `stop` is: no further request is sent, those in flight are awaited, and what was
/// measured so far is reported (and released, when asked to).
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
            reason: "there is nothing to place".to_owned(),
        });
    }
    let requests = Arc::new(Requests::new(&pods, spec));
    drop(pods);
    let callers = (0..client.n_connections())
        .map(|connection| Caller::new(client, connection, spec.mode, spec.options.timeout))
        .collect();
    let generator = Generator { callers, requests, spec, on_progress };
    let mut stop = Stop { signal: pin!(stop), has_come: false };
    let mut warmup = None;
    if spec.n_warmup_pods > 0 {
        warmup = Some(generator.drive(Limit::Pods(spec.n_warmup_pods), &mut stop).await?);
    }
    let mut tally = if stop.has_come {
        Tally::new(Instant::now(), generator.keeps_assumed())
    } else {
        generator.drive(spec.limit, &mut stop).await?
    };
    let elapsed = tally.start.elapsed();
    let release = if spec.release {
        release(client, warmup.as_mut().into_iter().chain([&mut tally])).await
    } else {
        Release::default()
    };
    let report = LoadReport::new(spec, client.n_connections(), elapsed, tally, release);
    Ok(LoadReport { interrupted: stop.has_come, ..report })
}

/// What became of the pods that a run assumed.
#[derive(Debug, Default)]
pub(crate) struct Release {
    /// Pods assumed and deleted again.
    pub(crate) n_released: usize,
    /// Why the deletion failed.
    pub(crate) failure: Option<String>,
}

/// Deletes what was assumed, and what may have been: pods of requests without an answer.
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

/// The wish to end a run early; polled no more once it has come.
struct Stop<'a, F> {
    signal: Pin<&'a mut F>,
    has_come: bool,
}

/// What both phases of a run, warm-up and measurement, share.
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

    /// One phase: `spec.concurrency` tasks share the tickets until they are used up.
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
                () = stop.signal.as_mut(), if !stop.has_come => {
                    stop.has_come = true;
                    tickets.stop();
                }
            }
        }
    }
}

/// Tallies that callers share. With one a caller hundreds of histograms would grow just as the load begins, and the time of that
/// be taken for the server's.
struct Tallies(Box<[Mutex<Tally>]>);

impl Tallies {
    /// More are not needed for callers to hardly ever meet at one.
    const MOST: usize = 16;

    fn new(n_callers: usize, start: Instant, keeps_assumed: bool) -> Arc<Tallies> {
        let tally = |_| Mutex::new(Tally::new(start, keeps_assumed));
        Arc::new(Tallies((0..n_callers.clamp(1, Tallies::MOST)).map(tally).collect()))
    }

    fn of_caller(&self, number: usize) -> MutexGuard<'_, Tally> {
        // Numbers only: a caller that panicked has left none out.
        self.0[number % self.0.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, added to an empty one; they are empty then.
    fn total(&self, empty: &Tally) -> Tally {
        let mut total = empty.clone();
        for number in 0..self.0.len() {
            total.merge(std::mem::replace(&mut self.of_caller(number), empty.clone()));
        }
        total
    }
}

/// One caller: a request after another for as long as there are tickets.
async fn send(
    caller: Caller,
    (tickets, requests): (Arc<Tickets>, Arc<Requests>),
    (tallies, number): (Arc<Tallies>, usize),
    on_progress: OnProgress,
) {
    loop {
        // Before the ticket: a closed loop does not wait for a connection on the clock of a request.
        tokio::select! {
            biased;
            () = caller.ready() => {}
            () = tickets.over() => return,
        }
        let Some(ticket) = tickets.take().await else { return };
        let request = requests.next();
        let (sequence, n_pods) = (request.sequence, request.n_pods);
        let sent = Instant::now();
        let answer = caller.place(sequence, request.message).await;
        let times = Times { intended: ticket.intended, sent, answered: Instant::now() };
        let mut tally = tallies.of_caller(number);
        if tally.record(times, n_pods, answer) == Effect::Unknown {
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
