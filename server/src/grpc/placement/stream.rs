//! `PlaceStream`: requests are decoded while earlier ones are decided, and answered in order.
//!
//! Two tasks and two short queues: a slow reader stops the decisions, and those stop the reading.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use berth_proto::berth_v1::{PlaceResult, PlaceStreamRequest, PlaceStreamResponse};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::batch::{self, Terms};
use crate::grpc::convert;
use crate::grpc::deadline::{Cancel, CancelOnDrop, Deadline};
use crate::grpc::status::{CallError, of_transport};
use crate::grpc::{State, until_draining};
use crate::telemetry::PlaceMethod;

/// Decoded requests, and answers, that may wait.
const QUEUE: usize = 32;
/// Requests of up to this many pods are decided where they arrive: a hop to another thread would cost more.
const MAX_INLINE_PODS: u64 = 16;

type Answer = Result<PlaceStreamResponse, Status>;

/// Starts serving the stream; ends with it, or when the server drains and all that was read is answered.
pub(super) fn serve(
    state: Arc<State>,
    requests: Streaming<PlaceStreamRequest>,
    deadline: Deadline,
) -> Answers {
    let (decoded, queue) = mpsc::channel(QUEUE);
    let (answers, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(read(state.clone(), requests, decoded));
    let stream = Answers { receiver, state: state.clone() };
    tokio::spawn(async move {
        if let Err(status) = decide(&state, queue, deadline, &answers).await {
            // A closed channel means that the client has gone: nobody is left to be told.
            drop(answers.send(Err(status)).await);
        }
    });
    stream
}

/// The answers on their way to the client. Those that it went away without are given back: nobody would learn of them.
pub(crate) struct Answers {
    receiver: mpsc::Receiver<Answer>,
    state: Arc<State>,
}

impl Stream for Answers {
    type Item = Answer;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        self.receiver.poll_recv(cx)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.receiver.close();
        while let Ok(answer) = self.receiver.try_recv() {
            if let Ok(answer) = answer {
                batch::give_back(&self.state, &answer.results);
            }
        }
    }
}

/// Reads until the end, an error, or the drain; the reason of an early end is passed on as the last item.
async fn read(
    state: Arc<State>,
    mut requests: Streaming<PlaceStreamRequest>,
    decoded: mpsc::Sender<Result<PlaceStreamRequest, Status>>,
) {
    let draining = until_draining(state.draining.clone());
    tokio::pin!(draining);
    loop {
        let request = tokio::select! {
            () = &mut draining => Err(CallError::Draining.into()),
            () = decoded.closed() => return,
            request = requests.message() => match request {
                Ok(None) => return,
                Ok(Some(request)) => Ok(request),
                Err(status) => Err(of_transport(status, state.limits.max_message_bytes)),
            },
        };
        let is_last = request.is_err();
        if decoded.send(request).await.is_err() || is_last {
            return;
        }
    }
}

async fn decide(
    state: &Arc<State>,
    mut queue: mpsc::Receiver<Result<PlaceStreamRequest, Status>>,
    deadline: Deadline,
    answers: &mpsc::Sender<Answer>,
) -> Result<(), Status> {
    let caller = CancelOnDrop::new(deadline);
    while let Some(request) = queue.recv().await {
        let request = request?;
        if deadline.has_passed() {
            return Err(CallError::DeadlineExceeded.into());
        }
        let decided = if batch::n_pods(&request.entries) <= MAX_INLINE_PODS
            && state.decides_in_microseconds()
        {
            answer(state, request, &caller.token())
        } else {
            let shared = state.clone();
            let job = move |cancel: &Cancel| {
                let decided = answer(&shared, request, cancel);
                if cancel.is_cancelled() {
                    batch::give_back(&shared, &decided.results);
                    return Err(CallError::DeadlineExceeded);
                }
                Ok(decided)
            };
            tokio::select! {
                decided = state.pool.run(deadline, job) => decided??,
                // Dropping the job's future tells the job that its caller is gone, and the job undoes what it did.
                () = answers.closed() => return Ok(()),
            }
        };
        // A place in the queue first: without one the client has gone, and what was assumed for it is given back.
        match answers.reserve().await {
            Ok(place) => place.send(Ok(decided)),
            Err(_) => {
                batch::give_back(state, &decided.results);
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Never an error: a request that is refused as a whole is refused entry by entry, and the stream goes on.
fn answer(state: &State, request: PlaceStreamRequest, cancel: &Cancel) -> PlaceStreamResponse {
    let PlaceStreamRequest { sequence, entries, mode, tie_break } = request;
    let n_entries = entries.len();
    let terms = || -> Result<Terms, CallError> {
        Ok(Terms {
            mode: convert::mode(mode)?,
            tie_break: convert::tie_break(tie_break.as_ref(), state.tie_break)?,
            method: PlaceMethod::PlaceStream,
        })
    };
    let results: Vec<PlaceResult> =
        match terms().and_then(|terms| batch::decide(state, entries, terms, cancel)) {
            Ok(results) => results.into_iter().map(convert::place_result).collect(),
            Err(error) => {
                state.metrics.count_refused(n_entries);
                (0..n_entries).map(|_| convert::place_result(Err(error.clone()))).collect()
            }
        };
    PlaceStreamResponse { sequence, results }
}
