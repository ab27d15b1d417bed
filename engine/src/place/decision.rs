//! Decision: the results of `place` and `explain`, self-contained plain data.

use std::sync::Arc;

use super::remedy::change::RemedyChange;
use crate::account::comparison::NodeAccount;
use crate::model::PodKey;
pub use crate::model::device::assigned::{AssignedClaim, AssignedDevices, AssignedExtended};
pub use crate::model::volume::VolumeBindings;
use crate::plugin::{Plugin, StatusCode};
use crate::snapshot::bindings::Bindings;
use crate::snapshot::{AssumptionStamp, Generation};

/// The outcome for one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The pod decided for.
    pub pod: PodKey,
    /// The pod's uid, empty when it has none.
    pub uid: Arc<str>,
    /// The snapshot decided on.
    pub generation: Generation,
    /// Result of the decision.
    pub outcome: Outcome,
}

/// The ways in which an attempt can end without an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A node was chosen.
    Placed(Placement),
    /// No node is feasible.
    Unschedulable(Unschedulable),
    /// A PreEnqueue plugin holds the pod back (S-Q-5).
    Gated {
        /// The plugin that gates the pod.
        plugin: Plugin,
        /// The plugin's reasons.
        reasons: Vec<String>,
    },
}

/// The chosen node.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Node name.
    pub node: Arc<str>,
    /// Weighted sum of the scores; `None` when only one node was feasible, because then nothing is scored (S-CYC-6).
    pub total: Option<i64>,
    /// Number of feasible nodes.
    pub n_feasible: u32,
    /// Number of feasible nodes with the highest total.
    pub n_best: u32,
    /// Whether the pod is assumed on the node.
    pub assumed: bool,
    /// Stamp of the assumption; `None` if the pod is not assumed.
    pub stamp: Option<AssumptionStamp>,
    /// Volume bindings of the pod's claims on this node.
    pub volumes: VolumeBindings,
    /// Devices that the node gives to the pod's claims; `None` where nothing is allocated.
    pub devices: Option<Arc<AssignedDevices>>,
}

impl Placement {
    /// What the placement takes besides room.
    pub(crate) fn bindings(&self) -> Bindings {
        Bindings { volumes: self.volumes.clone(), devices: self.devices.clone() }
    }
}

/// Why no node is feasible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unschedulable {
    /// kube-scheduler's text without its PostFilter part (S-ERR-1 to S-ERR-4).
    pub message: String,
    /// Every reason of a refused node, in the message's order.
    pub reasons: Vec<CountedReason>,
    /// The PreFilter plugin that refused the pod as a whole (S-PF-2).
    pub pre_filter: Option<(Plugin, StatusCode, Vec<String>)>,
    /// Number of nodes of the snapshot.
    pub n_nodes: u32,
}

/// A reason for refusing nodes, with the number of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedReason {
    /// The plugin that gives the reason.
    pub plugin: Plugin,
    /// The reason as kube-scheduler words it.
    pub text: String,
    /// Number of nodes refused for this reason.
    pub n_nodes: u32,
}

/// A decision, explained in full.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The decision, as `place` would make it.
    pub decision: Decision,
    /// Every node, by name. Empty when the pod is gated or refused by PreFilter.
    pub nodes: Vec<NodeVerdict>,
    /// What else is known about each node of `nodes`, in the same order.
    pub accounts: Vec<NodeAccount>,
    /// Every node of the highest total, by name; the only feasible node where there is just one.
    pub best: Vec<Arc<str>>,
    /// The nearest changes after which the pod would fit, smallest first; of equal ones those that open most nodes
    /// first. Empty when the pod fits, or when no near change helps.
    pub remedies: Vec<Remedy>,
}

/// The verdict on one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeVerdict {
    /// Node name.
    pub node: Arc<str>,
    /// Whether the node is feasible, and why.
    pub verdict: Verdict,
}

/// The verdict on a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every filter passed.
    Feasible {
        /// Scores of the plugins; skipped plugins are absent.
        scores: Vec<PluginScore>,
        /// Sum of the scores' `weighted`.
        total: i64,
        /// Devices that the node gives to the pod's claims; `None` where nothing is allocated.
        devices: Option<Arc<AssignedDevices>>,
    },
    /// A filter failed.
    Rejected {
        /// The first plugin that failed; `None` when a PreFilter result left the node out (S-PF-6).
        plugin: Option<Plugin>,
        /// Whether preemption might help.
        code: StatusCode,
        /// The plugin's reasons, in the order in which it checks.
        reasons: Vec<String>,
    },
}

/// One plugin's score of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginScore {
    /// The plugin.
    pub plugin: Plugin,
    /// The score before normalization and weight.
    pub raw: i64,
    /// The score after normalization, times the weight.
    pub weighted: i64,
}

/// A change after which the pod would fit. The change was tried, on the pod or on a fork of the snapshot, and the
/// filters were run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// Text of the change, for example "request 500m less cpu" or "tolerate `dedicated=gpu:NoSchedule`".
    pub change: String,
    /// The change as data: everything that is changed together.
    pub changes: Vec<RemedyChange>,
    /// Number of nodes that are feasible after the change.
    pub n_nodes: u32,
    /// Up to five of these nodes, by name; an added node appears under the name that the change gives it.
    pub examples: Vec<Arc<str>>,
}
