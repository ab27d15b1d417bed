//! Node and label selectors as objects: which nodes and pods they select, compared with a word-by-word reading of the
//! rules.

use berth_engine::{Cluster, Delta, Policy, Standing, SurveyRequest};
use berth_proto::core_v1::{self, NodeSelectorRequirement, NodeSelectorTerm};
use berth_proto::meta_v1;

use crate::world;

/// Names and labels of the nodes.
const NODES: [(&str, &[(&str, &str)]); 6] = [
    ("n0", &[]),
    ("n1", &[("a", "1"), ("zone.io/b", "x")]),
    ("n2", &[("a", "")]),
    ("n3", &[("a", "3"), ("b", "x")]),
    ("n4", &[("a", "9223372036854775807"), ("b", "007")]),
    ("n5", &[("b", "y"), ("zone.io/b", "1")]),
];

/// Checks the bytes as the JSON of a node selector and of a label selector.
pub fn run(data: &[u8]) {
    if let Ok(selector) = serde_json::from_slice::<core_v1::NodeSelector>(data) {
        check_node_selector(&selector);
    }
    if let Ok(selector) = serde_json::from_slice::<meta_v1::LabelSelector>(data) {
        check_label_selector(&selector);
    }
}

/// Checks that a pod that requires the selector fits exactly on the nodes that it selects (S-NAF-5 to S-NAF-8).
fn check_node_selector(selector: &core_v1::NodeSelector) {
    let cluster = Cluster::new();
    cluster.apply(NODES.iter().map(|(name, labels)| node(&cluster, name, labels)).collect());
    let affinity = core_v1::Affinity {
        node_affinity: Some(core_v1::NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(selector.clone()),
            ..Default::default()
        }),
        ..Default::default()
    };
    let found = feasible(&cluster, &pod("p", &[], affinity), &NODES.map(|(name, _)| name));
    let expected = NODES.map(|(name, labels)| {
        selector.node_selector_terms.iter().any(|term| means(term, name, labels))
    });
    assert_eq!(found, Ok(expected.to_vec()), "{selector:?}");
}

/// Whether a term selects the node: it has a requirement, all are valid, and all hold.
fn means(term: &NodeSelectorTerm, name: &str, labels: &[(&str, &str)]) -> bool {
    let NodeSelectorTerm { match_expressions, match_fields } = term;
    !(match_expressions.is_empty() && match_fields.is_empty())
        && match_expressions.iter().all(is_valid)
        && match_fields.iter().all(|r| r.values.len() == 1 && is_in(r).is_some())
        && match_expressions.iter().all(|r| holds(r, value_of(labels, &r.key)))
        && match_fields.iter().all(|r| {
            let field = if r.key == "metadata.name" { name } else { "" };
            is_in(r) == Some(r.values[0] == field)
        })
}

/// Whether the operator is `In`; `None` if it is neither `In` nor `NotIn`.
fn is_in(requirement: &NodeSelectorRequirement) -> Option<bool> {
    match requirement.operator.as_str() {
        "In" => Some(true),
        "NotIn" => Some(false),
        _ => None,
    }
}

fn is_valid(r: &NodeSelectorRequirement) -> bool {
    let n_values = r.values.len();
    let has_right_number = match r.operator.as_str() {
        "In" | "NotIn" => n_values > 0,
        "Exists" | "DoesNotExist" => n_values == 0,
        "Gt" | "Lt" => n_values == 1 && r.values[0].parse::<i64>().is_ok(),
        _ => false,
    };
    has_right_number && is_key(&r.key) && r.values.iter().all(|value| is_value(value))
}

fn holds(r: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let is_listed = value.is_some_and(|value| r.values.iter().any(|listed| listed == value));
    let number = value.and_then(|value| value.parse::<i64>().ok());
    let bound = || r.values[0].parse::<i64>().unwrap();
    match r.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number.is_some_and(|number| number > bound()),
        "Lt" => number.is_some_and(|number| number < bound()),
        other => panic!("`{other}` is valid"),
    }
}

/// Checks that a pod with anti-affinity to the selected pods fits exactly on the other nodes.
fn check_label_selector(selector: &meta_v1::LabelSelector) {
    let cluster = Cluster::new();
    cluster.apply(NODES.iter().map(|(name, _)| node(&cluster, name, &[])).collect());
    for (name, labels) in NODES {
        let mut running = pod(&format!("on-{name}"), labels, core_v1::Affinity::default());
        running.spec.get_or_insert_default().node_name = name.to_owned();
        let running = cluster.compile_pod(&running).unwrap();
        cluster.apply(vec![Delta::UpsertPod(running)]);
    }
    let term = core_v1::PodAffinityTerm {
        topology_key: "kubernetes.io/hostname".to_owned(),
        label_selector: Some(selector.clone()),
        ..Default::default()
    };
    let affinity = core_v1::Affinity {
        pod_anti_affinity: Some(core_v1::PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: vec![term],
            ..Default::default()
        }),
        ..Default::default()
    };
    let found = feasible(&cluster, &pod("p", &[], affinity), &NODES.map(|(name, _)| name));
    let is_whole = selector.match_labels.iter().all(|(key, value)| is_key(key) && is_value(value))
        && selector.match_expressions.iter().all(is_valid_expression);
    // A selector that does not parse keeps the pod off every node (W-SEL-6).
    let free = NODES.map(|(_, labels)| is_whole && !selects(selector, labels));
    assert_eq!(found, Ok(free.to_vec()), "{selector:?}");
}

fn is_valid_expression(expression: &meta_v1::LabelSelectorRequirement) -> bool {
    let has_right_number = match expression.operator.as_str() {
        "In" | "NotIn" => !expression.values.is_empty(),
        "Exists" | "DoesNotExist" => expression.values.is_empty(),
        _ => false,
    };
    has_right_number
        && is_key(&expression.key)
        && expression.values.iter().all(|value| is_value(value))
}

fn selects(selector: &meta_v1::LabelSelector, labels: &[(&str, &str)]) -> bool {
    let of_expressions = selector.match_expressions.iter().all(|expression| {
        let value = value_of(labels, &expression.key);
        let is_listed = value.is_some_and(|v| expression.values.iter().any(|known| known == v));
        match expression.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    });
    let mut exact = selector.match_labels.iter();
    of_expressions && exact.all(|(key, value)| value_of(labels, key) == Some(value))
}

fn value_of<'a>(labels: &[(&str, &'a str)], key: &str) -> Option<&'a str> {
    labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
}

/// W-SEL-4
fn is_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').unwrap_or(("a", key));
    let is_word = |word: &str| {
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !word.is_empty() && word.chars().all(is_inner) && word.trim_matches('-') == word
    };
    !name.is_empty() && is_value(name) && prefix.len() < 254 && prefix.split('.').all(is_word)
}

/// W-SEL-4
fn is_value(value: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    value.len() < 64 && value.chars().all(is_inner) && value.trim_matches(['-', '_', '.']) == value
}

fn node(cluster: &Cluster, name: &str, labels: &[(&str, &str)]) -> Delta {
    let mut metadata = meta_v1::ObjectMeta { name: name.to_owned(), ..Default::default() };
    metadata.labels = owned(labels);
    metadata.labels.insert("kubernetes.io/hostname".to_owned(), name.to_owned());
    let mut status = core_v1::NodeStatus::default();
    status.allocatable.insert("pods".to_owned(), "10".into());
    let node = core_v1::Node { metadata: Some(metadata), status: Some(status), spec: None };
    Delta::UpsertNode(cluster.compile_node(&node).unwrap())
}

fn pod(name: &str, labels: &[(&str, &str)], affinity: core_v1::Affinity) -> core_v1::Pod {
    let metadata = meta_v1::ObjectMeta {
        name: name.to_owned(),
        namespace: "default".to_owned(),
        uid: name.to_owned(),
        labels: owned(labels),
        ..Default::default()
    };
    let container = core_v1::Container { name: "c".to_owned(), ..Default::default() };
    let spec = core_v1::PodSpec {
        containers: vec![container],
        affinity: Some(affinity),
        ..Default::default()
    };
    core_v1::Pod { metadata: Some(metadata), spec: Some(spec), status: None }
}

fn owned(labels: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Returns for each of the nodes whether it is feasible for the pod.
fn feasible(cluster: &Cluster, pod: &core_v1::Pod, names: &[&str]) -> Result<Vec<bool>, String> {
    let pod = cluster.compile_pod(pod).map_err(|error| world::checked_message(&error))?;
    let policy = Policy::default();
    let request = SurveyRequest { pod: &pod, policy: &policy, with_totals: false };
    let survey = cluster.survey(&request, names.iter().copied()).map_err(|e| e.to_string())?;
    let is_feasible = |standing: &Standing| matches!(standing, Standing::Feasible { .. });
    Ok(survey.standings.iter().map(is_feasible).collect())
}
