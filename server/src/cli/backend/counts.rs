//! Sizes of the cluster that a command uses.

/// Number of objects in a cluster: enough to see whether something was there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Counts {
    pub(in crate::cli) n_nodes: u64,
    /// Pods on nodes, pending, and on missing nodes.
    pub(in crate::cli) n_all_pods: u64,
    pub(in crate::cli) n_orphaned_pods: u64,
}
