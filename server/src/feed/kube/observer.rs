//! Observer: receiver of the feed's changes, such as a scheduler with a queue.

use std::time::Instant;

use berth_engine::{ClaimChange, NodeDifference, ObjectKey, PodKey, Snapshot};
use berth_proto::core_v1;

/// Is notified of each change after it is in the cluster, by one thread, in order of a kind. Must be quick: the feed
/// waits.
pub trait Observer: Send + Sync + 'static {
    /// Receives a pod as it was sent: bound, pending or ended, readable or not. With `gone` it was deleted; if that was
    /// found out by listing, or the pod cannot be read, it has only metadata and, if known, `spec.nodeName`.
    fn pod(&self, pod: &core_v1::Pod, gone: bool);

    /// Receives a change of a node, if decisions depend on it. Several changes of one node in a batch are one.
    fn node(&self, name: &str, change: NodeChange);

    /// Receives a change of a claim for devices, or its deletion. Several changes of one claim in a batch are one, and a
    /// list that brings nothing new about it is none.
    fn claim(&self, key: &ObjectKey, change: ClaimChange);

    /// Receives a change of any other object, or its deletion.
    fn object(&self, key: &ObjectKey, gone: bool);

    /// Receives the end of a list of all pods, which was requested at `requested`. Pods that it does not hold are gone,
    /// including those that only the observer knows.
    fn pods_listed(&self, _requested: Instant, _holds: &dyn Fn(&PodKey) -> bool) {}

    /// Is notified, once, when the first full list of every kind is complete.
    fn synced(&self) {}
}

/// Change of a node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// The node is new.
    Added,
    /// The node is gone.
    Removed,
    /// The node has these differences.
    Updated(NodeDifference),
}

impl NodeChange {
    /// The change of a node between two snapshots; `None` if it is irrelevant for decisions.
    #[must_use]
    pub fn between(before: &Snapshot, after: &Snapshot, name: &str) -> Option<NodeChange> {
        match (before.node_named(name), after.node_named(name)) {
            (None, None) => None,
            (None, Some(_)) => Some(NodeChange::Added),
            (Some(_), None) => Some(NodeChange::Removed),
            (Some(old), Some(new)) => Some(new.difference(old))
                .filter(|difference| !difference.is_none())
                .map(NodeChange::Updated),
        }
    }
}
