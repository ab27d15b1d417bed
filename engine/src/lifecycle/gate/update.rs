//! `CheckGateUpdate`: gates, node selector and node affinity in a create or update of a pod (L-GATE-2 to L-GATE-4).

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::berth_v1::{CheckGateUpdateRequest, CheckGateUpdateResponse};
use berth_proto::core_v1::{NodeAffinity, NodeSelectorTerm, PodSchedulingGate};

use crate::lifecycle::vocabulary::AdmissionOperation;
use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::label::is_qualified_name;

words! {
    /// Reason why a create or update is refused.
    enum GateRefusal {
        /// A gate's name is not a qualified name.
        InvalidGateName = "InvalidGateName",
        /// A gate is listed twice.
        DuplicateGate = "DuplicateGate",
        /// A pod with gates has a node name.
        NodeNameWithGates = "NodeNameWithGates",
        /// The update adds a gate.
        OnlyRemovalAllowed = "OnlyRemovalAllowed",
        /// The update would admit nodes that were excluded before.
        OnlyTighteningAllowed = "OnlyTighteningAllowed",
        /// The pod is not gated, so the choice of its node is fixed.
        SpecImmutable = "SpecImmutable",
    }
}

/// `CheckGateUpdate`: whether a create or update is allowed, as far as gates, node selector and node affinity go. Cost:
/// n log n.
///
/// # Errors
/// [`ModelError`] for an unknown operation, and for a create that has old values.
pub fn check_gate_update(
    request: &CheckGateUpdateRequest,
) -> Result<CheckGateUpdateResponse, ModelError> {
    let refusal = match AdmissionOperation::parse(&request.operation, "operation")? {
        AdmissionOperation::Create => {
            without_past(request)?;
            at_creation(request)
        }
        AdmissionOperation::Update => at_update(request),
    };
    Ok(CheckGateUpdateResponse {
        allowed: refusal.is_none(),
        reason: refusal.map_or("", GateRefusal::word).into(),
    })
}

fn without_past(request: &CheckGateUpdateRequest) -> Result<(), ModelError> {
    let pasts = [
        ("oldGates", request.old_gates.is_empty()),
        ("oldNodeSelector", request.old_node_selector.is_empty()),
        ("oldNodeAffinity", request.old_node_affinity.is_none()),
    ];
    match pasts.into_iter().find(|(_, is_empty)| !is_empty) {
        Some((field, _)) => Err(ModelError::new(field, "must be empty for `Create`")),
        None => Ok(()),
    }
}

/// Checks of a create: qualified names, no duplicates, no node name beside gates (L-GATE-3).
fn at_creation(request: &CheckGateUpdateRequest) -> Option<GateRefusal> {
    let gates = &request.new_gates;
    if gates.iter().any(|gate| !is_qualified_name(&gate.name)) {
        return Some(GateRefusal::InvalidGateName);
    }
    let mut names = BTreeSet::new();
    if !gates.iter().all(|gate| names.insert(&gate.name)) {
        return Some(GateRefusal::DuplicateGate);
    }
    node_name_with_gates(request)
}

/// Checks of an update: gates may be removed in any order and none added (L-GATE-2); node selector and affinity follow
/// L-GATE-4.
fn at_update(request: &CheckGateUpdateRequest) -> Option<GateRefusal> {
    if has_more(&request.new_gates, &request.old_gates) {
        return Some(GateRefusal::OnlyRemovalAllowed);
    }
    if let Some(refusal) = node_name_with_gates(request) {
        return Some(refusal);
    }
    let (old, new) = (request.old_node_affinity.as_ref(), request.new_node_affinity.as_ref());
    let (old_labels, new_labels) = (&request.old_node_selector, &request.new_node_selector);
    // The stored pod decides whether it is gated: the update itself may remove the last gate.
    if request.old_gates.is_empty() {
        let is_same = old_labels == new_labels && old == new;
        return (!is_same).then_some(GateRefusal::SpecImmutable);
    }
    let tightens = selector_tightens(old_labels, new_labels) && affinity_tightens(old, new);
    (!tightens).then_some(GateRefusal::OnlyTighteningAllowed)
}

fn node_name_with_gates(request: &CheckGateUpdateRequest) -> Option<GateRefusal> {
    (!request.new_gates.is_empty() && !request.node_name.is_empty())
        .then_some(GateRefusal::NodeNameWithGates)
}

/// Whether `new` has a gate more often than `old`.
fn has_more(new: &[PodSchedulingGate], old: &[PodSchedulingGate]) -> bool {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for gate in old {
        *left.entry(&gate.name).or_default() += 1;
    }
    new.iter().any(|gate| match left.get_mut(gate.name.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    })
}

/// Whether a node selector only gains keys: existing ones stay, with their values.
fn selector_tightens(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> bool {
    old.iter().all(|(key, value)| new.get(key) == Some(value))
}

/// Whether required node affinity only narrows: the number of terms stays, and each may gain requirements at its end.
/// If there were no terms, any are allowed. Preferred terms are free.
fn affinity_tightens(old: Option<&NodeAffinity>, new: Option<&NodeAffinity>) -> bool {
    let (old, new) = (required_terms(old), required_terms(new));
    old.is_empty()
        || (old.len() == new.len() && old.iter().zip(new).all(|(old, new)| term_tightens(old, new)))
}

fn required_terms(affinity: Option<&NodeAffinity>) -> &[NodeSelectorTerm] {
    affinity
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref())
        .map_or(&[], |selector| &selector.node_selector_terms)
}

/// Whether a term only narrows. An empty term matches no node, so any requirement would widen it.
fn term_tightens(old: &NodeSelectorTerm, new: &NodeSelectorTerm) -> bool {
    if old.match_expressions.is_empty() && old.match_fields.is_empty() {
        return new.match_expressions.is_empty() && new.match_fields.is_empty();
    }
    new.match_expressions.starts_with(&old.match_expressions)
        && new.match_fields.starts_with(&old.match_fields)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(request: Value) -> Result<String, String> {
        let request: CheckGateUpdateRequest = serde_json::from_value(request).unwrap();
        let answer = check_gate_update(&request).map_err(|error| error.to_string())?;
        assert_eq!(answer.allowed, answer.reason.is_empty());
        Ok(answer.reason)
    }

    fn gates(names: &[&str]) -> Value {
        names.iter().map(|name| json!({"name": name})).collect()
    }

    #[test]
    fn creation() {
        let reason = |names: &[&str], node| {
            answer(json!({"operation": "Create", "newGates": gates(names), "nodeName": node}))
                .unwrap()
        };
        // L-GATE-3, in the order of its checks.
        assert_eq!(reason(&["a.io/x", "/", "a.io/x"], "n1"), "InvalidGateName");
        assert_eq!(reason(&[""], ""), "InvalidGateName");
        assert_eq!(reason(&["a.io/x", "a.io/x"], "n1"), "DuplicateGate");
        assert_eq!(reason(&["a.io/x"], "n1"), "NodeNameWithGates");
        assert_eq!(reason(&[], "n1"), "");
        assert_eq!(reason(&["x"], ""), "");
    }

    #[test]
    fn gates_only_go() {
        let reason = |old: &[&str], new: &[&str], node| {
            let (old, new) = (gates(old), gates(new));
            let request =
                json!({"operation": "Update", "oldGates": old, "newGates": new, "nodeName": node});
            answer(request).unwrap()
        };
        // L-GATE-2: a second entry of the same gate is an addition.
        assert_eq!(reason(&["x"], &["x", "x"], ""), "OnlyRemovalAllowed");
        assert_eq!(reason(&["x", "y"], &["y"], "n1"), "NodeNameWithGates");
        assert_eq!(reason(&["x"], &[], "n1"), "");
    }

    #[test]
    fn required_affinity_only_narrows() {
        let affinity = |terms: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let term = |keys: &[&str]| {
            let exists = |key| json!({"key": key, "operator": "Exists"});
            json!({"matchExpressions": keys.iter().map(exists).collect::<Vec<_>>()})
        };
        let reason = |gate: &[&str], old: Value, new: Value| {
            answer(json!({
                "operation": "Update", "oldGates": gates(gate),
                "oldNodeAffinity": old, "newNodeAffinity": new,
            }))
            .unwrap()
        };
        let (a, ab, b) = (term(&["a"]), term(&["a", "b"]), term(&["b"]));
        let gated =
            |old: &Value, new: &Value| reason(&["x"], affinity(json!(old)), affinity(json!(new)));
        // L-GATE-4, also in the update that removes the last gate.
        assert_eq!(gated(&json!([a]), &json!([ab])), "");
        assert_eq!(gated(&json!([]), &json!([a, b])), "");
        for wider in [json!([b]), json!([a, b]), json!([]), json!([term(&["b", "a"])])] {
            assert_eq!(gated(&json!([a]), &wider), "OnlyTighteningAllowed", "{wider}");
        }
        assert_eq!(gated(&json!([{}]), &json!([a])), "OnlyTighteningAllowed");
        assert_eq!(reason(&["x"], affinity(json!([a])), Value::Null), "OnlyTighteningAllowed");
        let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]});
        assert_eq!(reason(&["x"], Value::Null, preferred.clone()), "");
        assert_eq!(reason(&[], Value::Null, preferred.clone()), "SpecImmutable");
        assert_eq!(reason(&[], preferred.clone(), preferred), "");
    }

    #[test]
    fn bad_input_is_named() {
        let error = |request| answer(request).unwrap_err();
        assert_eq!(error(json!({})), "`operation`: required: one of `Create`, `Update`");
        let request = json!({"operation": "Create", "oldGates": gates(&["x"])});
        assert_eq!(error(request), "`oldGates`: must be empty for `Create`");
        let request = json!({"operation": "Create", "oldNodeSelector": {"a": "b"}});
        assert_eq!(error(request), "`oldNodeSelector`: must be empty for `Create`");
    }
}
