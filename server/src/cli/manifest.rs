//! Manifest: names of pods and nodes as files give them, and the fields that an API server would fill in.

use berth_proto::core_v1::{Node, Pod};

/// Returns the pod's name with its namespace: `namespace/name`.
pub(super) fn name_of(pod: &Pod) -> String {
    let metadata = pod.metadata.as_ref();
    let (namespace, name) =
        metadata.map_or(("", ""), |metadata| (metadata.namespace.as_str(), metadata.name.as_str()));
    format!("{namespace}/{name}")
}

/// Returns the node's name, or an empty text without metadata.
pub(super) fn node_name(node: &Node) -> &str {
    node.metadata.as_ref().map_or("", |metadata| metadata.name.as_str())
}

/// Fills in what an API server would: the namespace `default`, and a uid.
pub(super) fn admit(pod: &mut Pod) {
    let metadata = pod.metadata.get_or_insert_default();
    if metadata.namespace.is_empty() {
        "default".clone_into(&mut metadata.namespace);
    }
    if metadata.uid.is_empty() {
        metadata.uid = format!("{}/{}", metadata.namespace, metadata.name);
    }
}
