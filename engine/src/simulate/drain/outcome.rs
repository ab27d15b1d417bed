//! What becomes of nodes that are to be emptied: plain data. Rules: S-SD-4, S-SD-7, S-SD-8.

use std::sync::Arc;

use crate::model::PodKey;
use crate::place::decision::CountedReason;
use crate::snapshot::Generation;

/// What becomes of the nodes of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Drain {
    /// The snapshot that this was worked out on.
    pub generation: Generation,
    /// One a node, in the order of the request.
    pub nodes: Vec<NodeDrain>,
    /// Waves of all removable nodes together: the last wave of any of their pods.
    pub n_waves: u32,
}

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDrain {
    /// Its name.
    pub node: Arc<str>,
    /// How full it is (S-SD-2); `None` for a node that is not there, or that has none of what it is measured by.
    pub utilization: Option<NodeUtilization>,
    /// Whether it can go.
    pub outcome: NodeOutcome,
    /// Every pod on it, in the order in which they came; empty where the node is not looked into (S-SD-1).
    pub pods: Vec<PodDrain>,
    /// Waves from the first of its pods to the last, which are those of its budgets' slowest; 0 where no pod moves.
    pub n_waves: u32,
    /// What moving its pods takes of disruption budgets, by namespace and name; empty unless it is removable.
    pub budgets: Vec<BudgetUse>,
}

/// How full a node is.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeUtilization {
    /// Requests through what there is for them; 1.0 is full.
    pub ratio: f64,
    /// The resource that is fullest, as Kubernetes names it.
    pub resource: Arc<str>,
}

/// Whether a node can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOutcome {
    /// All of its pods have a place elsewhere, or need none.
    Removable {
        /// Its pods cannot leave at once: some disruption budget allows fewer than move (S-SD-7).
        risky: bool,
    },
    /// It stays.
    Unremovable {
        /// Why.
        reason: UnremovableReason,
        /// The same for people.
        message: String,
        /// The first pod, in node order, that is the reason.
        blocking_pod: Option<PodKey>,
    },
}

impl NodeOutcome {
    /// Whether it can go.
    pub fn is_removable(&self) -> bool {
        matches!(self, NodeOutcome::Removable { .. })
    }
}

/// One pod of a node that is to be emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDrain {
    /// Namespace and name.
    pub pod: PodKey,
    /// Its uid.
    pub uid: Arc<str>,
    /// `spec.priority`.
    pub priority: i32,
    /// What becomes of it.
    pub verdict: PodVerdict,
    /// Names of the disruption budgets that cover it (S-SD-5), sorted. The API server evicts no pod that has more than one.
    pub budgets: Vec<Arc<str>>,
}

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVerdict {
    /// It is evicted, and what is made in its place goes to another node.
    Moves {
        /// That node.
        node: Arc<str>,
        /// When: pods of one wave are evicted together, the next wave once all of them are ready elsewhere. Counted from 1; 0 where
        /// the node stays because of another pod.
        wave: u32,
    },
    /// A DaemonSet's pod: it ends with its node.
    Daemon,
    /// The copy of a static pod: it ends with its node.
    Mirror,
    /// It should be gone already.
    LongTerminating,
    /// It is to be waited for: the node goes once it has completed.
    OnCompletion,
    /// It must not be moved.
    Blocked {
        /// Why.
        reason: BlockingReason,
        /// The same for people.
        message: String,
    },
    /// It may be moved, and no other node takes it.
    NoRoom {
        /// kube-scheduler's text over the nodes that it might have gone to.
        message: String,
        /// Every reason that they refuse it for, in the message's order.
        reasons: Vec<CountedReason>,
    },
}

/// What moving pods takes of a disruption budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Pods that it covers and that move.
    pub n_moved: u32,
    /// What it allowed before: `status.disruptionsAllowed` less what nodes before this one took of it.
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
            /// All of them, by code from 0.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// cluster-autoscaler's name of it.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant),)+ }
            }
        }
    };
}

codes! {
    /// Why a pod must not be moved (S-SD-4), in the order of cluster-autoscaler's codes.
    BlockingReason {
        /// Nothing is said.
        NoReason,
        /// The controller that owns it is not there.
        ControllerNotFound,
        /// Its controller has fewer pods than it takes to give one up.
        MinReplicasReached,
        /// Nobody would make it anew.
        NotReplicated,
        /// It keeps data on its node.
        LocalStorageRequested,
        /// Its annotation forbids it.
        NotSafeToEvictAnnotation,
        /// It is a part of the system, and no budget says how many of it may go.
        UnmovableKubeSystemPod,
        /// A disruption budget allows no more.
        NotEnoughPdb,
        /// It could not be worked out where it would go.
        UnexpectedError,
    }
}

codes! {
    /// Why a node stays (S-SD-8), in the order of cluster-autoscaler's codes. Some are given by autoscalers only, which know of node
    /// groups and of time.
    UnremovableReason {
        /// Nothing is said.
        NoReason,
        /// Its annotation says that it is to stay.
        ScaleDownDisabledAnnotation,
        /// It is not ready, and such nodes are to stay.
        ScaleDownUnreadyDisabled,
        /// It belongs to no node group.
        NotAutoscaled,
        /// It was needed a short while ago.
        NotUnneededLongEnough,
        /// It was ready a short while ago.
        NotUnreadyLongEnough,
        /// Its node group would be too small.
        NodeGroupMinSizeReached,
        /// As many nodes of its group go as may.
        NodeGroupMaxDeletionCountReached,
        /// Its group goes as a whole or not at all.
        AtomicScaleDownFailed,
        /// The cluster would be too small.
        MinimalResourceLimitExceeded,
        /// It is being removed.
        CurrentlyBeingDeleted,
        /// It is fuller than the threshold.
        NotUnderutilized,
        /// It is needed for something else.
        NotUnneededOtherReason,
        /// It could not go when it was last tried.
        RecentlyUnremovable,
        /// Some pod of it fits nowhere else.
        NoPlaceToMovePods,
        /// Some pod of it must not be moved.
        BlockedByPod,
        /// It could not be worked out.
        UnexpectedError,
        /// There is no such node.
        NoNodeInfo,
        /// Some pod of it is to be waited for.
        BlockedByOnCompletionPod,
    }
}
