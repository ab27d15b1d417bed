//! Cost: whether deciding for a pod takes microseconds, estimated from its spec before it is decided where that runs. The
//! reactor decides only what is cheap; everything else goes to a thread of the pool.

use berth_proto::core_v1::{Affinity, NodeSelectorTerm, Pod, PodSpec};

/// Most terms and constraints over other pods: each is counted over all nodes.
const MAX_COUNTED: usize = 8;
/// Most other elements of lists that the filters compare with each node.
const MAX_COMPARED: usize = 256;

/// Whether deciding for the pod takes microseconds.
pub(crate) fn is_small(pod: &Pod) -> bool {
    pod.spec.as_ref().is_none_or(is_small_spec)
}

fn is_small_spec(spec: &PodSpec) -> bool {
    let affinity = spec.affinity.as_ref();
    let n_counted = spec.topology_spread_constraints.len() + affinity.map_or(0, n_pod_terms);
    let n_containers = spec.containers.len() + spec.init_containers.len();
    let ports = || spec.containers.iter().map(|container| container.ports.len());
    let n_compared = spec.tolerations.len()
        + spec.node_selector.len()
        + spec.volumes.len()
        + n_containers
        + ports().sum::<usize>()
        + affinity.map_or(0, n_node_requirements);
    n_counted <= MAX_COUNTED && n_compared <= MAX_COMPARED
}

/// Terms of affinity to pods.
fn n_pod_terms(affinity: &Affinity) -> usize {
    let near = affinity.pod_affinity.as_ref().map_or(0, |near| {
        near.required_during_scheduling_ignored_during_execution.len()
            + near.preferred_during_scheduling_ignored_during_execution.len()
    });
    let far = affinity.pod_anti_affinity.as_ref().map_or(0, |far| {
        far.required_during_scheduling_ignored_during_execution.len()
            + far.preferred_during_scheduling_ignored_during_execution.len()
    });
    near + far
}

fn n_node_requirements(affinity: &Affinity) -> usize {
    let Some(nodes) = &affinity.node_affinity else { return 0 };
    let n_of = |term: &NodeSelectorTerm| {
        let values = term.match_expressions.iter().map(|expression| 1 + expression.values.len());
        1 + values.sum::<usize>() + term.match_fields.len()
    };
    let required = nodes.required_during_scheduling_ignored_during_execution.iter();
    let preferred = nodes.preferred_during_scheduling_ignored_during_execution.iter();
    required.flat_map(|selector| &selector.node_selector_terms).map(n_of).sum::<usize>()
        + preferred.filter_map(|term| term.preference.as_ref()).map(n_of).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(spec: &Value, expected: bool) {
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        assert_eq!(is_small(&pod), expected, "{spec}");
    }

    #[test]
    fn long_lists_are_not_for_the_reactor() {
        let of = |n: usize, element: Value| Value::Array(vec![element; n]);
        check(&json!({}), true);
        let container = json!({"name": "c", "ports": [{"hostPort": 1}]});
        check(&json!({"containers": of(8, container.clone())}), true);
        check(&json!({"containers": of(200, container)}), false);
        let constraint = json!({"topologyKey": "k", "maxSkew": 1});
        check(&json!({"topologySpreadConstraints": of(8, constraint.clone())}), true);
        check(&json!({"topologySpreadConstraints": of(9, constraint)}), false);
        let lists = "requiredDuringSchedulingIgnoredDuringExecution";
        let terms = |n| json!({"affinity": {"podAntiAffinity": {lists: of(n, json!({}))}}});
        check(&terms(8), true);
        check(&terms(9), false);
        let expression = json!({"key": "k", "operator": "In", "values": of(300, json!("v"))});
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
        check(&json!({"affinity": {"nodeAffinity": {lists: required}}}), false);
    }
}
