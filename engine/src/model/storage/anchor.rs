//! Anchors: labels by which objects that are tied to some nodes are looked up from a node.

use crate::model::intern::Symbol;
use crate::model::selector::{Rule, Term};

/// A set of labels of which every node that some term matches has at least one; `None` where a term requires no value
/// of any label, so that any node may match. Terms on a node's name count as requiring none.
pub(super) fn anchors(terms: &[Term]) -> Option<Vec<(Symbol, Symbol)>> {
    let mut anchors = Vec::new();
    for term in terms {
        let named = term.labels.iter().filter_map(|requirement| match &requirement.rule {
            Rule::In(values) => Some((requirement.key, values)),
            _ => None,
        });
        // The requirement with the fewest values matches the fewest nodes.
        let (key, values) = named.min_by_key(|(_, values)| values.len())?;
        anchors.extend(values.iter().map(|value| (key, *value)));
    }
    anchors.sort_unstable();
    anchors.dedup();
    Some(anchors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Interner;
    use crate::model::selector::NodeSelector;

    #[test]
    fn the_requirement_with_the_fewest_values_anchors_a_term() {
        let names = Interner::new();
        let of = |json: &str| {
            let selector = serde_json::from_str(json).unwrap();
            anchors(&NodeSelector::compile(&selector, &names).terms)
        };
        let [zone, host, a] = ["zone", "host", "a"].map(|name| names.intern(name));
        let host_a = r#"{"key": "host", "operator": "In", "values": ["a"]}"#;
        let zones = r#"{"key": "zone", "operator": "In", "values": ["a", "b"]}"#;
        let term = |list: &str| format!(r#"{{"matchExpressions": [{list}]}}"#);
        let terms = |list: &str| format!(r#"{{"nodeSelectorTerms": [{list}]}}"#);
        assert_eq!(of(&terms("")), Some(vec![]));
        let both = term(&format!("{zones}, {host_a}"));
        assert_eq!(of(&terms(&both)), Some(vec![(host, a)]));
        let two = format!("{both}, {}", term(zones));
        let mut expected = vec![(host, a), (zone, a), (zone, names.intern("b"))];
        expected.sort_unstable();
        assert_eq!(of(&terms(&two)), Some(expected));
        let any = term(r#"{"key": "zone", "operator": "Exists"}"#);
        assert_eq!(of(&terms(&format!("{both}, {any}"))), None);
    }
}
