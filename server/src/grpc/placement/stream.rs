//! `PlaceStream`: requests are decoded while earlier ones are decided, and answered in order.
//!
//! Two tasks and two short queues: a slow reader stops the decisions, and those stop the reading.

use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use berth_proto::berth_v1::{PlaceStreamRequest, PlaceStreamResponse};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use crate::admission::Bytes;
use crate::grpc::follow;
use crate::grpc::status::of_transport;
use crate::service::placement::batch::{self, Terms};
use crate::service::placement::check_assume;
use crate::service::placement::entries::Entry;
use crate::service::{
    AssumeTerms, CallContext, CallError, Cancel, CancelOnDrop, HeldBytes, State, Target,
    Undelivered, convert,
};
use crate::shutdown;
use crate::telemetry::PlaceMethod;

/// Number of decoded requests, and of responses, that may wait.
const QUEUE: usize = 32;
/// Number of pods up to which a request is decided where it arrives: a hop to another thread would cost more.
const MAX_INLINE_PODS: u64 = 16;

type ResponseItem = Result<PlaceStreamResponse, Status>;

/// A request and its memory.
struct Asked {
    request: PlaceStreamRequest,
    memory: Option<Bytes>,
}

/// A response on its way. Dropped there, what it has assumed is given back.
struct Decided {
    answer: PlaceStreamResponse,
    undelivered: Option<Undelivered>,
}

/// Starts serving the stream, until it ends, or until the server drains and all requests that were read are answered.
pub(super) fn serve(
    state: Arc<State>,
    call: CallContext,
    requests: Streaming<PlaceStreamRequest>,
) -> Responses {
    let (decoded, queue) = mpsc::channel(QUEUE);
    tokio::spawn(read(state.clone(), call.held.clone(), requests, decoded));
    let answering = |answers| async move { decide(&state, &call, queue, &answers).await };
    Responses { receiver: follow::responses(QUEUE, answering), next: None }
}

/// The responses on their way to the client. Those that it does not receive are given back.
pub(crate) struct Responses {
    receiver: mpsc::Receiver<Result<Decided, Status>>,
    /// The next response, while its changes are being written. Those behind it are being decided.
    next: Option<Decided>,
}

impl Stream for Responses {
    type Item = ResponseItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ResponseItem>> {
        if self.next.is_none() {
            match ready!(self.receiver.poll_recv(cx)) {
                Some(Ok(decided)) => self.next = Some(decided),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
        let changes = self.next.as_mut().and_then(|next| next.undelivered.as_mut());
        let written = match changes {
            Some(changes) => ready!(changes.poll_written(cx)),
            None => Ok(()),
        };
        let answer = |Decided { answer, undelivered }| match written {
            Ok(()) => {
                // The transport may pass on parts of it from now on, of which the client may use whole responses.
                undelivered.into_iter().for_each(Undelivered::delivered);
                answer
            }
            // Dropping `undelivered` gives the assumed pods back.
            Err(error) => refused(answer, &error),
        };
        Poll::Ready(self.next.take().map(answer).map(Ok))
    }
}

/// The response with each of its results refused.
fn refused(answer: PlaceStreamResponse, error: &CallError) -> PlaceStreamResponse {
    let refuse = |_| convert::place_result(Err(error.clone()));
    let results = answer.results.into_iter().map(refuse).collect();
    PlaceStreamResponse { results, ..answer }
}

impl Drop for Responses {
    fn drop(&mut self) {
        self.receiver.close();
        let next = self.next.take().into_iter();
        let unread = next.chain(iter::from_fn(|| self.receiver.try_recv().ok()).flatten());
        let unread = unread.filter_map(|decided| decided.undelivered);
        Undelivered::give_back_all(unread.collect());
    }
}

/// Reads until the end, an error, or the drain; the reason of an early end is sent as the last item.
async fn read(
    state: Arc<State>,
    held: HeldBytes,
    mut requests: Streaming<PlaceStreamRequest>,
    decoded: mpsc::Sender<Result<Asked, Status>>,
) {
    let draining = shutdown::requested(state.draining.clone());
    tokio::pin!(draining);
    loop {
        let request = tokio::select! {
            () = &mut draining => Err(CallError::Draining.into()),
            () = decoded.closed() => return,
            request = requests.message() => match request {
                Ok(None) => return,
                Ok(Some(request)) => Ok(Asked { request, memory: held.take() }),
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
    mut queue: mpsc::Receiver<Result<Asked, Status>>,
    answers: &mpsc::Sender<Result<Decided, Status>>,
) -> Result<(), Status> {
    let CallContext { access, deadline, .. } = call;
    let deadline = *deadline;
    let caller = CancelOnDrop::new(deadline);
    while let Some(request) = queue.recv().await {
        let Asked { mut request, memory } = request?;
        if deadline.has_passed() {
            return Err(CallError::DeadlineExceeded.into());
        }
        let target = state.target(access, &request.session_id).and_then(|target| {
            check_assume(state, access, &target, request.mode)?;
            let PlaceStreamRequest { mode, assume_ttl_ms, .. } = request;
            let terms = AssumeTerms::of(state, access, &target, mode, assume_ttl_ms)?;
            Ok((target, terms))
        });
        let entries = std::mem::take(&mut request.entries);
        let mut entries: Vec<Entry> = entries.into_iter().map(Entry::from).collect();
        // A session's own calls may hold its lock for as long as they like.
        let is_quick = target.as_ref().is_ok_and(|(target, _)| {
            !target.is_hypothetical()
                && state.decides_in_microseconds(target)
                && batch::n_pods(&entries) <= MAX_INLINE_PODS
                && are_small(&mut entries, state, &request)
        });
        let decided = if is_quick {
            answer(state, target, &request, entries, &caller.token())
        } else {
            let shared = state.clone();
            let job = move |cancel: &Cancel| {
                let decided = answer(&shared, target, &request, entries, cancel);
                // If the caller is gone, what was assumed is given back here.
                cancel.check()?;
                Ok::<_, CallError>(decided)
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
            Err(_) => return Ok(()),
        }
        drop(memory);
    }
    Ok(())
}

/// Whether deciding for each of these pods takes microseconds. What is found out about a pod stays with it; what is wrong
/// with one is told when it is compiled.
fn are_small(entries: &mut [Entry], state: &State, request: &PlaceStreamRequest) -> bool {
    let keeps_object = convert::mode(request.mode).is_ok_and(|mode| state.keeps_objects(mode));
    entries.iter_mut().all(|entry| {
        let Some(pod) = &mut entry.pod else { return true };
        // A pod that is to be admitted is decoded anyway.
        let is_read = match request.admit {
            true => pod.decode(),
            false => pod.recall(&state.cluster, keeps_object),
        };
        is_read.is_ok() && pod.is_small()
    })
}

/// Decides one request. Never an error: if the request is refused as a whole, each of its entries is refused, and the
/// stream continues.
fn answer(
    state: &Arc<State>,
    target: Result<(Target, AssumeTerms), CallError>,
    request: &PlaceStreamRequest,
    entries: Vec<Entry>,
    cancel: &Cancel,
) -> Decided {
    let PlaceStreamRequest { sequence, mode, tie_break, admit, .. } = request;
    let (sequence, mode, admit) = (*sequence, *mode, *admit);
    let n_entries = entries.len();
    let decide = |(target, assume): (Target, AssumeTerms)| {
        let mode = convert::mode(mode)?;
        let tie_break = convert::tie_break(tie_break.as_ref(), state.tie_break)?;
        let terms = Terms { mode, tie_break, method: PlaceMethod::PlaceStream, admit };
        batch::answer(state, target, entries, terms, &assume, cancel)
    };
    let ((results, admissions), undelivered) = match target.and_then(decide) {
        Ok(answered) => answered,
        Err(error) => {
            state.metrics.count_refused(n_entries);
            let refused = (0..n_entries).map(|_| convert::place_result(Err(error.clone())));
            ((refused.collect(), Vec::new()), None)
        }
    };
    let answer = PlaceStreamResponse { sequence, results, admissions };
    Decided { answer, undelivered }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Access, Deadline, fixture};
    use berth_proto::berth_v1::PlaceMode;
    use std::time::Duration;

    /// A client goes away during another write: the thread that drops its responses serves other connections.
    #[tokio::test]
    async fn unread_responses_are_given_back_on_another_thread() {
        let state = fixture::state(&[("n0", "64")]);
        let replicas = u32::try_from(MAX_INLINE_PODS + 1).unwrap();
        let entries = vec![fixture::entry(&fixture::pod("web", "1", 0), replicas).into()];
        let request =
            PlaceStreamRequest { mode: PlaceMode::Assume as i32, ..PlaceStreamRequest::default() };
        let caller = CancelOnDrop::new(Deadline(None));
        let target = state.target_of("").and_then(|target| {
            let terms = AssumeTerms::of(&state, &Access::open(), &target, request.mode, None)?;
            Ok((target, terms))
        });
        let decided = answer(&state, target, &request, entries, &caller.token());
        let n_assumed = || state.cluster.snapshot().n_assumed();
        assert_eq!(n_assumed(), replicas as usize);
        let (answers, receiver) = mpsc::channel(1);
        answers.send(Ok(decided)).await.unwrap();
        let holder = fixture::hold(&state, state.target_of("").unwrap());
        drop(Responses { receiver, next: None });
        assert!(holder.let_go(), "it has waited for the lock");
        let given_back = async {
            while n_assumed() > 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), given_back).await.unwrap();
    }
}
