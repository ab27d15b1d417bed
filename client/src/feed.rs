//! Feeding a whole cluster through `ClusterService.Sync`: begin, batches, end.

use berth_proto::berth_v1::{
    BeginSnapshot, Delta, DeltaBatch, EndSnapshot, SyncRequest, SyncResponse,
};
use berth_proto::berth_v1::{delta, sync_request::Message};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::{Client, ClientError, OnProgress};

const METHOD: &str = "ClusterService.Sync";

/// Limits of one batch, well below gRPC's default message limit of 4 MiB.
const OBJECTS_PER_BATCH: usize = 500;
const BYTES_PER_BATCH: usize = 1024 * 1024;

/// Result of a feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fed {
    /// Objects that the server acknowledged, refused ones included.
    pub n_objects: u64,
    /// Generation that holds the snapshot.
    pub generation: u64,
    /// Objects that the server refused.
    pub refused: Vec<Refused>,
}

/// An object that the server refused.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Refused {
    /// Kind and name, for example `Pod default/web-0`.
    pub object: String,
    /// Path of the field inside the object.
    pub field: String,
    /// Description of the error.
    pub reason: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: `{}`: {}", self.object, self.field, self.reason)
    }
}

impl Client {
    /// Replaces the objects of the server's cluster with those that `changes` upsert, in one generation; assumed pods
    /// stay.
    ///
    /// `on_progress` receives the number of objects of each batch that the server acknowledges. At most a few batches
    /// are in flight.
    pub async fn feed(
        &self,
        changes: impl Iterator<Item = delta::Change> + Send + 'static,
        on_progress: OnProgress,
    ) -> Result<Fed, ClientError> {
        let mut fed = Fed::default();
        let (requests, receiver) = mpsc::channel(4);
        let (sizes, mut sent_sizes) = mpsc::channel(16);
        let sender = tokio::spawn(send(batches(changes), requests, sizes));
        let responses = self.cluster().sync(ReceiverStream::new(receiver)).await;
        let mut responses = responses.map_err(ClientError::rpc(METHOD))?.into_inner();
        let mut n_responses = 0;
        // The sizes end with the requests, so this loop reads exactly one response a request.
        while let Some(n_objects) = sent_sizes.recv().await {
            let response = responses.message().await.map_err(ClientError::rpc(METHOD))?;
            fed.add(response, n_responses)?;
            n_responses += 1;
            fed.n_objects += n_objects;
            on_progress(n_objects);
        }
        // The task cannot fail: it ends early only when the stream is gone, which `responses` has reported.
        sender.await.ok();
        Ok(fed)
    }
}

impl Fed {
    /// Adds the response to request `expected_sequence`.
    fn add(
        &mut self,
        response: Option<SyncResponse>,
        expected_sequence: u64,
    ) -> Result<(), ClientError> {
        let contract = |reason: String| ClientError::Contract { method: METHOD, reason };
        let Some(response) = response else {
            return Err(contract(format!(
                "the stream ended before request {expected_sequence} was answered"
            )));
        };
        if response.sequence != expected_sequence {
            return Err(contract(format!(
                "response {} instead of {expected_sequence}",
                response.sequence
            )));
        }
        self.generation = response.generation;
        self.refused.extend(response.rejections.into_iter().map(|rejection| Refused {
            object: rejection.object,
            field: rejection.field,
            reason: rejection.reason,
        }));
        Ok(())
    }
}

/// Sends the batches between the begin and the end of a snapshot, and the number of objects of each request to `sizes`.
async fn send(
    batches: impl Iterator<Item = Vec<Delta>> + Send,
    requests: mpsc::Sender<SyncRequest>,
    sizes: mpsc::Sender<u64>,
) {
    let begin = std::iter::once((0, Message::BeginSnapshot(BeginSnapshot {})));
    let end = std::iter::once((0, Message::EndSnapshot(EndSnapshot { position: 0 })));
    let batches = batches
        .map(|deltas| (deltas.len() as u64, Message::Batch(DeltaBatch { deltas, position: 0 })));
    for (n_objects, message) in begin.chain(batches).chain(end) {
        // An error means that the stream has ended: the responses carry the reason.
        let sent = requests.send(SyncRequest { message: Some(message) }).await.is_ok();
        if !sent || sizes.send(n_objects).await.is_err() {
            return;
        }
    }
}

/// Groups changes by number and encoded size; a change larger than the size limit is a batch of its own.
fn batches(changes: impl Iterator<Item = delta::Change>) -> impl Iterator<Item = Vec<Delta>> {
    let mut deltas = changes.map(|change| Delta { change: Some(change) }).peekable();
    std::iter::from_fn(move || {
        let first = deltas.next()?;
        let mut n_bytes = first.encoded_len();
        let mut batch = vec![first];
        while batch.len() < OBJECTS_PER_BATCH {
            let Some(next) =
                deltas.next_if(|delta| n_bytes + delta.encoded_len() <= BYTES_PER_BATCH)
            else {
                break;
            };
            n_bytes += next.encoded_len();
            batch.push(next);
        }
        Some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::{BYTES_PER_BATCH, OBJECTS_PER_BATCH, batches, delta};

    fn sizes(names: impl Iterator<Item = String>) -> Vec<usize> {
        batches(names.map(delta::Change::DeleteNode)).map(|batch| batch.len()).collect()
    }

    #[test]
    fn batches_are_limited_by_number_and_by_size() {
        assert_eq!(sizes(std::iter::empty()), Vec::<usize>::new());
        let small = |n: usize| (0..n).map(|number| number.to_string());
        assert_eq!(
            sizes(small(OBJECTS_PER_BATCH * 2 + 1)),
            [OBJECTS_PER_BATCH, OBJECTS_PER_BATCH, 1]
        );
        let large = "x".repeat(BYTES_PER_BATCH * 2 / 5);
        assert_eq!(sizes(std::iter::repeat_n(large, 5)), [2, 2, 1]);
        let huge = "x".repeat(BYTES_PER_BATCH * 2);
        assert_eq!(sizes(["a".to_owned(), huge, "b".to_owned()].into_iter()), [1, 1, 1]);
    }
}
