//! What becomes of a cluster that is to need fewer nodes: plain data.

use std::sync::Arc;

use crate::model::PodKey;
use crate::simulate::drain::outcome::{NodeDrain, NodeUtilization, UnremovableReason};
use crate::snapshot::Generation;

/// A plan: which nodes go, in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct Consolidation {
    /// The snapshot that this was worked out on.
    pub generation: Generation,
    /// One a node that goes, in the order in which they go.
    pub steps: Vec<ConsolidationStep>,
    /// Candidates that were looked at and stay, in the order in which that was found.
    pub kept: Vec<KeptNode>,
    /// Why there are no more steps.
    pub end: ConsolidationEnd,
    /// Of all steps together.
    pub savings: Savings,
    /// Of all steps together.
    pub disruption: Disruption,
}

/// A node that goes.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsolidationStep {
    /// The node, its pods and where they go.
    pub drain: NodeDrain,
    /// What is saved.
    pub savings: Savings,
    /// What it costs the pods.
    pub disruption: Disruption,
}

/// What a node that is gone no longer costs.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Savings {
    /// Of `status.allocatable`, in thousandths of a cpu.
    pub milli_cpu: i64,
    /// Of `status.allocatable`, in bytes.
    pub memory: i64,
    /// An hour, in the unit of the request's prices; `None` where no price is known.
    pub price_per_hour: Option<f64>,
}

/// What moving pods means to them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Disruption {
    /// Pods that are evicted and made anew elsewhere.
    pub n_moved: u32,
    /// Those of them that nobody makes anew: whoever carries this out has to.
    pub n_without_controller: u32,
    /// Those of them that some disruption budget covers.
    pub n_under_budget: u32,
    /// DaemonSets' pods and copies of static pods, which end with their node.
    pub n_ended: u32,
}

/// A candidate that stays.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptNode {
    /// Its name.
    pub node: Arc<str>,
    /// How full it is before anything moves; `None` for a node that is not there, or that has none of what it is measured by.
    pub utilization: Option<NodeUtilization>,
    /// Why it stays.
    pub reason: UnremovableReason,
    /// The same for people.
    pub message: String,
    /// The first pod, in node order, that is the reason.
    pub blocking_pod: Option<PodKey>,
}

/// Why a plan ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ConsolidationEnd {
    /// Every candidate was looked at.
    Exhausted,
    /// As many nodes go as may.
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
