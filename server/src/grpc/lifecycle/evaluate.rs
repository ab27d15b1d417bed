//! `EvaluatePods`: evaluates pods one by one, in the order in which they arrive; a slow reader stops the reading.

use std::sync::Arc;

use berth_proto::berth_v1::{EvaluatePodsRequest, EvaluatePodsResponse};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::grpc::follow;
use crate::grpc::status::of_transport;
use crate::service::lifecycle::{MAX_INLINE_BYTES, evaluate};
use crate::service::{CallError, Deadline, State};
use crate::shutdown;

/// Number of responses that may wait.
const QUEUE: usize = 256;

type ResponseItem = Result<EvaluatePodsResponse, Status>;

/// Starts serving the stream, until it ends, or until the server drains and all requests that were read are answered.
pub(super) fn serve(
    state: Arc<State>,
    requests: Streaming<EvaluatePodsRequest>,
    deadline: Deadline,
) -> ReceiverStream<ResponseItem> {
    let answering = |answers| async move { answer_all(&state, requests, deadline, &answers).await };
    ReceiverStream::new(follow::responses(QUEUE, answering))
}

async fn answer_all(
    state: &State,
    mut requests: Streaming<EvaluatePodsRequest>,
    deadline: Deadline,
    answers: &mpsc::Sender<ResponseItem>,
) -> Result<(), Status> {
    let draining = shutdown::requested(state.draining.clone());
    tokio::pin!(draining);
    loop {
        let request = tokio::select! {
            () = &mut draining => return Err(CallError::Draining.into()),
            () = answers.closed() => return Ok(()),
            request = requests.message() => match request {
                Ok(None) => return Ok(()),
                Ok(Some(request)) => request,
                Err(status) => return Err(of_transport(status, state.limits.max_message_bytes)),
            },
        };
        if deadline.has_passed() {
            return Err(CallError::DeadlineExceeded.into());
        }
        let answer = if request.encoded_len() <= MAX_INLINE_BYTES {
            evaluate(&state.cluster, request)
        } else {
            let cluster = state.cluster.clone();
            state.pool.run_patiently(deadline, move |_| evaluate(&cluster, request)).await?
        };
        if answers.send(Ok(answer)).await.is_err() {
            return Ok(());
        }
    }
}
