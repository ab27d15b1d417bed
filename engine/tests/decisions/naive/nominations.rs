//! Pending pods that are nominated to a node. Rules: S-NOM-4, S-NOMC-1.

use berth_proto::core_v1::Pod;

use super::pod;

/// Nominations in the order in which they were made, one for each pod.
#[derive(Clone, Default)]
pub(crate) struct Nominations(Vec<(String, Pod)>);

impl Nominations {
    /// Nominates the pod to a node, in place of an earlier nomination.
    pub(crate) fn add(&mut self, pod: &Pod, node: &str) {
        self.remove(pod::namespace(pod), pod::name(pod));
        self.0.push((node.to_owned(), pod.clone()));
    }

    pub(crate) fn remove(&mut self, namespace: &str, name: &str) {
        self.0.retain(|(_, of)| (pod::namespace(of), pod::name(of)) != (namespace, name));
    }

    /// Returns the pods that are nominated to this node.
    pub(crate) fn of_node(&self, node: &str) -> impl Iterator<Item = &Pod> {
        self.0.iter().filter(move |(name, _)| name == node).map(|(_, pod)| pod)
    }

    /// Returns the node to which the pod of this name is nominated.
    pub(crate) fn node_of(&self, namespace: &str, name: &str) -> Option<&str> {
        let is_meant = |of: &Pod| (pod::namespace(of), pod::name(of)) == (namespace, name);
        self.0.iter().find(|(_, of)| is_meant(of)).map(|(node, _)| node.as_str())
    }

    /// Returns every nomination with its node.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Pod)> {
        self.0.iter().map(|(node, pod)| (node.as_str(), pod))
    }
}
