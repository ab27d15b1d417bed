//! A `PlaceStream` that many tasks share and that is reopened whenever it ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use berth_proto::berth_v1::{PlaceResult, PlaceStreamResponse};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;

use crate::Channel;
use crate::backoff::Backoff;
use crate::caller::with_lost_connection_unavailable;
use crate::codec::Encoded;

/// The results of one request, or why the stream ended before they came.
pub(crate) type StreamResponse = Result<Vec<PlaceResult>, Status>;

/// Capacity of the queue of requests in front of the transport.
const QUEUE: usize = 256;

/// A stream shared by clones: each task waits for the response with its own sequence number.
///
/// Time when the stream ends, all waiting tasks receive the reason as an error, and the stream is reopened after a
/// [`Backoff`], which every response resets.
#[derive(Debug, Clone)]
pub(crate) struct Pipeline {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    is_open: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    /// Sender of the open stream; absent between two streams.
    requests: Option<mpsc::Sender<Vec<u8>>>,
    waiting: BTreeMap<u64, oneshot::Sender<StreamResponse>>,
    /// Reason why the last stream ended.
    ended: Status,
}

impl Pipeline {
    pub(crate) fn open(service: Grpc<Channel>) -> Self {
        let ended = Status::unavailable("the stream is not open yet");
        let state = State { requests: None, waiting: BTreeMap::new(), ended };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), is_open: watch::Sender::new(false) });
        tokio::spawn(keep_open(service, Arc::downgrade(&shared)));
        Self { shared }
    }

    /// Returns as soon as the stream is open.
    pub(crate) async fn ready(&self) {
        if !*self.shared.is_open.borrow() {
            // The sender lives as long as `self`, so waiting cannot fail.
            drop(self.shared.is_open.subscribe().wait_for(|is_open| *is_open).await);
        }
    }

    /// Sends an encoded `PlaceStreamRequest` whose sequence number is `sequence`.
    ///
    /// Errors: the reason why the stream ended while the request was in flight, or why it is not open.
    pub(crate) async fn send(&self, sequence: u64, request: Vec<u8>) -> StreamResponse {
        let (waiter, answer) = oneshot::channel();
        let requests = {
            let mut state = self.shared.lock();
            let Some(requests) = state.requests.clone() else {
                return Err(state.ended.clone());
            };
            if state.waiting.contains_key(&sequence) {
                return Err(Status::internal(format!("sequence {sequence} is in flight already")));
            }
            state.waiting.insert(sequence, waiter);
            requests
        };
        // When the stream ends first, the waiter has received the reason; the failed send adds nothing.
        requests.send(request).await.ok();
        drop(requests);
        answer.await.unwrap_or_else(|_| Err(Status::unavailable("the stream was closed")))
    }

    /// Drops the waiter of a request: its response is ignored when it comes.
    pub(crate) fn forget(&self, sequence: u64) {
        self.shared.lock().waiting.remove(&sequence);
    }
}

impl Shared {
    /// A poisoned lock is taken all the same: a panic leaves the map of waiters valid.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self, requests: mpsc::Sender<Vec<u8>>) {
        self.lock().requests = Some(requests);
        self.is_open.send_replace(true);
    }

    fn ended(&self, status: &Status) {
        let waiting = {
            let mut state = self.lock();
            state.requests = None;
            state.ended = status.clone();
            std::mem::take(&mut state.waiting)
        };
        self.is_open.send_replace(false);
        for waiter in waiting.into_values() {
            waiter.send(Err(status.clone())).ok();
        }
    }
}

/// Opens one stream after another until the last [`Pipeline`] is dropped.
async fn keep_open(service: Grpc<Channel>, shared: Weak<Shared>) {
    let mut backoff = Backoff::NEW;
    loop {
        let (requests, receiver) = mpsc::channel(QUEUE);
        let Some(opening) = shared.upgrade() else { return };
        // A server may delay its response headers until the first message, so requests are accepted before the headers
        // are here.
        opening.opened(requests);
        drop(opening);
        let (status, has_answered) = one_stream(service.clone(), receiver, &shared).await;
        if has_answered {
            backoff = Backoff::NEW;
        }
        let Some(ended) = shared.upgrade() else { return };
        ended.ended(&status);
        drop(ended);
        tokio::time::sleep(backoff.after_failure()).await;
    }
}

/// Hands each response to its waiter until the stream ends. Returns why it ended, and whether it carried any response.
async fn one_stream(
    mut service: Grpc<Channel>,
    requests: mpsc::Receiver<Vec<u8>>,
    shared: &Weak<Shared>,
) -> (Status, bool) {
    if let Err(error) = service.ready().await {
        return (Status::unavailable(format!("cannot connect: {error}")), false);
    }
    let path = PathAndQuery::from_static("/berth.v1.PlacementService/PlaceStream");
    let codec = Encoded::<PlaceStreamResponse>::new();
    let request = tonic::Request::new(ReceiverStream::new(requests));
    let mut answers = match service.streaming(request, path, codec).await {
        Ok(answers) => answers.into_inner(),
        Err(status) => return (with_lost_connection_unavailable(status), false),
    };
    let mut has_answered = false;
    loop {
        match answers.message().await {
            Ok(Some(answer)) => {
                has_answered = true;
                let waiter = shared
                    .upgrade()
                    .and_then(|shared| shared.lock().waiting.remove(&answer.sequence));
                // Without a waiter the request has timed out.
                if let Some(waiter) = waiter {
                    waiter.send(Ok(answer.results)).ok();
                }
            }
            Ok(None) => return (Status::unavailable("the server ended the stream"), has_answered),
            Err(status) => return (with_lost_connection_unavailable(status), has_answered),
        }
    }
}
