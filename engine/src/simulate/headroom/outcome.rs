//! Outcome: the result of a headroom question, plain data.

use std::sync::Arc;

use crate::place::decision::Unschedulable;
use crate::place::survey::NodeRefusal;
use crate::plugin::Plugin;
use crate::snapshot::Generation;

/// The number of copies that fit, where, and why no more fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Headroom {
    /// The snapshot that the headroom was computed on.
    pub generation: Generation,
    /// Copies that fit.
    pub n_fit: usize,
    /// Why the next copy is not placed.
    pub end: HeadroomEnd,
    /// Nodes that may take copies, by name. Empty where no node was considered: a copy is gated, or a PreFilter refuses
    /// it.
    pub nodes: Vec<NodeHeadroom>,
    /// Number of nodes that would have taken the first copy, or took any.
    pub n_open: usize,
    /// Each reason for which nodes that had room take no more, by most copies, then by most nodes, then by text.
    pub stops: Vec<HeadroomStop>,
    /// Each resource that a copy requests, native ones first, then `pods`, over the nodes that had room.
    pub resources: Vec<ResourceHeadroom>,
}

/// Why no further copy is placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadroomEnd {
    /// No node takes the next copy. Where the request names nodes, the reasons are counted over these only.
    Unschedulable(Unschedulable),
    /// A PreEnqueue plugin holds every copy back (S-Q-5).
    Gated {
        /// The plugin that gates the pod.
        plugin: Plugin,
        /// The plugin's reasons.
        reasons: Vec<String>,
    },
    /// The request's limit was reached, and no further copy was tried.
    LimitReached,
}

/// Number of copies on one node, and why no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHeadroom {
    /// The node's name.
    pub node: Arc<str>,
    /// Number of copies on the node.
    pub n_fit: usize,
    /// Why the node does not take the next copy; `None` where it would.
    pub refusal: Option<NodeRefusal>,
    /// Free amount of each resource in [`Headroom::resources`], in that order: cpu in milli-units, everything else in
    /// whole units; negative where more is requested than allocatable.
    pub free: Vec<i64>,
    /// Whether the node would have taken the first copy, or took any.
    pub is_open: bool,
}

/// A reason for which nodes that had room take no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadroomStop {
    /// The plugin that refuses; `None` where a PreFilter result left the node out.
    pub plugin: Option<Plugin>,
    /// The reason as kube-scheduler words it.
    pub reason: String,
    /// Number of nodes that give the reason; a node with several reasons counts for each.
    pub n_nodes: usize,
    /// Number of copies on these nodes.
    pub n_fit: usize,
}

/// A resource over the nodes that had room. Cpu in milli-units, everything else in whole units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceHeadroom {
    /// Name of the resource, such as `cpu` or `memory`; `pods` for the number of pods.
    pub name: Arc<str>,
    /// The request of one copy.
    pub request: i64,
    /// Free amount before the first copy; sums saturate.
    pub free_before: i64,
    /// Free amount after the last copy.
    pub free_after: i64,
    /// Number of nodes whose free amount is too small for one more copy.
    pub n_nodes_short: usize,
    /// Number of copies that would fit if only this resource were checked.
    pub n_fit_alone: u64,
}
