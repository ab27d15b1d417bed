//! [`Caller`]: placements over one connection, by one call a pod, one call a batch, or a stream of pipelined batches.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use berth_proto::berth_v1::{
    PlaceBatchResponse, PlaceMode, PlaceResponse, PlaceResult, TieBreak, place_result,
};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

use crate::backoff::Gate;
use crate::codec::Encoded;
use crate::pipeline::Pipeline;
use crate::{Channel, Client, root_cause};

/// The RPC that places the pods.
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

/// Options that all placement requests of a run share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlaceOptions {
    /// Dry run, or assume the pods on their nodes.
    pub mode: PlaceMode,
    /// Rule for nodes with equal totals; the server's own rule when absent.
    pub tie_break: Option<TieBreak>,
    /// Timeout of one request.
    pub timeout: Duration,
    /// Admit the pods first: they were written by hand, not stored by an API server.
    pub admit: bool,
}

impl Default for PlaceOptions {
    fn default() -> Self {
        Self {
            mode: PlaceMode::DryRun,
            tie_break: None,
            timeout: Duration::from_secs(30),
            admit: false,
        }
    }
}

/// Sends encoded requests over one connection in one [`Mode`]. Cheap to clone: clones share connection and stream.
#[derive(Debug, Clone)]
pub struct Caller {
    route: Route,
    timeout: Duration,
}

#[derive(Debug, Clone)]
enum Route {
    Unary(Grpc<Channel>, Arc<Gate>),
    Batch(Grpc<Channel>, Arc<Gate>),
    Stream(Pipeline),
}

impl Caller {
    /// A caller over connection `connection` of `client`. For [`Mode::Stream`] the stream is opened immediately.
    pub fn new(client: &Client, connection: usize, mode: Mode, timeout: Duration) -> Self {
        let service = client.grpc(connection);
        let route = match mode {
            Mode::Unary => Route::Unary(service, Arc::new(Gate::new())),
            Mode::Batch => Route::Batch(service, Arc::new(Gate::new())),
            Mode::Stream => Route::Stream(Pipeline::open(service)),
        };
        Self { route, timeout }
    }

    /// Returns immediately, or after a connection failure once the backoff (50 ms to 1 s) has passed.
    pub async fn ready(&self) {
        match &self.route {
            Route::Unary(_, gate) | Route::Batch(_, gate) => gate.pass().await,
            Route::Stream(pipeline) => pipeline.ready().await,
        }
    }

    /// Sends an encoded request and returns one result a pod, replicas expanded.
    ///
    /// `request` is the message of this caller's mode: `PlaceRequest`, `PlaceBatchRequest` or `PlaceStreamRequest`.
    /// `sequence` is unique among the requests in flight; a `PlaceStreamRequest` carries the same number.
    /// Errors: the status of the call. A refused pod is an error in the unary mode and a result in the others.
    pub async fn place(&self, sequence: u64, request: Vec<u8>) -> Result<Vec<PlaceResult>, Status> {
        match tokio::time::timeout(self.timeout, self.answer(sequence, request)).await {
            Ok(answer) => answer,
            Err(_) => {
                if let Route::Stream(pipeline) = &self.route {
                    pipeline.forget(sequence);
                }
                Err(Status::deadline_exceeded(format!("no response within {:?}", self.timeout)))
            }
        }
    }

    async fn answer(&self, sequence: u64, request: Vec<u8>) -> Result<Vec<PlaceResult>, Status> {
        match &self.route {
            Route::Unary(service, gate) => {
                let path = PathAndQuery::from_static("/berth.v1.PlacementService/Place");
                let answer: PlaceResponse = call(service, gate, path, request).await?;
                let decision =
                    answer.decision.ok_or_else(|| Status::data_loss("`decision` is missing"))?;
                Ok(vec![PlaceResult { result: Some(place_result::Result::Decision(decision)) }])
            }
            Route::Batch(service, gate) => {
                let path = PathAndQuery::from_static("/berth.v1.PlacementService/PlaceBatch");
                let answer: PlaceBatchResponse = call(service, gate, path, request).await?;
                Ok(answer.results)
            }
            Route::Stream(pipeline) => pipeline.send(sequence, request).await,
        }
    }
}

/// Makes one unary call; a connection failure closes the gate.
async fn call<T: prost::Message + Default + 'static>(
    service: &Grpc<Channel>,
    gate: &Gate,
    path: PathAndQuery,
    request: Vec<u8>,
) -> Result<T, Status> {
    let mut service = service.clone();
    let answer = match service.ready().await {
        Ok(()) => service.unary(Request::new(request), path, Encoded::<T>::new()).await,
        Err(error) => Err(Status::unavailable(format!("cannot connect: {error}"))),
    };
    let answer = answer.map(tonic::Response::into_inner).map_err(with_lost_connection_unavailable);
    match &answer {
        Err(status) if status.code() == Code::Unavailable => gate.failed(),
        Ok(_) | Err(_) => gate.answered(),
    }
    answer
}

/// Maps a status that the transport made up to UNAVAILABLE with the innermost cause, and returns a server's status
/// unchanged.
///
/// The two differ in their source: a transport's status (often UNKNOWN) carries the error it was made from, a server's
/// carries none.
pub(crate) fn with_lost_connection_unavailable(status: Status) -> Status {
    match status.source() {
        None => status,
        Some(source) => Status::unavailable(format!("connection lost: {}", root_cause(source))),
    }
}
