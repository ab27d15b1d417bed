//! Messages that cost a server more than they cost their sender.

use std::collections::BTreeMap;

use berth_proto::Quantity;
use berth_proto::berth_v1::{BatchEntry, Gang, PlaceBatchRequest};
use berth_proto::core_v1::{
    Affinity, Container, Pod, PodAffinityTerm, PodAntiAffinity, PodSpec, ResourceRequirements,
    TopologySpreadConstraint,
};
use berth_proto::meta_v1::{LabelSelector, ObjectMeta};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// A small pod whose labels, node selector and resources nobody has named before.
pub(super) fn pod(name: &str, rng: &mut ChaCha8Rng) -> Pod {
    let n: u64 = rng.random();
    let map = |key: &str| BTreeMap::from([(format!("{key}-{n:x}"), format!("{n:x}"))]);
    let requests = BTreeMap::from([(format!("example.com/r-{n:x}"), Quantity::new("1"))]);
    let resources = ResourceRequirements {
        requests: requests.into_iter().collect(),
        ..ResourceRequirements::default()
    };
    let container =
        Container { name: "c".to_owned(), resources: Some(resources), ..Container::default() };
    let metadata = ObjectMeta {
        name: name.to_owned(),
        namespace: format!("guest-{n:x}"),
        labels: map("label").into_iter().collect(),
        ..ObjectMeta::default()
    };
    let spec = PodSpec {
        containers: vec![container],
        node_selector: map("selected").into_iter().collect(),
        ..PodSpec::default()
    };
    Pod { metadata: Some(metadata), spec: Some(spec), ..Pod::default() }
}

/// A pod of so many empty containers: two bytes each.
pub(super) fn pod_of_containers(n: usize) -> Pod {
    let spec = PodSpec { containers: vec![Container::default(); n], ..PodSpec::default() };
    Pod { spec: Some(spec), ..named("containers") }
}

/// A pod of so many soft spread constraints, each over a key of its own.
pub(super) fn pod_of_keys(n: usize, rng: &mut ChaCha8Rng) -> Pod {
    let salt: u32 = rng.random();
    let constraint = |i| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: format!("key-{salt:x}-{i}"),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector::default()),
        ..TopologySpreadConstraint::default()
    };
    let topology_spread_constraints = (0..n).map(constraint).collect();
    let spec = PodSpec { topology_spread_constraints, ..with_container() };
    Pod { spec: Some(spec), ..named("keys") }
}

/// A pod of so many required anti-affinity terms over the host name.
pub(super) fn pod_of_terms(n: usize, rng: &mut ChaCha8Rng) -> Pod {
    let salt: u32 = rng.random();
    let term = |i| {
        let labels = [(format!("a-{salt:x}-{i}"), "b".to_owned())];
        let selector =
            LabelSelector { match_labels: labels.into_iter().collect(), ..Default::default() };
        PodAffinityTerm {
            topology_key: "kubernetes.io/hostname".to_owned(),
            label_selector: Some(selector),
            ..PodAffinityTerm::default()
        }
    };
    let far = PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: (0..n).map(term).collect(),
        ..PodAntiAffinity::default()
    };
    let affinity = Some(Affinity { pod_anti_affinity: Some(far), ..Affinity::default() });
    Pod { spec: Some(PodSpec { affinity, ..with_container() }), ..named("terms") }
}

/// A gang of preempting replicas that fits nowhere.
pub(super) fn gang(rng: &mut ChaCha8Rng) -> PlaceBatchRequest {
    let mut member = pod_of_terms(1, rng);
    if let Some(spec) = &mut member.spec {
        spec.priority = Some(1_000_000);
    }
    let entry = BatchEntry { pod: Some(member.into()), replicas: 3_000 };
    let gang = Gang { preempt: true, ..Gang::default() };
    PlaceBatchRequest { entries: vec![entry], gang: Some(gang), ..PlaceBatchRequest::default() }
}

fn with_container() -> PodSpec {
    PodSpec {
        containers: vec![Container { name: "c".to_owned(), ..Container::default() }],
        ..PodSpec::default()
    }
}

fn named(name: &str) -> Pod {
    let metadata = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
    Pod { metadata: Some(metadata), ..Pod::default() }
}
