//! The load of the demo: all pods placed once through gRPC by several callers, counted and timed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_client::outcome::Outcomes;
use berth_client::{Caller, Client, Mode, OnProgress};
use berth_proto::berth_v1::{BatchEntry, PlaceMode, PlaceRequest, PlaceStreamRequest};
use berth_proto::core_v1::Pod;
use prost::Message as _;
use tokio::task::{JoinError, JoinSet};

use crate::clock;

/// Timeout of one call.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How the demo sends pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// One `Place` call a pod.
    Unary,
    /// `PlaceStream` messages of [`Method::batch_size`] pods, pipelined.
    Stream,
}

/// One finished run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) method: Method,
    /// From the first request to the last response.
    pub(super) elapsed: Duration,
    pub(super) outcomes: Outcomes,
    /// Time of each request from its sending to its response, ascending.
    pub(super) latencies: Vec<Duration>,
}

impl Method {
    /// Pods of one request: for streams few enough that a run has the hundreds of requests that percentiles need.
    pub(super) fn batch_size(self) -> usize {
        match self {
            Method::Unary => 1,
            Method::Stream => 100,
        }
    }

    /// Requests in flight, over all connections.
    pub(super) fn n_callers(self, n_connections: usize) -> usize {
        match self {
            Method::Unary => n_connections,
            Method::Stream => 2 * n_connections,
        }
    }

    fn mode(self) -> Mode {
        match self {
            Method::Unary => Mode::Unary,
            Method::Stream => Mode::Stream,
        }
    }

    /// The encoded request that places `pods` and assumes them on their nodes.
    fn request(self, sequence: u64, mut pods: Vec<Pod>) -> Vec<u8> {
        let mode = PlaceMode::Assume.into();
        match self {
            Method::Unary => {
                let pod = pods.pop().map(Into::into);
                PlaceRequest { pod, mode, ..PlaceRequest::default() }.encode_to_vec()
            }
            Method::Stream => {
                let entry = |pod: Pod| BatchEntry { pod: Some(pod.into()), replicas: 1 };
                let entries = pods.into_iter().map(entry).collect();
                PlaceStreamRequest { sequence, entries, mode, ..PlaceStreamRequest::default() }
                    .encode_to_vec()
            }
        }
    }
}

impl Run {
    /// Decisions a second.
    pub(super) fn decisions_per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.outcomes.n_pods as f64 / seconds } else { 0.0 }
    }

    /// The latency that `percent` % of the requests do not exceed; zero without requests.
    pub(super) fn latency(&self, percent: usize) -> Duration {
        let rank = (self.latencies.len() * percent).div_ceil(100);
        self.latencies.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// Pods that are not sent yet, with the number of the next request.
type Waiting = Mutex<(std::vec::IntoIter<Pod>, u64)>;

/// Places and assumes `pods`, each once. Failed requests are counted and not repeated.
///
/// # Errors
/// A caller that panicked.
pub(super) async fn place(
    client: &Client,
    pods: Vec<Pod>,
    method: Method,
    on_progress: OnProgress,
) -> Result<Run, JoinError> {
    let waiting: Arc<Waiting> = Arc::new(Mutex::new((pods.into_iter(), 0)));
    let callers: Vec<Caller> = (0..client.n_connections())
        .map(|connection| Caller::new(client, connection, method.mode(), TIMEOUT))
        .collect();
    let started = clock::now();
    let mut tasks = JoinSet::new();
    for caller in callers.iter().cycle().take(method.n_callers(callers.len())) {
        let (waiting, on_progress) = (Arc::clone(&waiting), Arc::clone(&on_progress));
        tasks.spawn(call(caller.clone(), method, waiting, on_progress));
    }
    let mut run =
        Run { method, elapsed: Duration::ZERO, outcomes: Outcomes::default(), latencies: vec![] };
    while let Some(ended) = tasks.join_next().await {
        let (outcomes, latencies) = ended?;
        run.outcomes.merge(outcomes);
        run.latencies.extend(latencies);
    }
    run.elapsed = clock::now() - started;
    run.latencies.sort_unstable();
    Ok(run)
}

/// One caller: sends a request after another until no pods wait.
async fn call(
    caller: Caller,
    method: Method,
    waiting: Arc<Waiting>,
    on_progress: OnProgress,
) -> (Outcomes, Vec<Duration>) {
    let (mut outcomes, mut latencies) = (Outcomes::default(), Vec::new());
    loop {
        caller.ready().await;
        let (sequence, pods) = next(&waiting, method.batch_size());
        if pods.is_empty() {
            return (outcomes, latencies);
        }
        let n_pods = pods.len() as u64;
        let request = method.request(sequence, pods);
        let sent = clock::now();
        let response = caller.place(sequence, request).await;
        latencies.push(clock::now() - sent);
        outcomes.record(n_pods, response, |_| ());
        on_progress(n_pods);
    }
}

/// The number and the pods of the next request; no pods once all are sent.
fn next(waiting: &Waiting, n_pods: usize) -> (u64, Vec<Pod>) {
    // A poisoned lock is taken all the same: a panic leaves the iterator and the number valid.
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let (pods, sequence) = &mut *waiting;
    let number = *sequence;
    *sequence += 1;
    (number, pods.take(n_pods).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_latencies_of_requests() {
        let run = |n: u64| Run {
            method: Method::Unary,
            elapsed: Duration::from_secs(2),
            outcomes: Outcomes { n_pods: n, ..Outcomes::default() },
            latencies: (1..=n).map(Duration::from_millis).collect(),
        };
        let percentiles = |n| [50, 99, 100].map(|percent| run(n).latency(percent).as_millis());
        assert_eq!(percentiles(0), [0, 0, 0]);
        assert_eq!(percentiles(1), [1, 1, 1]);
        assert_eq!(percentiles(10), [5, 10, 10]);
        assert_eq!(percentiles(1_000), [500, 990, 1_000]);
        assert!((run(10).decisions_per_second() - 5.0).abs() < 1e-9);
    }

    #[test]
    fn requests_take_each_pod_once_under_ascending_numbers() {
        let waiting = Mutex::new((vec![Pod::default(); 5].into_iter(), 0));
        let requests: Vec<(u64, usize)> =
            (0..4).map(|_| next(&waiting, 2)).map(|(number, pods)| (number, pods.len())).collect();
        assert_eq!(requests, [(0, 2), (1, 2), (2, 1), (3, 0)]);
    }
}
