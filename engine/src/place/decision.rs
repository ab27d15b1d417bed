//! What `place` and `explain` answer: plain data that leaves nothing to look up.

use std::sync::Arc;

use super::remedy::change::RemedyChange;
use crate::model::PodKey;
pub use crate::model::volume::VolumeBindings;
use crate::plugin::{Plugin, StatusCode};
use crate::snapshot::Generation;

/// The outcome for one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The pod decided for.
    pub pod: PodKey,
    /// Its uid, empty when it has none.
    pub uid: Arc<str>,
    /// The snapshot decided on.
    pub generation: Generation,
    /// What was decided.
    pub outcome: Outcome,
}

/// The three ways in which an attempt can end without an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A node was chosen.
    Placed(Placement),
    /// No node is feasible.
    Unschedulable(Unschedulable),
    /// A PreEnqueue plugin holds the pod back (S-Q-5).
    Gated {
        /// The plugin.
        plugin: Plugin,
        /// Its reasons.
        reasons: Vec<String>,
    },
}

/// The chosen node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Node name.
    pub node: Arc<str>,
    /// Weighted sum of the scores; `None` when one node alone was feasible, for then nothing is scored (S-CYC-6).
    pub total: Option<i64>,
    /// How many nodes were feasible.
    pub n_feasible: u32,
    /// How many of them have the highest total.
    pub n_best: u32,
    /// Whether the pod now holds its room.
    pub assumed: bool,
    /// What becomes of the pod's claims on this node.
    pub volumes: VolumeBindings,
}

/// Why no node is feasible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unschedulable {
    /// kube-scheduler's text without its PostFilter part (S-ERR-1 to S-ERR-4).
    pub message: String,
    /// Every reason that a node was refused for, in the message's order.
    pub reasons: Vec<CountedReason>,
    /// The PreFilter plugin that refused the pod as a whole (S-PF-2).
    pub pre_filter: Option<(Plugin, StatusCode, Vec<String>)>,
    /// Nodes of the snapshot.
    pub n_nodes: u32,
}

/// A reason that nodes were refused for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedReason {
    /// The plugin that gave it.
    pub plugin: Plugin,
    /// kube-scheduler's text.
    pub text: String,
    /// On how many nodes it was given.
    pub n_nodes: u32,
}

/// A decision with its full account.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The decision, as `place` would have taken it.
    pub decision: Decision,
    /// Every node, by name. Empty when the pod is gated or refused by PreFilter.
    pub nodes: Vec<NodeVerdict>,
    /// Every node of the highest total, by name; the only feasible node where there is but one.
    pub best: Vec<Arc<str>>,
    /// The nearest changes after which the pod would fit, smallest first and of equal ones those that open most nodes. Empty when
    /// it fits, or when nothing near helps.
    pub remedies: Vec<Remedy>,
}

/// What one node was to the pod.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeVerdict {
    /// Node name.
    pub node: Arc<str>,
    /// Feasible or not, and why.
    pub verdict: Verdict,
}

/// One node's account.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every filter passed.
    Feasible {
        /// One a plugin that scored; skipped ones are absent.
        scores: Vec<PluginScore>,
        /// Sum of `weighted`.
        total: i64,
    },
    /// A filter failed.
    Rejected {
        /// The first that failed; `None` when a PreFilter result left the node out (S-PF-6).
        plugin: Option<Plugin>,
        /// Whether eviction might help.
        code: StatusCode,
        /// Its reasons, in the order in which it checks.
        reasons: Vec<String>,
    },
}

/// One plugin's score of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginScore {
    /// The plugin.
    pub plugin: Plugin,
    /// Before normalisation and weight.
    pub raw: i64,
    /// After normalisation, times the weight.
    pub weighted: i64,
}

/// A change after which the pod would fit. It was made, to the pod or to a fork of the snapshot, and the filters were run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// For people, for example "request 500m less cpu" or "tolerate `dedicated=gpu:NoSchedule`".
    pub change: String,
    /// The same for programs: everything that is to be changed, at once.
    pub changes: Vec<RemedyChange>,
    /// How many nodes are feasible then.
    pub n_nodes: u32,
    /// Up to five of them, by name; a node that is to be added is among them under the name that it has there.
    pub examples: Vec<Arc<str>>,
}
