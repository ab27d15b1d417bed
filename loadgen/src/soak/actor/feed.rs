//! What tells of the cluster: nodes come, change and go; pods are bound, change and end; now and then everything is told anew.

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
use super::held::Held;
use crate::soak::model::{node_name, on_node};
use crate::soak::names::{Names, stream};
use crate::soak::world::World;

/// `Apply`, `Sync` with deltas, and whole snapshots.
pub(super) struct Feed {
    rng: ChaCha8Rng,
    names: Names,
    held: Held,
    /// Nodes of the first cluster that are gone for a while.
    gone: Vec<Node>,
    /// Nodes that came later.
    come: Vec<String>,
    open: Option<Open>,
    sequence: u64,
}

struct Open {
    requests: mpsc::Sender<SyncRequest>,
    answers: Streaming<SyncResponse>,
    sequence: u64,
}

/// What the model learns once a change was taken.
enum Learnt {
    Node(Box<Node>),
    NoNode(String),
    Pod(Box<Pod>),
}

impl Feed {
    pub(super) fn new(seed: u64, most: usize) -> Feed {
        let (gone, come) = (Vec::new(), Vec::new());
        let (rng, names, held) = (stream(seed, 4), Names::of("feed"), Held::new(most));
        Feed { rng, names, held, gone, come, open: None, sequence: 0 }
    }

    fn a_node(&mut self, world: &World) -> Option<Node> {
        world.model().nodes.values().choose(&mut self.rng).cloned()
    }

    /// A node under a name that was never there.
    fn comes(&mut self, world: &World) -> Option<Learnt> {
        if self.come.len() >= world.spec.n_nodes {
            return None;
        }
        let mut node = world.node_templates.choose(&mut self.rng)?.clone();
        let name = self.names.next();
        let metadata = node.metadata.get_or_insert_default();
        metadata.labels.insert(HOSTNAME.to_owned(), name.clone());
        (metadata.name, metadata.uid) = (name.clone(), name.clone());
        self.come.push(name);
        Some(Learnt::Node(Box::new(node)))
    }

    /// A label, a taint or a cordon comes or goes.
    fn changes(&mut self, world: &World) -> Option<Learnt> {
        let mut node = self.a_node(world)?;
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
        Some(Learnt::Node(Box::new(node)))
    }

    /// A node goes with its pods on it, or comes back to them.
    fn goes(&mut self, world: &World) -> Option<Learnt> {
        if !self.gone.is_empty() && self.rng.random_bool(0.6) {
            let at = self.rng.random_range(0..self.gone.len());
            return Some(Learnt::Node(Box::new(self.gone.swap_remove(at))));
        }
        if !self.come.is_empty() && self.rng.random_bool(0.7) {
            let at = self.rng.random_range(0..self.come.len());
            return Some(Learnt::NoNode(self.come.swap_remove(at)));
        }
        // A tenth of the first nodes at most.
        if self.gone.len() * 10 >= world.spec.n_nodes {
            return None;
        }
        let node = self.a_node(world)?;
        let name = node_name(&node);
        if self.come.contains(&name) {
            return None;
        }
        self.gone.push(node);
        Some(Learnt::NoNode(name))
    }

    /// A pod that somebody else has put on a node, or nobody yet.
    fn is_bound(&mut self, world: &World) -> Option<Learnt> {
        if self.held.is_full() {
            return None;
        }
        let pod = self.names.pod(&world.pod_templates, &mut self.rng);
        let node = match self.rng.random_range(0..20) {
            0 => return Some(Learnt::Pod(Box::new(pod))),
            1 => "soak-nowhere".to_owned(),
            _ => node_name(&self.a_node(world)?),
        };
        Some(Learnt::Pod(Box::new(on_node(&pod, &node))))
    }

    /// A few changes, each about another object: one node at most, and pods that are new.
    fn some(&mut self, world: &World) -> Vec<Learnt> {
        let node = match self.rng.random_range(0..8) {
            0 => self.comes(world),
            1 | 2 => self.changes(world),
            3 => self.goes(world),
            _ => None,
        };
        let n_pods = self.rng.random_range(0..=3);
        let pods: Vec<Learnt> = (0..n_pods).filter_map(|_| self.is_bound(world)).collect();
        node.into_iter().chain(pods).collect()
    }

    /// Tells of changes over `Apply` or the open `Sync`, and has the model learn them.
    async fn tell(&mut self, world: &World, some: Vec<Learnt>) {
        let _open = world.feed.read().await;
        let changes: Vec<Change> = some
            .iter()
            .map(|learnt| match learnt {
                Learnt::Node(node) => Change::UpsertNode(Node::clone(node)),
                Learnt::NoNode(name) => Change::DeleteNode(name.clone()),
                Learnt::Pod(pod) => Change::UpsertPod(Pod::clone(pod)),
            })
            .collect();
        if self.rng.random_bool(0.5) {
            self.sync(world, changes.clone()).await;
        } else if !world.apply(changes).await {
            return;
        }
        let mut model = world.model();
        for learnt in some {
            match learnt {
                Learnt::Node(node) => drop(model.nodes.insert(node_name(&node), *node)),
                Learnt::NoNode(name) => drop(model.nodes.remove(&name)),
                Learnt::Pod(pod) => {
                    self.held.add(&pod);
                    model.told(*pod);
                }
            }
        }
    }

    /// Over the stream; when that fails, whatever became of it, the same changes are told again with `Apply`.
    async fn sync(&mut self, world: &World, changes: Vec<Change>) {
        let deltas = changes.iter().map(|change| Delta { change: Some(change.clone()) }).collect();
        let message = sync_request::Message::Batch(DeltaBatch { deltas });
        if !self.sent(world, SyncRequest { message: Some(message) }).await {
            world.apply(changes).await;
        }
    }

    async fn sent(&mut self, world: &World, request: SyncRequest) -> bool {
        let mut open = match self.open.take() {
            Some(open) => {
                // Why it is closed, the answers say.
                drop(open.requests.send(request).await);
                open
            }
            None => {
                let (requests, receiver) = mpsc::channel(1);
                drop(requests.try_send(request));
                let mut cluster = world.client.cluster();
                let opening = cluster.sync(ReceiverStream::new(receiver));
                let Ok(answers) = world.call("Sync opened", opening).await else { return false };
                Open { requests, answers, sequence: 0 }
            }
        };
        let reading = async { open.answers.message().await.map(tonic::Response::new) };
        let Ok(Some(answer)) = world.call("Sync", reading).await else { return false };
        if answer.sequence != open.sequence || !answer.rejections.is_empty() {
            world.differs(format!("Sync answered {answer:?} to request {}", open.sequence));
        }
        open.sequence += 1;
        self.sequence += 1;
        // A stream in a hundred is opened anew.
        self.open = Some(open).filter(|_| !self.sequence.is_multiple_of(100));
        true
    }

    /// Everything that feeds have told, told again in one generation.
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
            // Nothing has changed: a snapshot counts from its end on, and holds what is there already.
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
        if self.held.is_full() || self.rng.random_bool(0.6) {
            for _ in 0..3 {
                self.held.tend(world, &mut self.rng).await;
            }
            return;
        }
        let some = self.some(world);
        if !some.is_empty() {
            self.tell(world, some).await;
        }
    }
}
