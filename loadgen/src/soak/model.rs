//! [`Model`]: the cluster as the server's responses describe it, with every acknowledged object and no other.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::berth_v1::PodKey;
use berth_proto::core_v1::{Node, Pod};
use berth_synthetic::cluster::SyntheticCluster;

/// Namespace and name.
pub(super) type Key = (String, String);

/// A pod that the server acknowledged.
#[derive(Debug, Clone)]
pub(super) struct KnownPod {
    /// The object as a feed sends it, with `spec.nodeName` if the pod has a node.
    pub(super) pod: Pod,
    /// Name of the pod's node; empty for a pending pod.
    pub(super) node: String,
    /// Whether the pod is assumed: placed, and not confirmed by a feed.
    pub(super) assumed: bool,
}

/// The objects that the server acknowledged.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) pods: BTreeMap<Key, KnownPod>,
    /// Pods of calls that failed with an unknown effect: the server may or may not hold them.
    pub(super) uncertain: BTreeSet<Key>,
    namespaces: Vec<berth_proto::core_v1::Namespace>,
    services: Vec<berth_proto::core_v1::Service>,
}

impl Model {
    /// The model of a server that was fed `cluster`.
    pub(super) fn new(cluster: &SyntheticCluster) -> Model {
        let mut model = Model {
            namespaces: cluster.namespaces.clone(),
            services: cluster.services.clone(),
            ..Model::default()
        };
        for node in &cluster.nodes {
            model.nodes.insert(node_name(node), node.clone());
        }
        for pod in &cluster.pods {
            model.upsert(pod.clone());
        }
        model
    }

    /// Records a pod that a feed sent, with or without a node.
    pub(super) fn upsert(&mut self, pod: Pod) {
        let node = pod.spec.as_ref().map(|spec| spec.node_name.clone()).unwrap_or_default();
        self.pods.insert(key(&pod), KnownPod { pod, node, assumed: false });
    }

    /// Records a pod that the server assumed on `node`.
    pub(super) fn assume(&mut self, pod: &Pod, node: &str) {
        let known = KnownPod { pod: on_node(pod, node), node: node.to_owned(), assumed: true };
        self.pods.insert(key(pod), known);
    }

    /// The snapshot that leaves the cluster unchanged: all objects but the assumed pods, which survive a snapshot.
    pub(super) fn snapshot(&self) -> SyntheticCluster {
        SyntheticCluster {
            nodes: self.nodes.values().cloned().collect(),
            namespaces: self.namespaces.clone(),
            services: self.services.clone(),
            pods: self
                .pods
                .values()
                .filter(|known| !known.assumed)
                .map(|known| known.pod.clone())
                .collect(),
        }
    }

    /// The counts that `GetCluster` should return.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts { n_nodes: self.nodes.len(), ..Counts::default() };
        for known in self.pods.values() {
            if known.node.is_empty() {
                counts.n_pending += 1;
            } else if self.nodes.contains_key(&known.node) {
                counts.n_pods += 1;
            } else {
                counts.n_orphaned += 1;
            }
            counts.n_assumed += usize::from(known.assumed);
        }
        counts
    }
}

/// Numbers of objects by their state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) n_nodes: usize,
    /// Pods on nodes of the cluster.
    pub(super) n_pods: usize,
    pub(super) n_assumed: usize,
    pub(super) n_pending: usize,
    pub(super) n_orphaned: usize,
}

pub(super) fn node_name(node: &Node) -> String {
    node.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default()
}

pub(super) fn key(pod: &Pod) -> Key {
    pod.metadata
        .as_ref()
        .map_or_else(Default::default, |it| (it.namespace.clone(), it.name.clone()))
}

pub(super) fn wire_key((namespace, name): &Key) -> PodKey {
    PodKey { namespace: namespace.clone(), name: name.clone(), uid: String::new() }
}

/// The pod as a feed sends it when it runs on `node`.
pub(super) fn on_node(pod: &Pod, node: &str) -> Pod {
    let mut pod = pod.clone();
    pod.spec.get_or_insert_default().node_name = node.to_owned();
    pod.status.get_or_insert_default().phase = "Running".to_owned();
    pod
}

/// Sums of the requests of the pod's containers in the units of the server's listings: cpu in milli-units, the rest in
/// whole units.
pub(super) fn requests(pod: &Pod) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    for (name, quantity) in
        containers.filter_map(|it| it.resources.as_ref()).flat_map(|it| &it.requests)
    {
        let amount = quantity
            .parse()
            .map_or(0, |amount| if name == "cpu" { amount.milli_value() } else { amount.value() });
        *sums.entry(name.clone()).or_insert(0) += amount;
    }
    sums.retain(|_, amount| *amount != 0);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_synthetic::object::{Requests, pod};

    fn web(name: &str) -> Pod {
        let requests = Requests { cpu_milli: 250, memory_mib: 2, extended: Some(("gpu", 1)) };
        pod("shop", name, name, "image", requests)
    }

    #[test]
    fn requests_are_summed_in_the_servers_units() {
        let expected = [("cpu", 250), ("gpu", 1), ("memory", 2 << 20)];
        let expected = expected.map(|(name, amount)| (name.to_owned(), amount));
        assert_eq!(requests(&web("a")), BTreeMap::from(expected));
    }

    #[test]
    fn pods_are_counted_by_state_and_a_snapshot_omits_assumed_pods() {
        let mut model = Model::default();
        let mut node = Node::default();
        node.metadata.get_or_insert_default().name = "n".to_owned();
        model.nodes.insert("n".to_owned(), node);
        model.upsert(web("waits"));
        model.upsert(on_node(&web("runs"), "n"));
        model.upsert(on_node(&web("lost"), "gone"));
        model.assume(&web("new"), "n");
        model.assume(&web("late"), "gone");
        let expected = Counts { n_nodes: 1, n_pods: 2, n_assumed: 2, n_pending: 1, n_orphaned: 2 };
        assert_eq!(model.counts(), expected);
        let names: Vec<_> = model.snapshot().pods.iter().map(|pod| key(pod).1).collect();
        assert_eq!(names, ["lost", "runs", "waits"]);
    }
}
