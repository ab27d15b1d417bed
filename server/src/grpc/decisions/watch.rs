//! `Watch`: decisions as they are made. A slow reader is not waited for: what it misses is counted.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::Decision;
use berth_proto::MicroTime;
use berth_proto::berth_v1::{WatchDecisionsRequest, WatchDecisionsResponse};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::interval;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::clock;
use crate::grpc::follow;
use crate::service::watchers::Watcher;
use crate::service::{CallContext, CallError, State, convert};
use crate::shutdown;

/// Number of responses that may wait for the reader.
const QUEUE: usize = 64;
/// Time between two looks at the deadline.
const LOOK: Duration = Duration::from_secs(1);

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
    let (answers, receiver) = mpsc::channel(QUEUE);
    follow::spawn(async move {
        if let Err(error) = answer(&state, &call, &request, watcher, &answers).await {
            // A closed channel means that the client is gone, so the error has no receiver.
            drop(answers.send(Err(error.into())).await);
        }
    });
    Ok(ReceiverStream::new(receiver))
}

async fn answer(
    state: &Arc<State>,
    call: &CallContext,
    request: &WatchDecisionsRequest,
    mut watcher: Watcher,
    answers: &Sender<ResponseItem>,
) -> Result<(), CallError> {
    let draining = shutdown::requested(state.draining.clone());
    tokio::pin!(draining);
    let mut looks = interval(LOOK);
    let is_wanted = |decision: &Decision| {
        (request.namespace.is_empty() || *decision.pod.namespace == *request.namespace)
            && decision.pod.name.contains(request.pod_name.as_str())
    };
    loop {
        tokio::select! {
            () = &mut draining => return Err(CallError::Draining),
            () = answers.closed() => return Ok(()),
            _ = looks.tick() => if call.deadline.has_passed() {
                return Err(CallError::DeadlineExceeded);
            },
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
