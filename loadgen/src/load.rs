//! A run: pods placed through a server under a chosen arrival, measured.

pub mod request;
pub mod tally;

use std::sync::Arc;
use std::time::Duration;

use berth_proto::berth_v1::PlaceMode;
use berth_proto::core_v1::Pod;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::arrival::{Schedule, Tickets, pace};
use crate::client::{Caller, Client, ClientError, Mode, OnProgress, PlaceOptions};
use crate::report::LoadReport;
use request::Requests;
use tally::Tally;

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
    #[error("`{field}`: {reason}")]
    Spec {
        /// The field, as the command line names it.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The server could not be used.
    #[error(transparent)]
    Client(#[from] ClientError),
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
            return refuse("batch-size", "must be 1 in the unary mode, and `replicas` too");
        }
        if self.replicas == 0 || !self.batch_size.is_multiple_of(self.replicas as usize) {
            return refuse("replicas", "must be at least 1 and divide `batch-size`");
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

    /// Tickets for `limit`, starting now; an open loop is paced from here.
    fn tickets(&self, limit: Limit) -> Result<Arc<Tickets>, LoadError> {
        let start = Instant::now();
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
                pace(&tickets);
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
/// code and do not end the run. `on_progress` hears of pods as they are answered.
pub async fn run(
    client: &Client,
    pods: Arc<[Pod]>,
    spec: &LoadSpec,
    on_progress: OnProgress,
) -> Result<LoadReport, LoadError> {
    spec.check()?;
    if pods.is_empty() {
        return Err(LoadError::Spec {
            field: "pods",
            reason: "there is nothing to place".to_owned(),
        });
    }
    let callers: Vec<Caller> = (0..client.n_connections())
        .map(|connection| Caller::new(client, connection, spec.mode, spec.options))
        .collect();
    let requests = Arc::new(Requests::new(pods, spec));
    let mut assumed = Vec::new();
    if spec.n_warmup_pods > 0 {
        let limit = Limit::Pods(spec.n_warmup_pods);
        let warmup = drive(&callers, &requests, spec, limit, &on_progress).await?;
        assumed = warmup.assumed;
    }
    let start = Instant::now();
    let mut tally = drive(&callers, &requests, spec, spec.limit, &on_progress).await?;
    let elapsed = start.elapsed();
    assumed.append(&mut tally.assumed);
    let n_released = if spec.release { assumed.len() } else { 0 };
    if spec.release {
        client.delete_pods(&assumed).await?;
    }
    Ok(LoadReport::new(spec, client.n_connections(), elapsed, tally, n_released))
}

/// One phase: `spec.concurrency` tasks share the tickets until they are used up.
async fn drive(
    callers: &[Caller],
    requests: &Arc<Requests>,
    spec: &LoadSpec,
    limit: Limit,
    on_progress: &OnProgress,
) -> Result<Tally, LoadError> {
    let tickets = spec.tickets(limit)?;
    let keep_assumed = spec.release && spec.options.mode == PlaceMode::Assume;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..spec.concurrency {
        let caller = callers[task % callers.len()].clone();
        let (tickets, requests, on_progress) =
            (Arc::clone(&tickets), Arc::clone(requests), Arc::clone(on_progress));
        tasks.spawn(async move {
            let mut tally = Tally::new(start, keep_assumed);
            while let Some(ticket) = tickets.take().await {
                let (sequence, entries, n_pods) = requests.next();
                let sent = Instant::now();
                let answer = caller.place(sequence, entries).await;
                tally.record(ticket.intended, sent, n_pods, answer);
                on_progress(n_pods);
            }
            tally
        });
    }
    let mut total = Tally::new(start, keep_assumed);
    while let Some(tally) = tasks.join_next().await {
        total.merge(tally?);
    }
    Ok(total)
}
