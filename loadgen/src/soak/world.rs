//! [`World`], the state that all actors share: connections, the model of the cluster, the gate, and counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use berth_client::{Client, code_name};
use berth_proto::berth_v1::{ApplyRequest, Delta, delta};
use berth_proto::core_v1::{Node, Pod};
use berth_synthetic::cluster::SyntheticCluster;
use berth_synthetic::workload::{self, WorkloadSpec};
use tokio::sync::RwLock;
use tonic::{Request, Response, Status};

use super::model::{Key, Model, key, wire_key};
use super::scrape::Http;
use super::tally::Tally;
use super::{SoakError, SoakSpec};

/// Number of different pods; each placement uses one under a new name.
const N_TEMPLATES: usize = 400;

/// Timeout of a call. A response that takes longer is a difference.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Attempts to apply changes before the soak gives up, because its model no longer describes the server.
const MAX_ATTEMPTS: usize = 50;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);
/// Limit of the pods deleted in one call.
const DELETIONS_PER_CALL: usize = 1_000;

/// State shared by all actors and the recounts.
pub(super) struct World {
    pub(super) client: Client,
    pub(super) spec: SoakSpec,
    pub(super) http: Option<Http>,
    pub(super) pod_templates: Vec<Pod>,
    pub(super) node_templates: Vec<Node>,
    /// Held for reading by steps, for writing by recounts.
    pub(super) gate: RwLock<()>,
    /// Held for reading by deltas, for writing by snapshots: a snapshot would undo a delta that is applied while it is
    /// sent.
    pub(super) feed: RwLock<()>,
    model: Mutex<Model>,
    tally: Mutex<Tally>,
    n_steps: AtomicU64,
    has_lost_track: AtomicBool,
}

impl World {
    /// Replaces the server's cluster with the one of the specification. The server should have no assumed pods: the
    /// model does not know them.
    pub(super) async fn begin(
        client: Client,
        spec: SoakSpec,
        http: Option<Http>,
    ) -> Result<World, SoakError> {
        let templates = WorkloadSpec { n_pods: N_TEMPLATES, seed: spec.seed, ..Default::default() };
        let pod_templates = workload::generate(&templates);
        let mut cluster = SyntheticCluster::generate(&spec.cluster())?;
        cluster.add_services_of(&pod_templates);
        let model = Model::new(&cluster);
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

    /// Locks the model. A poisoned lock is taken all the same: a panic leaves the maps valid.
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

    /// Records that the server differs from its responses.
    pub(super) fn differs(&self, what: impl AsRef<str>) {
        self.tally().differs(what.as_ref());
    }

    /// Ends the comparison: from now on the model does not describe the server.
    pub(super) fn lose_track(&self, why: String) {
        if !self.has_lost_track.swap(true, Ordering::Relaxed) {
            self.differs(why);
        }
    }

    pub(super) fn has_lost_track(&self) -> bool {
        self.has_lost_track.load(Ordering::Relaxed)
    }

    /// Makes one call with a timeout and counts it under its method.
    pub(super) async fn call<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        let began = Instant::now();
        let answer = match tokio::time::timeout(CALL_TIMEOUT, call).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => {
                self.differs(format!("{method}: no response within {CALL_TIMEOUT:?}"));
                Err(Status::deadline_exceeded("no response"))
            }
        };
        match &answer {
            Ok(_) => {
                let mut tally = self.tally();
                tally.count(method, 1);
                tally.took(method, began.elapsed());
            }
            Err(status) => self.failed(method, code_name(status.code()), status.message()),
        }
        answer
    }

    /// Applies changes, with retries; returns whether the server took all of them. The caller holds `gate` and `feed`
    /// for reading.
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
        self.lose_track(format!("changes could not be applied in {MAX_ATTEMPTS} attempts"));
        false
    }

    /// Deletes pods, which may or may not exist.
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

    /// Records that a call failed with an unknown effect: its pods may or may not be assumed.
    pub(super) fn uncertain<'a>(&self, pods: impl IntoIterator<Item = &'a Pod>) {
        self.model().uncertain.extend(pods.into_iter().map(key));
    }

    /// Deletes all pods of the actors.
    pub(super) async fn release_all(&self) {
        let _closed = self.gate.write().await;
        if self.has_lost_track() {
            return;
        }
        let is_of_actor = |(_, name): &&Key| name.starts_with("soak-");
        let keys: Vec<Key> = self.model().pods.keys().filter(is_of_actor).cloned().collect();
        self.delete(&keys).await;
    }

    /// All counts.
    pub(super) fn take_tally(&self) -> Tally {
        std::mem::take(&mut *self.tally())
    }
}
