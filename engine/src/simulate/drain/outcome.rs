//! Outcome: the result of a drain, plain data. Rules: S-SD-4, S-SD-7, S-SD-8.

use std::sync::Arc;

use crate::model::PodKey;
use crate::place::decision::CountedReason;
use crate::snapshot::Generation;

/// The result for the nodes of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Drain {
    /// The snapshot that the drain was simulated on.
    pub generation: Generation,
    /// One entry for each node, in the order of the request.
    pub nodes: Vec<NodeDrain>,
    /// Number of waves of all removable nodes together: the last wave of any of their pods.
    pub n_waves: u32,
}

/// The result for one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDrain {
    /// The node's name.
    pub node: Arc<str>,
    /// The node's utilization (S-SD-2); `None` for a node that does not exist or has none of the resource it is
    /// measured by.
    pub utilization: Option<NodeUtilization>,
    /// Whether the node can go.
    pub outcome: NodeOutcome,
    /// Every pod of the node, in order of arrival; empty where the node is not considered (S-SD-1).
    pub pods: Vec<PodDrain>,
    /// Number of waves from the first of the node's pods to the last, as its tightest budget requires; 0 where no pod
    /// moves.
    pub n_waves: u32,
    /// Disruptions that moving the node's pods takes from budgets, by namespace and name; empty unless the node is
    /// removable.
    pub budgets: Vec<BudgetUse>,
}

/// How full a node is.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeUtilization {
    /// Requests divided by the capacity for them; 1.0 is full.
    pub ratio: f64,
    /// The resource that is fullest, as Kubernetes names it.
    pub resource: Arc<str>,
}

/// Whether a node can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOutcome {
    /// All of the node's pods fit elsewhere, or end with it.
    Removable {
        /// Whether the pods cannot all leave at once because a disruption budget allows fewer than move (S-SD-7).
        risky: bool,
    },
    /// The node stays.
    Unremovable {
        /// Why the node stays.
        reason: UnremovableReason,
        /// Explanation of the reason.
        message: String,
        /// The first pod, in node order, that prevents the removal.
        blocking_pod: Option<PodKey>,
    },
}

impl NodeOutcome {
    /// Whether the node can go.
    pub fn is_removable(&self) -> bool {
        matches!(self, NodeOutcome::Removable { .. })
    }
}

/// One pod of a node that is to be emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDrain {
    /// Namespace and name.
    pub pod: PodKey,
    /// The pod's uid.
    pub uid: Arc<str>,
    /// `spec.priority`.
    pub priority: i32,
    /// Whether and where the pod moves.
    pub verdict: PodVerdict,
    /// Names of the disruption budgets that cover the pod (S-SD-5), sorted. The API server evicts no pod that has more
    /// than one.
    pub budgets: Vec<Arc<str>>,
}

/// The fate of a pod when its node is emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVerdict {
    /// The pod is evicted, and its replacement goes to another node.
    Moves {
        /// The other node.
        node: Arc<str>,
        /// The pod's wave, counted from 1: pods of one wave are evicted together, the next wave once all of them are
        /// ready elsewhere; 0 where the node stays because of another pod.
        wave: u32,
    },
    /// A DaemonSet's pod: it ends with its node.
    Daemon,
    /// The copy of a static pod: it ends with its node.
    Mirror,
    /// The pod is long overdue to terminate.
    LongTerminating,
    /// The drain waits for the pod: the node goes once the pod has completed.
    OnCompletion,
    /// The pod must not be moved.
    Blocked {
        /// Why the pod must not be moved.
        reason: BlockingReason,
        /// Explanation of the reason.
        message: String,
    },
    /// The pod may be moved, but no other node takes it.
    NoRoom {
        /// kube-scheduler's message over the nodes that were tried.
        message: String,
        /// Every reason of those nodes, in the message's order.
        reasons: Vec<CountedReason>,
    },
}

/// Disruptions that moving pods takes from a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    /// The budget's namespace.
    pub namespace: Arc<str>,
    /// The budget's name.
    pub name: Arc<str>,
    /// Number of moving pods that the budget covers.
    pub n_moved: u32,
    /// Disruptions that the budget allowed before: `status.disruptionsAllowed` less those that earlier nodes took.
    pub n_allowed: i64,
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// All values, by code from 0.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// cluster-autoscaler's name of the value.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant),)+ }
            }
        }
    };
}

codes! {
    /// Why a pod must not be moved (S-SD-4), in the order of cluster-autoscaler's codes.
    BlockingReason {
        /// No reason is given.
        NoReason,
        /// The controller that owns the pod does not exist.
        ControllerNotFound,
        /// The pod's controller has fewer replicas than it must have to give one up.
        MinReplicasReached,
        /// No controller would recreate the pod.
        NotReplicated,
        /// The pod keeps data on its node.
        LocalStorageRequested,
        /// The pod's annotation forbids eviction.
        NotSafeToEvictAnnotation,
        /// The pod belongs to the system, and no disruption budget covers it.
        UnmovableKubeSystemPod,
        /// A disruption budget allows no more disruptions.
        NotEnoughPdb,
        /// The pod's new node could not be determined.
        UnexpectedError,
    }
}

codes! {
    /// Why a node stays (S-SD-8), in the order of cluster-autoscaler's codes. Some are reported by autoscalers only,
    /// which know node groups and how long a node has been unneeded.
    UnremovableReason {
        /// No reason is given.
        NoReason,
        /// The node's annotation disables its scale-down.
        ScaleDownDisabledAnnotation,
        /// The node is not ready, and nodes that are not ready are to stay.
        ScaleDownUnreadyDisabled,
        /// The node belongs to no node group.
        NotAutoscaled,
        /// The node was needed a short while ago.
        NotUnneededLongEnough,
        /// The node was ready a short while ago.
        NotUnreadyLongEnough,
        /// The node's group would become too small.
        NodeGroupMinSizeReached,
        /// The maximum number of nodes of the group is already being deleted.
        NodeGroupMaxDeletionCountReached,
        /// The node's group can only be removed as a whole.
        AtomicScaleDownFailed,
        /// The cluster's resources would fall below a limit.
        MinimalResourceLimitExceeded,
        /// The node is being removed.
        CurrentlyBeingDeleted,
        /// The node's utilization is above the threshold.
        NotUnderutilized,
        /// The node is needed for another reason.
        NotUnneededOtherReason,
        /// The last attempt to remove the node failed.
        RecentlyUnremovable,
        /// A pod of the node fits nowhere else.
        NoPlaceToMovePods,
        /// A pod of the node must not be moved.
        BlockedByPod,
        /// The simulation ended in an error.
        UnexpectedError,
        /// The node does not exist.
        NoNodeInfo,
        /// The drain has to wait for a pod of the node to complete.
        BlockedByOnCompletionPod,
    }
}
