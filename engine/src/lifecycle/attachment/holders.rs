//! Holders of a volume, indexed by node and by pod.

use std::collections::BTreeMap;

/// A pod that holds a volume on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Name of the node.
    pub node: String,
    /// UID of the pod; a replacement of the same name is another pod (L-VOL-16).
    pub pod_uid: String,
}

/// Holders by node and pod UID, each with its position in the order of attachment.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders {
    nodes: BTreeMap<String, BTreeMap<String, u64>>,
    arrivals: u64,
}

impl Holders {
    pub(super) fn contains(&self, node: &str, pod_uid: &str) -> bool {
        self.nodes.get(node).is_some_and(|pods| pods.contains_key(pod_uid))
    }

    pub(super) fn has_node(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Whether any pod holds the volume on another node.
    pub(super) fn has_other_node(&self, node: &str) -> bool {
        self.nodes.len() > usize::from(self.has_node(node))
    }

    /// Whether another pod holds the volume. Cost: one step if there is at most one holder.
    pub(super) fn has_other_pod(&self, pod_uid: &str) -> bool {
        self.nodes.values().flat_map(BTreeMap::keys).any(|holder| holder != pod_uid)
    }

    /// Adds a holder that is not there yet.
    pub(super) fn insert(&mut self, node: &str, pod_uid: &str) {
        let pods = self.nodes.entry(node.to_owned()).or_default();
        pods.insert(pod_uid.to_owned(), self.arrivals);
        self.arrivals += 1;
    }

    pub(super) fn remove(&mut self, node: &str, pod_uid: &str) {
        if let Some(pods) = self.nodes.get_mut(node) {
            pods.remove(pod_uid);
            // `has_other_node` counts nodes, so one without holders has to go.
            if pods.is_empty() {
                self.nodes.remove(node);
            }
        }
    }

    pub(super) fn remove_node(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// All holders, in the order of attachment.
    pub(super) fn in_order(&self) -> Vec<Holder> {
        let holders = self.nodes.iter().flat_map(|(node, pods)| {
            pods.iter().map(move |(pod_uid, arrival)| (*arrival, node, pod_uid))
        });
        let mut holders: Vec<_> = holders.collect();
        holders.sort_unstable();
        let copy = |(_, node, pod_uid): (u64, &String, &String)| Holder {
            node: node.clone(),
            pod_uid: pod_uid.clone(),
        };
        holders.into_iter().map(copy).collect()
    }
}

/// Equal means: the same holders in the same order, whatever operations led there.
impl PartialEq for Holders {
    fn eq(&self, other: &Holders) -> bool {
        self.in_order() == other.in_order()
    }
}

impl Eq for Holders {}
