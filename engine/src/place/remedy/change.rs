//! RemedyChange: what can be changed about a pod or a cluster so that the pod fits, as plain data.

use std::sync::Arc;

use crate::model::PodKey;

/// One change; what is done more easily stands first. Positions and texts refer to the pod as it was sent; names of nodes are
/// sorted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RemedyChange {
    /// `spec.unschedulable` of these nodes is taken back, and with it the taint `node.kubernetes.io/unschedulable`.
    Uncordon {
        /// The nodes.
        nodes: Vec<Arc<str>>,
    },
    /// These nodes lose every taint of a key that Kubernetes itself sets for as long as something is wrong with a node.
    ClearTaint {
        /// The taints' key.
        key: Arc<str>,
        /// The nodes.
        nodes: Vec<Arc<str>>,
    },
    /// `status.allocatable.pods` of each of these nodes grows by one.
    AllowPod {
        /// The nodes.
        nodes: Vec<Arc<str>>,
    },
    /// The pod gets another toleration, with the operator `Equal`.
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
        /// Its value.
        value: Arc<str>,
    },
    /// The pod's required node affinity loses one requirement on labels, in every term that has it; all of it if a term has
    /// nothing else.
    DropNodeRequirement {
        /// The label's key.
        key: Arc<str>,
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
        operator: &'static str,
        /// In text order.
        values: Vec<Arc<str>>,
    },
    /// The pod loses what it asks of nodes' labels as a whole.
    DropNodeConstraints {
        /// Whether `spec.nodeSelector` goes.
        node_selector: bool,
        /// Whether required node affinity goes.
        node_affinity: bool,
    },
    /// A spread constraint of the pod tolerates more skew.
    RaiseMaxSkew {
        /// Position in `spec.topologySpreadConstraints`.
        constraint: usize,
        /// The new `maxSkew`.
        max_skew: i32,
    },
    /// A spread constraint of the pod asks for fewer domains.
    LowerMinDomains {
        /// Position in `spec.topologySpreadConstraints`.
        constraint: usize,
        /// The new `minDomains`.
        min_domains: i32,
    },
    /// A spread constraint of the pod becomes `ScheduleAnyway`.
    SoftenSpread {
        /// Position in `spec.topologySpreadConstraints`.
        constraint: usize,
    },
    /// The pod requests less of one resource.
    RequestLess {
        /// The resource.
        resource: Arc<str>,
        /// How much less: milli-units of cpu, whole units of everything else. Something is left of the request.
        amount: i64,
    },
    /// The pod loses one term of required pod affinity.
    DropPodAffinity {
        /// Position in its list.
        term: usize,
    },
    /// The pod loses one term of required pod anti-affinity.
    DropPodAntiAffinity {
        /// Position in its list.
        term: usize,
    },
    /// The pod does without a host port.
    DropHostPort {
        /// The port.
        port: i32,
        /// `TCP` and the like.
        protocol: Arc<str>,
        /// The address, `0.0.0.0` for all.
        ip: Arc<str>,
    },
    /// A pod leaves its node.
    RemovePod {
        /// The pod.
        pod: PodKey,
        /// Its node.
        node: Arc<str>,
    },
    /// One more node without any pods: labels, room, features, volume limits and taints are those of another, apart from its name,
    /// its hostname label and taints that Kubernetes sets while something is wrong with a node. It is not cordoned.
    AddNode {
        /// The node that it is like.
        like: Arc<str>,
        /// Its name, which no node of the cluster has.
        name: Arc<str>,
    },
}

impl RemedyChange {
    /// How much is changed, for the order of remedies.
    pub(super) fn size(&self) -> usize {
        match self {
            RemedyChange::DropNodeConstraints { .. } => 2,
            _ => 1,
        }
    }
}
