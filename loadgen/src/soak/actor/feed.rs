//! The feed of a cluster: adds, changes and removes nodes, adds bound and pending pods, and sometimes sends a whole
//! snapshot.

use std::sync::Arc;

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{Delta, DeltaBatch, SyncRequest, SyncResponse, sync_request};
use berth_proto::core_v1::{Node, Pod};
use berth_synthetic::object::{HOSTNAME, taint};
use rand::RngExt as _;
use rand::seq::{IndexedRandom as _, IteratorRandom as _};
use rand_chacha::ChaCha8Rng;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::Actor;
use super::pods::ActorPods;
use crate::soak::model::{node_name, on_node};
use crate::soak::names::{Names, random_stream};
use crate::soak::world::World;

/// The actor of `Apply`, of `Sync` with deltas, and of whole snapshots.
pub(super) struct Feed {
    rng: ChaCha8Rng,
    names: Names,
    pods: ActorPods,
    /// Nodes of the initial cluster that are removed for a while.
    removed: Vec<Node>,
    /// Names of the nodes that were added later.
    added: Vec<String>,
    open: Option<OpenSync>,
    sequence: u64,
}

/// An open `Sync` stream.
struct OpenSync {
    requests: mpsc::Sender<SyncRequest>,
    responses: Streaming<SyncResponse>,
    sequence: u64,
}

/// A change to apply to the server, and then to the model.
enum FeedChange {
    UpsertNode(Box<Node>),
    DeleteNode(String),
    UpsertPod(Box<Pod>),
}

impl Feed {
    pub(super) fn new(seed: u64, max_pods: usize) -> Feed {
        let (removed, added) = (Vec::new(), Vec::new());
        let (rng, names, pods) =
            (random_stream(seed, 4), Names::new("feed"), ActorPods::new(max_pods));
        Feed { rng, names, pods, removed, added, open: None, sequence: 0 }
    }

    /// A random node of the model.
    fn random_node(&mut self, world: &World) -> Option<Node> {
        world.model().nodes.values().choose(&mut self.rng).cloned()
    }

    /// Adds a node under a new name.
    fn add_node(&mut self, world: &World) -> Option<FeedChange> {
        if self.added.len() >= world.spec.n_nodes {
            return None;
        }
        let mut node = world.node_templates.choose(&mut self.rng)?.clone();
        let name = self.names.next();
        let metadata = node.metadata.get_or_insert_default();
        metadata.labels.insert(HOSTNAME.to_owned(), name.clone());
        (metadata.name, metadata.uid) = (name.clone(), name.clone());
        self.added.push(name);
        Some(FeedChange::UpsertNode(Box::new(node)))
    }

    /// Changes a label, a taint or the cordon of a node.
    fn change_node(&mut self, world: &World) -> Option<FeedChange> {
        let mut node = self.random_node(world)?;
        let round = self.rng.random_range(0..5).to_string();
        match self.rng.random_range(0..3) {
            0 => {
                let labels = &mut node.metadata.get_or_insert_default().labels;
                labels.insert("soak-round".to_owned(), round);
            }
            1 => {
                let spec = node.spec.get_or_insert_default();
                spec.unschedulable = !spec.unschedulable;
            }
            _ => {
                let taints = &mut node.spec.get_or_insert_default().taints;
                let n_taints = taints.len();
                taints.retain(|taint| taint.key != "soak");
                if taints.len() == n_taints {
                    taints.push(taint("soak", &round, "NoSchedule"));
                }
            }
        }
        Some(FeedChange::UpsertNode(Box::new(node)))
    }

    /// Removes a node while its pods stay, or adds a removed node again.
    fn remove_or_restore_node(&mut self, world: &World) -> Option<FeedChange> {
        if !self.removed.is_empty() && self.rng.random_bool(0.6) {
            let at = self.rng.random_range(0..self.removed.len());
            return Some(FeedChange::UpsertNode(Box::new(self.removed.swap_remove(at))));
        }
        if !self.added.is_empty() && self.rng.random_bool(0.7) {
            let at = self.rng.random_range(0..self.added.len());
            return Some(FeedChange::DeleteNode(self.added.swap_remove(at)));
        }
        // At most a tenth of the initial nodes is removed at a time.
        if self.removed.len() * 10 >= world.spec.n_nodes {
            return None;
        }
        let node = self.random_node(world)?;
        let name = node_name(&node);
        if self.added.contains(&name) {
            return None;
        }
        self.removed.push(node);
        Some(FeedChange::DeleteNode(name))
    }

    /// Adds a pod that another scheduler bound, or a pending pod.
    fn add_pod(&mut self, world: &World) -> Option<FeedChange> {
        if self.pods.is_full() {
            return None;
        }
        let pod = self.names.pod(&world.pod_templates, &mut self.rng);
        let node = match self.rng.random_range(0..20) {
            0 => return Some(FeedChange::UpsertPod(Box::new(pod))),
            1 => "soak-nowhere".to_owned(),
            _ => node_name(&self.random_node(world)?),
        };
        Some(FeedChange::UpsertPod(Box::new(on_node(&pod, &node))))
    }

    /// A few changes of different objects: at most one node, and new pods.
    fn random_changes(&mut self, world: &World) -> Vec<FeedChange> {
        let node = match self.rng.random_range(0..8) {
            0 => self.add_node(world),
            1 | 2 => self.change_node(world),
            3 => self.remove_or_restore_node(world),
            _ => None,
        };
        let n_pods = self.rng.random_range(0..=3);
        let pods: Vec<FeedChange> = (0..n_pods).filter_map(|_| self.add_pod(world)).collect();
        node.into_iter().chain(pods).collect()
    }

    /// Applies changes by `Apply` or the open `Sync` to the server, then to the model.
    async fn send(&mut self, world: &World, changes: Vec<FeedChange>) {
        let _open = world.feed.read().await;
        let wire_changes: Vec<Change> = changes
            .iter()
            .map(|change| match change {
                FeedChange::UpsertNode(node) => Change::UpsertNode(Node::clone(node)),
                FeedChange::DeleteNode(name) => Change::DeleteNode(name.clone()),
                FeedChange::UpsertPod(pod) => Change::UpsertPod(Pod::clone(pod)),
            })
            .collect();
        if self.rng.random_bool(0.5) {
            self.sync(world, wire_changes).await;
        } else if !world.apply(wire_changes).await {
            return;
        }
        let mut model = world.model();
        for change in changes {
            match change {
                FeedChange::UpsertNode(node) => drop(model.nodes.insert(node_name(&node), *node)),
                FeedChange::DeleteNode(name) => drop(model.nodes.remove(&name)),
                FeedChange::UpsertPod(pod) => {
                    self.pods.add(&pod);
                    model.upsert(*pod);
                }
            }
        }
    }

    /// Sends changes over the stream. If that fails, with whatever effect, the same changes are sent again by `Apply`.
    async fn sync(&mut self, world: &World, changes: Vec<Change>) {
        let deltas = changes.iter().map(|change| Delta { change: Some(change.clone()) }).collect();
        let message = sync_request::Message::Batch(DeltaBatch { deltas, position: 0 });
        if !self.exchange(world, SyncRequest { message: Some(message) }).await {
            world.apply(changes).await;
        }
    }

    /// Sends a request over the stream, which is opened if need be, and checks the response. Returns whether it came.
    async fn exchange(&mut self, world: &World, request: SyncRequest) -> bool {
        let mut open = match self.open.take() {
            Some(open) => {
                // If the stream is closed, the responses carry the reason.
                drop(open.requests.send(request).await);
                open
            }
            None => {
                let (requests, receiver) = mpsc::channel(1);
                drop(requests.try_send(request));
                let mut cluster = world.client.cluster();
                let opening = cluster.sync(ReceiverStream::new(receiver));
                let Ok(responses) = world.call("Sync opened", opening).await else { return false };
                OpenSync { requests, responses, sequence: 0 }
            }
        };
        let reading = async { open.responses.message().await.map(tonic::Response::new) };
        let Ok(Some(answer)) = world.call("Sync", reading).await else { return false };
        if answer.sequence != open.sequence || !answer.rejections.is_empty() {
            world.differs(format!("Sync answered {answer:?} to request {}", open.sequence));
        }
        open.sequence += 1;
        self.sequence += 1;
        // The stream is reopened after a hundred requests.
        self.open = Some(open).filter(|_| !self.sequence.is_multiple_of(100));
        true
    }

    /// Sends the whole model as a snapshot, in one generation.
    async fn snapshot(&mut self, world: &World) {
        let _closed = world.feed.write().await;
        let snapshot = world.model().snapshot();
        match world.client.feed(snapshot.into_changes(), Arc::new(|_| ())).await {
            Ok(fed) => {
                world.count("snapshots", 1);
                for refused in &fed.refused {
                    world.differs(format!("a snapshot's {refused}"));
                }
            }
            // The model stays valid: a snapshot takes effect at its end, and this one changes nothing.
            Err(error) => world.failed("Sync of a snapshot", "", &error.to_string()),
        }
    }
}

impl Actor for Feed {
    fn name(&self) -> &'static str {
        "feed"
    }

    async fn step(&mut self, world: &World) {
        if self.rng.random_bool(0.01) {
            return self.snapshot(world).await;
        }
        if self.pods.is_full() || self.rng.random_bool(0.6) {
            for _ in 0..3 {
                self.pods.update_one(world, &mut self.rng).await;
            }
            return;
        }
        let changes = self.random_changes(world);
        if !changes.is_empty() {
            self.send(world, changes).await;
        }
    }
}
