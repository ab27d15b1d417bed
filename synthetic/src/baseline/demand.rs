//! Demands of the baseline's pods: tolerations, node and pod affinity, spread constraints.

use berth_proto::core_v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinity,
    PodAffinityTerm, PodAntiAffinity, Toleration, TopologySpreadConstraint,
    WeightedPodAffinityTerm,
};
use berth_proto::meta_v1::LabelSelector;

/// Topology key of a node's zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Topology key of a node itself.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Required node affinity: `tier In [a, b]`.
pub fn tier_a_or_b() -> Affinity {
    let requirement = NodeSelectorRequirement {
        key: "tier".into(),
        operator: "In".into(),
        values: vec!["a".into(), "b".into()],
    };
    let term =
        NodeSelectorTerm { match_expressions: vec![requirement], ..NodeSelectorTerm::default() };
    let node_affinity = NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![term],
        }),
        ..NodeAffinity::default()
    };
    Affinity { node_affinity: Some(node_affinity), ..Affinity::default() }
}

/// The tolerations that admission adds to every pod, and optionally one of the baseline's hard taint.
pub fn tolerations(of_hard_taint: bool) -> Vec<Toleration> {
    let exists = |key: &str| Toleration {
        key: key.into(),
        operator: "Exists".into(),
        effect: "NoExecute".into(),
        ..Toleration::default()
    };
    let mut tolerations =
        vec![exists("node.kubernetes.io/not-ready"), exists("node.kubernetes.io/unreachable")];
    if of_hard_taint {
        tolerations.push(Toleration {
            key: "dedicated".into(),
            operator: "Equal".into(),
            value: "x".into(),
            effect: "NoSchedule".into(),
            ..Toleration::default()
        });
    }
    tolerations
}

/// A spread constraint of skew 1 over the pods of one application.
pub fn spread(topology_key: &str, when_unsatisfiable: &str, app: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: topology_key.into(),
        when_unsatisfiable: when_unsatisfiable.into(),
        label_selector: Some(selecting("app", app)),
        ..TopologySpreadConstraint::default()
    }
}

/// Required anti-affinity: no `color=green` on the node.
pub fn apart_from_green() -> Affinity {
    let anti_affinity = PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: vec![term("color", "green", HOSTNAME)],
        ..PodAntiAffinity::default()
    };
    Affinity { pod_anti_affinity: Some(anti_affinity), ..Affinity::default() }
}

/// Required affinity: an `app=app-7` in the zone.
pub fn beside_app_7() -> Affinity {
    let affinity = PodAffinity {
        required_during_scheduling_ignored_during_execution: vec![term("app", "app-7", ZONE)],
        ..PodAffinity::default()
    };
    Affinity { pod_affinity: Some(affinity), ..Affinity::default() }
}

/// Preferred affinity to `app=app-7` by zone, preferred anti-affinity to `color=red` by node.
pub fn rather_beside_app_7_and_apart_from_red() -> Affinity {
    let weighted =
        |weight, term| vec![WeightedPodAffinityTerm { weight, pod_affinity_term: Some(term) }];
    Affinity {
        pod_affinity: Some(PodAffinity {
            preferred_during_scheduling_ignored_during_execution: weighted(
                10,
                term("app", "app-7", ZONE),
            ),
            ..PodAffinity::default()
        }),
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: weighted(
                50,
                term("color", "red", HOSTNAME),
            ),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn term(key: &str, value: &str, topology_key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        label_selector: Some(selecting(key, value)),
        topology_key: topology_key.into(),
        ..PodAffinityTerm::default()
    }
}

/// A selector of one label.
pub fn selecting(key: &str, value: &str) -> LabelSelector {
    LabelSelector {
        match_labels: [(key.to_owned(), value.to_owned())].into_iter().collect(),
        ..LabelSelector::default()
    }
}
