//! Expansion: what a workload is expanded into, and the options for that.

use berth_proto::{apps_v1, core_v1};

use super::daemon_set::eligibility::DaemonNode;
use super::kind::WorkloadKind;

/// The largest number of pods that one workload is expanded into.
pub const MAX_PODS: u32 = 100_000;

/// Facts beside the object itself.
#[derive(Copy, Clone, Debug, Default)]
pub struct ExpandOptions<'a> {
    /// Number of pods instead of the one that the object has; refused for a DaemonSet.
    pub replicas: Option<u32>,
    /// The nodes of the cluster, among which a DaemonSet chooses. Other kinds do not read them.
    pub nodes: &'a [DaemonNode],
}

/// The pods of a workload, and the objects that exist beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct Expansion {
    /// Kind of the workload.
    pub kind: WorkloadKind,
    /// Namespace of the workload and of everything here.
    pub namespace: String,
    /// Name of the workload.
    pub name: String,
    /// The pods, in the order in which the controller creates them.
    pub pods: Vec<core_v1::Pod>,
    /// Whether the pods differ in nothing but their names, which are `generateName` with the numbers from 0.
    pub are_alike: bool,
    /// Whether the controller creates a pod only when the one before it is ready.
    pub is_ordered: bool,
    /// The controller of the pods, where placement reads its kind.
    pub controller: Option<PodController>,
    /// The claims of a StatefulSet's pods. The controller creates those that do not exist yet.
    pub claims: Vec<core_v1::PersistentVolumeClaim>,
    /// Remarks, each a sentence without a full stop, such as that a Job is suspended.
    pub notes: Vec<String>,
}

/// A controller as an object of the cluster: its selector spreads pods that have no constraints of their own. It has
/// no template, which placement does not read.
#[derive(Clone, Debug, PartialEq)]
pub enum PodController {
    /// A `ReplicationController`.
    ReplicationController(Box<core_v1::ReplicationController>),
    /// A `ReplicaSet`.
    ReplicaSet(Box<apps_v1::ReplicaSet>),
    /// A `StatefulSet`.
    StatefulSet(Box<apps_v1::StatefulSet>),
}
