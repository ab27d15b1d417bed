use std::collections::{BTreeMap, BTreeSet};

use berth_proto::core_v1::{Node, Pod};

use super::{ClusterSpec, SyntheticCluster};

fn cluster(spec: &ClusterSpec) -> SyntheticCluster {
    SyntheticCluster::generate(spec).unwrap()
}

fn small(seed: u64) -> ClusterSpec {
    ClusterSpec { n_nodes: 300, seed, ..ClusterSpec::default() }
}

/// Milli-units of the quantities that the generator writes: `250m`, `3`, `64Mi`.
fn milli(quantity: &berth_proto::Quantity) -> i64 {
    let text = quantity.as_str();
    if let Some(mebibytes) = text.strip_suffix("Mi") {
        mebibytes.parse::<i64>().unwrap() * 1024 * 1024 * 1000
    } else if let Some(milli) = text.strip_suffix('m') {
        milli.parse().unwrap()
    } else {
        text.parse::<i64>().unwrap() * 1000
    }
}

fn allocatable(node: &Node) -> BTreeMap<String, i64> {
    node.status
        .as_ref()
        .unwrap()
        .allocatable
        .iter()
        .map(|(name, quantity)| (name.clone(), milli(quantity)))
        .collect()
}

fn requested(pods: &[Pod]) -> BTreeMap<String, BTreeMap<String, i64>> {
    let mut sums: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for pod in pods {
        let spec = pod.spec.as_ref().unwrap();
        let of_node = sums.entry(spec.node_name.clone()).or_default();
        *of_node.entry("pods".to_owned()).or_default() += 1000;
        for resources in spec.containers.iter().filter_map(|container| container.resources.as_ref())
        {
            for (name, quantity) in &resources.requests {
                *of_node.entry(name.clone()).or_default() += milli(quantity);
            }
        }
    }
    sums
}

#[test]
fn same_seed_same_cluster_and_other_seed_another() {
    assert_eq!(cluster(&small(5)), cluster(&small(5)));
    assert_ne!(cluster(&small(5)).nodes, cluster(&small(6)).nodes);
    assert_ne!(cluster(&small(5)).pods, cluster(&small(6)).pods);
}

#[test]
fn no_node_exceeds_its_allocatable_amounts() {
    for utilization in [0.0, 0.6, 0.95] {
        for pods_per_node in [1, 30, 100] {
            let cluster = cluster(&ClusterSpec { utilization, pods_per_node, ..small(11) });
            let requested = requested(&cluster.pods);
            for node in &cluster.nodes {
                let name = &node.metadata.as_ref().unwrap().name;
                let allocatable = allocatable(node);
                for (resource, sum) in &requested[name] {
                    assert!(
                        *sum <= allocatable[resource],
                        "{name}: {resource} {sum} of {}",
                        allocatable[resource]
                    );
                }
            }
        }
    }
}

#[test]
fn default_cluster_has_about_the_specified_pods_and_utilization() {
    let cluster = cluster(&ClusterSpec { n_nodes: 1_000, ..ClusterSpec::default() });
    let pods_per_node = cluster.pods.len() as f64 / 1000.0;
    assert!((27.0..33.0).contains(&pods_per_node), "{pods_per_node} pods a node");
    let requested = requested(&cluster.pods);
    let shares: f64 = cluster
        .nodes
        .iter()
        .map(|node| {
            let of_node = &requested[&node.metadata.as_ref().unwrap().name];
            of_node["cpu"] as f64 / allocatable(node)["cpu"] as f64
        })
        .sum();
    assert!((0.5..0.65).contains(&(shares / 1000.0)), "{} of the CPU", shares / 1000.0);
}

#[test]
fn nodes_and_pods_are_named_once_and_every_pod_has_a_node_of_the_cluster() {
    let cluster = cluster(&small(2));
    let nodes: BTreeSet<&str> =
        cluster.nodes.iter().map(|node| node.metadata.as_ref().unwrap().name.as_str()).collect();
    assert_eq!(nodes.len(), cluster.nodes.len());
    let mut keys = BTreeSet::new();
    for pod in &cluster.pods {
        let metadata = pod.metadata.as_ref().unwrap();
        assert!(keys.insert((&metadata.namespace, &metadata.name)));
        assert!(nodes.contains(pod.spec.as_ref().unwrap().node_name.as_str()));
    }
}

#[test]
fn pools_taints_cordons_zones_gpus_and_images_all_occur() {
    let cluster =
        cluster(&ClusterSpec { n_nodes: 2_000, pods_per_node: 2, ..ClusterSpec::default() });
    let mut zones = BTreeSet::new();
    let (mut n_hard, mut n_soft, mut n_cordoned, mut n_gpu) = (0, 0, 0, 0);
    for node in &cluster.nodes {
        let spec = node.spec.as_ref().unwrap();
        zones.insert(node.metadata.as_ref().unwrap().labels["topology.kubernetes.io/zone"].clone());
        n_hard += usize::from(spec.taints.iter().any(|taint| taint.effect == "NoSchedule"));
        n_soft += usize::from(spec.taints.iter().any(|taint| taint.effect == "PreferNoSchedule"));
        n_cordoned += usize::from(spec.unschedulable);
        n_gpu += usize::from(allocatable(node).contains_key(super::pool::GPU_RESOURCE));
        assert_eq!(node.status.as_ref().unwrap().images.len(), 20);
    }
    assert_eq!(zones.len(), 3);
    assert!(n_hard > 100 && n_soft > 50 && n_gpu > 50, "{n_hard} {n_soft} {n_gpu}");
    assert!((1..40).contains(&n_cordoned), "{n_cordoned}");
}

#[test]
fn invalid_specifications_are_refused_by_field() {
    let refused = |spec: ClusterSpec| SyntheticCluster::generate(&spec).unwrap_err().field;
    assert_eq!(refused(ClusterSpec { n_zones: 0, ..small(1) }), "n_zones");
    assert_eq!(refused(ClusterSpec { utilization: f64::NAN, ..small(1) }), "utilization");
    assert_eq!(refused(ClusterSpec { utilization: 1.2, ..small(1) }), "utilization");
    assert_eq!(refused(ClusterSpec { tainted_share: -0.1, ..small(1) }), "tainted_share");
    assert_eq!(refused(ClusterSpec { cordoned_share: 2.0, ..small(1) }), "cordoned_share");
    assert_eq!(refused(ClusterSpec { images_per_node: 201, ..small(1) }), "images_per_node");
    assert_eq!(refused(ClusterSpec { pods_per_node: 0, ..small(1) }), "pods_per_node");
    assert_eq!(refused(ClusterSpec { n_deployments: 0, ..small(1) }), "n_deployments");
    assert_eq!(refused(ClusterSpec { n_images: 0, images_per_node: 0, ..small(1) }), "n_images");
    assert_eq!(refused(ClusterSpec { n_nodes: 2_000_000, ..small(1) }), "n_nodes");
}
