//! Manifest: names of pods and nodes as files give them, and what identifies a pod of a dump.

use berth_proto::core_v1::{Node, Pod};

/// Returns the pod's name with its namespace: `namespace/name`. A name that is still to be generated is its prefix.
pub(super) fn name_of(pod: &Pod) -> String {
    let Some(metadata) = &pod.metadata else { return "default/".to_owned() };
    let namespace = if metadata.namespace.is_empty() { "default" } else { &metadata.namespace };
    let name = if metadata.name.is_empty() { &metadata.generate_name } else { &metadata.name };
    format!("{namespace}/{name}")
}

/// Returns the node's name, or an empty text without metadata.
pub(super) fn node_name(node: &Node) -> &str {
    node.metadata.as_ref().map_or("", |metadata| metadata.name.as_str())
}

/// Whether a pod was written by hand: an API server gives each pod a resource version.
pub(super) fn is_written_by_hand(pod: &Pod) -> bool {
    pod.metadata.as_ref().is_none_or(|metadata| metadata.resource_version.is_empty())
}

/// Fills in what the cluster needs to hold a pod of a file: the namespace `default`, a uid (A-NAME-1, A-NAME-3), and the
/// action of spread constraints (A-DEF-12). Everything else is left to admission.
pub(super) fn identify(pod: &mut Pod) {
    let metadata = pod.metadata.get_or_insert_default();
    if metadata.namespace.is_empty() {
        "default".clone_into(&mut metadata.namespace);
    }
    if metadata.uid.is_empty() {
        metadata.uid = format!("{}/{}", metadata.namespace, metadata.name);
    }
    let constraints =
        pod.spec.iter_mut().flat_map(|spec| spec.topology_spread_constraints.iter_mut());
    for constraint in constraints.filter(|constraint| constraint.when_unsatisfiable.is_empty()) {
        "DoNotSchedule".clone_into(&mut constraint.when_unsatisfiable);
    }
}
