//! What the actors share: the connections, the model, the gate, and how a call is made.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::{Client, code_name};
use berth_proto::berth_v1::{ApplyRequest, Delta, delta};
use berth_proto::core_v1::{Node, Pod};
use berth_synthetic::cluster::SyntheticCluster;
use berth_synthetic::workload::{self, WorkloadSpec};
use tokio::sync::RwLock;
use tonic::{Request, Response, Status};

use super::model::{Key, Model, key, wire_key};
use super::scrape::Http;
use super::tally::{Differences, Done, Failures, Tally};
use super::{SoakError, SoakSpec};

/// Different pods that are placed, under ever new names.
const N_TEMPLATES: usize = 400;

/// An answer that takes longer is a fault of the server.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a feed is tried before the soak has lost track of the cluster.
const MAX_ATTEMPTS: usize = 50;
/// Between two of those.
const PAUSE: Duration = Duration::from_millis(200);
/// Pods that are deleted in one call.
const DELETIONS_PER_CALL: usize = 1_000;

pub(super) struct World {
    pub(super) client: Client,
    pub(super) spec: SoakSpec,
    pub(super) http: Option<Http>,
    pub(super) pod_templates: Vec<Pod>,
    pub(super) node_templates: Vec<Node>,
    /// Open for steps, closed for recounts.
    pub(super) gate: RwLock<()>,
    /// Open for deltas, closed for snapshots, which would undo deltas that came after they were begun.
    pub(super) feed: RwLock<()>,
    model: Mutex<Model>,
    tally: Mutex<Tally>,
    n_steps: AtomicU64,
    has_lost_track: AtomicBool,
}

impl World {
    /// Replaces the server's cluster by the one that the specification says. Pods that are assumed in the server already are not
    /// known: it should have none.
    pub(super) async fn begin(
        client: Client,
        spec: SoakSpec,
        http: Option<Http>,
    ) -> Result<World, SoakError> {
        let templates = WorkloadSpec { n_pods: N_TEMPLATES, seed: spec.seed, ..Default::default() };
        let pod_templates = workload::generate(&templates);
        let mut cluster = SyntheticCluster::generate(&spec.cluster())?;
        cluster.add_services_of(&pod_templates);
        let model = Model::of(&cluster);
        let node_templates = cluster.nodes.clone();
        let fed = client.feed(cluster.into_changes(), Arc::new(|_| ())).await?;
        if let Some(first) = fed.refused.first() {
            return Err(SoakError::Refused { n: fed.refused.len(), first: first.to_string() });
        }
        Ok(World {
            client,
            spec,
            http,
            pod_templates,
            node_templates,
            gate: RwLock::default(),
            feed: RwLock::default(),
            model: Mutex::new(model),
            tally: Mutex::default(),
            n_steps: AtomicU64::new(0),
            has_lost_track: AtomicBool::new(false),
        })
    }

    /// The model is whole even if a thread panicked while holding it.
    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, what: &'static str, n: usize) {
        self.tally().count(what, n as u64);
    }

    pub(super) fn count_step(&self) {
        self.n_steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn n_steps(&self) -> u64 {
        self.n_steps.load(Ordering::Relaxed)
    }

    pub(super) fn failed(&self, method: &str, code: &str, message: &str) {
        self.tally().failed(method, code, message);
    }

    /// The server is not what its answers said.
    pub(super) fn differs(&self, what: impl AsRef<str>) {
        self.tally().differs(what.as_ref());
    }

    /// From here on the model says nothing about the server.
    pub(super) fn lose_track(&self, why: String) {
        if !self.has_lost_track.swap(true, Ordering::Relaxed) {
            self.differs(why);
        }
    }

    pub(super) fn has_lost_track(&self) -> bool {
        self.has_lost_track.load(Ordering::Relaxed)
    }

    /// One call with patience, counted under its method.
    pub(super) async fn call<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        let answer = match tokio::time::timeout(PATIENCE, call).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => {
                self.differs(format!("{method}: no answer within {PATIENCE:?}"));
                Err(Status::deadline_exceeded("no answer"))
            }
        };
        match &answer {
            Ok(_) => self.count(method, 1),
            Err(status) => self.failed(method, code_name(status.code()), status.message()),
        }
        answer
    }

    /// Tells the server of changes until it has taken them. Whoever calls holds the gate, and `feed` open.
    pub(super) async fn apply(&self, changes: Vec<delta::Change>) -> bool {
        let deltas: Vec<Delta> =
            changes.into_iter().map(|change| Delta { change: Some(change) }).collect();
        for _ in 0..MAX_ATTEMPTS {
            if self.has_lost_track() {
                return false;
            }
            let mut cluster = self.client.cluster();
            let request = Request::new(ApplyRequest { deltas: deltas.clone() });
            match self.call("Apply", cluster.apply(request)).await {
                Ok(answer) => {
                    for refused in &answer.rejections {
                        self.differs(format!(
                            "the server refused {}: `{}`: {}",
                            refused.object, refused.field, refused.reason
                        ));
                    }
                    self.count("deltas", deltas.len());
                    return answer.rejections.is_empty();
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        self.lose_track(format!("changes were not taken in {MAX_ATTEMPTS} attempts"));
        false
    }

    /// Deletes pods, whether or not they are there.
    pub(super) async fn delete(&self, keys: &[Key]) {
        let _open = self.feed.read().await;
        for keys in keys.chunks(DELETIONS_PER_CALL) {
            let deletions = keys.iter().map(|key| delta::Change::DeletePod(wire_key(key)));
            if self.apply(deletions.collect()).await {
                let mut model = self.model();
                for key in keys {
                    model.pods.remove(key);
                }
            }
        }
    }

    /// It is not known what became of the pods of a call.
    pub(super) fn unsettled<'a>(&self, pods: impl IntoIterator<Item = &'a Pod>) {
        self.model().unsettled.extend(pods.into_iter().map(key));
    }

    /// Deletes every pod that came after the beginning.
    pub(super) async fn release_all(&self) {
        let _closed = self.gate.write().await;
        if self.has_lost_track() {
            return;
        }
        let ours = |(_, name): &&Key| name.starts_with("soak-");
        let keys: Vec<Key> = self.model().pods.keys().filter(ours).cloned().collect();
        self.delete(&keys).await;
    }

    pub(super) fn into_account(
        self: Arc<Self>,
    ) -> (Done, std::collections::BTreeMap<String, Failures>, Differences) {
        let tally = std::mem::take(&mut *self.tally());
        (tally.done, tally.errors, tally.differences)
    }
}
