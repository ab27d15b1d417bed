//! Cluster: the single writer and the snapshot it publishes. Callers share one `Arc<Cluster>`; readers never wait.

pub(crate) mod change;
pub(crate) mod delta;
pub(crate) mod batch_request;
mod batch;
mod gang;
pub(crate) mod fork;
mod session;
pub(crate) mod sighting;
pub(crate) mod history;
pub(crate) mod observer;
pub(crate) mod recollection;
mod record;
pub(crate) mod reservation;
pub(crate) mod commit;
pub(crate) mod extender;
pub(crate) mod release;
pub(crate) mod restore;
pub(crate) mod reserve;
mod step;
mod writer;
mod known;
pub(crate) mod listing;
mod directory;
mod images;
mod publish;
mod recent;

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_proto::{EncodedPod, Time, core_v1, resource_v1};
use imbl::OrdSet;

use crate::devices::claims::named_claims;
use crate::devices::hint;
use crate::devices::pre_bind::{
    AwaitedDevice, PreBind, PreBindError, awaited, pre_bind, unreserve, used_claims,
};
use crate::error::EngineError;
use crate::kernel::Kernels;
use crate::model::device::assigned::AssignedDevices;
use crate::model::device::claim::ResourceClaim;
use crate::model::{Model, ModelError, Node, Object, Pod, PodKey, WireObject};
use crate::place::decision::{Decision, Explanation, Outcome};
use crate::place::explain::ExplainOptions;
use crate::place::memo::Memo;
use crate::place::{self, Decided};
use crate::plan::Plan;
use crate::plan::request::PlaceRequest;
use crate::preempt;
use crate::preempt::outcome::{CandidateList, PostFilter, Preemption};
use crate::preempt::request::PreemptRequest;
use crate::snapshot::draft::Draft;
use crate::snapshot::{AssumptionStamp, Generation, Snapshot};
use change::Change;
use delta::{Applied, ClusterState, Delta};
use fork::Fork;
use observer::{Attempt, Observer};
use publish::Published;
use recent::RecentPods;
use step::Step;
use writer::Writer;

/// A cluster in memory.
#[derive(Debug)]
pub struct Cluster {
    model: Arc<Model>,
    kernels: Kernels,
    versions: Arc<AtomicU64>,
    writer: Mutex<Writer>,
    published: Published,
    memo: Memo,
    /// Results of searches for evictions, by shape and policy.
    searches: Memo<preempt::Known>,
    /// Results of searches for evictions among samples of the nodes, by shape and policy.
    samples: Memo<preempt::OfSamples>,
    /// The order in which searches among samples try the nodes.
    order: Arc<preempt::LastOrder>,
    /// Pods of requests that were compiled last; forks share it.
    recent: Arc<RecentPods>,
    /// The snapshot that this was forked from; `None` for a cluster that is no fork.
    base: Option<Arc<Snapshot>>,
    observer: Option<Arc<dyn Observer>>,
}

/// Number of commits tried against a published snapshot before the pod is decided under the writer's lock.
const OPTIMISTIC_TRIES: usize = 3;

impl Cluster {
    /// An empty cluster.
    pub fn new() -> Cluster {
        Cluster::with_kernels(Kernels::detect())
    }

    /// An empty cluster of which `observer` is told everything. Every object keeps its encoding, so that it can be
    /// written down.
    pub fn observed_by(observer: Arc<dyn Observer>) -> Cluster {
        Cluster::of_model(Kernels::detect(), Arc::new(Model::keeping_objects()))
            .watched_by(observer)
    }

    pub(crate) fn with_kernels(kernels: Kernels) -> Cluster {
        Cluster::of_model(kernels, Arc::new(Model::new()))
    }

    fn watched_by(mut self, observer: Arc<dyn Observer>) -> Cluster {
        let writer = self.writer.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.writer = Mutex::new(writer.watched_by(observer.clone()));
        self.observer = Some(observer);
        self
    }

    fn of_model(kernels: Kernels, model: Arc<Model>) -> Cluster {
        let versions = Arc::new(AtomicU64::new(1));
        let snapshot = Snapshot::empty(model.clone());
        Cluster {
            kernels,
            writer: Mutex::new(Writer::new(Draft::new(snapshot.clone(), versions.clone()))),
            published: Published::new(snapshot),
            memo: Memo::default(),
            searches: Memo::default(),
            samples: Memo::default(),
            order: Arc::default(),
            recent: Arc::default(),
            base: None,
            observer: None,
            versions,
            model,
        }
    }

    /// Compiles the pod of a request to facts; any thread, without the writer's lock. Errors name the field. What only
    /// this pod names is forgotten with it, and with the pod that is remembered because one like it came before.
    pub fn compile_pod(&self, pod: &core_v1::Pod) -> Result<Pod, ModelError> {
        self.recent.compile(pod, self.model.keeps_objects(), &self.model.lending())
    }

    /// The pod of a request as it was sent, if one that differs in name and uid only was compiled by
    /// [`Cluster::compile_sent_pod`] before; `keeps_object` as there.
    ///
    /// # Errors
    /// The name or the uid is malformed.
    pub fn recall_pod(
        &self,
        pod: &EncodedPod,
        keeps_object: bool,
    ) -> Result<Option<Pod>, ModelError> {
        let keeps_object = keeps_object || self.model.keeps_objects();
        self.recent.recall(pod, keeps_object, &self.model.lending())
    }

    /// Compiles the pod of a request, which is `encoded` as it was sent, like [`Cluster::compile_pod`], or like
    /// [`Cluster::compile_kept_pod`] if `keeps_object` is set. From now on [`Cluster::recall_pod`] may return it under
    /// other names: so it is one that the caller need not check again.
    pub fn compile_sent_pod(
        &self,
        pod: &core_v1::Pod,
        encoded: &EncodedPod,
        keeps_object: bool,
    ) -> Result<Pod, ModelError> {
        let keeps_object = keeps_object || self.model.keeps_objects();
        self.recent.compile_sent(pod, encoded, keeps_object, &self.model.lending())
    }

    /// Compiles the node of a request, which does not come into the cluster, like [`Cluster::compile_pod`].
    pub fn compile_template(&self, node: &core_v1::Node) -> Result<Node, ModelError> {
        self.model.lending().compile_node(node)
    }

    /// Compiles a pod that a feed reports, like [`Cluster::compile_pod`]; the pod is kept as it was reported, so that
    /// [`Pod::reported`] has it.
    pub fn compile_reported_pod(&self, pod: &core_v1::Pod) -> Result<Pod, ModelError> {
        self.keeping().compile_reported_pod(pod)
    }

    /// Compiles the pod of a request like [`Cluster::compile_pod`], and keeps its object, so that [`Pod::object`] has
    /// it, also of its replicas and once it is assumed.
    pub fn compile_kept_pod(&self, pod: &core_v1::Pod) -> Result<Pod, ModelError> {
        self.recent.compile(pod, true, &self.model.lending())
    }

    /// Compiles a node to facts; any thread, without the writer's lock. Errors name the field.
    pub fn compile_node(&self, node: &core_v1::Node) -> Result<Node, ModelError> {
        self.keeping().compile_node(node)
    }

    /// The newest published snapshot; lock-free.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.load()
    }

    /// Compiles any other object to facts; any thread, without the writer's lock. Errors name the field.
    pub fn compile_object<'a>(
        &self,
        object: impl Into<WireObject<'a>>,
    ) -> Result<Object, ModelError> {
        self.keeping().compile_object(object.into())
    }

    /// The tables for what comes into the cluster: a fork lends its names, since it ends.
    fn keeping(&self) -> Cow<'_, Model> {
        match self.base {
            None => Cow::Borrowed(&self.model),
            Some(_) => Cow::Owned(self.model.lending()),
        }
    }

    /// Number of distinct scheduling-relevant pod specs that are known.
    pub fn n_shapes(&self) -> usize {
        self.model.shapes().len()
    }

    /// Applies deltas in order and publishes one generation. Rejected deltas are skipped and listed. On a fork deltas
    /// are suppositions.
    pub fn apply(&self, deltas: Vec<Delta>) -> Applied {
        let mut writer = self.writer();
        let supposed = self.base.is_some().then(|| {
            let named: Vec<PodKey> =
                deltas.iter().filter_map(|delta| delta.pod().cloned()).collect();
            (writer.draft.snapshot.clone(), named)
        });
        let mut rejected = Vec::new();
        for (index, delta) in deltas.into_iter().enumerate() {
            writer.note(|| Change::Delta(delta.clone()));
            writer.apply_one(index, delta, &mut rejected);
        }
        let generation = self.publish(&mut writer);
        if let Some((before, named)) = supposed {
            writer.suppose(&before, Some(&named));
        }
        Applied { generation, rejected }
    }

    /// Replaces the cluster's content by exactly these objects, in one generation; assumed pods stay, contradictions
    /// are forgotten. A second object of one name is rejected.
    pub fn replace(&self, state: ClusterState) -> Applied {
        let mut writer = self.writer();
        let supposed = self.base.is_some().then(|| writer.draft.snapshot.clone());
        let rejected = writer.replace(state);
        let generation = self.publish(&mut writer);
        if let Some(before) = supposed {
            writer.suppose(&before, None);
        }
        Applied { generation, rejected }
    }

    /// Decides for one pod; the cluster is not changed.
    pub fn place(&self, request: &PlaceRequest<'_>) -> Result<Decision, EngineError> {
        let snapshot = self.snapshot();
        let result = self.decide(&snapshot, request).map(|decided| decided.decision);
        self.tell_placed(snapshot.generation, (request, false), &result);
        result
    }

    /// Decides for one pod and commits: the pod takes its room at once (S-CCH-2).
    ///
    /// The commit is a compare-and-swap on the decision's basis: the chosen row, and also other nodes and volumes for
    /// pods whose filters read them. If the basis changed in the meantime, the pod is decided again on the newest
    /// snapshot, after a few tries under the writer's lock. Two callers never get the same room, nor a spread or an
    /// affinity that only one of them can have.
    pub fn assume(&self, request: &PlaceRequest<'_>) -> Result<Decision, EngineError> {
        check_uid(request.pod)?;
        let (generation, result) = self.decide_and_commit(request)?;
        self.tell_placed(generation, (request, true), &result);
        result
    }

    /// Decides for one pod and explains the decision in full; the cluster is not changed.
    pub fn explain(&self, request: &PlaceRequest<'_>) -> Result<Explanation, EngineError> {
        self.explain_unless(request, &|_| false, &|| false)
    }

    /// Explains like [`Cluster::explain`]; everything that was compared is told of the nodes for whose names
    /// `is_detailed` is true. `cancelled` is called every few hundred nodes, for each score and for each remedy that is
    /// tried.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`] as soon as `cancelled` returns true.
    pub fn explain_unless(
        &self,
        request: &PlaceRequest<'_>,
        is_detailed: &dyn Fn(&str) -> bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Explanation, EngineError> {
        let snapshot = self.snapshot();
        let mut plan = Plan::new(&snapshot, request, self.kernels);
        let options = ExplainOptions { is_detailed, cancelled };
        place::explain(&mut plan, request.tie_break, &self.versions, &options)
    }

    /// Runs a whole scheduling attempt: like `place`, and where no node is feasible, finds pods to evict (S-PRE-1,
    /// S-PRE-21). The cluster is not changed.
    pub fn preempt(&self, request: &PreemptRequest<'_>) -> Result<Preemption, EngineError> {
        let snapshot = self.snapshot();
        let PreemptRequest { pod, policy, tie_break, now, .. } = *request;
        let place = PlaceRequest { pod, policy, tie_break, now };
        let mut plan = Plan::new(&snapshot, &place, self.kernels);
        let result = self.memo.with(&mut plan, |plan, evaluation| {
            let mut attempt = |plan: &mut Plan<'_>, known: &mut preempt::Known| {
                preempt::preempt(plan, (evaluation, known), request, &self.versions)
            };
            match request.options.sample {
                None => self.searches.with(plan, attempt),
                Some(_) => self
                    .samples
                    .with(plan, |plan, known| attempt(plan, known.with_order(&self.order))),
            }
        });
        if !matches!(result, Err(EngineError::Cancelled)) {
            let result = result.as_ref();
            self.tell(snapshot.generation, || Attempt::Preempt { request, result });
        }
        result
    }

    /// Runs an attempt like [`Cluster::preempt`]; returns every candidate, and why the other nodes are not candidates.
    pub fn list_candidates(
        &self,
        request: &PreemptRequest<'_>,
    ) -> Result<CandidateList, EngineError> {
        let snapshot = self.snapshot();
        let PreemptRequest { pod, policy, tie_break, now, .. } = *request;
        let place = PlaceRequest { pod, policy, tie_break, now };
        let mut plan = Plan::new(&snapshot, &place, self.kernels);
        self.memo.with(&mut plan, |plan, evaluation| {
            preempt::list_candidates(plan, evaluation, request, &self.versions)
        })
    }

    /// The claims to write to the API server before a pod is bound, with the devices that its node gives (S-DRA-94).
    /// `now` is the time of an allocation.
    ///
    /// Errors: a claim that is gone, or was allocated or deallocated in the meantime.
    pub fn pre_bind(
        &self,
        pod: &Pod,
        devices: Option<&AssignedDevices>,
        now: Time,
    ) -> Result<PreBind, PreBindError> {
        pre_bind(pod, devices, &self.snapshot().devices, now)
    }

    /// The claims that change when a pod's reservations are taken back, after PreBind has written some (S-DRA-95).
    pub fn unreserve(
        &self,
        pod: &Pod,
        written: &[resource_v1::ResourceClaim],
    ) -> Vec<resource_v1::ResourceClaim> {
        unreserve(pod, written, &self.snapshot().devices)
    }

    /// Whether all claims of a pod are allocated and reserved for it, and their devices are ready (S-DRA-99).
    ///
    /// Errors: a claim that cannot be used, or a device that failed.
    pub fn are_devices_ready(&self, pod: &Pod) -> Result<bool, PreBindError> {
        let snapshot = self.snapshot();
        let claims = used_claims(pod, &snapshot.devices)?;
        let is_reserved =
            |claim: &&ResourceClaim| claim.reserved_for.iter().any(|uid| **uid == *pod.uid());
        Ok(awaited(&claims)?.is_empty() && claims.iter().all(is_reserved))
    }

    /// Whether a claim that was added, or updated from `old`, may help a pod that DynamicResources rejected.
    pub fn claim_helps(
        &self,
        pod: &Pod,
        old: Option<&resource_v1::ResourceClaim>,
        new: &resource_v1::ResourceClaim,
    ) -> bool {
        hint::claim_helps(pod, old, new, &self.snapshot().devices)
    }

    /// Whether an update of a pod may help a pod that DynamicResources rejected.
    pub fn update_helps(&self, pod: &Pod, updated: &Pod) -> bool {
        hint::update_helps(pod, updated, &self.snapshot().devices)
    }

    /// Whether every claim for devices that a pod names can be used by it (S-DRA-10, S-DRA-11). A pod that names none
    /// has nothing to wait for.
    pub fn has_usable_claims(&self, pod: &Pod) -> bool {
        hint::has_usable_claims(pod, &self.snapshot().devices)
    }

    /// Names of the claims for devices that a pod names, as far as they are there.
    pub fn device_claims_of(&self, pod: &Pod) -> Vec<String> {
        let snapshot = self.snapshot();
        let claims = named_claims(pod, &snapshot.devices).unwrap_or_default();
        claims.iter().map(|claim| claim.key.name.to_string()).collect()
    }

    /// Names of the claims that were created for a pod's extended resources.
    pub fn extended_claims_of(&self, pod: &Pod) -> Vec<String> {
        let snapshot = self.snapshot();
        let claims = snapshot.devices.extended_claims_of(pod.uid());
        claims.map(|claim| claim.key.name.to_string()).collect()
    }

    /// The conditions of devices that a pod waits for before it is bound, once its claims are written (S-DRA-99).
    ///
    /// Errors: a claim that cannot be used, or a device that failed.
    pub fn awaited_devices(&self, pod: &Pod) -> Result<Vec<AwaitedDevice>, PreBindError> {
        let snapshot = self.snapshot();
        awaited(&used_claims(pod, &snapshot.devices)?)
    }

    /// Applies an attempt's nominations: the pod, which becomes pending if it was unknown, is nominated to its node,
    /// and pods of lower priority lose their nominations to that node (S-PRE-21, S-PRE-24). The victims stay until a
    /// feed reports their deletion.
    pub fn nominate(&self, pod: &Pod, post_filter: &PostFilter) -> Result<Generation, EngineError> {
        let mut writer = self.writer();
        check_not_placed(&writer, pod)?;
        let steps = Step::of_post_filter(pod, post_filter, &writer.draft.snapshot);
        steps.into_iter().for_each(|step| writer.carry_out(step));
        Ok(self.publish(&mut writer))
    }

    /// Undoes assumptions and nominations of pods of these names and uids, in one generation; other pods stay. On a
    /// fork the pods then count as never decided, which, unlike deleting them, is no supposition.
    pub fn take_back(&self, pods: &[(PodKey, Arc<str>)]) -> Generation {
        let mut writer = self.writer();
        pods.iter().for_each(|(key, uid)| writer.take_back(key, uid));
        self.publish(&mut writer)
    }

    /// Fences a node or lifts its fence, whether or not the cluster has the node now (S-FNC-2). Returns whether that
    /// changed anything; only then a generation is published. A session that was opened before keeps the fences that it
    /// began with, as it keeps the rest of the cluster.
    pub fn set_fenced(&self, node: &str, is_fenced: bool) -> bool {
        let mut writer = self.writer();
        let is_changed = writer.set_fenced(&node.into(), is_fenced);
        if is_changed {
            self.publish(&mut writer);
        }
        is_changed
    }

    /// Fences exactly these nodes, in one generation. Returns whether that changed anything.
    pub fn replace_fences<'n>(&self, nodes: impl IntoIterator<Item = &'n str>) -> bool {
        let mut writer = self.writer();
        let fenced: OrdSet<Arc<str>> = nodes.into_iter().map(Arc::from).collect();
        let before = writer.draft.snapshot.fences.clone();
        for node in before.iter().filter(|node| !fenced.contains(*node)) {
            writer.set_fenced(node, false);
        }
        for node in fenced.iter().filter(|node| !before.contains(*node)) {
            writer.set_fenced(node, true);
        }
        let is_changed = before != fenced;
        if is_changed {
            self.publish(&mut writer);
        }
        is_changed
    }

    /// A private copy of a snapshot of this cluster.
    pub(crate) fn fork_of<'a>(&'a self, snapshot: &'a Snapshot) -> Fork<'a> {
        Fork::of(snapshot, self.versions.clone(), &self.memo)
    }

    /// The published snapshot, and the nodes of those of these pods that have one.
    pub(crate) fn held_now<'p>(
        &self,
        pods: impl IntoIterator<Item = &'p Pod>,
    ) -> (Arc<Snapshot>, Vec<Option<Arc<str>>>) {
        let writer = self.writer();
        (self.snapshot(), pods.into_iter().map(|pod| writer.node_of(pod.key())).collect())
    }

    pub(crate) fn kernels(&self) -> Kernels {
        self.kernels
    }

    fn decide(
        &self,
        snapshot: &Snapshot,
        request: &PlaceRequest<'_>,
    ) -> Result<Decided, EngineError> {
        let mut plan = Plan::new(snapshot, request, self.kernels);
        let tie_break = request.tie_break;
        self.memo.with(&mut plan, |plan, evaluation| place::decide(plan, evaluation, tie_break))
    }

    /// Decides and commits; the result with the generation that it was decided on. Where the pod is on a node already, an
    /// error, and nothing is decided.
    fn decide_and_commit(
        &self,
        request: &PlaceRequest<'_>,
    ) -> Result<(Generation, Result<Decision, EngineError>), EngineError> {
        for _ in 0..OPTIMISTIC_TRIES {
            let snapshot = self.snapshot();
            let decided = match self.decide(&snapshot, request) {
                Ok(decided) => decided,
                Err(error) => return Ok((snapshot.generation, Err(error))),
            };
            let Some(step) = Step::of(request.pod, &decided) else {
                return Ok((snapshot.generation, Ok(decided.decision)));
            };
            let mut writer = self.writer();
            check_not_placed(&writer, request.pod)?;
            if step.changed(&snapshot, &writer.draft.snapshot).is_none() {
                let stamp = AssumptionStamp::after(writer.draft.snapshot.generation);
                writer.carry_out(step);
                self.publish(&mut writer);
                return Ok((snapshot.generation, Ok(as_assumed(decided.decision, stamp))));
            }
        }
        let mut writer = self.writer();
        check_not_placed(&writer, request.pod)?;
        let generation = writer.draft.snapshot.generation;
        let result = self.assume_next(&mut writer, request);
        self.publish(&mut writer);
        Ok((generation, result))
    }

    /// Decides on the writer's own state and commits, without publishing.
    fn assume_next(
        &self,
        writer: &mut Writer,
        request: &PlaceRequest<'_>,
    ) -> Result<Decision, EngineError> {
        let pod = request.pod;
        check_uid(pod)?;
        check_not_placed(writer, pod)?;
        writer.refresh_images();
        let decided = self.decide(&writer.draft.snapshot, request)?;
        let Some(step) = Step::of(pod, &decided) else { return Ok(decided.decision) };
        let stamp = AssumptionStamp::after(writer.draft.snapshot.generation);
        writer.carry_out(step);
        Ok(as_assumed(decided.decision, stamp))
    }

    /// Tells the observer, if there is one, of an attempt that was made on this generation.
    fn tell<'a>(&self, generation: Generation, attempt: impl FnOnce() -> Attempt<'a>) {
        if let Some(observer) = &self.observer {
            observer.decided(generation, &attempt());
        }
    }

    fn tell_placed(
        &self,
        generation: Generation,
        (request, assumes): (&PlaceRequest<'_>, bool),
        result: &Result<Decision, EngineError>,
    ) {
        let result = result.as_ref();
        self.tell(generation, || Attempt::Place { request, assumes, result });
    }

    /// Locks the writer. The lock is only held by code that finishes its change, so a poisoned lock is usable.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, writer: &mut Writer) -> Generation {
        let snapshot = writer.snapshot();
        let generation = snapshot.generation;
        self.published.store(snapshot);
        writer.tell(generation);
        generation
    }
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster::new()
    }
}

/// Checks that the pod has a uid: an assumed pod is identified by it until a feed confirms the pod (S-CCH-1).
fn check_uid(pod: &Pod) -> Result<(), EngineError> {
    if pod.uid().is_empty() {
        return Err(ModelError::new("metadata.uid", "is missing").into());
    }
    Ok(())
}

fn check_not_placed(writer: &Writer, pod: &Pod) -> Result<(), EngineError> {
    match writer.node_of(pod.key()) {
        Some(node) => Err(EngineError::AlreadyPlaced { pod: pod.key().clone(), node }),
        None => Ok(()),
    }
}

fn as_assumed(mut decision: Decision, stamp: AssumptionStamp) -> Decision {
    if let Outcome::Placed(placement) = &mut decision.outcome {
        (placement.assumed, placement.stamp) = (true, Some(stamp));
    }
    decision
}

#[cfg(test)]
mod tests;
