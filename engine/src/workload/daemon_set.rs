//! DaemonSet: one pod for each node that suits it, bound to that node by a required node affinity.

pub(super) mod eligibility;

use berth_proto::apps_v1::DaemonSet;
use berth_proto::core_v1::{
    Affinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};

use super::expansion::{ExpandOptions, Expansion};
use super::kind::WorkloadKind;
use super::subject::Subject;
use super::template::Template;
use super::{naming, selector};
use crate::model::ModelError;
use eligibility::{DaemonNode, Demand};

const REVISION_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";
/// The annotation from which the controller takes that label; the API server sets it to 1 on a new DaemonSet.
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// The taints that every daemon tolerates, with their effects.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// One more that daemons on the host's network tolerate.
const TOLERATED_ON_HOST_NETWORK: (&str, &str) =
    ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The longest name of a pod.
const MAX_NAME: usize = 253;

pub(super) fn expand(
    set: &DaemonSet,
    options: &ExpandOptions<'_>,
) -> Result<Expansion, ModelError> {
    let subject = Subject::of(WorkloadKind::DaemonSet, set.metadata.as_ref())?;
    if options.replicas.is_some() {
        let reason =
            "a DaemonSet has one pod for each node that suits it, not a number of replicas";
        return Err(ModelError::new("replicas", reason));
    }
    let spec = set.spec.as_ref().ok_or_else(|| ModelError::new("spec", "must be set"))?;
    let template = Template::of(spec.template.as_ref(), "spec.template", subject.kind.name())?;
    selector::check(subject.kind, spec.selector.as_ref(), template)?;
    let generation = set.metadata.as_ref().and_then(|m| m.annotations.get(GENERATION_ANNOTATION));
    let generation = generation.map_or("1", String::as_str);
    let common = common_pod(&subject, template, generation);
    let demand = Demand::of(&common.spec.clone().unwrap_or_default())
        .map_err(|error| template.error(&error.field, error.reason.clone()))?;

    let mut pods = Vec::new();
    for node in options.nodes {
        let is_met = demand.is_met_by(node).map_err(|error| {
            ModelError::new(format!("taints of node `{}`", node.name), error.reason)
        })?;
        if is_met {
            pods.push(bound(&common, &subject, node));
        }
    }
    let mut notes = Vec::new();
    if pods.len() < options.nodes.len() {
        let (text, n, n_nodes) = (subject.text(), pods.len(), options.nodes.len());
        notes.push(format!(
            "{text} has a pod on {n} of {n_nodes} nodes: the others lack its labels, or have taints that it does not \
             tolerate"
        ));
    }
    Ok(Expansion {
        kind: subject.kind,
        namespace: subject.namespace,
        name: subject.name,
        pods,
        are_alike: false,
        is_ordered: false,
        controller: None,
        claims: Vec::new(),
        notes,
    })
}

/// The parts that all pods of the set share.
fn common_pod(subject: &Subject, template: Template<'_>, generation: &str) -> Pod {
    let prefix = format!("{}-", subject.name);
    let mut pod = template.pod(&subject.namespace, prefix, Some(subject.owner()));
    let labels = &mut pod.metadata.get_or_insert_default().labels;
    labels.insert(GENERATION_LABEL.to_owned(), generation.to_owned());
    labels.insert(REVISION_LABEL.to_owned(), naming::template_hash(template.spec));
    tolerate(pod.spec.get_or_insert_default());
    pod
}

/// Adds the tolerations of every daemon. One that differs only in its seconds is replaced.
fn tolerate(spec: &mut PodSpec) {
    let on_host_network = spec.host_network.then_some(TOLERATED_ON_HOST_NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(on_host_network) {
        let toleration = Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            effect: effect.to_owned(),
            ..Toleration::default()
        };
        let is_alike = |other: &&mut Toleration| {
            (&other.key, &other.operator, &other.effect, &other.value)
                == (&toleration.key, &toleration.operator, &toleration.effect, &toleration.value)
        };
        match spec.tolerations.iter_mut().find(is_alike) {
            Some(other) => *other = toleration,
            None => spec.tolerations.push(toleration),
        }
    }
}

/// The pod of a node. Its required node affinity names the node, in place of any other.
fn bound(common: &Pod, subject: &Subject, node: &DaemonNode) -> Pod {
    let mut pod = common.clone();
    pod.metadata.get_or_insert_default().name = pod_name(&subject.name, &node.name);
    let name_is = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: vec![node.name.clone()],
    };
    let term = NodeSelectorTerm { match_fields: vec![name_is], ..NodeSelectorTerm::default() };
    let affinity: &mut Affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_default();
    let affinity = affinity.node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
    pod
}

/// `SET-NODE`, with the set's name cut so that the node's stays whole.
fn pod_name(set: &str, node: &str) -> String {
    let room = MAX_NAME.saturating_sub(node.len() + 1).min(set.len());
    match set[..room].trim_end_matches(['-', '.']) {
        "" => node.to_owned(),
        set => format!("{set}-{node}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn set(spec: &str) -> DaemonSet {
        let json = format!(
            r#"{{"metadata": {{"name": "agent", "namespace": "ops"}}, "spec": {{
                "selector": {{"matchLabels": {{"app": "agent"}}}},
                "template": {{"metadata": {{"labels": {{"app": "agent"}}}},
                              "spec": {{"containers": [{{"name": "c"}}]{spec}}}}}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn nodes() -> Vec<DaemonNode> {
        let labels = |zone: &str| BTreeMap::from([("zone".to_owned(), zone.to_owned())]);
        vec![
            DaemonNode::listed("n1", labels("a"), []),
            DaemonNode::listed("n2", labels("b"), ["node.kubernetes.io/unschedulable:NoSchedule"]),
            DaemonNode::listed("n3", labels("a"), ["gpu:NoSchedule"]),
        ]
    }

    fn names(spec: &str) -> Vec<String> {
        let nodes = nodes();
        let options = ExpandOptions { replicas: None, nodes: &nodes };
        let expansion = expand(&set(spec), &options).unwrap();
        expansion.pods.iter().map(|pod| pod.metadata.clone().unwrap().name).collect()
    }

    #[test]
    fn each_suitable_node_gets_a_pod() {
        assert_eq!(names(""), ["agent-n1", "agent-n2"]);
        assert_eq!(names(r#", "nodeSelector": {"zone": "a"}"#), ["agent-n1"]);
        let everywhere = r#", "tolerations": [{"operator": "Exists"}]"#;
        assert_eq!(names(everywhere), ["agent-n1", "agent-n2", "agent-n3"]);
    }

    #[test]
    fn pods_are_bound_to_their_nodes_and_tolerate_what_daemons_do() {
        let nodes = nodes();
        let options = ExpandOptions { replicas: None, nodes: &nodes };
        let affinity = r#", "hostNetwork": true, "tolerations":
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
              "tolerationSeconds": 5}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}}}"#;
        let expansion = expand(&set(affinity), &options).unwrap();
        let [pod] = &expansion.pods[..] else { panic!("{expansion:?}") };
        let spec = pod.spec.as_ref().unwrap();
        let required = spec.affinity.as_ref().unwrap().node_affinity.as_ref().unwrap();
        let required =
            required.required_during_scheduling_ignored_during_execution.as_ref().unwrap();
        let [term] = &required.node_selector_terms[..] else { panic!("{required:?}") };
        assert!(term.match_expressions.is_empty());
        assert_eq!(term.match_fields[0].values, ["n2"]);
        assert_eq!(spec.tolerations.len(), 7);
        assert_eq!(spec.tolerations[0].toleration_seconds, None);
        let metadata = pod.metadata.as_ref().unwrap();
        assert_eq!(metadata.labels[GENERATION_LABEL], "1");
        assert!(metadata.labels.contains_key(REVISION_LABEL));
        assert_eq!(metadata.owner_references[0].kind, "DaemonSet");
        assert!(expansion.notes[0].starts_with("DaemonSet `ops/agent` has a pod on 1 of 3 nodes"));
    }

    #[test]
    fn a_number_is_refused() {
        let options = ExpandOptions { replicas: Some(2), nodes: &[] };
        assert_eq!(expand(&set(""), &options).unwrap_err().field, "replicas");
    }

    #[test]
    fn long_names_keep_the_node() {
        assert_eq!(pod_name("agent", "n1"), "agent-n1");
        let (long, node) = ("a".repeat(253), "n".repeat(200));
        assert_eq!(pod_name(&long, &node), format!("{}-{node}", "a".repeat(52)));
        assert_eq!(pod_name("agent", &"n".repeat(253)), "n".repeat(253));
    }
}
