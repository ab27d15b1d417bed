//! The naive cluster: nodes with their pods, and other objects, in plain maps.
//! Rules: S-CCH-6 to S-CCH-9, S-PRE-12, S-PRT-2, S-PRT-5, S-IL-4, S-IL-5.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_proto::core_v1;

use super::label_selector::Labels;
use super::nominations::Nominations;
use super::objects::Objects;
use super::pod;
use super::quantity::{nanos, units};
use super::requests::{self, Units};

/// Everything a decision reads.
#[derive(Default)]
pub(crate) struct NaiveCluster {
    pub(crate) nodes: BTreeMap<String, NaiveNode>,
    pub(crate) objects: Objects,
    pub(crate) nominations: Nominations,
    /// Pods on nodes without an object, by node name (S-CCH-7).
    orphans: BTreeMap<String, Vec<Arc<NaivePod>>>,
    /// Image name → size first reported, and the nodes that have it (S-IL-4).
    images: BTreeMap<String, (i64, BTreeSet<String>)>,
}

#[derive(Clone)]
pub(crate) struct NaiveNode {
    pub(crate) node: core_v1::Node,
    /// In order of arrival, except for the effect of removals (S-PRE-12).
    pub(crate) pods: Vec<Arc<NaivePod>>,
    /// A set, not a count (S-PRT-5).
    pub(crate) used_ports: BTreeSet<HostPort>,
    /// Image name → size and number of nodes, as of the last refresh (S-IL-5).
    pub(crate) images: BTreeMap<String, (i64, usize)>,
    is_changed: bool,
}

/// A pod on a node, with the resources that it uses, computed once (S-CCH-9).
pub(crate) struct NaivePod {
    pub(crate) pod: core_v1::Pod,
    pub(crate) requested: Units,
    pub(crate) non_zero: Units,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct HostPort {
    pub(crate) ip: String,
    pub(crate) protocol: String,
    pub(crate) port: i32,
}

impl NaiveCluster {
    /// Adds a node, or replaces the one of this name and keeps its pods.
    pub(crate) fn upsert_node(&mut self, node: &core_v1::Node) {
        let name = node.metadata.as_ref().expect("nodes have metadata").name.clone();
        self.forget_images(&name);
        for image in node.status.iter().flat_map(|status| &status.images) {
            for image_name in &image.names {
                let entry = self
                    .images
                    .entry(image_name.clone())
                    .or_insert((image.size_bytes, BTreeSet::new()));
                entry.1.insert(name.clone());
            }
        }
        let entry = self.nodes.entry(name.clone()).or_insert_with(|| NaiveNode {
            node: node.clone(),
            pods: Vec::new(),
            used_ports: BTreeSet::new(),
            images: BTreeMap::new(),
            is_changed: true,
        });
        entry.node = node.clone();
        entry.is_changed = true;
        for pod in self.orphans.remove(&name).unwrap_or_default() {
            entry.add(pod);
        }
    }

    pub(crate) fn delete_node(&mut self, name: &str) {
        if let Some(node) = self.nodes.remove(name) {
            self.orphans.entry(name.to_owned()).or_default().extend(node.pods);
            self.forget_images(name);
        }
    }

    /// Adds a pod that names its node; its nomination ends (S-NOM-4).
    pub(crate) fn add_pod(&mut self, pod: &core_v1::Pod) {
        self.nominations.remove(pod::namespace(pod), pod::name(pod));
        let pod = Arc::new(NaivePod::new(pod));
        match self.nodes.get_mut(pod.node_name()) {
            None => self.orphans.entry(pod.node_name().to_owned()).or_default().push(pod),
            Some(node) => node.add(pod),
        }
    }

    /// Returns every pod that is on a node, with its node.
    pub(crate) fn placed_pods(&self) -> impl Iterator<Item = (&NaiveNode, &core_v1::Pod)> {
        self.nodes.values().flat_map(|node| node.pods.iter().map(move |pod| (node, &pod.pod)))
    }

    /// Removes the pod of this name, on any node or none, and its nomination.
    pub(crate) fn delete_pod(&mut self, namespace: &str, name: &str) {
        self.nominations.remove(namespace, name);
        for orphans in self.orphans.values_mut() {
            take(orphans, namespace, name);
        }
        for node in self.nodes.values_mut() {
            node.remove(namespace, name);
        }
    }

    /// Returns the pod of this name if it is on an existing node.
    pub(crate) fn placed_pod(&self, namespace: &str, name: &str) -> Option<&core_v1::Pod> {
        let is_meant =
            |pod: &core_v1::Pod| (pod::namespace(pod), pod::name(pod)) == (namespace, name);
        self.placed_pods().map(|(_, pod)| pod).find(|pod| is_meant(pod))
    }

    /// Takes the snapshot for the next attempts: changed entries get the current image counts (S-IL-5).
    pub(crate) fn refresh(&mut self) {
        for (name, node) in self.nodes.iter_mut().filter(|(_, node)| node.is_changed) {
            node.is_changed = false;
            let on_node = self.images.iter().filter(|(_, (_, holders))| holders.contains(name));
            node.images = on_node
                .map(|(image, (size, holders))| (image.clone(), (*size, holders.len())))
                .collect();
        }
    }

    fn forget_images(&mut self, node: &str) {
        self.images.values_mut().for_each(|(_, holders)| {
            holders.remove(node);
        });
        self.images.retain(|_, (_, holders)| !holders.is_empty());
    }
}

impl NaiveNode {
    pub(crate) fn add(&mut self, pod: Arc<NaivePod>) {
        self.used_ports.extend(wanted_ports(&pod.pod));
        self.pods.push(pod);
        self.is_changed = true;
    }

    pub(crate) fn remove(&mut self, namespace: &str, name: &str) {
        let Some(gone) = take(&mut self.pods, namespace, name) else {
            return;
        };
        for port in wanted_ports(&gone.pod) {
            self.used_ports.remove(&port);
        }
        self.is_changed = true;
    }

    pub(crate) fn name(&self) -> &str {
        self.node.metadata.as_ref().map_or("", |metadata| &metadata.name)
    }

    pub(crate) fn labels(&self) -> &Labels {
        &self.node.metadata.as_ref().expect("nodes have metadata").labels
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels().get(key).map(String::as_str)
    }

    pub(crate) fn allocatable(&self, resource: &str) -> i64 {
        let quantity =
            self.node.status.as_ref().and_then(|status| status.allocatable.get(resource));
        quantity.map_or(0, |quantity| units(resource, nanos(quantity)))
    }

    /// Sums the requests of the pods, without scoring defaults.
    pub(crate) fn requested(&self, resource: &str) -> i64 {
        self.pods.iter().map(|pod| pod.requested.get(resource).copied().unwrap_or(0)).sum()
    }

    /// Sums the requests with the scoring defaults (S-RS-3).
    pub(crate) fn non_zero_requested(&self, resource: &str) -> i64 {
        self.pods.iter().map(|pod| pod.non_zero.get(resource).copied().unwrap_or(0)).sum()
    }
}

/// Removes a pod from a list; the last one takes its position (S-PRE-12).
fn take(pods: &mut Vec<Arc<NaivePod>>, namespace: &str, name: &str) -> Option<Arc<NaivePod>> {
    let is_meant =
        |p: &Arc<NaivePod>| (pod::namespace(&p.pod), pod::name(&p.pod)) == (namespace, name);
    pods.iter().position(is_meant).map(|at| pods.swap_remove(at))
}

impl NaivePod {
    pub(crate) fn new(pod: &core_v1::Pod) -> NaivePod {
        NaivePod {
            requested: requests::on_node(pod),
            non_zero: requests::on_node_non_zero(pod),
            pod: pod.clone(),
        }
    }

    fn node_name(&self) -> &str {
        self.pod.spec.as_ref().map_or("", |spec| &spec.node_name)
    }
}

/// Host ports of regular containers and sidecars, normalised (S-PRT-1, S-PRT-2).
pub(crate) fn wanted_ports(pod: &core_v1::Pod) -> BTreeSet<HostPort> {
    let or = |text: &str, default: &str| {
        if text.is_empty() { default.to_owned() } else { text.to_owned() }
    };
    let spec = pod.spec.as_ref().expect("pods have a spec");
    let sidecars =
        spec.init_containers.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
    ports
        .filter(|port| port.host_port > 0)
        .map(|port| HostPort {
            ip: or(&port.host_ip, "0.0.0.0"),
            protocol: or(&port.protocol, "TCP"),
            port: port.host_port,
        })
        .collect()
}
