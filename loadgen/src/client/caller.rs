//! One way to have pods placed: a call a pod, a call a batch, or a stream of pipelined batches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{
    BatchEntry, PlaceBatchRequest, PlaceRequest, PlaceResult, PlaceStreamRequest,
};
use berth_proto::berth_v1::{PlaceMode, TieBreak, place_result};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Channel;

use super::Client;

/// Which method carries the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// `Place`: one pod a call.
    Unary,
    /// `PlaceBatch`: many pods a call.
    Batch,
    /// `PlaceStream`: many pods a message, messages pipelined over one stream a connection.
    Stream,
}

/// What every request of a run asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlaceOptions {
    /// Whether pods take their room.
    pub mode: PlaceMode,
    /// How equal totals are broken; the server's rule when absent.
    pub tie_break: Option<TieBreak>,
    /// How long one request may take.
    pub timeout: Duration,
}

impl Default for PlaceOptions {
    fn default() -> Self {
        Self { mode: PlaceMode::DryRun, tie_break: None, timeout: Duration::from_secs(30) }
    }
}

/// Sends requests over one connection in one [`Mode`]. Cheap to clone: clones share connection and stream.
#[derive(Debug, Clone)]
pub struct Caller {
    route: Route,
    options: PlaceOptions,
}

#[derive(Debug, Clone)]
enum Route {
    Unary(PlacementServiceClient<Channel>),
    Batch(PlacementServiceClient<Channel>),
    Stream(Pipeline),
}

impl Caller {
    /// A caller over connection `connection` of `client`; a stream is opened at once.
    pub fn new(client: &Client, connection: usize, mode: Mode, options: PlaceOptions) -> Self {
        let service = client.placement(connection);
        let route = match mode {
            Mode::Unary => Route::Unary(service),
            Mode::Batch => Route::Batch(service),
            Mode::Stream => Route::Stream(Pipeline::open(service)),
        };
        Self { route, options }
    }

    /// Has the entries placed and gives one result a pod, replicas expanded.
    ///
    /// `sequence` is unique among the unanswered requests of a stream. Unary calls carry the first entry only.
    /// Errors: the call's own failure; a refused pod is an error only in the unary mode, else a result.
    pub async fn place(
        &self,
        sequence: u64,
        entries: Vec<BatchEntry>,
    ) -> Result<Vec<PlaceResult>, Status> {
        let answer = self.answer(sequence, entries);
        match tokio::time::timeout(self.options.timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                if let Route::Stream(pipeline) = &self.route {
                    pipeline.forget(sequence);
                }
                Err(Status::deadline_exceeded(format!(
                    "no answer within {:?}",
                    self.options.timeout
                )))
            }
        }
    }

    async fn answer(
        &self,
        sequence: u64,
        entries: Vec<BatchEntry>,
    ) -> Result<Vec<PlaceResult>, Status> {
        let PlaceOptions { mode, tie_break, .. } = self.options;
        let mode = mode.into();
        match &self.route {
            Route::Unary(service) => {
                let pod = entries.into_iter().next().and_then(|entry| entry.pod);
                let answer = service
                    .clone()
                    .place(PlaceRequest { pod, mode, tie_break })
                    .await?
                    .into_inner();
                let decision =
                    answer.decision.ok_or_else(|| Status::data_loss("`decision` is missing"))?;
                Ok(vec![PlaceResult { result: Some(place_result::Result::Decision(decision)) }])
            }
            Route::Batch(service) => {
                let request = PlaceBatchRequest { entries, mode, tie_break };
                Ok(service.clone().place_batch(request).await?.into_inner().results)
            }
            Route::Stream(pipeline) => {
                pipeline.send(PlaceStreamRequest { sequence, entries, mode, tie_break }).await
            }
        }
    }
}

/// A `PlaceStream` that many tasks share: each waits for the answer to its own sequence number.
#[derive(Debug, Clone)]
struct Pipeline {
    requests: mpsc::Sender<PlaceStreamRequest>,
    waiting: Arc<Mutex<Waiting>>,
}

type Answer = Result<Vec<PlaceResult>, Status>;

#[derive(Debug, Default)]
struct Waiting {
    by_sequence: BTreeMap<u64, oneshot::Sender<Answer>>,
    /// Set once the stream is gone; nothing waits from then on.
    ended: Option<Status>,
}

impl Pipeline {
    fn open(mut service: PlacementServiceClient<Channel>) -> Self {
        let (requests, receiver) = mpsc::channel(256);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let shared = Arc::clone(&waiting);
        // A server may hold its headers back until the first message, so even opening happens off the caller's path.
        tokio::spawn(async move {
            let status = match service.place_stream(ReceiverStream::new(receiver)).await {
                Ok(answers) => deliver(answers.into_inner(), &shared).await,
                Err(status) => status,
            };
            let mut waiting = lock(&shared);
            for (_, waiter) in std::mem::take(&mut waiting.by_sequence) {
                waiter.send(Err(status.clone())).ok();
            }
            waiting.ended = Some(status);
        });
        Self { requests, waiting }
    }

    async fn send(&self, request: PlaceStreamRequest) -> Answer {
        let (waiter, answer) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if let Some(status) = &waiting.ended {
                return Err(status.clone());
            }
            if waiting.by_sequence.contains_key(&request.sequence) {
                return Err(Status::internal(format!(
                    "sequence {} is in flight already",
                    request.sequence
                )));
            }
            waiting.by_sequence.insert(request.sequence, waiter);
        }
        // When the stream ends first, the waiter was told why; the failed send adds nothing.
        self.requests.send(request).await.ok();
        answer.await.unwrap_or_else(|_| Err(Status::unavailable("the stream was dropped")))
    }

    fn forget(&self, sequence: u64) {
        lock(&self.waiting).by_sequence.remove(&sequence);
    }
}

/// Hands every answer to its waiter until the stream ends; returns why it did.
async fn deliver(
    mut answers: tonic::Streaming<berth_proto::berth_v1::PlaceStreamResponse>,
    waiting: &Mutex<Waiting>,
) -> Status {
    loop {
        match answers.message().await {
            Ok(Some(answer)) => {
                // No waiter: the request timed out meanwhile.
                if let Some(waiter) = lock(waiting).by_sequence.remove(&answer.sequence) {
                    waiter.send(Ok(answer.results)).ok();
                }
            }
            Ok(None) => return Status::unavailable("the server ended the stream"),
            Err(status) => return status,
        }
    }
}

/// The map stays whole even if a thread panicked while holding it.
fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
