//! Request of a scale-up: plain data.

use std::sync::Arc;

use super::template_slice::TemplateSlice;
use crate::model::{Node, Pod, PodKey};
use crate::policy::Policy;

/// A question about which nodes would take the pods that fit nowhere.
#[derive(Copy, Clone)]
pub struct ScaleUpRequest<'a> {
    /// The pods, in the order of their arrival. A pod that already is on a node stays there.
    pub pods: &'a [Pod],
    /// The profile to decide by; its scores are not used (S-CAS-1).
    pub policy: &'a Policy,
    /// The node groups, each simulated independently.
    pub groups: &'a [NodeGroup],
    /// Limits of the scale-up.
    pub limits: ScaleUpLimits,
    /// Whether each option's nodes are split over similar groups.
    pub balance_similar_groups: bool,
    /// Label keys in which similar groups may differ, besides the built-in ones.
    pub balancing_ignored_labels: &'a [String],
    /// Nodes of an earlier round, by pod: tried first (S-CAS-4).
    pub hints: &'a [(PodKey, Arc<str>)],
    /// Milliseconds since any fixed moment, for `limits.duration_ms`.
    pub elapsed_ms: &'a dyn Fn() -> u64,
    /// Called every few pods; once it returns true, the call ends with [`crate::EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}

impl<'a> ScaleUpRequest<'a> {
    /// A request without limits, hints or balancing.
    pub fn new(
        pods: &'a [Pod],
        policy: &'a Policy,
        groups: &'a [NodeGroup],
        cancelled: &'a dyn Fn() -> bool,
    ) -> ScaleUpRequest<'a> {
        ScaleUpRequest {
            pods,
            policy,
            groups,
            limits: ScaleUpLimits::default(),
            balance_similar_groups: false,
            balancing_ignored_labels: &[],
            hints: &[],
            elapsed_ms: &|| 0,
            cancelled,
        }
    }
}

/// A group of equal nodes that can be added.
#[derive(Clone, Debug)]
pub struct NodeGroup {
    /// Id of the group.
    pub id: Arc<str>,
    /// A node of the group. Each added node is a copy with a name of its own (S-CAS-6).
    pub template: Node,
    /// Pods that each new node brings along: those of DaemonSets, and static ones.
    pub template_pods: Vec<Pod>,
    /// ResourceSlices that each new node brings along.
    pub template_slices: Vec<TemplateSlice>,
    /// Number of nodes that the group has.
    pub size: usize,
    /// Number of nodes that the group may have; `None` for any number.
    pub max_size: Option<usize>,
    /// Keys of taints that a new node loses before pods come: startup taints, and ignored ones. Keys that autoscalers
    /// always treat so need not be listed.
    pub startup_taints: Vec<Arc<str>>,
}

/// Limits of a scale-up. `None` is no limit.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleUpLimits {
    /// Number of nodes that one option may add.
    pub nodes: Option<usize>,
    /// Number of nodes of the cluster, including existing ones.
    pub total_nodes: Option<usize>,
    /// Capacity of the cluster's nodes, including existing ones, in milli-CPU.
    pub milli_cpu: Option<i64>,
    /// Capacity of the cluster's nodes, including existing ones, in bytes of memory.
    pub memory: Option<i64>,
    /// Milliseconds that the estimation of one option may take; a result that was cut off by this limit is not
    /// reproducible.
    pub duration_ms: Option<u64>,
}

/// The limit that refused another node (S-BIN-3).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScaleUpLimit {
    /// [`ScaleUpLimits::nodes`] is reached.
    Nodes,
    /// [`ScaleUpLimits::duration_ms`] has passed.
    Duration,
    /// [`ScaleUpLimits::total_nodes`] is reached.
    TotalNodes,
    /// [`ScaleUpLimits::milli_cpu`] is reached.
    Cpu,
    /// [`ScaleUpLimits::memory`] is reached.
    Memory,
    /// [`NodeGroup::max_size`] is reached, where balanced together with that of similar groups.
    GroupSize,
}

/// A request to simulate one option of an autoscaler.
#[derive(Copy, Clone)]
pub struct OptionRequest<'a> {
    /// The option's pods, in its order.
    pub pods: &'a [Pod],
    /// The profile to decide by.
    pub policy: &'a Policy,
    /// The option's node group.
    pub group: &'a NodeGroup,
    /// Number of nodes that the option may add; `None` for any number.
    pub max_nodes: Option<usize>,
    /// Called every few pods; once it returns true, the call ends with [`crate::EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}
