//! One way to have pods placed: a call a pod, a call a batch, or a stream of pipelined batches.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use berth_proto::berth_v1::{
    PlaceBatchResponse, PlaceMode, PlaceResponse, PlaceResult, TieBreak, place_result,
};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

use super::backoff::Gate;
use super::codec::Encoded;
use super::pipeline::Pipeline;
use super::{Channel, Client, root_cause};

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
    /// A caller over connection `connection` of `client`; a stream is opened at once.
    pub fn new(client: &Client, connection: usize, mode: Mode, timeout: Duration) -> Self {
        let service = client.grpc(connection);
        let route = match mode {
            Mode::Unary => Route::Unary(service, Arc::new(Gate::new())),
            Mode::Batch => Route::Batch(service, Arc::new(Gate::new())),
            Mode::Stream => Route::Stream(Pipeline::open(service)),
        };
        Self { route, timeout }
    }

    /// Returns at once, except after a failure of the connection: then when it may be tried again, 50 ms to 1 s later.
    pub async fn ready(&self) {
        match &self.route {
            Route::Unary(_, gate) | Route::Batch(_, gate) => gate.pass().await,
            Route::Stream(pipeline) => pipeline.ready().await,
        }
    }

    /// Has the pods of an encoded request placed and gives one result a pod, replicas expanded.
    ///
    /// `request` is the message of this caller's mode: `PlaceRequest`, `PlaceBatchRequest` or `PlaceStreamRequest`.
    /// `sequence` is unique among the unanswered requests and, in a stream, also stands in the request.
    /// Errors: the call's own failure; a refused pod is an error only in the unary mode, else a result.
    pub async fn place(&self, sequence: u64, request: Vec<u8>) -> Result<Vec<PlaceResult>, Status> {
        match tokio::time::timeout(self.timeout, self.answer(sequence, request)).await {
            Ok(answer) => answer,
            Err(_) => {
                if let Route::Stream(pipeline) = &self.route {
                    pipeline.forget(sequence);
                }
                Err(Status::deadline_exceeded(format!("no answer within {:?}", self.timeout)))
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

/// One unary call; a failure of the connection closes the gate.
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
    let answer = answer.map(tonic::Response::into_inner).map_err(of_transport);
    match &answer {
        Err(status) if status.code() == Code::Unavailable => gate.failed(),
        Ok(_) | Err(_) => gate.answered(),
    }
    answer
}

/// UNAVAILABLE for a connection that could not be made or broke, with the innermost cause; every other status as it is.
///
/// Statuses that the transport makes up carry the error they were made from and, as often as not, say UNKNOWN; those
/// of a server carry none.
pub(super) fn of_transport(status: Status) -> Status {
    match status.source() {
        None => status,
        Some(source) => Status::unavailable(format!("connection lost: {}", root_cause(source))),
    }
}
