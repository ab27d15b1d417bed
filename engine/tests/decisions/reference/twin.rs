//! The engine's cluster and the naive one, with the same changes and the same queries.

use berth_engine::{
    Cluster, Delta, ObjectKey, ObjectKind, Outcome, PlaceRequest, Pod, PodKey, Policy,
    PreemptOptions, PreemptRequest, TieBreak,
};
use berth_proto::core_v1;

use super::Step;
use super::outcome::{self, Expected, Got};
use super::surveyed;
use super::verdict::check_explanation;
use crate::naive::attempt::{Attempt, attempt};
use crate::naive::cluster::NaiveCluster;
use crate::naive::objects::{AnyObject, Key, Objects};
use crate::naive::pod::{is_terminating, is_terminating_by_preemption, name, namespace};
use crate::naive::post_filter::post_filter;
use crate::naive::reservations::Reservations;
use crate::naive::volume_binding::Bindings;
use crate::random::importance::Leaving;
use crate::random::node::named;

/// The engine's cluster and the naive one, kept in step.
pub(crate) struct Twin {
    pub(super) engine: Cluster,
    pub(super) naive: NaiveCluster,
    objects: Objects,
    reservations: Reservations,
    templates: Vec<core_v1::Pod>,
    pub(super) deltas: Vec<Delta>,
    /// Pods on nodes.
    pub(super) pods: Vec<core_v1::Pod>,
    /// Pending pods, as the feed last sent them.
    pub(super) pending: Vec<core_v1::Pod>,
    n_nodes: usize,
    pub(crate) n_pods: usize,
}

impl Twin {
    pub(crate) fn new(templates: Vec<core_v1::Pod>) -> Twin {
        Twin {
            engine: Cluster::new(),
            naive: NaiveCluster::default(),
            objects: Objects::default(),
            reservations: Reservations::default(),
            templates,
            deltas: Vec::new(),
            pods: Vec::new(),
            pending: Vec::new(),
            n_nodes: 0,
            n_pods: 0,
        }
    }

    pub(crate) fn take(&mut self, step: Step, policy: &Policy) {
        match step {
            Step::Decide { template } => {
                let pod = self.next_pod(template);
                self.check(&pod, policy);
            }
            Step::Assume { template, seed } => self.assume(template, seed, policy),
            Step::Bind { template, node, placed_state } => {
                let Some(node) = self.node_name(node) else {
                    return;
                };
                let pod = placed_state.applied_to(self.next_pod(template));
                self.bind(pod, &node);
            }
            Step::DeletePod { pod } => self.delete_pod(pod),
            Step::Relabel { pod, template } => {
                let template = &self.templates[template % self.templates.len()];
                let labels = template.metadata.clone().unwrap_or_default().labels;
                self.change_pod(pod, |pod| pod.metadata.get_or_insert_default().labels = labels);
            }
            Step::Terminate { pod, leaving } => self.terminate(pod, leaving),
            Step::Preempt { template, seed, effect } => {
                self.preempt(template, seed, effect, policy);
            }
            Step::Promise { template, node, in_memory } => self.promise(template, node, in_memory),
            Step::Retry { pending } => self.retry(pending, policy),
            Step::RepeatPending { pending, node } => self.repeat_pending(pending, node),
            Step::BindPending { pending, node } => self.bind_pending(pending, node),
            Step::DeletePending { pending } => self.delete_pending(pending),
            Step::UpsertNode { node, object } => {
                let Some(name) = self.node_name(node) else {
                    return;
                };
                self.upsert_node(object.0, &name);
            }
            Step::DeleteNode { node } => {
                let Some(name) = self.node_name(node) else {
                    return;
                };
                self.naive.delete_node(&name);
                self.deltas.push(Delta::DeleteNode(name.into()));
            }
            Step::AddNode { object } => self.add_node(object.0),
            Step::UpsertObject { object } => self.upsert_object(*object),
            Step::DeleteObject { object } => self.delete_object(object),
        }
    }

    pub(super) fn node_name(&self, node: usize) -> Option<String> {
        let names: Vec<&String> = self.naive.nodes.keys().collect();
        (!names.is_empty()).then(|| names[node % names.len()].clone())
    }

    pub(crate) fn add_node(&mut self, object: core_v1::Node) {
        let name = format!("node-{}", self.n_nodes);
        self.n_nodes += 1;
        self.upsert_node(object, &name);
    }

    fn upsert_node(&mut self, object: core_v1::Node, name: &str) {
        let object = named(object, name);
        self.naive.upsert_node(&object);
        self.deltas.push(Delta::UpsertNode(self.engine.compile_node(&object).unwrap()));
    }

    pub(super) fn bind(&mut self, mut pod: core_v1::Pod, node: &str) {
        pod.spec.get_or_insert_default().node_name = node.to_owned();
        self.upsert_pod(&pod);
        self.pods.push(pod);
    }

    fn upsert_pod(&mut self, pod: &core_v1::Pod) {
        self.naive.add_pod(pod);
        self.deltas.push(Delta::UpsertPod(self.compile(pod)));
    }

    /// Changes a pod on a node, unless the change leaves it equal.
    pub(super) fn change_pod(&mut self, pod: usize, change: impl FnOnce(&mut core_v1::Pod)) {
        if self.pods.is_empty() {
            return;
        }
        let at = pod % self.pods.len();
        let mut pod = self.pods[at].clone();
        change(&mut pod);
        if pod != self.pods[at] {
            self.naive.delete_pod(namespace(&pod), name(&pod));
            self.upsert_pod(&pod);
            self.pods[at] = pod;
        }
    }

    /// Marks a pod as terminating. If no rule sees a difference, the pod keeps its position among the pods of its
    /// node.
    pub(super) fn terminate(&mut self, pod: usize, leaving: Leaving) {
        let facts = |pod: &core_v1::Pod| (is_terminating(pod), is_terminating_by_preemption(pod));
        self.change_pod(pod, |pod| {
            let changed = leaving.applied_to(pod.clone());
            if facts(&changed) != facts(pod) {
                *pod = changed;
            }
        });
    }

    pub(super) fn delete_pod(&mut self, pod: usize) {
        if self.pods.is_empty() {
            return;
        }
        let pod = self.pods.swap_remove(pod % self.pods.len());
        let (namespace, name) = (namespace(&pod), name(&pod));
        self.naive.delete_pod(namespace, name);
        self.reservations.release(namespace, name);
        self.deltas.push(Delta::DeletePod { key: PodKey::new(namespace, name), uid: None });
    }

    fn upsert_object(&mut self, object: AnyObject) {
        let compiled = self.engine.compile_object(object.wire());
        self.deltas.push(Delta::UpsertObject(compiled.unwrap()));
        self.objects.upsert(object);
    }

    fn delete_object(&mut self, object: usize) {
        let keys: Vec<Key> = self.objects.iter().map(AnyObject::key).collect();
        if keys.is_empty() {
            return;
        }
        let key = &keys[object % keys.len()];
        let kind = ObjectKind::from_name(key.0).unwrap();
        self.deltas.push(Delta::DeleteObject(ObjectKey::new(kind, &key.1, &key.2)));
        self.objects.delete(key);
    }

    /// Applies the collected deltas to both clusters.
    pub(crate) fn publish(&mut self) {
        let applied = self.engine.apply(std::mem::take(&mut self.deltas));
        assert_eq!(applied.rejected, []);
        self.naive.objects = self.reservations.applied_to(&self.objects);
        self.naive.refresh();
    }

    fn assume(&mut self, template: usize, seed: Option<u64>, policy: &Policy) {
        let mut pod = self.next_pod(template);
        self.check(&pod, policy);
        let compiled = self.compile(&pod);
        let tie_break = seed.map_or(TieBreak::Lexicographic, TieBreak::Seeded);
        let request = PlaceRequest { pod: &compiled, policy, tie_break, now: None };
        let planned = self.engine.place(&request);
        let assumed = self.engine.assume(&request);
        let Some(Outcome::Placed(placement)) =
            assumed.as_ref().ok().map(|decision| &decision.outcome)
        else {
            assert_eq!(planned, assumed);
            return;
        };
        let (stamp, mut expected) = (placement.stamp, planned.unwrap());
        assert!(stamp.is_some());
        if let Outcome::Placed(placement) = &mut expected.outcome {
            (placement.assumed, placement.stamp) = (true, stamp);
        }
        assert_eq!(&expected, assumed.as_ref().unwrap());
        let bindings = Bindings::from(&placement.volumes);
        self.reservations.reserve((namespace(&pod), name(&pod)), &placement.node, bindings);
        pod.spec.get_or_insert_default().node_name = placement.node.to_string();
        self.naive.add_pod(&pod);
        self.pods.push(pod);
    }

    pub(super) fn next_pod(&mut self, template: usize) -> core_v1::Pod {
        self.n_pods += 1;
        self.pod(self.n_pods, template)
    }

    pub(crate) fn pod(&self, number: usize, template: usize) -> core_v1::Pod {
        let mut pod = self.templates[template % self.templates.len()].clone();
        let metadata = pod.metadata.get_or_insert_default();
        (metadata.name, metadata.uid) = (format!("pod-{number}"), format!("uid-{number}"));
        pod
    }

    pub(super) fn compile(&self, pod: &core_v1::Pod) -> Pod {
        self.engine.compile_pod(pod).unwrap()
    }

    /// Checks that explain, place, preempt and the answers to an extender agree with the naive scheduler.
    pub(crate) fn check(&self, pod: &core_v1::Pod, policy: &Policy) {
        let expected = attempt(&self.naive, policy.spec(), pod);
        let compiled = self.compile(pod);
        for tie_break in [TieBreak::Lexicographic, TieBreak::Seeded(7)] {
            let request = PlaceRequest { pod: &compiled, policy, tie_break, now: None };
            let explained = self.engine.explain(&request);
            let placed = self.engine.place(&request);
            assert_eq!(placed, self.engine.place(&request), "the same question twice");
            assert_eq!(
                placed.as_ref().ok(),
                explained.as_ref().ok().map(|e| &e.decision),
                "place and explain"
            );
            check_explanation(&expected, &explained);
            if let (Attempt::Decided(account), TieBreak::Lexicographic) = (&expected, tie_break)
                && let Outcome::Placed(placement) = &placed.unwrap().outcome
            {
                assert_eq!(placement.node, account.best[0]);
            }
        }
        self.check_preemption(pod, policy, &expected);
        surveyed::check(self, pod, policy);
    }

    fn check_preemption(&self, pod: &core_v1::Pod, policy: &Policy, attempt: &Attempt) {
        let compiled = self.compile(pod);
        let post_filter = post_filter(&self.naive, policy.spec(), pod, attempt);
        let (cluster, post_filter) = (&self.naive, post_filter.as_ref());
        let expected = Expected { cluster, pod, attempt, post_filter };
        for tie_break in [TieBreak::Lexicographic, TieBreak::Seeded(7)] {
            let options = PreemptOptions::default();
            let request = PreemptRequest {
                pod: &compiled,
                policy,
                tie_break,
                options,
                cancelled: &|| false,
                now: None,
            };
            let got = Got {
                preemption: self.engine.preempt(&request),
                list: self.engine.list_candidates(&request),
            };
            outcome::check(&expected, tie_break, &got);
        }
    }
}
