//! Random node affinities: most terms are valid, some do not parse.

use berth_proto::core_v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Generates the affinity of a pod, valid or not.
pub(crate) fn node_affinity() -> BoxedStrategy<NodeAffinity> {
    affinity(
        prop_oneof![6 => valid_term(), 1 => Just(NodeSelectorTerm::default()), 1 => odd_term()]
            .boxed(),
    )
    .boxed()
}

/// Generates the affinity that a policy adds: every term parses (S-NAF-8).
pub(crate) fn added_affinity() -> BoxedStrategy<NodeAffinity> {
    affinity(valid_term().boxed()).boxed()
}

fn affinity(term: BoxedStrategy<NodeSelectorTerm>) -> BoxedStrategy<NodeAffinity> {
    let terms = prop_oneof![4 => vec(term.clone(), 0..4), 1 => vec(naming_term(), 1..3)];
    let required = terms.prop_map(|node_selector_terms| NodeSelector { node_selector_terms });
    let weight = prop_oneof![1 => Just(0), 3 => select(vec![1, 30, 80, 100])];
    let preferred = (weight, option::weighted(0.95, term))
        .prop_map(|(weight, preference)| PreferredSchedulingTerm { weight, preference });
    (option::weighted(0.4, required), vec(preferred, 0..4))
        .prop_map(|(required, preferred)| NodeAffinity {
            required_during_scheduling_ignored_during_execution: required,
            preferred_during_scheduling_ignored_during_execution: preferred,
        })
        .boxed()
}

fn valid_term() -> BoxedStrategy<NodeSelectorTerm> {
    let names = vec(on_name(), 1..3).boxed();
    prop_oneof![
        5 => vec(on_labels(), 1..3).prop_map(|labels| term(labels, Vec::new())),
        1 => names.clone().prop_map(|fields| term(Vec::new(), fields)),
        1 => (vec(on_labels(), 1..2), names).prop_map(|(labels, fields)| term(labels, fields)),
    ]
    .boxed()
}

/// Generates a term that narrows the search to one node or to none (S-NAF-2).
fn naming_term() -> BoxedStrategy<NodeSelectorTerm> {
    let name = select(vec!["node-0", "node-1", "node-2", "node-absent"]);
    let field = name.prop_map(|name| requirement("metadata.name", "In", &[name]));
    vec(field, 1..3).prop_map(|fields| term(Vec::new(), fields)).boxed()
}

fn odd_term() -> BoxedStrategy<NodeSelectorTerm> {
    let zone = "topology.kubernetes.io/zone";
    let labels = select(vec![
        requirement(zone, "In", &[]),
        requirement(zone, "Exists", &["a"]),
        requirement(zone, "in", &["a"]),
        requirement("cpus", "Gt", &["-1"]),
        requirement("cpus", "Gt", &["4", "5"]),
        requirement("cpus", "Lt", &["many"]),
        requirement("not a key", "Exists", &[]),
        requirement(zone, "NotIn", &["not a value!"]),
    ]);
    let fields = select(vec![
        requirement("metadata.name", "In", &["node-0", "node-1"]),
        requirement("metadata.name", "Exists", &[]),
        requirement("metadata.name", "In", &[]),
        requirement("metadata.name", "NotIn", &["node-0", "node-1"]),
    ]);
    prop_oneof![
        3 => labels.prop_map(|labels| term(vec![labels], Vec::new())),
        1 => fields.prop_map(|fields| term(Vec::new(), vec![fields])),
    ]
    .boxed()
}

fn on_labels() -> BoxedStrategy<NodeSelectorRequirement> {
    let zone = "topology.kubernetes.io/zone";
    select(vec![
        requirement(zone, "In", &["a"]),
        requirement(zone, "In", &["a", "b"]),
        requirement(zone, "In", &["nowhere"]),
        requirement(zone, "NotIn", &["a", "nowhere"]),
        requirement(zone, "Exists", &[]),
        requirement(zone, "DoesNotExist", &[]),
        requirement("example.com/pool", "In", &["web", "gpu"]),
        requirement("example.com/pool", "NotIn", &["web"]),
        requirement("example.com/unheard", "DoesNotExist", &[]),
        requirement("example.com/unheard", "NotIn", &["x"]),
        requirement("example.com/unheard", "Exists", &[]),
        requirement("cpus", "Gt", &["4"]),
        requirement("cpus", "Gt", &["007"]),
        requirement("cpus", "Lt", &["9"]),
        requirement("cpus", "In", &["", "8"]),
    ])
    .boxed()
}

fn on_name() -> BoxedStrategy<NodeSelectorRequirement> {
    select(vec![
        requirement("metadata.name", "In", &["node-0"]),
        requirement("metadata.name", "In", &["node-1"]),
        requirement("metadata.name", "In", &["node-2"]),
        requirement("metadata.name", "In", &["node-absent"]),
        requirement("metadata.name", "NotIn", &["node-0"]),
        requirement("metadata.name", "NotIn", &["node-absent"]),
        requirement("metadata.uid", "NotIn", &["x"]),
        requirement("metadata.uid", "In", &["x"]),
    ])
    .boxed()
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    }
}

fn term(
    match_expressions: Vec<NodeSelectorRequirement>,
    match_fields: Vec<NodeSelectorRequirement>,
) -> NodeSelectorTerm {
    NodeSelectorTerm { match_expressions, match_fields }
}
