//! Nominations: pending pods that are nominated to a node, in the order of their nominations. Rules: S-NOM-4, S-NOMC-1.

use std::sync::Arc;

use imbl::OrdMap;

use crate::model::intern::Symbol;
use crate::model::{Pod, PodKey};

/// Nominated pods by node. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nominations {
    /// Version that changes with every nomination: equal versions mean equal nominations.
    pub(crate) version: u64,
    by_node: OrdMap<Symbol, Arc<Vec<Pod>>>,
    node_of: OrdMap<PodKey, Symbol>,
}

impl Nominations {
    /// Whether a pod of this name is nominated to a node.
    pub(crate) fn has(&self, pod: &PodKey) -> bool {
        self.node_of.contains_key(pod)
    }

    /// The node that a pod of this name is nominated to.
    pub(crate) fn of(&self, pod: &PodKey) -> Option<Symbol> {
        self.node_of.get(pod).copied()
    }

    /// The node that a pod is nominated to.
    pub(crate) fn node_of(&self, pod: &Pod) -> Option<Symbol> {
        let node = self.node_of.get(pod.key()).copied()?;
        self.of_node(node).iter().any(|nominated| nominated.is_same_as(pod)).then_some(node)
    }

    /// The pods that are nominated to a node, in insertion order.
    pub(crate) fn of_node(&self, node: Symbol) -> &[Pod] {
        self.by_node.get(&node).map_or(&[], |pods| pods.as_slice())
    }

    /// Nodes, existing or not, to which pods are nominated, with those pods.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Symbol, &[Pod])> {
        self.by_node.iter().map(|(node, pods)| (*node, pods.as_slice()))
    }

    /// Nominates a pod that is not nominated.
    pub(crate) fn add(&mut self, pod: &Pod, node: Symbol, version: u64) {
        debug_assert!(!self.has(pod.key()), "a pod has one nomination");
        Arc::make_mut(self.by_node.entry(node).or_default()).push(pod.clone());
        self.node_of.insert(pod.key().clone(), node);
        self.version = version;
    }

    /// Clears a pod's nomination, if it has one.
    pub(crate) fn remove(&mut self, pod: &PodKey, version: u64) {
        let Some(node) = self.node_of.remove(pod) else { return };
        self.version = version;
        let Some(pods) = self.by_node.get_mut(&node) else { return };
        let pods = Arc::make_mut(pods);
        pods.retain(|nominated| nominated.key() != pod);
        if pods.is_empty() {
            self.by_node.remove(&node);
        }
    }
}
