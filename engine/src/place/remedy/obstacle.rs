//! Obstacles: the reasons that keep a pod off a node, split so that each can be removed by itself.

use smallvec::SmallVec;

use crate::domain::DomainId;
use crate::model::intern::Symbol;
use crate::plan::counted::Filtering;

/// One reason that keeps the pod off a node.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Obstacle {
    /// The node is cordoned.
    Cordon,
    /// The node is under a fence of the ledger.
    Fence,
    /// The node has a taint of this key, which Kubernetes sets while a node has a problem.
    Condition(Symbol),
    /// An untolerated taint; `effect` is `None` where several effects have this key and value.
    Taint { key: Symbol, value: Symbol, effect: Option<TaintEffect> },
    /// A pair of the node selector, by position, does not match.
    Pair(usize),
    /// A requirement on labels in a term of required node affinity, by position, is not met.
    Requirement { term: usize, requirement: usize },
    /// Several pairs or requirements are not met.
    NodeConstraints { node_selector: bool, node_affinity: bool },
    /// Host ports of the pod are in use: a bit for each by position.
    Ports(u64),
    /// The node has its maximum number of pods.
    Full,
    /// Too little of a resource is free, by position among the checked resources.
    Short(usize),
    /// A spread constraint of the pod itself: the domain has too many pods.
    Skew(usize),
    /// A spread constraint of the pod itself: the node lacks the label.
    Unlabelled(usize),
    /// A claim of the pod, by position, whose volume cannot be used on the node.
    Claim(usize),
    /// A disk of the pod, by position, is in use on the node.
    DiskInUse(usize),
    /// A claim of the pod, by position, that only one pod may use is in use.
    ClaimInUse(usize),
    /// A driver, by position among the pod's, has no room for the pod's volumes.
    VolumeLimit(usize),
    /// Required pod affinity is not satisfied.
    Near,
    /// A term of required pod anti-affinity, and the domain with a pod that it excludes.
    Far { term: usize, domain: DomainId },
    /// Anti-affinity of pods in a domain; `sum` is a position among the demand's sums.
    Blocked { sum: usize, domain: DomainId },
}

/// Taint effects that keep a pod off a node.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TaintEffect {
    NoSchedule,
    NoExecute,
}

/// The obstacles on a node; at most [`MAX_OBSTACLES`].
pub(super) type Obstacles = SmallVec<[Obstacle; MAX_OBSTACLES]>;

/// Nodes with more obstacles are not considered.
pub(super) const MAX_OBSTACLES: usize = 2;

/// Whether Kubernetes itself sets taints of this key, and removes them when the node is healthy.
pub(super) fn is_condition(key: &str) -> bool {
    key.starts_with("node.kubernetes.io/") || key.starts_with("node.cloudprovider.kubernetes.io/")
}

/// Positions in the pod's own list of the constraints that filter; empty where these are the policy's defaults.
pub(super) fn own_constraints(plan: &Filtering<'_, '_>) -> SmallVec<[usize; 2]> {
    let own = plan.shape().spread.list.iter().enumerate();
    own.filter(|(_, constraint)| constraint.is_hard).map(|(i, _)| i).collect()
}
