//! What is asked of a scale-up: plain data.

use std::sync::Arc;

use crate::model::{Node, Pod, PodKey};
use crate::policy::Policy;

/// Which nodes would take the pods that fit nowhere.
#[derive(Copy, Clone)]
pub struct ScaleUpRequest<'a> {
    /// The pods, in the order of their arrival. One that is on a node of the cluster already stays there.
    pub pods: &'a [Pod],
    /// The profile to decide by; no score is asked for (S-CAS-1).
    pub policy: &'a Policy,
    /// The node groups, a case each.
    pub groups: &'a [NodeGroup],
    /// How far a scale-up may go.
    pub limits: ScaleUpLimits,
    /// Whether each option's nodes are split over the groups that are like its own.
    pub balance_similar_groups: bool,
    /// Label keys in which similar groups may differ, besides those that always may.
    pub balancing_ignored_labels: &'a [String],
    /// Where pods fitted in an earlier round: tried first (S-CAS-4).
    pub hints: &'a [(PodKey, Arc<str>)],
    /// Milliseconds since any fixed moment: what `limits.duration_ms` is measured by.
    pub elapsed_ms: &'a dyn Fn() -> u64,
    /// Asked every few pods: once it answers true there is no answer but [`crate::EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}

impl<'a> ScaleUpRequest<'a> {
    /// Without limits, hints or balancing.
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

/// Nodes that can be had alike, and what comes with each.
#[derive(Clone, Debug)]
pub struct NodeGroup {
    /// Its id.
    pub id: Arc<str>,
    /// A node of the group. Each added one is a copy under a name of its own (S-CAS-6).
    pub template: Node,
    /// Pods that each of its nodes brings along: those of DaemonSets, and static ones.
    pub template_pods: Vec<Pod>,
    /// Nodes that it has.
    pub size: usize,
    /// Nodes that it may have; `None` for any number.
    pub max_size: Option<usize>,
    /// Keys of taints that a new node loses before pods come: startup taints, and those that are to be ignored. Keys that
    /// autoscalers always take so need not be named.
    pub startup_taints: Vec<Arc<str>>,
}

/// How far a scale-up may go. `None` is no limit.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleUpLimits {
    /// Nodes that one option may add.
    pub nodes: Option<usize>,
    /// Nodes of the cluster, those there are included.
    pub total_nodes: Option<usize>,
    /// Capacity of the cluster's nodes in milli-CPU, those there are included.
    pub milli_cpu: Option<i64>,
    /// The same of memory in bytes.
    pub memory: Option<i64>,
    /// Milliseconds that the estimation of one option may take; an answer that this limit shaped is not reproducible.
    pub duration_ms: Option<u64>,
}

/// What refused another node (S-BIN-3).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScaleUpLimit {
    /// [`ScaleUpLimits::nodes`].
    Nodes,
    /// [`ScaleUpLimits::duration_ms`].
    Duration,
    /// [`ScaleUpLimits::total_nodes`].
    TotalNodes,
    /// [`ScaleUpLimits::milli_cpu`].
    Cpu,
    /// [`ScaleUpLimits::memory`].
    Memory,
    /// [`NodeGroup::max_size`], where balanced together with that of similar groups.
    GroupSize,
}

/// One option of an autoscaler.
#[derive(Copy, Clone)]
pub struct OptionRequest<'a> {
    /// Its pods, in its order.
    pub pods: &'a [Pod],
    /// The profile to decide by.
    pub policy: &'a Policy,
    /// Its node group.
    pub group: &'a NodeGroup,
    /// Nodes that it may add; `None` for any number.
    pub max_nodes: Option<usize>,
    /// Asked every few pods: once it answers true there is no answer but [`crate::EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}
