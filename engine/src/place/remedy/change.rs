//! RemedyChange: a change of a pod or a cluster after which the pod fits, as plain data.

use std::sync::Arc;

use crate::model::PodKey;

/// One change; easier changes come first in the order of variants. Positions and texts refer to the pod as it was sent;
/// names of nodes are sorted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RemedyChange {
    /// `spec.unschedulable` of these nodes is reset, and the taint `node.kubernetes.io/unschedulable` is removed.
    Uncordon {
        /// The nodes.
        nodes: Vec<Arc<str>>,
    },
    /// These nodes lose every taint of a key that Kubernetes itself sets while a node has a problem.
    ClearTaint {
        /// The taints' key.
        key: Arc<str>,
        /// The nodes.
        nodes: Vec<Arc<str>>,
    },
    /// The ledger's fences of these nodes are lifted: the nodes return.
    LiftFence {
        /// The nodes.
        nodes: Vec<Arc<str>>,
    },
    /// `status.allocatable.pods` of each of these nodes grows by one.
    AllowPod {
        /// The nodes.
        nodes: Vec<Arc<str>>,
    },
    /// The pod gets a toleration with the operator `Equal`.
    Tolerate {
        /// The taint's key.
        key: Arc<str>,
        /// The taint's value.
        value: Arc<str>,
        /// `NoSchedule` or `NoExecute`; `None` tolerates every effect.
        effect: Option<&'static str>,
    },
    /// The pod loses one pair of `spec.nodeSelector`.
    DropNodeSelector {
        /// The label's key.
        key: Arc<str>,
        /// The label's value.
        value: Arc<str>,
    },
    /// The pod's required node affinity loses one requirement on labels, in every term that has it; the whole affinity
    /// goes if a term has no other requirement.
    DropNodeRequirement {
        /// The label's key.
        key: Arc<str>,
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
        operator: &'static str,
        /// The values in text order.
        values: Vec<Arc<str>>,
    },
    /// The pod loses all its constraints on nodes' labels.
    DropNodeConstraints {
        /// Whether `spec.nodeSelector` is removed.
        node_selector: bool,
        /// Whether required node affinity is removed.
        node_affinity: bool,
    },
    /// The `maxSkew` of one of the pod's spread constraints is raised.
    RaiseMaxSkew {
        /// Position in `spec.topologySpreadConstraints`.
        constraint: usize,
        /// The new `maxSkew`.
        max_skew: i32,
    },
    /// The `minDomains` of one of the pod's spread constraints is lowered.
    LowerMinDomains {
        /// Position in `spec.topologySpreadConstraints`.
        constraint: usize,
        /// The new `minDomains`.
        min_domains: i32,
    },
    /// One of the pod's spread constraints becomes `ScheduleAnyway`.
    SoftenSpread {
        /// Position in `spec.topologySpreadConstraints`.
        constraint: usize,
    },
    /// The pod requests less of one resource.
    RequestLess {
        /// The resource.
        resource: Arc<str>,
        /// The amount removed: milli-units of cpu, whole units of everything else. It is less than the whole request.
        amount: i64,
    },
    /// The pod loses one term of required pod affinity.
    DropPodAffinity {
        /// Position in the list of required terms.
        term: usize,
    },
    /// The pod loses one term of required pod anti-affinity.
    DropPodAntiAffinity {
        /// Position in the list of required terms.
        term: usize,
    },
    /// The pod gives up a host port.
    DropHostPort {
        /// The port.
        port: i32,
        /// The protocol, such as `TCP`.
        protocol: Arc<str>,
        /// The address; `0.0.0.0` means all.
        ip: Arc<str>,
    },
    /// A claim of the pod gets a volume that every node can use, or is created with one. A trial leaves the claim out of
    /// the pod.
    ProvideVolume {
        /// Name of the claim, in the pod's namespace.
        claim: Arc<str>,
    },
    /// A pod leaves its node.
    RemovePod {
        /// The pod.
        pod: PodKey,
        /// The pod's node.
        node: Arc<str>,
    },
    /// An empty node is added: its labels, resources, features, volume limits and taints are copied from another node,
    /// except for its name, its hostname label and taints that Kubernetes sets while a node has a problem. It is not
    /// cordoned.
    AddNode {
        /// The node that is copied.
        like: Arc<str>,
        /// The new node's name, which no node of the cluster has.
        name: Arc<str>,
    },
}

impl RemedyChange {
    /// The size of the change, for the order of remedies.
    pub(super) fn size(&self) -> usize {
        match self {
            RemedyChange::DropNodeConstraints { .. } | RemedyChange::ProvideVolume { .. } => 2,
            _ => 1,
        }
    }
}
