//! Delta: one change of a cluster, and the result of applying changes.

use std::fmt;
use std::sync::Arc;

use crate::model::ModelError;
use crate::model::{Node, Object, ObjectKey, Pod, PodKey};
use crate::snapshot::Generation;

/// One change. Deltas are idempotent.
#[derive(Clone, Debug)]
pub enum Delta {
    /// Adds a node or replaces the one of its name.
    UpsertNode(Node),
    /// Removes the node of this name; its pods stay known until they are deleted (S-CCH-7).
    DeleteNode(Arc<str>),
    /// Adds, replaces, binds, confirms or, when terminal, removes a pod.
    UpsertPod(Pod),
    /// Adds or replaces an object other than a node or a pod.
    UpsertObject(Object),
    /// Removes an object other than a node or a pod.
    DeleteObject(ObjectKey),
    /// Removes a pod, bound, assumed or pending.
    DeletePod {
        /// The pod.
        key: PodKey,
        /// If set, only the pod of this uid is removed: a newer one under the same name stays.
        uid: Option<Arc<str>>,
    },
}

/// The complete content of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterState {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Objects of every other kind.
    pub objects: Vec<Object>,
    /// Pods, on nodes and pending.
    pub pods: Vec<Pod>,
}

/// Result of applying deltas.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// The published generation that holds every accepted delta.
    pub generation: Generation,
    /// Deltas that were skipped.
    pub rejected: Vec<RejectedDelta>,
}

/// A delta that was skipped, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedDelta {
    /// Position in the batch; when the cluster is replaced, nodes count first, then other objects, then pods.
    pub index: usize,
    /// The object of the delta, for example ``Pod `default/web-0` ``.
    pub object: String,
    /// Why the delta was rejected.
    pub error: ModelError,
}

impl fmt::Display for RejectedDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.error)
    }
}

impl Delta {
    /// The pod of the delta, if it concerns a pod.
    pub(crate) fn pod(&self) -> Option<&PodKey> {
        match self {
            Delta::UpsertPod(pod) => Some(pod.key()),
            Delta::DeletePod { key, .. } => Some(key),
            Delta::UpsertNode(_)
            | Delta::DeleteNode(_)
            | Delta::UpsertObject(_)
            | Delta::DeleteObject(_) => None,
        }
    }

    /// The object's kind and name, for messages.
    pub(crate) fn object(&self) -> String {
        match self {
            Delta::UpsertNode(node) => format!("Node `{}`", node.name()),
            Delta::DeleteNode(name) => format!("Node `{name}`"),
            Delta::UpsertObject(object) => object.key().to_string(),
            Delta::DeleteObject(key) => key.to_string(),
            Delta::UpsertPod(pod) => format!("Pod `{}`", pod.key()),
            Delta::DeletePod { key, .. } => format!("Pod `{key}`"),
        }
    }
}
