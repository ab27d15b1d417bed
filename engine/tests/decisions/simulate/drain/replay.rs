//! Carries a plan out, pod after pod, with the deltas that a feed would send, on a fork of the cluster for which it was
//! made.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::{
    Cluster, Delta, EngineError, NodeDrain, Outcome, PlaceRequest, Pod, PodKey, PodVerdict, Policy,
    TieBreak, Verdict,
};
use berth_proto::{core_v1, policy_v1};

use crate::naive::label_selector;
use crate::naive::objects::AnyObject;

/// The objects that make up a cluster.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) nodes: Vec<core_v1::Node>,
    /// Pods on nodes or nominated to one.
    pub(crate) pods: Vec<core_v1::Pod>,
    pub(crate) objects: Vec<AnyObject>,
}

impl World {
    pub(crate) fn cluster(&self) -> Cluster {
        let cluster = Cluster::new();
        let nodes = self.nodes.iter().map(|node| cluster.compile_node(node).unwrap());
        let objects =
            self.objects.iter().map(|object| cluster.compile_object(object.wire()).unwrap());
        let pods = self.pods.iter().map(|pod| cluster.compile_pod(pod).unwrap());
        let deltas = nodes
            .map(Delta::UpsertNode)
            .chain(objects.map(Delta::UpsertObject))
            .chain(pods.map(Delta::UpsertPod));
        let applied = cluster.apply(deltas.collect());
        assert_eq!(applied.rejected, []);
        cluster
    }

    pub(crate) fn pod(&self, key: &PodKey) -> &core_v1::Pod {
        let is_it = |pod: &&core_v1::Pod| name_of(pod) == (&*key.namespace, &*key.name);
        self.pods.iter().find(is_it).expect("the plan is about pods of the cluster")
    }

    fn node(&self, name: &str) -> &core_v1::Node {
        let is_it = |node: &&core_v1::Node| node.metadata.as_ref().unwrap().name == name;
        self.nodes.iter().find(is_it).unwrap()
    }

    /// Returns the budgets of the world; of several with one name, only the last.
    fn budgets(&self) -> impl Iterator<Item = &policy_v1::PodDisruptionBudget> {
        let budgets = self.objects.iter().filter_map(|object| match object {
            AnyObject::PodDisruptionBudget(budget) => {
                Some(((&object.metadata().namespace, &object.metadata().name), budget))
            }
            _ => None,
        });
        budgets.collect::<BTreeMap<_, _>>().into_values()
    }

    /// Returns the names of the budgets that cover a pod, sorted (S-SD-5), computed from the objects.
    pub(crate) fn budgets_of(&self, pod: &core_v1::Pod) -> Vec<String> {
        let metadata = pod.metadata.as_ref().unwrap();
        let covers = |budget: &&policy_v1::PodDisruptionBudget| {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            budget.metadata.as_ref().unwrap().namespace == name_of(pod).0
                && label_selector::parse(selector).is_ok_and(|s| s.matches(&metadata.labels))
        };
        let names = self.budgets().filter(covers);
        let mut names: Vec<String> =
            names.map(|budget| budget.metadata.as_ref().unwrap().name.clone()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn allowed(&self, namespace: &str, name: &str) -> i64 {
        let is_it = |budget: &&policy_v1::PodDisruptionBudget| {
            let metadata = budget.metadata.as_ref().unwrap();
            (&*metadata.namespace, &*metadata.name) == (namespace, name)
        };
        let budget = self.budgets().find(is_it).unwrap();
        budget.status.as_ref().map_or(0, |status| i64::from(status.disruptions_allowed))
    }
}

pub(crate) fn name_of(pod: &core_v1::Pod) -> (&str, &str) {
    let metadata = pod.metadata.as_ref().unwrap();
    let namespace = if metadata.namespace.is_empty() { "default" } else { &metadata.namespace };
    (namespace, &metadata.name)
}

/// A cluster on which a plan is carried out.
pub(crate) struct Replay<'w> {
    world: &'w World,
    fork: Cluster,
    /// New nodes of the pods that moved.
    moved_to: BTreeMap<PodKey, Arc<str>>,
}

impl<'w> Replay<'w> {
    pub(crate) fn new(world: &'w World, cluster: &Cluster) -> Replay<'w> {
        Replay { world, fork: cluster.fork(), moved_to: BTreeMap::new() }
    }

    /// Returns the pod as its controller would create it again.
    fn anew(&self, key: &PodKey, node: Option<&str>) -> Pod {
        let mut pod = self.world.pod(key).clone();
        pod.status = None;
        pod.spec.get_or_insert_default().node_name = node.unwrap_or_default().to_owned();
        self.fork.compile_pod(&pod).unwrap()
    }

    fn apply(&self, delta: Delta) {
        assert_eq!(self.fork.apply(vec![delta]).rejected, []);
    }

    /// Removes all pods from a node and marks it as being drained.
    pub(crate) fn clear(&self, node: &NodeDrain) {
        for pod in &node.pods {
            self.apply(Delta::DeletePod { key: pod.pod.clone(), uid: None });
        }
        let mut marked = self.world.node(&node.node).clone();
        marked.spec.get_or_insert_default().taints.push(core_v1::Taint {
            key: "ToBeDeletedByClusterAutoscaler".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..core_v1::Taint::default()
        });
        self.apply(Delta::UpsertNode(self.fork.compile_node(&marked).unwrap()));
    }

    /// Returns the nodes that could take the pod now, or an error if it cannot be decided.
    pub(crate) fn feasible(&self, key: &PodKey) -> Result<Vec<Arc<str>>, EngineError> {
        let (pod, policy) = (self.anew(key, None), Policy::default());
        let tie_break = TieBreak::Lexicographic;
        let explanation = self.fork.explain(&PlaceRequest {
            pod: &pod,
            policy: &policy,
            tie_break,
            now: None,
        })?;
        let feasible = explanation.nodes.into_iter();
        let feasible = feasible.filter(|node| matches!(node.verdict, Verdict::Feasible { .. }));
        Ok(feasible.map(|node| node.node).collect())
    }

    /// Returns the node that a placement chooses.
    pub(crate) fn chosen(&self, key: &PodKey) -> Option<Arc<str>> {
        let (pod, policy) = (self.anew(key, None), Policy::default());
        let tie_break = TieBreak::Lexicographic;
        let placed =
            self.fork.place(&PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None });
        match placed.unwrap().outcome {
            Outcome::Placed(placement) => Some(placement.node),
            _ => None,
        }
    }

    /// Starts the pod on this node.
    pub(crate) fn start(&mut self, key: &PodKey, node: &Arc<str>) {
        self.apply(Delta::UpsertPod(self.anew(key, Some(node))));
        self.moved_to.insert(key.clone(), node.clone());
    }

    /// Carries out the plan for a drained node: each pod, in order of importance, moves to a node that is feasible at
    /// that moment.
    pub(crate) fn carry_out(&mut self, node: &NodeDrain) {
        self.clear(node);
        for (key, to) in in_order(node) {
            let feasible = self.feasible(key).unwrap();
            assert!(feasible.contains(to), "{key} is to go to {to}, and could to {feasible:?}");
            self.start(key, to);
        }
        self.remove(&node.node);
    }

    fn remove(&self, node: &Arc<str>) {
        let left = self.fork.snapshot().pods();
        assert!(!left.iter().any(|pod| pod.node == *node), "{node} is empty before it goes");
        self.apply(Delta::DeleteNode(node.clone()));
    }

    /// Checks that no pod moved to one of these nodes, and that each moved pod is on one node.
    pub(crate) fn check_end(&self, gone: &[Arc<str>]) {
        for (pod, node) in &self.moved_to {
            assert!(!gone.contains(node), "{pod} moved to {node}, which goes");
        }
        let pods = self.fork.snapshot().pods();
        for (pod, node) in &self.moved_to {
            let is_there = pods.iter().filter(|view| view.pod.key() == pod);
            let nodes: Vec<_> = is_there.map(|view| view.node.clone()).collect();
            assert_eq!(nodes, std::slice::from_ref(node), "{pod} is on one node");
        }
    }
}

/// Returns the pods of a node that move, the most important first and equal ones in node order, with their
/// destinations.
pub(crate) fn in_order(node: &NodeDrain) -> Vec<(&PodKey, &Arc<str>)> {
    let mut pods: Vec<_> = node.pods.iter().collect();
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.priority));
    let moves = pods.into_iter().filter_map(|pod| match &pod.verdict {
        PodVerdict::Moves { node, .. } => Some((&pod.pod, node)),
        _ => None,
    });
    moves.collect()
}

/// Checks that no wave evicts more pods of a budget than it allows.
pub(crate) fn check_waves<'a>(world: &World, nodes: impl IntoIterator<Item = &'a NodeDrain>) {
    let mut used: BTreeMap<(u32, String, String), i64> = BTreeMap::new();
    for pod in nodes.into_iter().flat_map(|node| &node.pods) {
        let PodVerdict::Moves { wave, .. } = &pod.verdict else { continue };
        assert!(*wave > 0, "{} leaves some time", pod.pod);
        let budgets: Vec<String> = pod.budgets.iter().map(ToString::to_string).collect();
        assert_eq!(budgets, world.budgets_of(world.pod(&pod.pod)), "{}", pod.pod);
        for budget in budgets {
            *used.entry((*wave, pod.pod.namespace.to_string(), budget)).or_default() += 1;
        }
    }
    for ((wave, namespace, name), n) in used {
        let allowed = world.allowed(&namespace, &name);
        assert!(n <= allowed, "wave {wave}: {n} of {namespace}/{name}, which allows {allowed}");
    }
}
