//! Feeding a whole cluster through `ClusterService.Sync`: begin, batches, end.

use berth_proto::berth_v1::{
    BeginSnapshot, Delta, DeltaBatch, EndSnapshot, SyncRequest, SyncResponse,
};
use berth_proto::berth_v1::{delta, sync_request::Message};
use berth_proto::core_v1::{Node, Pod};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{Client, ClientError, OnProgress};
use crate::cluster::SyntheticCluster;

const METHOD: &str = "ClusterService.Sync";

/// Bounds of one batch, well under gRPC's default message limit of 4 MiB.
const OBJECTS_PER_BATCH: usize = 500;
const BYTES_PER_BATCH: usize = 1024 * 1024;

/// What became of a feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fed {
    /// Objects sent.
    pub n_nodes: usize,
    /// Objects sent.
    pub n_pods: usize,
    /// Namespaces and Services sent.
    pub n_others: usize,
    /// Generation that holds the snapshot.
    pub generation: u64,
    /// What the server refused.
    pub refused: Vec<Refused>,
}

/// An object that the server refused.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Refused {
    /// For example `Pod default/web-0`.
    pub object: String,
    /// Path inside the object.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: `{}`: {}", self.object, self.field, self.reason)
    }
}

impl Client {
    /// Makes the server's cluster exactly these nodes and pods; else as [`Client::feed_cluster`].
    pub async fn feed(
        &self,
        nodes: Vec<Node>,
        pods: Vec<Pod>,
        on_progress: OnProgress,
    ) -> Result<Fed, ClientError> {
        let (namespaces, services) = (Vec::new(), Vec::new());
        let cluster = SyntheticCluster { nodes, namespaces, services, pods };
        self.feed_cluster(cluster, on_progress).await
    }

    /// Makes the server's cluster exactly these objects, in one generation; pods that it assumed stay.
    ///
    /// `on_progress` hears of objects as the server acknowledges them. At most a few batches are in flight.
    pub async fn feed_cluster(
        &self,
        cluster: SyntheticCluster,
        on_progress: OnProgress,
    ) -> Result<Fed, ClientError> {
        let SyntheticCluster { nodes, namespaces, services, pods } = cluster;
        let mut fed = Fed {
            n_nodes: nodes.len(),
            n_pods: pods.len(),
            n_others: namespaces.len() + services.len(),
            ..Fed::default()
        };
        let (requests, receiver) = mpsc::channel(4);
        let (sizes, mut sent_sizes) = mpsc::channel(16);
        let changes = nodes
            .into_iter()
            .map(delta::Change::UpsertNode)
            .chain(namespaces.into_iter().map(delta::Change::UpsertNamespace))
            .chain(services.into_iter().map(delta::Change::UpsertService))
            .chain(pods.into_iter().map(delta::Change::UpsertPod));
        let sender = tokio::spawn(send(batches(changes), requests, sizes));
        let answers = self.cluster().sync(ReceiverStream::new(receiver)).await;
        let mut answers = answers.map_err(ClientError::rpc(METHOD))?.into_inner();
        let mut n_answered = 0;
        // The sizes end with the requests, so this loop asks for exactly one answer a request.
        while let Some(n_objects) = sent_sizes.recv().await {
            let answer = answers.message().await.map_err(ClientError::rpc(METHOD))?;
            fed.take(answer, n_answered)?;
            n_answered += 1;
            on_progress(n_objects);
        }
        // The task cannot fail: it ends early only when the stream is gone, which `answers` has reported.
        sender.await.ok();
        Ok(fed)
    }
}

impl Fed {
    fn take(
        &mut self,
        answer: Option<SyncResponse>,
        expected_sequence: u64,
    ) -> Result<(), ClientError> {
        let contract = |reason: String| ClientError::Contract { method: METHOD, reason };
        let Some(answer) = answer else {
            return Err(contract(format!(
                "the stream ended before request {expected_sequence} was answered"
            )));
        };
        if answer.sequence != expected_sequence {
            return Err(contract(format!(
                "answer {} where {expected_sequence} was due",
                answer.sequence
            )));
        }
        self.generation = answer.generation;
        self.refused.extend(answer.rejections.into_iter().map(|rejection| Refused {
            object: rejection.object,
            field: rejection.field,
            reason: rejection.reason,
        }));
        Ok(())
    }
}

async fn send(
    batches: impl Iterator<Item = Vec<Delta>> + Send,
    requests: mpsc::Sender<SyncRequest>,
    sizes: mpsc::Sender<u64>,
) {
    let begin = std::iter::once((0, Message::BeginSnapshot(BeginSnapshot {})));
    let end = std::iter::once((0, Message::EndSnapshot(EndSnapshot {})));
    let batches =
        batches.map(|deltas| (deltas.len() as u64, Message::Batch(DeltaBatch { deltas })));
    for (n_objects, message) in begin.chain(batches).chain(end) {
        // An error means that the other side is gone: the answers tell why.
        let sent = requests.send(SyncRequest { message: Some(message) }).await.is_ok();
        if !sent || sizes.send(n_objects).await.is_err() {
            return;
        }
    }
}

/// Groups changes by number and encoded size; a change larger than the bound travels alone.
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
    fn batches_are_bounded_by_number_and_by_size() {
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
