//! Feeds: the changes of a cluster, as an API server has them, sent to each replica by itself and late by its own time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use berth_proto::berth_v1::cluster_service_client::ClusterServiceClient;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::sync_request::Message;
use berth_proto::berth_v1::{BeginSnapshot, Delta, DeltaBatch, EndSnapshot, PodKey, SyncRequest};
use berth_proto::core_v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Channel;

use super::callers::{Shared, key};
use super::troubles::N_REPLICAS;
use crate::reservations::entry;

/// Longest time by which a feed is late, unless it is made later.
const LATE_MS: u64 = 300;
/// Pause between two looks at the changes.
const PAUSE: Duration = Duration::from_millis(10);

/// The cluster that all replicas are fed with.
pub(crate) struct Feeds {
    known: Mutex<Known>,
    /// By how many milliseconds each replica's feed is late.
    late_ms: [AtomicU64; N_REPLICAS],
}

#[derive(Default)]
struct Known {
    nodes: Vec<core_v1::Node>,
    /// Pods that are bound, by their numbers.
    pods: BTreeMap<u64, core_v1::Pod>,
    /// Every change of the cluster since the start, with its time. Its position in a feed is its index plus 1.
    changes: Vec<(Instant, Delta)>,
}

impl Feeds {
    pub(crate) fn new(nodes: Vec<core_v1::Node>) -> Feeds {
        let known = Known { nodes, ..Known::default() };
        let late_ms = std::array::from_fn(|n| AtomicU64::new(LATE_MS * n as u64 / 2));
        Feeds { known: Mutex::new(known), late_ms }
    }

    /// Makes a replica's feed late.
    pub(crate) fn set_late(&self, replica: usize, late: Duration) {
        self.late_ms[replica].store(u64::try_from(late.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// Binds a pod to a node.
    pub(crate) fn bind(&self, pod: u64, node: u32) {
        let mut bound = entry(&format!("p{pod}"), 0).pod.unwrap().to_pod().unwrap();
        bound.spec.get_or_insert_default().node_name = format!("n{node}");
        let mut known = self.known.lock().unwrap();
        known.pods.insert(pod, bound.clone());
        known.changes.push((Instant::now(), delta(Change::UpsertPod(bound))));
    }

    /// Deletes a pod.
    pub(crate) fn delete(&self, pod: u64) {
        let mut known = self.known.lock().unwrap();
        known.pods.remove(&pod);
        let key: PodKey = key(pod).unwrap();
        known.changes.push((Instant::now(), delta(Change::DeletePod(key))));
    }

    /// Feeds one replica, and whoever comes in its place.
    pub(crate) async fn feed(self: Arc<Feeds>, replica: usize, shared: Arc<Shared>) {
        loop {
            let channel = shared.channels.lock().unwrap()[replica].clone();
            // A replica that is gone begins anew, with everything.
            drop(self.sync(replica, channel, &shared).await);
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn sync(&self, replica: usize, channel: Channel, shared: &Shared) -> Result<(), Status> {
        let (sender, requests) = mpsc::channel(16);
        let gone = |_| Status::unavailable("the stream has ended");
        let (deltas, mut position) = self.snapshot();
        for message in [
            Message::BeginSnapshot(BeginSnapshot {}),
            Message::Batch(DeltaBatch { deltas, position: 0 }),
            Message::EndSnapshot(EndSnapshot { position }),
        ] {
            sender.send(SyncRequest { message: Some(message) }).await.map_err(gone)?;
        }
        let mut client = ClusterServiceClient::new(channel);
        let mut answers = client.sync(ReceiverStream::new(requests)).await?.into_inner();
        loop {
            tokio::select! {
                answer = answers.message() => match answer? {
                    Some(answer) if answer.rejections.is_empty() => continue,
                    Some(answer) => {
                        shared.complain(format!("{:?}", answer.rejections));
                        continue;
                    }
                    None => return Ok(()),
                },
                () = tokio::time::sleep(PAUSE) => {}
            }
            let deltas = self.due(replica, position);
            if !deltas.is_empty() {
                position += deltas.len() as u64;
                let message = Some(Message::Batch(DeltaBatch { deltas, position }));
                sender.send(SyncRequest { message }).await.map_err(gone)?;
            }
        }
    }

    /// Everything there is now, and its position.
    fn snapshot(&self) -> (Vec<Delta>, u64) {
        let known = self.known.lock().unwrap();
        let nodes = known.nodes.iter().cloned().map(|it| delta(Change::UpsertNode(it)));
        let pods = known.pods.values().cloned().map(|it| delta(Change::UpsertPod(it)));
        (nodes.chain(pods).collect(), known.changes.len() as u64)
    }

    /// The changes behind a position that a replica may know by now.
    fn due(&self, replica: usize, position: u64) -> Vec<Delta> {
        let late = Duration::from_millis(self.late_ms[replica].load(Ordering::Relaxed));
        let known = self.known.lock().unwrap();
        let new = &known.changes[usize::try_from(position).unwrap()..];
        let due = new.iter().take_while(|(at, _)| at.elapsed() >= late);
        due.map(|(_, delta)| delta.clone()).collect()
    }
}

fn delta(change: Change) -> Delta {
    Delta { change: Some(change) }
}
