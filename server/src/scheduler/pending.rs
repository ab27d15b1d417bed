//! Pending: the scheduler's data about a pod that waits for a node.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use berth_engine::{ModelError, Pod, PodKey};
use berth_proto::core_v1;
use prost::Message as _;

use super::group::{Group, GroupKeys};
use crate::apiserver::binding::PodName;
use crate::apiserver::status::SchedulingStatus;
use crate::escape;

/// A waiting pod. Shared by the queue and an attempt.
#[derive(Debug)]
pub struct Pending {
    /// Namespace and name.
    pub key: PodKey,
    /// Namespace, name and uid, as for the API server.
    pub name: PodName,
    /// `spec.schedulerName`: the profile that decides.
    pub profile: Arc<str>,
    /// `spec.priority`, 0 when absent (S-Q-3).
    pub priority: i32,
    /// The pod in the engine's form; the error of a pod that the engine refuses.
    pub pod: Result<Pod, ModelError>,
    /// Condition and nomination of the pod, as last received.
    pub status: SchedulingStatus,
    /// `metadata.generation`, 0 when absent: the version of the spec that is decided on.
    pub generation: i64,
    /// Whether `spec.schedulingGates` names any (S-Q-6).
    pub is_gated: bool,
    /// Whether it is being deleted (S-Q-9).
    pub is_terminating: bool,
    /// The group that it is placed with.
    pub group: Option<Group>,
    /// Digest of spec and labels: if it and `claims` are equal, the parts that decisions read are unchanged.
    digest: u64,
    /// Digest of the names of the claims that were generated for the pod (S-DRA-10).
    claims: u64,
}

impl Pending {
    /// The scheduler's data about a pod; `None` for one without metadata or spec.
    #[must_use]
    pub fn of(
        pod: &core_v1::Pod,
        compile: impl FnOnce(&core_v1::Pod) -> Result<Pod, ModelError>,
        keys: &GroupKeys,
    ) -> Option<Pending> {
        let (metadata, spec) = (pod.metadata.as_ref()?, pod.spec.as_ref()?);
        let status = pod.status.as_ref();
        let compiled = compile(pod);
        // The names of a waiting pod are in memory once.
        let (key, uid) = match &compiled {
            Ok(pod) => (pod.key().clone(), pod.shared_uid().clone()),
            Err(_) => (PodKey::new(&metadata.namespace, &metadata.name), (*metadata.uid).into()),
        };
        let name = PodName { namespace: key.namespace.clone(), name: key.name.clone(), uid };
        Some(Pending {
            key,
            profile: profile_of(spec).into(),
            priority: spec.priority.unwrap_or(0),
            pod: compiled,
            status: status.map(SchedulingStatus::of).unwrap_or_default(),
            generation: metadata.generation,
            is_gated: !spec.scheduling_gates.is_empty(),
            is_terminating: metadata.deletion_timestamp.is_some(),
            group: keys.group_of(metadata),
            digest: digest(spec, metadata.labels.iter()),
            claims: claims_digest(status),
            name,
        })
    }

    /// Whether both pods are equal for decisions, except for their generated claims.
    #[must_use]
    pub fn is_as(&self, other: &Pending) -> bool {
        self.digest == other.digest && self.group == other.group
    }

    /// Whether both pods have the same generated claims.
    #[must_use]
    pub fn has_claims_of(&self, other: &Pending) -> bool {
        self.claims == other.claims
    }
}

/// The scheduler name of a pod: `spec.schedulerName`, or `default-scheduler` (S-Q-2).
#[must_use]
pub fn profile_of(spec: &core_v1::PodSpec) -> &str {
    if spec.scheduler_name.is_empty() { "default-scheduler" } else { &spec.scheduler_name }
}

/// Namespace and name of a pod, for logs.
pub(super) fn shown(pending: &Pending) -> String {
    escape::printable(&pending.key.to_string()).into_owned()
}

/// Digest of a spec. The maps of a spec are sorted, so equal specs have equal bytes.
fn digest<'a>(
    spec: &core_v1::PodSpec,
    labels: impl Iterator<Item = (&'a String, &'a String)>,
) -> u64 {
    let mut hasher = DefaultHasher::new();
    spec.encode_to_vec().hash(&mut hasher);
    labels.for_each(|label| label.hash(&mut hasher));
    hasher.finish()
}

fn claims_digest(status: Option<&core_v1::PodStatus>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for made in status.iter().flat_map(|status| &status.resource_claim_statuses) {
        made.encode_to_vec().hash(&mut hasher);
    }
    hasher.finish()
}
