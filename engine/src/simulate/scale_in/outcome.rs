//! Outcome: which replicas go, and why. Plain data.

use std::sync::Arc;

use crate::model::PodKey;
use crate::simulate::drain::outcome::BudgetUse;
use crate::snapshot::Generation;

/// The replicas to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleIn {
    /// The snapshot that the choice was made on.
    pub generation: Generation,
    /// The chosen pods, in the order in which they are to go.
    pub pods: Vec<ScaleInPod>,
    /// Number of replicas before, without those that are being deleted.
    pub n_replicas: usize,
    /// Number of replicas that are being deleted.
    pub n_terminating: usize,
    /// The effect on each constraint, the most important first.
    pub spread: Vec<ScaleInSpread>,
    /// Nodes on which the chosen pods were the last, not counting DaemonSets', mirror and terminating pods; by name.
    pub emptied_nodes: Vec<Arc<str>>,
    /// Disruptions that the chosen pods take from budgets, by namespace and name.
    pub budgets: Vec<BudgetUse>,
}

/// A pod to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleInPod {
    /// The pod.
    pub pod: PodKey,
    /// The pod's uid.
    pub uid: Arc<str>,
    /// The pod's node.
    pub node: Arc<str>,
    /// The first criterion that put the pod before all others that were left.
    pub reason: ScaleInReason,
    /// Explanation of the reason.
    pub message: String,
    /// Value of the annotation `controller.kubernetes.io/pod-deletion-cost` with which the pod's controller chooses
    /// these pods in this order among equally ready ones; `None` where no controller reads it.
    pub deletion_cost: Option<i32>,
}

/// The criterion that put a pod before all others.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ScaleInReason {
    /// The pod has not started, or is not ready.
    NotReady,
    /// Hard constraints are violated least without the pod.
    Violation,
    /// The pod's domain has the most pods.
    Spread,
    /// The pod's node is cordoned or being removed.
    LeavingNode,
    /// The pod's node has the fewest other pods.
    EmptierNode,
    /// No disruption budget is exceeded by the pod.
    Budget,
    /// The pod started last.
    Younger,
    /// Only the pod's name differs.
    Name,
}

/// How evenly the pods that a constraint counts are spread, before and after (S-PTS-6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleInSpread {
    /// The label whose values are the domains.
    pub topology_key: Arc<str>,
    /// The allowed skew; 0 where none is set.
    pub max_skew: i32,
    /// Whether the constraint is `DoNotSchedule`.
    pub is_hard: bool,
    /// The largest number of pods in a domain less the smallest, before the removal.
    pub skew_before: i64,
    /// The largest number of pods in a domain less the smallest, after the removal.
    pub skew_after: i64,
    /// Number of domains that count.
    pub n_domains: usize,
    /// Domains whose number of pods changes, by name: the numbers before and after.
    pub domains: Vec<(Arc<str>, i64, i64)>,
}
