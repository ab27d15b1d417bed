//! Outcome: how many more of a pod fit, where, and why no more. Plain data.

use std::sync::Arc;

use crate::place::decision::Unschedulable;
use crate::place::survey::NodeRefusal;
use crate::plugin::Plugin;
use crate::snapshot::Generation;

/// How many fit, where, and why no more.
#[derive(Clone, Debug, PartialEq)]
pub struct Headroom {
    /// The snapshot that it was worked out on.
    pub generation: Generation,
    /// Copies that fit.
    pub n_fit: usize,
    /// Why the next does not.
    pub end: HeadroomEnd,
    /// Nodes that may take copies, by name. Empty where no node was looked at: a copy is gated, or a PreFilter refuses it.
    pub nodes: Vec<NodeHeadroom>,
    /// Nodes that had room: that would have taken the first copy, or took any.
    pub n_open: usize,
    /// Each reason for which nodes that had room take no more, the one of most copies first, then of most nodes, then by its text.
    pub stops: Vec<HeadroomStop>,
    /// Each resource that a copy requests, native ones first, then `pods`, over the nodes that had room.
    pub resources: Vec<ResourceHeadroom>,
}

/// Why there is no further copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadroomEnd {
    /// No node takes it. Where only some nodes may, the reasons count those alone.
    Unschedulable(Unschedulable),
    /// A PreEnqueue plugin holds every copy back (S-Q-5).
    Gated {
        /// The plugin.
        plugin: Plugin,
        /// Its reasons.
        reasons: Vec<String>,
    },
    /// As many fit as were asked for, and no further one was tried.
    LimitReached,
}

/// What one node takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHeadroom {
    /// Node name.
    pub node: Arc<str>,
    /// Copies on it.
    pub n_fit: usize,
    /// Why it does not take the next one; `None` where it would.
    pub refusal: Option<NodeRefusal>,
    /// What is left of each resource in [`Headroom::resources`], in that order: cpu in milli-units, everything else in whole units;
    /// less than 0 where more is taken than there is.
    pub free: Vec<i64>,
    /// Whether it would have taken the first copy, or took any.
    pub is_open: bool,
}

/// A reason for which nodes that had room take no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadroomStop {
    /// Who gives it; `None` where a PreFilter result left the node out.
    pub plugin: Option<Plugin>,
    /// kube-scheduler's text.
    pub reason: String,
    /// Nodes that give it; one that gives several counts for each.
    pub n_nodes: usize,
    /// Copies that these took.
    pub n_fit: usize,
}

/// A resource over the nodes that had room. Cpu in milli-units, everything else in whole units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceHeadroom {
    /// `cpu`, `memory`, …; `pods` for room in number.
    pub name: Arc<str>,
    /// What a copy asks for.
    pub request: i64,
    /// Left before the first copy; saturating, as the others.
    pub free_before: i64,
    /// Left after the last.
    pub free_after: i64,
    /// Nodes where that is too little for one more.
    pub n_nodes_short: usize,
    /// Copies that would fit if nothing but this resource counted.
    pub n_fit_alone: u64,
}
