//! `NamespaceDeletion`: the pods that block the deletion of a namespace, and the resolutions (L-DEL-7).

use berth_proto::berth_v1::{NamespaceDeletionRequest, NamespaceDeletionResponse};

use crate::lifecycle::listed::nodes_by_name;
use crate::lifecycle::reading::{given_text, in_list, meta, node_name, node_ready};
use crate::lifecycle::vocabulary::ConditionStatus;
use crate::model::ModelError;

/// Resolutions that an administrator has for an unreachable node (L-DEL-19).
const ACKNOWLEDGED_FORCE_DELETE: &str = "AcknowledgedForceDelete";
const DELETE_NODE_OBJECT: &str = "DeleteNodeObject";
const MARK_OUT_OF_SERVICE: &str = "MarkOutOfService";

/// `NamespaceDeletion`: a namespace waits for its pods without a time limit and never forces them.
///
/// A pod counts as partitioned if its node's `Ready` is not True or the node object is missing. Resolutions that need a
/// node object are offered only if there is one. Cost: n log n.
///
/// # Errors
/// [`ModelError`] for pods and nodes without a name, duplicate names of nodes, and an invalid `Ready` of a node.
pub fn namespace_deletion(
    request: &NamespaceDeletionRequest,
) -> Result<NamespaceDeletionResponse, ModelError> {
    let nodes = nodes_by_name(&request.nodes, node_ready)?;
    let mut response = NamespaceDeletionResponse {
        can_finish: request.pods.is_empty(),
        force_delete_allowed: false,
        ..Default::default()
    };
    let mut has_node_object = false;
    for (index, pod) in request.pods.iter().enumerate() {
        let name = in_list("pods", index, given_text(&meta(pod).name, "metadata.name"))?;
        response.blocked_by.push(name.into());
        let Some(node) = node_name(pod) else { continue };
        let ready = nodes.get(node);
        if ready != Some(&Some(ConditionStatus::True)) {
            response.partitioned_blockers.push(name.into());
            has_node_object |= ready.is_some();
        }
    }
    if !response.partitioned_blockers.is_empty() {
        response.resolutions.push(ACKNOWLEDGED_FORCE_DELETE.into());
    }
    if has_node_object {
        response.resolutions.extend([DELETE_NODE_OBJECT.into(), MARK_OUT_OF_SERVICE.into()]);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(pods: &Value, nodes: &Value) -> Result<NamespaceDeletionResponse, String> {
        let request = json!({"pods": pods, "nodes": nodes});
        let request: NamespaceDeletionRequest = serde_json::from_value(request).unwrap();
        namespace_deletion(&request).map_err(|error| error.to_string())
    }

    #[test]
    fn only_possible_resolutions_are_offered() {
        // L-DEL-7, L-DEL-19: a pod that is unbound or on a ready node needs no resolution, only time.
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let pods = json!([
            {"metadata": {"name": "free"}},
            {"metadata": {"name": "well"}, "spec": {"nodeName": "n1"}},
        ]);
        let response =
            answer(&pods, &json!([{"metadata": {"name": "n1"}, "status": ready}])).unwrap();
        assert_eq!(response.blocked_by, ["free", "well"]);
        assert!(response.partitioned_blockers.is_empty() && response.resolutions.is_empty());
        assert!(!response.can_finish);
        // A node object that is gone cannot be deleted.
        let orphan = json!([{"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}}]);
        let response = answer(&orphan, &json!([])).unwrap();
        assert_eq!(response.partitioned_blockers, ["a"]);
        assert_eq!(response.resolutions, ["AcknowledgedForceDelete"]);
        // A node without a `Ready` condition counts as not ready.
        let response = answer(&orphan, &json!([{"metadata": {"name": "n1"}}])).unwrap();
        assert_eq!(response.resolutions.len(), 3);
    }

    #[test]
    fn bad_input_is_named() {
        let error = |pods: Value, nodes: Value| answer(&pods, &nodes).unwrap_err();
        assert_eq!(error(json!([{}]), json!([])), "`pods[0].metadata.name`: required");
        assert_eq!(error(json!([]), json!([{}])), "`nodes[0].metadata.name`: required");
        let conditions = json!([{"type": "Ready", "status": "yes"}]);
        let node = json!({"metadata": {"name": "n1"}, "status": {"conditions": conditions}});
        let unknown = "`nodes[0].status.conditions[0].status`: unknown value `yes`";
        assert!(error(json!([]), json!([node])).starts_with(unknown));
    }
}
