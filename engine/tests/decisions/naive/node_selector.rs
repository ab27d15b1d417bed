//! Node selectors. Rules: S-NAF-2, S-NAF-5 to S-NAF-8, W-SEL-2 to W-SEL-4.

use std::collections::BTreeSet;

use berth_proto::core_v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

use super::names::{is_label_key, is_label_value};

/// Whether a node selector matches a node. Terms are OR-ed; empty and unparsable ones match nothing (S-NAF-5, S-NAF-8).
pub(crate) fn selects(selector: &NodeSelector, node: &Node) -> bool {
    selector
        .node_selector_terms
        .iter()
        .any(|term| !is_empty(term) && is_valid(term) && term_matches(term, node))
}

/// Whether a persistent volume's selector matches a node: only labels are compared, and fields must parse (S-VLB-4).
pub(crate) fn selects_by_labels(selector: &NodeSelector, node: &Node) -> bool {
    let matches = |term: &NodeSelectorTerm| {
        is_valid(term) && term.match_expressions.iter().all(|r| matches_labels(r, node))
    };
    selector.node_selector_terms.iter().any(|term| !is_empty(term) && matches(term))
}

/// Whether a term has neither expressions nor fields.
pub(crate) fn is_empty(term: &NodeSelectorTerm) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty()
}

/// Whether a term parses (S-NAF-6, S-NAF-7, W-SEL-4).
pub(crate) fn is_valid(term: &NodeSelectorTerm) -> bool {
    term.match_expressions.iter().all(is_valid_on_labels)
        && term
            .match_fields
            .iter()
            .all(|r| (r.operator == "In" || r.operator == "NotIn") && r.values.len() == 1)
}

/// Whether all expressions and all fields of a valid term match (S-NAF-5).
pub(crate) fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    term.match_expressions.iter().all(|r| matches_labels(r, node))
        && term.match_fields.iter().all(|r| matches_field(r, node))
}

/// Returns the names to which a required selector narrows the search, `None` if it does not (S-NAF-2).
pub(crate) fn narrowed_names(selector: &NodeSelector) -> Option<BTreeSet<String>> {
    let mut union: Option<BTreeSet<String>> = None;
    for term in &selector.node_selector_terms {
        let mut of_term: Option<BTreeSet<String>> = None;
        for field in
            term.match_fields.iter().filter(|f| f.key == "metadata.name" && f.operator == "In")
        {
            let values: BTreeSet<String> = field.values.iter().cloned().collect();
            of_term = Some(match of_term {
                None => values,
                Some(earlier) => earlier.intersection(&values).cloned().collect(),
            });
        }
        union.get_or_insert_default().extend(of_term?);
    }
    union
}

/// W-SEL-4
fn is_valid_on_labels(r: &NodeSelectorRequirement) -> bool {
    let has_legal_values = match r.operator.as_str() {
        "In" | "NotIn" => !r.values.is_empty(),
        "Exists" | "DoesNotExist" => r.values.is_empty(),
        "Gt" | "Lt" => r.values.len() == 1 && integer(&r.values[0]).is_some(),
        _ => false,
    };
    is_label_key(&r.key) && has_legal_values && r.values.iter().all(|value| is_label_value(value))
}

/// S-NAF-6, W-SEL-3
fn matches_labels(r: &NodeSelectorRequirement, node: &Node) -> bool {
    let value = node.metadata.as_ref().and_then(|metadata| metadata.labels.get(&r.key));
    let compare = |holds: fn(i64, i64) -> bool| {
        let (Some(of_node), Some(bound)) = (value.and_then(|v| integer(v)), integer(&r.values[0]))
        else {
            return false;
        };
        holds(of_node, bound)
    };
    match r.operator.as_str() {
        "In" => value.is_some_and(|value| r.values.contains(value)),
        "NotIn" => value.is_none_or(|value| !r.values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|of_node, bound| of_node > bound),
        "Lt" => compare(|of_node, bound| of_node < bound),
        other => panic!("a valid term has no operator `{other}`"),
    }
}

/// Matches a field: `metadata.name` is the only one, and any other reads as the empty text (S-NAF-7, W-FLD-1).
fn matches_field(r: &NodeSelectorRequirement, node: &Node) -> bool {
    let name = node.metadata.as_ref().map_or("", |metadata| &metadata.name);
    let value = if r.key == "metadata.name" { name } else { "" };
    (value == r.values[0]) == (r.operator == "In")
}

/// Parses a signed base-10 integer; leading zeros are allowed.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(terms: &Value, expected: bool) {
        let node =
            json!({"metadata": {"name": "n1", "labels": {"cpu": "8", "zone": "a", "txt": "abc"}}});
        let selector: NodeSelector =
            serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
        assert_eq!(selects(&selector, &serde_json::from_value(node).unwrap()), expected, "{terms}");
    }

    /// A term of one requirement, written `KEY OPERATOR VALUE…`.
    fn on_labels(text: &str) -> Value {
        json!({"matchExpressions": [requirement(text)]})
    }

    fn on_fields(text: &str) -> Value {
        json!({"matchFields": [requirement(text)]})
    }

    fn requirement(text: &str) -> Value {
        let mut words = text.split(' ');
        json!({"key": words.next(), "operator": words.next(), "values": words.collect::<Vec<_>>()})
    }

    /// The worked table of section 2.4.
    #[test]
    fn worked_examples() {
        check(&json!([]), false);
        check(&json!([{}]), false);
        check(&json!([{}, on_labels("zone In a")]), true);
        for (text, expected) in [
            ("cpu Gt 7", true),
            ("cpu Gt 8", false),
            ("cpu Lt 09", true),
            ("cpu Gt -1", false),
            ("cpu Gt +7", false),
            ("txt Gt 1", false),
            ("absent Lt 5", false),
            ("absent NotIn a", true),
            ("zone NotIn a", false),
            ("zone In", false),
            ("zone Exists a", false),
        ] {
            check(&json!([on_labels(text)]), expected);
        }
        check(&json!([on_labels("zone In"), on_labels("zone In a")]), true);
        for (text, expected) in [
            ("metadata.name In n1", true),
            ("metadata.name In n1 n2", false),
            ("metadata.name NotIn n2", true),
            ("metadata.name Exists", false),
            ("foo NotIn x", true),
            ("foo In x", false),
        ] {
            check(&json!([on_fields(text)]), expected);
        }
    }
}
