//! Pending pods that are promised a node. Rules: S-NOM-4, S-NOMC-1.

use berth_proto::core_v1::Pod;

use super::pod;

/// In the order in which they were nominated; a pod is here once.
#[derive(Clone, Default)]
pub(crate) struct Nominations(Vec<(String, Pod)>);

impl Nominations {
    /// Nominates the pod to a node, instead of an earlier nomination.
    pub(crate) fn add(&mut self, pod: &Pod, node: &str) {
        self.remove(pod::namespace(pod), pod::name(pod));
        self.0.push((node.to_owned(), pod.clone()));
    }

    pub(crate) fn remove(&mut self, namespace: &str, name: &str) {
        self.0.retain(|(_, of)| (pod::namespace(of), pod::name(of)) != (namespace, name));
    }

    /// The pods that are promised this node.
    pub(crate) fn of_node(&self, node: &str) -> impl Iterator<Item = &Pod> {
        self.0.iter().filter(move |(name, _)| name == node).map(|(_, pod)| pod)
    }

    /// The node that the pod of this name is promised.
    pub(crate) fn node_of(&self, namespace: &str, name: &str) -> Option<&str> {
        let is_meant = |of: &Pod| (pod::namespace(of), pod::name(of)) == (namespace, name);
        self.0.iter().find(|(_, of)| is_meant(of)).map(|(node, _)| node.as_str())
    }

    /// Every nomination with its node.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Pod)> {
        self.0.iter().map(|(node, pod)| (node.as_str(), pod))
    }
}
