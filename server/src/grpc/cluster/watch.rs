//! `Watch`: decisions as they are made, and pending pods by cause as they change. Nothing here is waited for: decisions
//! that a slow reader misses are counted, and of pending pods only the newest list is sent.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::Decision;
use berth_proto::berth_v1::{
    ListPendingRequest, ListPendingResponse, WatchRequest, WatchResponse, watch_response::Event,
};
use tokio::sync::mpsc::Sender;
use tokio::time::{MissedTickBehavior, interval};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::grpc::follow;
use crate::service::cluster::pending;
use crate::service::watchers::Watcher;
use crate::service::{CallContext, CallError, State, convert};

/// Number of responses that may wait for the reader.
const QUEUE: usize = 16;
/// Time between two looks at the pending pods.
const LOOK: Duration = Duration::from_secs(1);

type ResponseItem = Result<WatchResponse, Status>;

/// Starts serving the stream, until its reader goes, its deadline passes or the server drains.
///
/// # Errors
/// A request for nothing, too many watching streams.
pub(super) fn serve(
    state: Arc<State>,
    call: CallContext,
    request: WatchRequest,
) -> Result<ReceiverStream<ResponseItem>, CallError> {
    if !request.decisions && !request.pending {
        return Err(CallError::field("decisions", "must be set, or `pending`"));
    }
    // Also a stream that asks for pending pods alone counts towards the limit.
    let watcher = state.watchers.join()?;
    let answering =
        |answers| async move { answer(&state, &call, &request, watcher, &answers).await };
    Ok(ReceiverStream::new(follow::responses(QUEUE, answering)))
}

async fn answer(
    state: &Arc<State>,
    call: &CallContext,
    request: &WatchRequest,
    mut watcher: Watcher,
    answers: &Sender<ResponseItem>,
) -> Result<(), CallError> {
    let end = follow::end_of_watching(state, call, answers);
    tokio::pin!(end);
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut seen) = (None, None);
    loop {
        tokio::select! {
            end = &mut end => return end,
            _ = looks.tick(), if request.pending => {
                let generation = state.cluster.snapshot().generation();
                if seen == Some(generation) || answers.capacity() == 0 {
                    continue;
                }
                seen = Some(generation);
                let list = pending_now(state, request).await?;
                if last.as_ref().is_some_and(|last| is_same(last, &list)) {
                    continue;
                }
                last = Some(list.clone());
                let event = Some(Event::Pending(list));
                drop(answers.try_send(Ok(WatchResponse { event, n_missed: 0 })));
            }
            told = watcher.next(|decision| is_wanted(request, decision)), if request.decisions => {
                let Some(decision) = told else { return Ok(()) };
                let event = Some(Event::Decision(convert::decision((*decision).clone())));
                match answers.try_send(Ok(WatchResponse { event, n_missed: watcher.n_missed() })) {
                    Ok(()) => watcher.forget_missed(),
                    Err(_) => watcher.miss(),
                }
            },
        }
    }
}

fn is_wanted(request: &WatchRequest, decision: &Decision) -> bool {
    request.namespace.is_empty() || *decision.pod.namespace == *request.namespace
}

/// Whether both lists say the same about the pods.
fn is_same(one: &ListPendingResponse, other: &ListPendingResponse) -> bool {
    let other = ListPendingResponse { generation: one.generation, ..other.clone() };
    *one == other
}

async fn pending_now(
    state: &Arc<State>,
    request: &WatchRequest,
) -> Result<ListPendingResponse, CallError> {
    if state.check_decidable().is_err() {
        return Ok(ListPendingResponse::default());
    }
    let namespace = request.namespace.clone();
    let shared = state.clone();
    let list = move |cancel: &crate::service::Cancel| {
        let question = ListPendingRequest {
            namespace,
            without_remedies: true,
            ..ListPendingRequest::default()
        };
        let State { cluster, profiles, tie_break, .. } = &*shared;
        pending::list(cluster, profiles, *tie_break, &question, &|| cancel.is_cancelled())
    };
    state.simulation_pool.run_patiently(crate::service::Deadline(None), list).await?
}
