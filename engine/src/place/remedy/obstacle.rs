//! Obstacles: what keeps a pod off each node, taken apart so that each part can be changed on its own.

use smallvec::SmallVec;

use crate::filter::node_resources_fit::{allocatable, requested};
use crate::model::intern::Symbol;
use crate::model::resources::Resource;
use crate::plan::counted::Filtering;
use crate::snapshot::shard::Shard;
use crate::snapshot::topology::DomainId;

/// One thing in the pod's way.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Obstacle {
    /// The node is cordoned.
    Cordon,
    /// A taint of this key that Kubernetes sets while something is wrong with the node.
    Condition(Symbol),
    /// An untolerated taint; of several effects where there is none.
    Taint { key: Symbol, value: Symbol, effect: Option<TaintEffect> },
    /// A pair of the node selector, by position.
    Pair(usize),
    /// A requirement on labels in a term of required node affinity, by position.
    Requirement { term: usize, requirement: usize },
    /// More of these than one.
    NodeConstraints { node_selector: bool, node_affinity: bool },
    /// Host ports of the pod's that are in use: a bit for each by position.
    Ports(u64),
    /// As many pods are on the node as it allows.
    Full,
    /// Less is free than one request asks for, by position among those that are checked.
    Short(usize),
    /// A spread constraint of the pod's own: the domain holds too many.
    Skew(usize),
    /// A spread constraint of the pod's own: the node lacks the label.
    Unlabelled(usize),
    /// Required pod affinity.
    Near,
    /// A term of required pod anti-affinity, and the domain that holds a pod that it refuses.
    Far { term: usize, domain: DomainId },
    /// Anti-affinity of pods in a domain; the position is among the demand's sums.
    Blocked { sum: usize, domain: DomainId },
}

/// The effects that keep a pod off.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TaintEffect {
    NoSchedule,
    NoExecute,
}

/// What is in the way on some node; at most [`MAX_OBSTACLES`].
pub(super) type Obstacles = SmallVec<[Obstacle; MAX_OBSTACLES]>;

/// Nodes with more in the way are not near.
pub(super) const MAX_OBSTACLES: usize = 2;

/// Whether Kubernetes itself sets taints of this key, and takes them away when the node is well.
pub(super) fn is_condition(key: &str) -> bool {
    key.starts_with("node.kubernetes.io/") || key.starts_with("node.cloudprovider.kubernetes.io/")
}

/// What is left of a resource on a node; less than 0 where more is taken than there is.
pub(super) fn free(shard: &Shard, row: usize, resource: Resource) -> i64 {
    allocatable(shard, row, resource).saturating_sub(requested(shard, row, resource))
}

/// The domain of a row by a key; none where the node lacks it.
pub(super) fn domain_of(shard: &Shard, row: usize, key: Symbol) -> DomainId {
    shard.nodes.labels.get(&key).map_or(DomainId::NONE, |label| label.domains[row])
}

/// Where the constraints that filter stand in the pod's own list; none of them where they are the policy's.
pub(super) fn own_constraints(plan: &Filtering<'_, '_>) -> SmallVec<[usize; 2]> {
    let own = plan.shape().spread.list.iter().enumerate();
    own.filter(|(_, constraint)| constraint.is_hard).map(|(i, _)| i).collect()
}
