//! Scale-up for an anti-affinity surge: 5,000 nodes with 50,000 pods are full, and each new pod needs a node without
//! another replica.
//!
//! `one-workload` has 5,000 new pods, which need 5,000 new nodes; `ten-workloads` have 5,000 pods each, which share the
//! new nodes. `no-controller` is `one-workload` without an owner, so that each pod is an equivalence group.
//! `many-groups` is `one-workload` with ten node groups.

use std::hint::black_box;
use std::sync::Arc;

use berth_engine::{
    Cluster, Delta, NodeGroup, Pod, PodKey, Policy, ScaleUp, ScaleUpLimits, ScaleUpRequest,
};
use berth_proto::meta_v1::{LabelSelector, ObjectMeta, OwnerReference};
use berth_proto::{Quantity, core_v1};
use criterion::{Criterion, criterion_group, criterion_main};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const N_NODES: usize = 5_000;
const PODS_PER_NODE: usize = 10;
const N_PENDING: usize = 5_000;

fn scale_up(criterion: &mut Criterion) {
    let cluster = full_cluster();
    let mut bench = criterion.benchmark_group("scale-up/5000-nodes-50000-pods");
    bench.sample_size(10);
    let one = [group(&cluster, 0)];
    let ten: Vec<NodeGroup> = (0..10).map(|n| group(&cluster, n)).collect();
    let cases: [(&str, Vec<Pod>, &[NodeGroup]); 4] = [
        ("one-workload", workload(&cluster, "w0", true), &one),
        ("ten-workloads", workloads(&cluster, 10), &one),
        ("no-controller", workload(&cluster, "w0", false), &one),
        ("many-groups", workload(&cluster, "w0", true), &ten),
    ];
    for (name, pods, groups) in cases {
        bench.bench_function(name, |bencher| {
            bencher.iter_with_large_drop(|| {
                let answer = black_box(simulate(&cluster, &pods, groups));
                assert!(answer.options.iter().all(|option| option.n_nodes() == N_NODES));
                assert!(answer.unhelped.is_empty(), "new nodes take all");
                answer
            });
        });
    }
    bench.finish();
}

fn simulate(cluster: &Cluster, pods: &[Pod], groups: &[NodeGroup]) -> ScaleUp {
    let (policy, never) = (Policy::default(), || false);
    let limits = ScaleUpLimits { nodes: Some(N_NODES), ..ScaleUpLimits::default() };
    let request = ScaleUpRequest { limits, ..ScaleUpRequest::new(pods, &policy, groups, &never) };
    cluster.simulate_scale_up(&request).unwrap_or_else(|error| unreachable!("{error}"))
}

/// Nodes of four CPUs with ten pods that leave a tenth of a CPU free.
fn full_cluster() -> Arc<Cluster> {
    let cluster = Cluster::new();
    let mut deltas = Vec::new();
    for n in 0..N_NODES {
        let name = format!("node-{n:04}");
        deltas.push(Delta::UpsertNode(compiled_node(&cluster, &name, n % 3)));
        for k in 0..PODS_PER_NODE {
            let mut pod = pod(&format!("app-{}", (n * PODS_PER_NODE + k) % 400), "390m", false);
            if let Some(metadata) = &mut pod.metadata {
                metadata.name = format!("there-{n}-{k}");
                metadata.uid = metadata.name.clone();
            }
            if let Some(spec) = &mut pod.spec {
                spec.node_name.clone_from(&name);
            }
            deltas.push(Delta::UpsertPod(compiled(&cluster, &pod)));
        }
    }
    assert!(cluster.apply(deltas).rejected.is_empty(), "all of it is valid");
    Arc::new(cluster)
}

fn group(cluster: &Cluster, n: usize) -> NodeGroup {
    let mut daemon = pod("daemon", "100m", false);
    if let Some(metadata) = &mut daemon.metadata {
        metadata.name = "daemon".to_owned();
    }
    NodeGroup {
        id: format!("group-{n}").into(),
        template: compiled_node(cluster, "template", n % 3),
        template_pods: vec![compiled(cluster, &daemon)],
        template_slices: Vec::new(),
        size: N_NODES / 10,
        max_size: None,
        startup_taints: Vec::new(),
    }
}

fn compiled_node(cluster: &Cluster, name: &str, zone: usize) -> berth_engine::Node {
    let mut metadata = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
    metadata.labels.insert("kubernetes.io/hostname".to_owned(), name.to_owned());
    metadata.labels.insert("topology.kubernetes.io/zone".to_owned(), format!("zone-{zone}"));
    metadata.labels.insert("node.kubernetes.io/instance-type".to_owned(), "m5.xlarge".to_owned());
    let mut status = core_v1::NodeStatus::default();
    for (resource, amount) in [("cpu", "4"), ("memory", "16Gi"), ("pods", "110")] {
        status.allocatable.insert(resource.to_owned(), Quantity::new(amount));
    }
    let node =
        core_v1::Node { metadata: Some(metadata), status: Some(status), ..Default::default() };
    cluster.compile_node(&node).unwrap_or_else(|error| unreachable!("{error}"))
}

fn workloads(cluster: &Cluster, n: usize) -> Vec<Pod> {
    (0..n).flat_map(|n| workload(cluster, &format!("w{n}"), true)).collect()
}

/// Replicas with required anti-affinity to each other.
fn workload(cluster: &Cluster, app: &str, has_controller: bool) -> Vec<Pod> {
    let mut pod = pod(app, "300m", true);
    if let Some(metadata) = pod.metadata.as_mut().filter(|_| has_controller) {
        metadata.owner_references.push(OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: app.to_owned(),
            uid: format!("uid-{app}"),
            controller: Some(true),
            ..OwnerReference::default()
        });
    }
    let pod = compiled(cluster, &pod);
    let replica = |n| {
        let name = format!("{app}-{n}");
        pod.with_identity(PodKey::new("default", &name), &name)
    };
    (0..N_PENDING).map(replica).collect()
}

fn compiled(cluster: &Cluster, pod: &core_v1::Pod) -> Pod {
    cluster.compile_pod(pod).unwrap_or_else(|error| unreachable!("{error}"))
}

fn pod(app: &str, cpu: &str, keeps_away: bool) -> core_v1::Pod {
    let mut metadata = ObjectMeta { name: app.to_owned(), ..ObjectMeta::default() };
    metadata.labels.insert("app".to_owned(), app.to_owned());
    let mut resources = core_v1::ResourceRequirements::default();
    resources.requests.insert("cpu".to_owned(), Quantity::new(cpu));
    resources.requests.insert("memory".to_owned(), Quantity::new("256Mi"));
    let container = core_v1::Container { resources: Some(resources), ..Default::default() };
    let mut spec = core_v1::PodSpec { containers: vec![container], ..Default::default() };
    if keeps_away {
        let mut selector = LabelSelector::default();
        selector.match_labels.insert("app".to_owned(), app.to_owned());
        let term = core_v1::PodAffinityTerm {
            topology_key: "kubernetes.io/hostname".to_owned(),
            label_selector: Some(selector),
            ..Default::default()
        };
        let away = core_v1::PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: vec![term],
            ..Default::default()
        };
        let affinity = core_v1::Affinity { pod_anti_affinity: Some(away), ..Default::default() };
        spec.affinity = Some(affinity);
    }
    core_v1::Pod { metadata: Some(metadata), spec: Some(spec), status: None }
}

criterion_group!(benches, scale_up);
criterion_main!(benches);
