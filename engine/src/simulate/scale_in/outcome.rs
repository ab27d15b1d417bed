//! Outcome: which replicas go, and why. Plain data.

use std::sync::Arc;

use crate::model::PodKey;
use crate::simulate::drain::outcome::BudgetUse;
use crate::snapshot::Generation;

/// Which replicas go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleIn {
    /// The snapshot that it was worked out on.
    pub generation: Generation,
    /// In the order in which they are to go.
    pub pods: Vec<ScaleInPod>,
    /// Replicas before, without those that are being deleted.
    pub n_replicas: usize,
    /// Those that are.
    pub n_terminating: usize,
    /// For each constraint, in the order in which it counts.
    pub spread: Vec<ScaleInSpread>,
    /// Nodes on which the chosen pods were the last, DaemonSets', mirror and terminating pods apart; by name.
    pub emptied_nodes: Vec<Arc<str>>,
    /// What the chosen pods take of disruption budgets, by namespace and name.
    pub budgets: Vec<BudgetUse>,
}

/// A pod that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleInPod {
    /// The pod.
    pub pod: PodKey,
    /// Its uid.
    pub uid: Arc<str>,
    /// Its node.
    pub node: Arc<str>,
    /// The first line of the order that put it before any of the others that were left.
    pub reason: ScaleInReason,
    /// The same for people.
    pub message: String,
    /// Value of the annotation `controller.kubernetes.io/pod-deletion-cost` with which its controller chooses these pods in this
    /// order among equally ready ones; `None` where no controller reads it.
    pub deletion_cost: Option<i32>,
}

/// The first line of the order that put a pod before any of the others.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ScaleInReason {
    /// It has not started, or is not ready.
    NotReady,
    /// Hard constraints are violated by less.
    Violation,
    /// Its domain has more of them.
    Spread,
    /// Its node is cordoned or being removed.
    LeavingNode,
    /// Its node has fewer other pods.
    EmptierNode,
    /// No disruption budget is exceeded.
    Budget,
    /// It started later.
    Younger,
    /// Nothing but its name.
    Name,
}

/// How evenly the pods that a constraint counts are spread, before and after (S-PTS-6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleInSpread {
    /// The label whose values are the domains.
    pub topology_key: Arc<str>,
    /// 0 where none is demanded.
    pub max_skew: i32,
    /// `DoNotSchedule`.
    pub is_hard: bool,
    /// The largest number in a domain less the smallest.
    pub skew_before: i64,
    /// The same afterwards.
    pub skew_after: i64,
    /// Domains that count.
    pub n_domains: usize,
    /// Those whose number changes, by name: how many pods before and after.
    pub domains: Vec<(Arc<str>, i64, i64)>,
}
