//! Manifest: names of pods and nodes as files give them, and what identifies a pod of a dump.

use berth_proto::core_v1::{Node, Pod};

pub(super) use crate::feed::handed::{contain, identify, name_of, name_of_entry};

/// Returns the node's name, or an empty text without metadata.
pub(super) fn node_name(node: &Node) -> &str {
    node.metadata.as_ref().map_or("", |metadata| metadata.name.as_str())
}

/// Whether a pod was written by hand: an API server gives each pod a resource version.
pub(super) fn is_written_by_hand(pod: &Pod) -> bool {
    pod.metadata.as_ref().is_none_or(|metadata| metadata.resource_version.is_empty())
}
