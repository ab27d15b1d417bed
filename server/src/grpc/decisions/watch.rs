//! `Watch`: decisions as they are made. A slow reader is not waited for: what it misses is counted.

use std::sync::Arc;

use berth_engine::Decision;
use berth_proto::MicroTime;
use berth_proto::berth_v1::{WatchDecisionsRequest, WatchDecisionsResponse};
use tokio::sync::mpsc::Sender;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::clock;
use crate::grpc::follow;
use crate::service::watchers::Watcher;
use crate::service::{CallContext, CallError, State, convert};

/// Number of responses that may wait for the reader.
const QUEUE: usize = 64;

type ResponseItem = Result<WatchDecisionsResponse, Status>;

/// Starts serving the stream, until its reader goes, its deadline passes or the server drains.
///
/// # Errors
/// Too many watching streams.
pub(super) fn serve(
    state: Arc<State>,
    call: CallContext,
    request: WatchDecisionsRequest,
) -> Result<ReceiverStream<ResponseItem>, CallError> {
    let watcher = state.watchers.join()?;
    let answering =
        |answers| async move { answer(&state, &call, &request, watcher, &answers).await };
    Ok(ReceiverStream::new(follow::responses(QUEUE, answering)))
}

async fn answer(
    state: &Arc<State>,
    call: &CallContext,
    request: &WatchDecisionsRequest,
    mut watcher: Watcher,
    answers: &Sender<ResponseItem>,
) -> Result<(), CallError> {
    let end = follow::end_of_watching(state, call, answers);
    tokio::pin!(end);
    let is_wanted = |decision: &Decision| {
        (request.namespace.is_empty() || *decision.pod.namespace == *request.namespace)
            && decision.pod.name.contains(request.pod_name.as_str())
    };
    loop {
        tokio::select! {
            end = &mut end => return end,
            told = watcher.next(is_wanted) => {
                let Some(decision) = told else { return Ok(()) };
                let response = WatchDecisionsResponse {
                    time: MicroTime::try_from_unix_microseconds(clock::unix_micros()),
                    decision: Some(convert::decision((*decision).clone())),
                    n_missed: watcher.n_missed(),
                };
                match answers.try_send(Ok(response)) {
                    Ok(()) => watcher.forget_missed(),
                    Err(_) => watcher.miss(),
                }
            },
        }
    }
}
