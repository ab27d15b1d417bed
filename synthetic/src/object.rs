//! Short constructors of Kubernetes objects, for the generators and the trace reader.

use berth_proto::Quantity;
use berth_proto::core_v1::{
    Affinity, Container, Namespace, NodeAffinity, NodeSelector, NodeSelectorRequirement,
    NodeSelectorTerm, Pod, PodAffinityTerm, PodSpec, ResourceRequirements, Service, ServiceSpec,
    Taint, Toleration, TopologySpreadConstraint,
};
use berth_proto::meta_v1::{LabelSelector, ObjectMeta};

/// Topology key of a node's zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Topology key of a node itself.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// A quantity of CPU: `250m`, or `2` for whole cores.
pub fn cpu_quantity(milli: i64) -> Quantity {
    if milli % 1000 == 0 {
        quantity(&(milli / 1000).to_string())
    } else {
        quantity(&format!("{milli}m"))
    }
}

/// A quantity of memory or storage in `Mi`.
pub fn mebibyte_quantity(mebibytes: i64) -> Quantity {
    quantity(&format!("{mebibytes}Mi"))
}

/// A quantity that is a plain count, such as a number of GPUs or pods.
pub fn count_quantity(count: i64) -> Quantity {
    quantity(&count.to_string())
}

fn quantity(text: &str) -> Quantity {
    Quantity::from(text)
}

/// Requests of a container. CPU and memory are always present: a request of zero counts as zero, while an absent one
/// counts as a default in the scores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests<'a> {
    /// CPU in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory in MiB.
    pub memory_mib: i64,
    /// Name and amount of an extended resource; omitted when the amount is zero.
    pub extended: Option<(&'a str, i64)>,
}

impl Requests<'_> {
    fn to_wire(self) -> ResourceRequirements {
        let mut requirements = ResourceRequirements::default();
        let requests = &mut requirements.requests;
        requests.insert("cpu".to_owned(), cpu_quantity(self.cpu_milli));
        requests.insert("memory".to_owned(), mebibyte_quantity(self.memory_mib));
        if let Some((name, count)) = self.extended.filter(|(_, count)| *count > 0) {
            requirements.requests.insert(name.to_owned(), count_quantity(count));
            // The API server refuses an extended resource whose limit differs from its request.
            requirements.limits.insert(name.to_owned(), count_quantity(count));
        }
        requirements
    }
}

/// A pod of one container; `uid` may be anything unique.
pub fn pod(namespace: &str, name: &str, uid: &str, image: &str, requests: Requests<'_>) -> Pod {
    let container = Container {
        name: "main".to_owned(),
        image: image.to_owned(),
        resources: Some(requests.to_wire()),
        ..Container::default()
    };
    Pod {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: uid.to_owned(),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        ..Pod::default()
    }
}

/// A taint with key, value and effect.
pub fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
        ..Taint::default()
    }
}

/// A toleration of one key and value (`Equal`), for every effect when `effect` is empty.
pub fn toleration(key: &str, value: &str, effect: &str) -> Toleration {
    Toleration {
        key: key.to_owned(),
        operator: "Equal".to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
        ..Toleration::default()
    }
}

/// A toleration of every taint, as node agents have it.
pub fn toleration_of_everything() -> Toleration {
    Toleration { operator: "Exists".to_owned(), ..Toleration::default() }
}

/// A node selector term with one `In` requirement.
pub fn label_in(key: &str, values: impl IntoIterator<Item = String>) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: vec![NodeSelectorRequirement {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values: values.into_iter().collect(),
        }],
        ..NodeSelectorTerm::default()
    }
}

/// Required node affinity with one term.
pub fn required_node_affinity(term: NodeSelectorTerm) -> Affinity {
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![term],
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

/// A constraint that spreads an application's pods over the domains of a topology key with a maximum skew of 1.
pub fn spread(topology_key: &str, when_unsatisfiable: &str, app: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: topology_key.to_owned(),
        when_unsatisfiable: when_unsatisfiable.to_owned(),
        label_selector: Some(selecting(app)),
        ..TopologySpreadConstraint::default()
    }
}

/// A pod affinity term that selects an application's pods in the same domain of a topology key.
pub fn pod_affinity_term(topology_key: &str, app: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        label_selector: Some(selecting(app)),
        topology_key: topology_key.to_owned(),
        ..PodAffinityTerm::default()
    }
}

fn selecting(app: &str) -> LabelSelector {
    LabelSelector {
        match_labels: [("app".to_owned(), app.to_owned())].into_iter().collect(),
        ..LabelSelector::default()
    }
}

/// A namespace with the label `kubernetes.io/metadata.name`, which the API server adds.
pub fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            labels: [("kubernetes.io/metadata.name".to_owned(), name.to_owned())]
                .into_iter()
                .collect(),
            ..ObjectMeta::default()
        }),
        ..Namespace::default()
    }
}

/// A Service named after an application that selects its pods.
pub fn service(namespace: &str, app: &str) -> Service {
    Service {
        metadata: Some(ObjectMeta {
            namespace: namespace.to_owned(),
            name: app.to_owned(),
            ..ObjectMeta::default()
        }),
        spec: Some(ServiceSpec {
            selector: [("app".to_owned(), app.to_owned())].into_iter().collect(),
            ..ServiceSpec::default()
        }),
    }
}
