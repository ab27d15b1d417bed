//! Outcome: the result of a consolidation, plain data.

use std::sync::Arc;

use crate::model::PodKey;
use crate::simulate::drain::outcome::{NodeDrain, NodeUtilization, UnremovableReason};
use crate::snapshot::Generation;

/// A plan: which nodes go, in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct Consolidation {
    /// The snapshot that the plan was made on.
    pub generation: Generation,
    /// One step for each node that goes, in order.
    pub steps: Vec<ConsolidationStep>,
    /// Candidates that were considered and stay, in the order in which they were decided.
    pub kept: Vec<KeptNode>,
    /// Why there are no more steps.
    pub end: ConsolidationEnd,
    /// Savings of all steps together.
    pub savings: Savings,
    /// Disruption of all steps together.
    pub disruption: Disruption,
}

/// One node that goes.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsolidationStep {
    /// The node, its pods and where they go.
    pub drain: NodeDrain,
    /// Savings by removing the node.
    pub savings: Savings,
    /// Disruption of the node's pods.
    pub disruption: Disruption,
}

/// Resources and cost that removing nodes saves.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Savings {
    /// Thousandths of a cpu of `status.allocatable`.
    pub milli_cpu: i64,
    /// Bytes of memory of `status.allocatable`.
    pub memory: i64,
    /// Price per hour in the unit of the request's prices; `None` where no price is known.
    pub price_per_hour: Option<f64>,
}

/// Numbers of pods that a removal disrupts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Disruption {
    /// Pods that are evicted and recreated elsewhere.
    pub n_moved: u32,
    /// Moved pods without a controller: whoever carries out the plan has to recreate them.
    pub n_without_controller: u32,
    /// Moved pods that a disruption budget covers.
    pub n_under_budget: u32,
    /// DaemonSets' pods and mirror pods, which end with their node.
    pub n_ended: u32,
}

/// A candidate that stays.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptNode {
    /// The node's name.
    pub node: Arc<str>,
    /// Utilization before anything moves; `None` for a node that does not exist or has none of the resource it is
    /// measured by.
    pub utilization: Option<NodeUtilization>,
    /// Why the node stays.
    pub reason: UnremovableReason,
    /// Explanation of the reason.
    pub message: String,
    /// The first pod, in node order, that prevents the removal.
    pub blocking_pod: Option<PodKey>,
}

/// Why a plan ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ConsolidationEnd {
    /// Every candidate was considered.
    Exhausted,
    /// The request's maximum of nodes was reached.
    MaxNodes,
}

impl Savings {
    pub(super) fn add(&mut self, other: &Savings) {
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.price_per_hour = match (self.price_per_hour, other.price_per_hour) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}

impl Disruption {
    pub(super) fn add(&mut self, other: &Disruption) {
        self.n_moved += other.n_moved;
        self.n_without_controller += other.n_without_controller;
        self.n_under_budget += other.n_under_budget;
        self.n_ended += other.n_ended;
    }
}
