//! `PlaceStream`: requests are decoded while earlier ones are decided, and answered in order.
//!
//! Two tasks and two short queues: a slow reader stops the decisions, and those stop the reading.

use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use berth_proto::berth_v1::{PlaceResult, PlaceStreamRequest, PlaceStreamResponse};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use crate::grpc::status::of_transport;
use crate::service::placement::batch::{self, Terms};
use crate::service::placement::check_assume;
use crate::service::{CallContext, CallError, Cancel, CancelOnDrop, State, Target, convert};
use crate::shutdown;
use crate::telemetry::PlaceMethod;
use crate::telemetry::trace::followed;

/// Number of decoded requests, and of responses, that may wait.
const QUEUE: usize = 32;
/// Number of pods up to which a request is decided where it arrives: a hop to another thread would cost more.
const MAX_INLINE_PODS: u64 = 16;

type ResponseItem = Result<PlaceStreamResponse, Status>;

/// A response on its way, and its cluster; `None` if it names an unknown session.
struct Decided {
    answer: PlaceStreamResponse,
    target: Option<Target>,
}

impl Decided {
    /// Undoes the response's assumes, since the client will not receive it.
    fn give_back(&self) {
        if let Some(target) = &self.target {
            batch::give_back(target, &self.answer.results);
        }
    }
}

/// Undoes the assumes, on another thread if that takes long: a client that goes away must not hold up other
/// connections.
fn give_back(state: &Arc<State>, unwanted: Vec<Decided>) {
    let n_pods: usize = unwanted.iter().map(|decided| decided.answer.results.len()).sum();
    let runtime = Handle::try_current().ok().filter(|_| n_pods as u64 > MAX_INLINE_PODS);
    let Some(runtime) = runtime else {
        return unwanted.iter().for_each(Decided::give_back);
    };
    let state = state.clone();
    runtime.spawn_blocking(move || {
        let _busy = state.long_write();
        unwanted.iter().for_each(Decided::give_back);
    });
}

/// Starts serving the stream, until it ends, or until the server drains and all requests that were read are answered.
pub(super) fn serve(
    state: Arc<State>,
    call: CallContext,
    requests: Streaming<PlaceStreamRequest>,
) -> Responses {
    let (decoded, queue) = mpsc::channel(QUEUE);
    let (answers, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(read(state.clone(), requests, decoded));
    let stream = Responses { state: state.clone(), receiver };
    tokio::spawn(followed(async move {
        if let Err(status) = decide(&state, &call, queue, &answers).await {
            // A closed channel means that the client is gone, so the error has no receiver.
            drop(answers.send(Err(status)).await);
        }
    }));
    stream
}

/// The responses on their way to the client. Those that it does not receive are given back.
pub(crate) struct Responses {
    state: Arc<State>,
    receiver: mpsc::Receiver<Result<Decided, Status>>,
}

impl Stream for Responses {
    type Item = ResponseItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ResponseItem>> {
        self.receiver
            .poll_recv(cx)
            .map(|decided| decided.map(|decided| decided.map(|decided| decided.answer)))
    }
}

impl Drop for Responses {
    fn drop(&mut self) {
        self.receiver.close();
        let unread = iter::from_fn(|| self.receiver.try_recv().ok());
        give_back(&self.state, unread.flatten().collect());
    }
}

/// Reads until the end, an error, or the drain; the reason of an early end is sent as the last item.
async fn read(
    state: Arc<State>,
    mut requests: Streaming<PlaceStreamRequest>,
    decoded: mpsc::Sender<Result<PlaceStreamRequest, Status>>,
) {
    let draining = shutdown::requested(state.draining.clone());
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
    call: &CallContext,
    mut queue: mpsc::Receiver<Result<PlaceStreamRequest, Status>>,
    answers: &mpsc::Sender<Result<Decided, Status>>,
) -> Result<(), Status> {
    let CallContext { access, deadline } = call;
    let deadline = *deadline;
    let caller = CancelOnDrop::new(deadline);
    while let Some(request) = queue.recv().await {
        let request = request?;
        if deadline.has_passed() {
            return Err(CallError::DeadlineExceeded.into());
        }
        let target = state.target(access, &request.session_id).and_then(|target| {
            check_assume(access, &target, request.mode)?;
            Ok(target)
        });
        // A session's own calls may hold its lock for as long as they like.
        let is_quick = target
            .as_ref()
            .is_ok_and(|target| !target.is_hypothetical() && state.decides_in_microseconds(target));
        let decided = if is_quick && batch::n_pods(&request.entries) <= MAX_INLINE_PODS {
            answer(state, target, request, &caller.token())
        } else {
            let shared = state.clone();
            let job = move |cancel: &Cancel| {
                let decided = answer(&shared, target, request, cancel);
                if cancel.is_cancelled() {
                    decided.give_back();
                    return Err(CallError::DeadlineExceeded);
                }
                Ok(decided)
            };
            tokio::select! {
                decided = state.pool.run_patiently(deadline, job) => decided??,
                // Dropping the job's future tells the job that its caller is gone, and the job undoes what it did.
                () = answers.closed() => return Ok(()),
            }
        };
        // Reserve a slot in the queue first: without one the client is gone, and its assumes are given back.
        match answers.reserve().await {
            Ok(place) => place.send(Ok(decided)),
            Err(_) => {
                give_back(state, vec![decided]);
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Decides one request. Never an error: if the request is refused as a whole, each of its entries is refused, and the
/// stream continues.
fn answer(
    state: &State,
    target: Result<Target, CallError>,
    request: PlaceStreamRequest,
    cancel: &Cancel,
) -> Decided {
    let PlaceStreamRequest { sequence, entries, mode, tie_break, session_id: _ } = request;
    let n_entries = entries.len();
    let decide = |target: &Target| {
        let mode = convert::mode(mode)?;
        let tie_break = convert::tie_break(tie_break.as_ref(), state.tie_break)?;
        let terms = Terms { mode, tie_break, method: PlaceMethod::PlaceStream };
        batch::decide(state, target, entries, terms, cancel)
    };
    let results: Vec<PlaceResult> = match target.as_ref().map_err(CallError::clone).and_then(decide)
    {
        Ok(results) => results.into_iter().map(convert::place_result).collect(),
        Err(error) => {
            state.metrics.count_refused(n_entries);
            (0..n_entries).map(|_| convert::place_result(Err(error.clone()))).collect()
        }
    };
    Decided { answer: PlaceStreamResponse { sequence, results }, target: target.ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Deadline, fixture};
    use berth_proto::berth_v1::PlaceMode;
    use std::time::Duration;

    /// A client goes away during another write: the thread that drops its responses serves other connections.
    #[tokio::test]
    async fn unread_responses_are_given_back_on_another_thread() {
        let state = fixture::state(&[("n0", "64")]);
        let replicas = u32::try_from(MAX_INLINE_PODS + 1).unwrap();
        let request = PlaceStreamRequest {
            entries: vec![fixture::entry(&fixture::pod("web", "1", 0), replicas)],
            mode: PlaceMode::Assume as i32,
            ..PlaceStreamRequest::default()
        };
        let caller = CancelOnDrop::new(Deadline(None));
        let decided = answer(&state, state.target_of(""), request, &caller.token());
        let n_assumed = || state.cluster.snapshot().n_assumed();
        assert_eq!(n_assumed(), replicas as usize);
        let (answers, receiver) = mpsc::channel(1);
        answers.send(Ok(decided)).await.unwrap();
        let holder = fixture::hold(&state, state.target_of("").unwrap());
        drop(Responses { state: state.clone(), receiver });
        assert!(holder.let_go(), "it has waited for the lock");
        let given_back = async {
            while n_assumed() > 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), given_back).await.unwrap();
    }
}
