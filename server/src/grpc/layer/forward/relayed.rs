//! Relayed: the response of another replica on its way to the caller. What it has reserved, and the caller does not
//! receive, is released, as it would be if this replica had reserved it.
//!
//! A call that is sent on goes to its end even if its caller is gone, because only its response tells what it has
//! reserved. One with a name does not: its response can be fetched again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use berth_proto::berth_v1::decision::Outcome;
use berth_proto::berth_v1::{
    Decision, NominationChange, PlaceBatchResponse, PlaceResponse, PlaceResult,
    PlaceStreamResponse, PreemptResponse, ReleaseRequest, ReserveResponse,
    SessionServiceCommitResponse, place_result,
};
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use prost::Message;
use prost::bytes::{Buf as _, Bytes, BytesMut};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tonic::Status;
use tonic::body::Body;

use super::PREFIX_BYTES;
use crate::auth::Caller;
use crate::service::{Access, Delivery, State, Undelivered, unheard};

/// Longest time for which the rest of a response is read whose caller is gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// The method that commits a session.
const COMMIT: &str = "/berth.v1.SessionService/Commit";

/// How a response that may have reserved room is read, and how that room is released.
#[derive(Clone)]
pub(super) struct Relaying {
    reading: Reading,
    /// Where the changes are kept of the message that the transport gets next.
    delivery: Delivery,
    release: Arc<dyn Fn(Vec<ReleaseRequest>) + Send + Sync>,
    /// Whether the call commits a session.
    is_commit: bool,
}

/// How the reservations and nominations of a response are read.
type Reading = fn(&[u8]) -> Vec<ReleaseRequest>;

impl Relaying {
    /// `None` for a method whose responses tell of no reservations.
    pub(super) fn of(
        path: &str,
        delivery: &Delivery,
        state: &Arc<State>,
        caller: &Arc<Caller>,
    ) -> Option<Relaying> {
        let reading = reading(path)?;
        let (state, access) = (state.clone(), Access::of_caller(caller.clone()));
        let release = move |pods: Vec<ReleaseRequest>| unheard::release(&state, &access, pods);
        let (delivery, is_commit) = (delivery.clone(), path == COMMIT);
        Some(Relaying { reading, delivery, release: Arc::new(release), is_commit })
    }

    /// The same for a call in a session of another replica: only its commit changes the live cluster. The rest ends with
    /// the session.
    pub(super) fn in_session(self) -> Option<Relaying> {
        self.is_commit.then_some(self)
    }

    /// Makes a call go to its end; what it has reserved is released if nobody waits for it any more.
    pub(super) async fn run_to_end<E: Send + 'static>(
        self,
        calling: impl Future<Output = Result<Response<Body>, E>> + Send + 'static,
    ) -> Option<Result<Response<Body>, E>> {
        let (outcome, answered) = oneshot::channel();
        tokio::spawn(async move {
            let answer = calling.await.map(|response| response.map(|body| self.relay(body)));
            // Dropped unread, the body releases what it tells of.
            drop(outcome.send(answer));
        });
        // The task sends an outcome unless it panics.
        answered.await.ok()
    }

    fn relay(self, body: Body) -> Body {
        Body::new(Relayed { body, relaying: self, part: BytesMut::new(), is_over: false })
    }
}

fn reading(path: &str) -> Option<Reading> {
    Some(match path {
        "/berth.v1.PlacementService/Place" => |message| {
            let response = read::<PlaceResponse>(message);
            response.decision.and_then(of_decision).into_iter().collect()
        },
        "/berth.v1.PlacementService/PlaceBatch" => |message| of_batch(read(message)),
        "/berth.v1.PlacementService/PlaceStream" => {
            |message| of_results(read::<PlaceStreamResponse>(message).results)
        }
        "/berth.v1.PlacementService/Reserve" => |message| {
            let response = read::<ReserveResponse>(message);
            unheard::commit(response.assumed_pods, response.nominated_pods)
        },
        COMMIT => |message| {
            let response = read::<SessionServiceCommitResponse>(message);
            unheard::commit(response.assumed_pods, response.nominated_pods)
        },
        "/berth.v1.PreemptionService/Preempt" => {
            |message| of_preemption(read(message)).into_iter().collect()
        }
        _ => return None,
    })
}

/// A message of another replica; one that cannot be read tells of nothing.
fn read<M: Message + Default>(message: &[u8]) -> M {
    M::decode(message).unwrap_or_default()
}

/// Only what assumes comes to another replica, so the nominations are no dry run's.
fn of_batch(PlaceBatchResponse { results, gang, .. }: PlaceBatchResponse) -> Vec<ReleaseRequest> {
    let nominated = gang.into_iter().flat_map(|gang| gang.nominated);
    let pod = |at: u32| match results.get(usize::try_from(at).ok()?)?.result.clone()? {
        place_result::Result::Decision(decision) => decision.pod,
        place_result::Result::Error(_) => None,
    };
    let mut reserved: Vec<_> = nominated.filter_map(pod).map(unheard::nomination).collect();
    reserved.extend(of_results(results));
    reserved
}

fn of_results(results: Vec<PlaceResult>) -> Vec<ReleaseRequest> {
    let decision = |result: PlaceResult| match result.result {
        Some(place_result::Result::Decision(decision)) => of_decision(decision),
        _ => None,
    };
    results.into_iter().filter_map(decision).collect()
}

fn of_decision(decision: Decision) -> Option<ReleaseRequest> {
    let Some(Outcome::Placement(placement)) = decision.outcome else { return None };
    unheard::reservation(decision.pod, placement.assumption.map(|it| it.token))
}

fn of_preemption(response: PreemptResponse) -> Option<ReleaseRequest> {
    let post_filter = response.post_filter.filter(|_| response.nomination_generation.is_some())?;
    let is_nominated = post_filter.nomination == NominationChange::Set as i32;
    response.decision?.pod.filter(|_| is_nominated).map(unheard::nomination)
}

/// The body of the response.
struct Relayed {
    body: Body,
    relaying: Relaying,
    /// A message of which the end has not come.
    part: BytesMut,
    is_over: bool,
}

impl Relayed {
    /// The reservations of the messages that end with this data.
    fn reserved(&mut self, data: &[u8]) -> Vec<ReleaseRequest> {
        self.part.extend_from_slice(data);
        let mut reserved = Vec::new();
        while let Some(n_bytes) = length(&self.part).filter(|&it| it <= self.part.len()) {
            let mut message = self.part.split_to(n_bytes);
            message.advance(PREFIX_BYTES);
            reserved.extend((self.relaying.reading)(&message));
        }
        reserved
    }
}

/// Number of bytes of a message with its prefix; `None` as long as the prefix is not there.
fn length(data: &[u8]) -> Option<usize> {
    let [_, length @ ..] = data.first_chunk::<PREFIX_BYTES>()?;
    usize::try_from(u32::from_be_bytes(*length)).ok()?.checked_add(PREFIX_BYTES)
}

impl HttpBody for Relayed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    let reserved = self.reserved(data);
                    if !reserved.is_empty() {
                        let release = self.relaying.release.clone();
                        let undelivered = Undelivered::elsewhere(move || release(reserved));
                        self.relaying.delivery.hold(Some(undelivered));
                    }
                }
            }
            Some(Err(_)) | None => self.is_over = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        if self.is_end_stream() {
            return;
        }
        let (body, relaying, part) =
            (std::mem::take(&mut self.body), self.relaying.clone(), std::mem::take(&mut self.part));
        let mut rest = Rest(Relayed { body, relaying, part, is_over: true });
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { tokio::time::timeout(PATIENCE, rest.release()).await });
        }
    }
}

/// The rest of a response whose caller is gone. Its body counts as over, so that dropping it does nothing.
struct Rest(Relayed);

impl Rest {
    /// Reads all of it, and releases what it tells of.
    async fn release(&mut self) {
        let Rest(relayed) = self;
        loop {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut relayed.body).poll_frame(cx)).await;
            let Some(Ok(frame)) = frame else { return };
            if let Some(data) = frame.data_ref() {
                let reserved = relayed.reserved(data);
                if !reserved.is_empty() {
                    (relayed.relaying.release)(reserved);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use berth_proto::berth_v1::{Assumption, GangOutcome, Placement, PodKey, PostFilter};
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    /// A message of a stream that has reserved for a pod.
    fn message(token: u64) -> Vec<u8> {
        let assumption = Some(Assumption { token, ..Assumption::default() });
        let placement = Placement { assumption, ..Placement::default() };
        let decision =
            Decision { outcome: Some(Outcome::Placement(placement)), ..Decision::default() };
        let result = Some(place_result::Result::Decision(decision));
        let response = PlaceStreamResponse {
            results: vec![PlaceResult { result }, PlaceResult::default()],
            ..PlaceStreamResponse::default()
        };
        let mut message = vec![0];
        message.extend(u32::try_from(response.encoded_len()).unwrap().to_be_bytes());
        message.extend(response.encode_to_vec());
        message
    }

    /// The body of frames, and the tokens that are released.
    fn relayed(frames: Vec<Vec<u8>>) -> (Body, Delivery, Arc<Mutex<Vec<u64>>>) {
        let frames = frames.into_iter().map(|data| Ok::<_, Status>(Frame::data(data.into())));
        let body = Body::new(StreamBody::new(tokio_stream::iter(frames)));
        let (released, delivery) = (Arc::<Mutex<Vec<u64>>>::default(), Delivery::watched());
        let into = released.clone();
        let release = move |pods: Vec<ReleaseRequest>| {
            into.lock().unwrap().extend(pods.iter().map(|it| it.token));
        };
        let relaying = Relaying {
            reading: reading("/berth.v1.PlacementService/PlaceStream").unwrap(),
            delivery: delivery.clone(),
            release: Arc::new(release),
            is_commit: false,
        };
        (relaying.relay(body), delivery, released)
    }

    async fn until_released(released: &Mutex<Vec<u64>>, expected: &[u64]) {
        while *released.lock().unwrap() != expected {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_its_caller_has_stays_and_the_rest_is_released() {
        let (mut first, rest) = (message(1), [message(2), message(3)].concat());
        // The first message comes in two parts.
        let second = first.split_off(7);
        let (mut body, delivery, released) = relayed(vec![first, second, message(4), rest]);
        body.frame().await.unwrap().unwrap();
        assert!(!delivery.has_changes(), "half a message tells of nothing");
        body.frame().await.unwrap().unwrap();
        delivery.delivered();
        body.frame().await.unwrap().unwrap();
        drop(delivery.take());
        assert_eq!(*released.lock().unwrap(), [4]);
        drop(body);
        until_released(&released, &[4, 2, 3]).await;
    }

    #[test]
    fn nominations_are_read_too() {
        let pod = |name: &str| PodKey { name: name.to_owned(), ..PodKey::default() };
        let decision = |name| Decision { pod: Some(pod(name)), ..Decision::default() };
        let result =
            |name| PlaceResult { result: Some(place_result::Result::Decision(decision(name))) };
        let batch = PlaceBatchResponse {
            results: ["a", "b"].map(result).into(),
            gang: Some(GangOutcome {
                placed: true,
                nominated: vec![1, 7],
                ..GangOutcome::default()
            }),
            ..PlaceBatchResponse::default()
        };
        let read = |path: &str, message: &[u8]| reading(path).unwrap()(message);
        let found = read("/berth.v1.PlacementService/PlaceBatch", &batch.encode_to_vec());
        assert_eq!(found, [unheard::nomination(pod("b"))]);
        let preemption = |change: NominationChange, generation| PreemptResponse {
            decision: Some(decision("a")),
            post_filter: Some(PostFilter { nomination: change.into(), ..PostFilter::default() }),
            nomination_generation: generation,
            ..PreemptResponse::default()
        };
        for (response, expected) in [
            (preemption(NominationChange::Set, Some(7)), vec![unheard::nomination(pod("a"))]),
            // An attempt that nominates nothing, and one that takes the nomination away.
            (preemption(NominationChange::Set, None), vec![]),
            (preemption(NominationChange::Clear, Some(7)), vec![]),
        ] {
            let message = response.encode_to_vec();
            assert_eq!(read("/berth.v1.PreemptionService/Preempt", &message), expected);
        }
    }

    #[tokio::test]
    async fn a_call_whose_caller_is_gone_goes_run_to_end() {
        let (body, delivery, released) = relayed(vec![message(7)]);
        drop(body);
        until_released(&released, &[7]).await;
        let relaying = Relaying {
            reading: reading("/berth.v1.PlacementService/PlaceStream").unwrap(),
            delivery,
            release: {
                let released = released.clone();
                Arc::new(move |pods: Vec<ReleaseRequest>| {
                    released.lock().unwrap().extend(pods.iter().map(|it| it.token));
                })
            },
            is_commit: false,
        };
        let (go_on, wait) = oneshot::channel::<()>();
        let calling = async move {
            wait.await.unwrap();
            let frame = Ok::<_, Status>(Frame::data(Bytes::from(message(8))));
            let body = StreamBody::new(tokio_stream::iter([frame]));
            Ok::<_, Status>(Response::new(Body::new(body)))
        };
        let mut called = Box::pin(relaying.run_to_end(calling));
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut called).await.is_err());
        drop(called);
        go_on.send(()).unwrap();
        until_released(&released, &[7, 8]).await;
    }
}
