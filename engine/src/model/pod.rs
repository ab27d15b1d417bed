//! Facts of a pod: its identity, its node, and its shape.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;

use berth_proto::{core_v1, meta_v1};
use prost::Message as _;
use rustc_hash::FxBuildHasher;

use super::Model;
use super::ModelError;
use super::controller::{ControllerId, ControllerKey};
use super::device::pod_claims::PodDeviceClaims;
use super::drainability::Drainability;
use super::intern::Lease;
use super::kept::{KeptPod, Source};
use super::key::{ClaimKey, ObjectKey, ObjectKind, PodKey};
use super::label::{self, Labels, check_name};
use super::nameless::Nameless;
use super::population::{Population, PopulationFacts};
use super::requests::PodRequests;
use super::shape::{Footprint, Shape, ShapeFacts};
use super::table::table_bytes;
use super::volume::{Disk, PodVolumes};

/// A compiled pod. Cheap to clone: everything behind it is shared.
#[derive(Clone, Debug)]
pub struct Pod(Arc<PodFacts>);

#[derive(Clone, Debug)]
pub(crate) struct PodFacts {
    pub(crate) key: PodKey,
    pub(crate) uid: Arc<str>,
    pub(crate) node_name: Option<Arc<str>>,
    pub(crate) resource_version: Option<u64>,
    pub(crate) is_terminal: bool,
    pub(crate) shape: Arc<Shape>,
    pub(crate) population: Arc<Population>,
    /// The owning controller, if default constraints look at its kind.
    pub(crate) owner: Option<ControllerKey>,
    /// The owning controller, whatever its kind.
    pub(crate) controller: Option<ControllerId>,
    /// The pod's volumes; `None` where placement reads none of them.
    pub(crate) volumes: Option<Arc<PodVolumes>>,
    /// The pod's claims for devices; `None` for a pod without any.
    pub(crate) device_claims: Option<Arc<PodDeviceClaims>>,
    /// The pod's footprint on its node where the status differs from the spec (S-FIT-5).
    pub(crate) resized: Option<Arc<Footprint>>,
    pub(crate) preemption: PreemptionFacts,
    pub(crate) drainability: Arc<Drainability>,
    pub(crate) times: PodTimes,
    /// Whether the condition `Ready` is true.
    pub(crate) is_ready: bool,
    /// Whether the kept object is one that a feed reported.
    pub(crate) is_reported: bool,
    /// The pod's object; `None` where it is not kept.
    pub(crate) kept: Option<KeptPod>,
    /// Holds the names that only this pod brought; `None` where all are kept.
    pub(crate) lease: Option<Arc<Lease>>,
}

/// When a pod was created and when it is deleted, in seconds since 1970.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct PodTimes {
    /// `metadata.creationTimestamp`; [`i64::MAX`] where there is none.
    pub(crate) created: i64,
    /// `metadata.deletionTimestamp`, which includes the grace period; [`i64::MAX`] where there is none.
    pub(crate) deleted: i64,
}

/// Facts of a pod that preemption reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PreemptionFacts {
    /// Whether `spec.preemptionPolicy` is not `Never` (S-PRE-2).
    pub(crate) may_preempt: bool,
    /// `status.nominatedNodeName`.
    pub(crate) nominated_node: Option<Arc<str>>,
    /// `status.startTime` in seconds since 1970; [`NOT_STARTED`] where there is none.
    pub(crate) start_time: i64,
    /// Whether the pod is being deleted to make room for a pod of higher priority (S-PRE-3).
    pub(crate) is_preempted: bool,
}

/// Start time of a pod that has none: it counts as started now, which is later than any other (S-PRE-10).
pub(crate) const NOT_STARTED: i64 = i64::MAX;

impl Pod {
    pub(crate) fn compile(pod: &core_v1::Pod, model: &Model) -> Result<Pod, ModelError> {
        Pod::compile_encoded(pod, &[], model)
    }

    /// Compiles a pod like [`Pod::compile`], whose encoding is known: specs like its own may have been compiled before.
    pub(crate) fn compile_requested(
        pod: &core_v1::Pod,
        encoded: &Nameless,
        model: &Model,
    ) -> Result<Pod, ModelError> {
        Pod::compile_encoded(pod, encoded.spec(), model)
    }

    /// Compiles a pod. The encoding of its spec is empty where it is not known.
    fn compile_encoded(
        pod: &core_v1::Pod,
        encoded_spec: &[u8],
        model: &Model,
    ) -> Result<Pod, ModelError> {
        let key = compile_key(pod, model)?;
        let Some(spec) = &pod.spec else {
            return Err(ModelError::new("spec", "is missing"));
        };
        let (metadata, names) = (pod.metadata.as_ref(), model.names());
        let population = compile_population(metadata, &key, model)?;
        let (shape, resized) = match known_by(encoded_spec, pod, spec, &key) {
            Some(encoded) => (recent_shape(&encoded, pod, spec, &population, model)?, None),
            None => compile_shape(pod, spec, &population, model)?,
        };
        let phase = pod.status.as_ref().map_or("", |status| status.phase.as_str());
        Ok(Pod(Arc::new(PodFacts {
            uid: metadata.map_or("", |m| m.uid.as_str()).into(),
            node_name: compile_reference("spec.nodeName", &spec.node_name, model)?,
            resource_version: metadata.and_then(|m| m.resource_version.parse().ok()),
            is_terminal: matches!(phase, "Succeeded" | "Failed"),
            shape,
            owner: metadata.and_then(|m| ControllerKey::of_pod(m, &key.namespace, model.names())),
            controller: metadata.and_then(ControllerId::of_pod),
            population,
            resized,
            volumes: PodVolumes::compile(&spec.volumes, &key, model.names()),
            device_claims: PodDeviceClaims::compile(pod),
            preemption: PreemptionFacts::compile(pod, spec, model)?,
            drainability: Drainability::compile(metadata, spec, names)
                .shared(model.drainabilities(), names),
            times: PodTimes::of(metadata),
            is_ready: pod.status.as_ref().is_some_and(is_ready),
            is_reported: false,
            kept: None,
            lease: names.lease(),
            key,
        })))
    }

    /// Compiles a pod that a feed reports like [`Pod::compile`], and keeps its object.
    pub(crate) fn compile_reported(pod: &core_v1::Pod, model: &Model) -> Result<Pod, ModelError> {
        let compiled = Pod::compile(pod, model)?;
        // The pods of a controller are alike, and so may be those of a namespace that have none.
        let controller = compiled.facts().controller;
        let kin = FxBuildHasher.hash_one((controller, &compiled.key().namespace));
        let kept = KeptPod::difference(pod, kin, model.patterns());
        Ok(compiled.keeping(Some(kept), Source::Feed))
    }

    /// A copy of the pod with another object.
    pub(crate) fn keeping(self, kept: Option<KeptPod>, source: Source) -> Pod {
        let mut facts = Arc::unwrap_or_clone(self.0);
        facts.is_reported = kept.is_some() && source == Source::Feed;
        facts.kept = kept;
        Pod(Arc::new(facts))
    }

    /// The pod as a feed reported it, with the node that it is on here. `None` where no feed has reported it: a pod of
    /// a request, or one that was placed for a request and is assumed.
    pub fn reported(&self) -> Option<core_v1::Pod> {
        self.0.is_reported.then(|| self.object())?
    }

    /// The pod's object under its name, with the node that it is on here. `None` where it is not kept: see
    /// [`Cluster::compile_kept_pod`](crate::Cluster::compile_kept_pod).
    pub fn object(&self) -> Option<core_v1::Pod> {
        let PodFacts { key, uid, node_name, kept, .. } = &*self.0;
        let mut pod = kept.as_ref()?.decode()?;
        let metadata = pod.metadata.get_or_insert_default();
        (metadata.name, metadata.uid) = (key.name.to_string(), uid.to_string());
        if let Some(node) = node_name {
            pod.spec.get_or_insert_default().node_name = node.to_string();
        }
        Some(pod)
    }

    /// The encoding of what the pod's object has besides its name, its uid and its node. `None` where it is not kept.
    pub fn encoded(&self) -> Option<Cow<'_, [u8]>> {
        self.0.kept.as_ref()?.encoded()
    }

    /// The encoding that pods of requests share where they differ in name and uid only. `None` for other pods, and where
    /// it is not kept.
    pub fn shared_encoding(&self) -> Option<&Arc<Box<[u8]>>> {
        self.0.kept.as_ref()?.shared_encoding()
    }

    /// Whether a feed has reported the pod's object.
    pub fn is_reported(&self) -> bool {
        self.0.is_reported
    }

    /// Whether both have one object, except for their names and uids: replicas of a template, and pods of requests that
    /// are alike.
    pub fn has_object_of(&self, other: &Pod) -> bool {
        let both = self.0.kept.as_ref().zip(other.0.kept.as_ref());
        both.is_some_and(|(one, other)| one.is_the_same_as(other))
    }

    /// Namespace and name.
    pub fn key(&self) -> &PodKey {
        &self.0.key
    }

    /// `metadata.uid`, empty when there is none.
    pub fn uid(&self) -> &str {
        &self.0.uid
    }

    /// `metadata.uid`, in memory once for all copies of the pod; empty when there is none.
    pub fn shared_uid(&self) -> &Arc<str> {
        &self.0.uid
    }

    /// `spec.nodeName`, if set.
    pub fn node_name(&self) -> Option<&str> {
        self.0.node_name.as_deref()
    }

    /// `spec.priority`, 0 when absent (S-Q-3).
    pub fn priority(&self) -> i32 {
        self.0.shape.facts.priority
    }

    /// `spec.schedulerName`, `default-scheduler` when absent.
    pub fn scheduler_name(&self) -> &str {
        &self.0.shape.facts.scheduler_name
    }

    /// `metadata.resourceVersion`, where it is a number.
    pub fn resource_version(&self) -> Option<u64> {
        self.0.resource_version
    }

    /// `status.nominatedNodeName`, if set.
    pub fn nominated_node_name(&self) -> Option<&str> {
        self.0.preemption.nominated_node.as_deref()
    }

    /// Whether the pod is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.0.population.facts.is_terminating
    }

    /// Whether the pod's phase is `Succeeded` or `Failed`: such a pod is handled as deleted (S-Q-1).
    pub fn is_terminal(&self) -> bool {
        self.0.is_terminal
    }

    /// Non-zero requests by resource name: cpu in milli-units, everything else in whole units.
    pub fn requests(&self) -> Vec<(Arc<str>, i64)> {
        self.0.shape.requests.to_vec()
    }

    /// A copy of the pod under another name: a replica.
    pub fn with_identity(&self, key: PodKey, uid: &str) -> Pod {
        let volumes = self.0.volumes.as_ref().map(|volumes| volumes.of_pod(&key));
        let device_claims = self.copied_claims();
        Pod(Arc::new(PodFacts {
            key,
            uid: uid.into(),
            volumes,
            device_claims,
            is_reported: false,
            ..(*self.0).clone()
        }))
    }

    /// The pod that would be compiled from an object which differs in name and uid only.
    ///
    /// # Errors
    /// The name or the uid is malformed.
    pub(crate) fn renamed(&self, name: &str, uid: &str) -> Result<Pod, ModelError> {
        check_name("metadata.name", name)?;
        check_uid(uid)?;
        let key = PodKey { namespace: self.key().namespace.clone(), name: name.into() };
        Ok(self.with_identity(key, uid))
    }

    /// Whether [`Pod::with_identity`] leaves nothing out: claims for devices are made for one pod.
    pub fn is_copied_whole(&self) -> bool {
        self.0.device_claims.is_none()
    }

    fn copied_claims(&self) -> Option<Arc<PodDeviceClaims>> {
        self.0.device_claims.as_ref().map(|claims| Arc::new(claims.of_copy()))
    }

    /// A copy of the pod with another spec, whose shape is in no table.
    pub(crate) fn changed(&self, facts: ShapeFacts, model: &Model) -> Pod {
        let shape = Arc::new(Shape::apart(facts, model.names()));
        Pod(Arc::new(PodFacts { shape, ..(*self.0).clone() }))
    }

    /// A copy of the pod without some claims of its namespace.
    pub(crate) fn without_claims(&self, names: &[Arc<str>]) -> Pod {
        let volumes = self.0.volumes.as_ref().and_then(|volumes| volumes.without_claims(names));
        Pod(Arc::new(PodFacts { volumes, ..(*self.0).clone() }))
    }

    /// A copy of the pod on a node, without its nomination (S-CYC-8).
    pub(crate) fn on_node(&self, node_name: Arc<str>) -> Pod {
        let preemption = PreemptionFacts { nominated_node: None, ..self.0.preemption.clone() };
        Pod(Arc::new(PodFacts { node_name: Some(node_name), preemption, ..(*self.0).clone() }))
    }

    /// A copy of the pod without a node.
    pub(crate) fn without_node(&self) -> Pod {
        Pod(Arc::new(PodFacts { node_name: None, ..(*self.0).clone() }))
    }

    /// The pod that would replace this one after an eviction: without a node, as its spec says, and not being deleted.
    pub(crate) fn anew(&self, model: &Model) -> Pod {
        let preemption = PreemptionFacts {
            nominated_node: None,
            start_time: NOT_STARTED,
            ..self.0.preemption.clone()
        };
        let population = if self.is_terminating() {
            let facts =
                PopulationFacts { is_terminating: false, ..self.0.population.facts.clone() };
            model.populations().intern(facts, self.0.lease.clone(), Population::new)
        } else {
            self.0.population.clone()
        };
        let times = PodTimes { deleted: i64::MAX, ..self.0.times };
        let facts = (*self.0).clone();
        Pod(Arc::new(PodFacts {
            node_name: None,
            resized: None,
            preemption,
            population,
            times,
            device_claims: self.copied_claims(),
            ..facts
        }))
    }

    /// A copy of the pod, nominated to a node or to none.
    pub(crate) fn nominated_to(&self, nominated_node: Option<Arc<str>>) -> Pod {
        let preemption = PreemptionFacts { nominated_node, ..self.0.preemption.clone() };
        Pod(Arc::new(PodFacts { preemption, ..(*self.0).clone() }))
    }

    /// Whether both are one pod: by uid, or by name where one has no uid.
    pub(crate) fn is_same_as(&self, other: &Pod) -> bool {
        if self.uid().is_empty() || other.uid().is_empty() {
            return self.key() == other.key();
        }
        self.uid() == other.uid()
    }

    pub(crate) fn facts(&self) -> &PodFacts {
        &self.0
    }

    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.0.shape
    }

    /// The pod's volumes; `None` where placement reads none of them.
    pub(crate) fn volumes(&self) -> Option<&Arc<PodVolumes>> {
        self.0.volumes.as_ref()
    }

    /// Whether the pod names claims for devices.
    pub fn has_device_claims(&self) -> bool {
        self.facts().device_claims.as_ref().is_some_and(|claims| !claims.entries.is_empty())
    }

    /// The claims for devices that the pod names, whether they are there or not; without those whose names are not
    /// known yet (S-DRA-10).
    pub fn named_device_claims(&self) -> impl Iterator<Item = ObjectKey> {
        let claims = self.facts().device_claims.as_ref();
        let names = claims.map_or(&[][..], |claims| &claims.entries).iter();
        names.filter_map(|entry| entry.source.own_claim()).map(|name| ObjectKey {
            kind: ObjectKind::ResourceClaim,
            namespace: self.key().namespace.clone(),
            name: name.clone(),
        })
    }

    /// Whether placing the pod may bind more than room: volumes or devices.
    pub(crate) fn is_bound_to_objects(&self) -> bool {
        let facts = self.facts();
        facts.volumes.is_some()
            || facts.device_claims.is_some()
            || facts.shape.facts.extended.is_some()
    }

    /// Whether the pod uses a disk that is this one.
    pub(crate) fn uses_disk(&self, disk: &Disk) -> bool {
        self.volumes().is_some_and(|volumes| volumes.disks.iter().any(|own| own.is_same_as(disk)))
    }

    /// Whether the pod names a claim that is not made for it.
    pub(crate) fn names_claim(&self, key: &ClaimKey) -> bool {
        let claims = self.volumes().map_or(&[][..], |volumes| &volumes.claims);
        claims.iter().any(|named| named.key == *key && !named.is_ephemeral())
    }

    pub(crate) fn population(&self) -> &Arc<Population> {
        &self.0.population
    }

    /// Amounts that the pod adds to the sums of its node.
    pub(crate) fn footprint(&self) -> &Footprint {
        self.0.resized.as_deref().unwrap_or(&self.0.shape.facts.footprint)
    }
}

impl PodTimes {
    fn of(metadata: Option<&meta_v1::ObjectMeta>) -> PodTimes {
        let seconds = |time: Option<berth_proto::Time>| time.and_then(|time| time.unix_seconds());
        PodTimes {
            created: seconds(metadata.and_then(|m| m.creation_timestamp)).unwrap_or(i64::MAX),
            deleted: seconds(metadata.and_then(|m| m.deletion_timestamp)).unwrap_or(i64::MAX),
        }
    }
}

impl PreemptionFacts {
    fn compile(
        pod: &core_v1::Pod,
        spec: &core_v1::PodSpec,
        model: &Model,
    ) -> Result<PreemptionFacts, ModelError> {
        let status = pod.status.as_ref();
        let nominated = status.map_or("", |status| status.nominated_node_name.as_str());
        let is_terminating = pod.metadata.as_ref().is_some_and(|m| m.deletion_timestamp.is_some());
        let may_preempt = match spec.preemption_policy.as_deref() {
            None | Some("" | "PreemptLowerPriority") => true,
            Some("Never") => false,
            Some(other) => {
                let reason = format!("`{}` is not a preemption policy", label::clip(other));
                return Err(ModelError::new("spec.preemptionPolicy", reason));
            }
        };
        let start_time = status.and_then(|status| status.start_time?.unix_seconds());
        Ok(PreemptionFacts {
            may_preempt,
            nominated_node: compile_reference("status.nominatedNodeName", nominated, model)?,
            start_time: start_time.unwrap_or(NOT_STARTED),
            is_preempted: is_terminating && status.is_some_and(is_disrupted_by_scheduler),
        })
    }
}

/// Whether the scheduler preempted the pod; only the first condition of the type counts (S-PRE-3).
fn is_disrupted_by_scheduler(status: &core_v1::PodStatus) -> bool {
    let condition =
        status.conditions.iter().find(|condition| condition.r#type == "DisruptionTarget");
    condition.is_some_and(|condition| {
        condition.status == "True" && condition.reason == "PreemptionByScheduler"
    })
}

fn is_ready(status: &core_v1::PodStatus) -> bool {
    let condition = status.conditions.iter().find(|condition| condition.r#type == "Ready");
    condition.is_some_and(|condition| condition.status == "True")
}

fn compile_key(pod: &core_v1::Pod, model: &Model) -> Result<PodKey, ModelError> {
    let Some(metadata) = &pod.metadata else {
        return Err(ModelError::new("metadata", "is missing"));
    };
    check_name("metadata.name", &metadata.name)?;
    let namespace = if metadata.namespace.is_empty() { "default" } else { &metadata.namespace };
    check_name("metadata.namespace", namespace)?;
    check_uid(&metadata.uid)?;
    // All pods of a namespace share its string.
    let namespace = model.names().name(model.names().intern(namespace));
    Ok(PodKey { namespace, name: metadata.name.as_str().into() })
}

fn check_uid(uid: &str) -> Result<(), ModelError> {
    if uid.len() > MAX_UID {
        return Err(ModelError::new("metadata.uid", format!("is longer than {MAX_UID} bytes")));
    }
    Ok(())
}

/// The name of a node, if set.
fn compile_reference(
    field: &str,
    name: &str,
    model: &Model,
) -> Result<Option<Arc<str>>, ModelError> {
    if name.is_empty() {
        return Ok(None);
    }
    check_name(field, name)?;
    Ok(Some(model.names().name(model.names().intern(name))))
}

/// The encoding by which a shape is known: that of the spec, with the namespace where terms refer to it. `None` where the
/// spec's is not known or more than these is read: the node, the pod's labels, amounts of its status.
fn known_by<'a>(
    encoded_spec: &'a [u8],
    pod: &core_v1::Pod,
    spec: &core_v1::PodSpec,
    key: &PodKey,
) -> Option<Cow<'a, [u8]>> {
    let has_amounts = |status: &core_v1::PodStatus| {
        !status.container_statuses.is_empty()
            || !status.init_container_statuses.is_empty()
            || !status.allocated_resources.is_empty()
            || status.resources.is_some()
    };
    if encoded_spec.is_empty()
        || !spec.node_name.is_empty()
        || spec.topology_spread_constraints.iter().any(|it| !it.match_label_keys.is_empty())
        || pod.status.as_ref().is_some_and(has_amounts)
    {
        return None;
    }
    let has_terms =
        |it: &core_v1::Affinity| it.pod_affinity.is_some() || it.pod_anti_affinity.is_some();
    if !spec.affinity.as_ref().is_some_and(has_terms) {
        return Some(Cow::Borrowed(encoded_spec));
    }
    // No field has the number 0: so this is no spec, and the namespace is what follows it.
    Some(Cow::Owned([encoded_spec, &[0], key.namespace.as_bytes()].concat()))
}

/// The shape of a pod that has the amounts of its spec, perhaps one that was compiled before.
fn recent_shape(
    encoded: &[u8],
    pod: &core_v1::Pod,
    spec: &core_v1::PodSpec,
    population: &Population,
    model: &Model,
) -> Result<Arc<Shape>, ModelError> {
    if let Some(known) = model.recent_shapes().get(encoded) {
        return Ok(known);
    }
    let (shape, _) = compile_shape(pod, spec, population, model)?;
    model.recent_shapes().note(encoded, &shape, table_bytes(encoded.len()));
    Ok(shape)
}

/// The shape of a pod, and its footprint where its status differs from the spec.
fn compile_shape(
    pod: &core_v1::Pod,
    spec: &core_v1::PodSpec,
    population: &Population,
    model: &Model,
) -> Result<(Arc<Shape>, Option<Arc<Footprint>>), ModelError> {
    let (requests, names) = (PodRequests::parse(pod)?, model.names());
    let origin = (population.facts.namespace, &population.facts.labels);
    let facts = ShapeFacts::compile(spec, &requests, origin, names, model.terms())?;
    let resized = requests
        .has_status()
        .then(|| Footprint::of(&requests, true, names))
        .filter(|footprint| *footprint != facts.footprint)
        .map(Arc::new);
    let make = |id, facts| (Shape::new(id, facts, names), table_bytes(spec.encoded_len()));
    Ok((model.shapes().intern(facts, names.lease(), make), resized))
}

/// The longest uid that is accepted: API servers write uids of 36 bytes.
const MAX_UID: usize = 253;

fn compile_population(
    metadata: Option<&meta_v1::ObjectMeta>,
    key: &PodKey,
    model: &Model,
) -> Result<Arc<Population>, ModelError> {
    let names = model.names();
    let facts = PopulationFacts {
        namespace: names.intern(&key.namespace),
        labels: metadata.map_or(Ok(Labels::default()), |m| label::compile(&m.labels, names))?,
        is_terminating: metadata.is_some_and(|m| m.deletion_timestamp.is_some()),
    };
    Ok(model.populations().intern(facts, names.lease(), Population::new))
}
