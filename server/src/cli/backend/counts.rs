//! Sizes of the cluster that a command asks.

/// How many objects a cluster has: enough to see whether something was there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Counts {
    pub(in crate::cli) n_nodes: u64,
    /// On nodes, pending, and on nodes that are not there.
    pub(in crate::cli) n_all_pods: u64,
    pub(in crate::cli) n_orphaned_pods: u64,
}
