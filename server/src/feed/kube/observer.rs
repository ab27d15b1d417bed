//! Observer: who wants to know what the feed changed, such as a scheduler with a queue.

use std::time::Instant;

use berth_engine::{NodeDifference, ObjectKey, PodKey, Snapshot};
use berth_proto::core_v1;

/// Told of each change after it is in the cluster, by one thread, in order of a kind. Must be quick: the feed waits.
pub trait Observer: Send + Sync + 'static {
    /// A pod as it was sent: bound, pending or ended, readable or not. With `gone` it was deleted; if that was found out by
    /// listing, or the pod cannot be read, it has only metadata and, where that is known, `spec.nodeName`.
    fn pod(&self, pod: &core_v1::Pod, gone: bool);

    /// A node came, went, or is another as far as decisions can tell. Changes of one node that came together are one.
    fn node(&self, name: &str, change: NodeChange);

    /// Any other object was told of, or is gone.
    fn object(&self, key: &ObjectKey, gone: bool);

    /// A list of all pods is in, that was asked for at `asked`, and all of it was told. Pods that it does not hold are gone, also
    /// such as only the observer knows of.
    fn pods_listed(&self, _asked: Instant, _holds: &dyn Fn(&PodKey) -> bool) {}

    /// The first full list of every kind is in. Once.
    fn synced(&self) {}
}

/// What became of a node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It differs in these.
    Updated(NodeDifference),
}

impl NodeChange {
    /// What became of a node from one snapshot to a later one; `None` where decisions cannot tell.
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
