//! The `Sync` stream: snapshots and deltas from a client that watches the cluster, each request answered in order.

use std::collections::HashMap;
use std::sync::Arc;

use berth_engine::{ClusterState, Delta, Node, Object, ObjectKey, Pod, PodKey};
use berth_proto::berth_v1::sync_request::Message;
use berth_proto::berth_v1::{Rejection, SyncRequest, SyncResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::auth::Role;
use crate::feed::position::SYNC;
use crate::grpc::follow;
use crate::grpc::status::of_transport;
use crate::service::cluster::delta;
use crate::service::{CallContext, CallError, Deadline, State, convert};
use crate::shutdown;

/// Number of responses that may wait for a slow reader before the stream stops reading.
const MAX_UNREAD_ANSWERS: usize = 16;

/// Starts serving the stream, until it ends, at the first error, or until the server drains.
pub(super) fn serve(
    state: Arc<State>,
    call: CallContext,
    requests: Streaming<SyncRequest>,
) -> ReceiverStream<Result<SyncResponse, Status>> {
    let answering = |answers| async move { run(&state, &call, requests, &answers).await };
    ReceiverStream::new(follow::responses(MAX_UNREAD_ANSWERS, answering))
}

async fn run(
    state: &Arc<State>,
    call: &CallContext,
    mut requests: Streaming<SyncRequest>,
    answers: &mpsc::Sender<Result<SyncResponse, Status>>,
) -> Result<(), Status> {
    let CallContext { access, deadline, .. } = call;
    let deadline = *deadline;
    let mut intake = Intake { collecting: None };
    for sequence in 0.. {
        let request = tokio::select! {
            request = requests.message() => request.map_err(|status| of_transport(status, state.limits.max_message_bytes))?,
            () = shutdown::requested(state.draining.clone()) => return Err(CallError::Draining.into()),
        };
        let Some(request) = request else { break };
        if deadline.has_passed() {
            return Err(CallError::DeadlineExceeded.into());
        }
        access.to_change(Role::Feeder)?;
        let (generation, rejections) = intake.handle(state, request, deadline).await?;
        if answers.send(Ok(SyncResponse { sequence, generation, rejections })).await.is_err() {
            return Ok(());
        }
    }
    match intake.collecting {
        None => Ok(()),
        Some(_) => {
            Err(CallError::OutOfOrder { reason: "the stream ended before `end_snapshot`" }.into())
        }
    }
}

struct Intake {
    collecting: Option<Collection>,
}

impl Intake {
    /// Handles a request; returns the generation that includes it, and the rejections.
    async fn handle(
        &mut self,
        state: &Arc<State>,
        request: SyncRequest,
        deadline: Deadline,
    ) -> Result<(u64, Vec<Rejection>), CallError> {
        // Reading of files may have begun since the stream was opened.
        state.check_feedable()?;
        match (request.message, self.collecting.take()) {
            (None, _) => Err(CallError::field("message", "must be set")),
            (Some(Message::BeginSnapshot(_)), Some(_)) => {
                Err(CallError::OutOfOrder { reason: "`begin_snapshot` inside a snapshot" })
            }
            (Some(Message::BeginSnapshot(_)), None) => {
                self.collecting = Some(Collection::default());
                state.freshness.note_alive();
                Ok((published(state), Vec::new()))
            }
            (Some(Message::Batch(batch)), None) => {
                let positions = state.freshness.positions();
                positions.claim(SYNC, batch.position);
                let outcome = delta::apply_in_turn(state, batch.deltas, deadline).await?;
                positions.reach(SYNC, batch.position);
                Ok((outcome.generation.get(), outcome.rejections))
            }
            (Some(Message::Batch(batch)), Some(mut collection)) => {
                let (shared, limit) = (state.clone(), state.limits.max_snapshot_objects);
                let compiled = state
                    .pool
                    .run_patiently(deadline, move |cancel| {
                        delta::compile_while_wanted(&shared.cluster, batch.deltas, cancel)
                    })
                    .await??;
                let rejections = collection.add(compiled, limit)?;
                self.collecting = Some(collection);
                state.freshness.note_alive();
                state.metrics.count_deltas(0, rejections.len());
                Ok((published(state), rejections))
            }
            (Some(Message::EndSnapshot(_)), None) => {
                Err(CallError::OutOfOrder { reason: "`end_snapshot` without `begin_snapshot`" })
            }
            (Some(Message::EndSnapshot(end)), Some(collection)) => {
                let shared = state.clone();
                let positions = state.freshness.positions();
                positions.claim(SYNC, end.position);
                let published = state
                    .pool
                    .run_patiently(deadline, move |_| collection.publish(&shared))
                    .await?;
                positions.reach(SYNC, end.position);
                Ok(published)
            }
        }
    }
}

fn published(state: &State) -> u64 {
    state.cluster.snapshot().generation().get()
}

/// The snapshot so far: the last version of every object, with the position of its delta in the snapshot.
#[derive(Default)]
struct Collection {
    nodes: HashMap<Arc<str>, (usize, Node)>,
    objects: HashMap<ObjectKey, (usize, Object)>,
    pods: HashMap<PodKey, (usize, Pod)>,
    n_deltas: usize,
}

impl Collection {
    /// Adds a batch; returns the refused changes by position in the batch.
    fn add(
        &mut self,
        compiled: Vec<delta::Compiled>,
        limit: usize,
    ) -> Result<Vec<Rejection>, CallError> {
        let mut rejections = Vec::new();
        for (index, compiled) in compiled.into_iter().enumerate() {
            let position = self.n_deltas;
            self.n_deltas += 1;
            match compiled {
                Ok(Delta::UpsertNode(node)) => {
                    drop(self.nodes.insert(Arc::from(node.name()), (position, node)))
                }
                Ok(Delta::UpsertPod(pod)) => {
                    drop(self.pods.insert(pod.key().clone(), (position, pod)))
                }
                Ok(Delta::DeleteNode(name)) => drop(self.nodes.remove(&name)),
                Ok(Delta::DeletePod { key, uid }) => self.forget(&key, uid.as_deref()),
                Ok(Delta::UpsertObject(object)) => {
                    drop(self.objects.insert(object.key().clone(), (position, object)))
                }
                Ok(Delta::DeleteObject(key)) => drop(self.objects.remove(&key)),
                Err((object, error)) => rejections.push(convert::rejection(index, object, error)),
            }
        }
        if self.nodes.len() + self.objects.len() + self.pods.len() > limit {
            return Err(CallError::SnapshotTooLarge { limit });
        }
        Ok(rejections)
    }

    fn forget(&mut self, key: &PodKey, uid: Option<&str>) {
        if self.pods.get(key).is_some_and(|(_, pod)| uid.is_none_or(|uid| uid == pod.uid())) {
            self.pods.remove(key);
        }
    }

    /// Replaces the cluster with the collected snapshot; objects that the cluster refuses are listed by position in the
    /// snapshot.
    fn publish(self, state: &State) -> (u64, Vec<Rejection>) {
        let (nodes, mut positions) = in_stream_order(self.nodes);
        let (objects, object_positions) = in_stream_order(self.objects);
        let (pods, pod_positions) = in_stream_order(self.pods);
        // The engine numbers nodes first, then objects, then pods.
        positions.extend(object_positions.into_iter().chain(pod_positions));
        let _busy = state.long_write();
        let applied = state.cluster.replace(ClusterState { nodes, objects, pods });
        state.freshness.note_applied();
        state.metrics.count_deltas(
            positions.len() - applied.rejected.len().min(positions.len()),
            applied.rejected.len(),
        );
        let rejections = applied.rejected.into_iter().map(|rejected| {
            let position = positions.get(rejected.index).copied().unwrap_or(rejected.index);
            convert::rejection(position, rejected.object, rejected.error)
        });
        (applied.generation.get(), rejections.collect())
    }
}

/// Collected objects of one kind in the order of the snapshot, with their positions: a response must not depend on the
/// order of a hash map.
fn in_stream_order<K, T>(collected: HashMap<K, (usize, T)>) -> (Vec<T>, Vec<usize>) {
    let mut collected: Vec<(usize, T)> = collected.into_values().collect();
    collected.sort_unstable_by_key(|(position, _)| *position);
    collected.into_iter().map(|(position, value)| (value, position)).unzip()
}
