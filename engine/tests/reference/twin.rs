//! The engine's cluster and the naive one, told the same and asked the same.

use std::sync::Arc;

use berth_engine::{
    Cluster, Delta, EngineError, Explanation, Outcome, PlaceRequest, Placement, Plugin, Pod,
    PodKey, Policy, StatusCode, TieBreak, Unschedulable,
};
use berth_proto::{core_v1, meta_v1};

use super::Step;
use super::naive::attempt::{Account, Attempt, attempt};
use super::naive::cluster::NaiveCluster;

/// The engine's cluster and the naive one, kept in step.
pub(crate) struct Twin {
    engine: Cluster,
    naive: NaiveCluster,
    templates: Vec<core_v1::Pod>,
    deltas: Vec<Delta>,
    /// Names of pods on nodes.
    pods: Vec<String>,
    n_nodes: usize,
    pub(crate) n_pods: usize,
}

impl Twin {
    pub(crate) fn new(templates: Vec<core_v1::Pod>) -> Twin {
        Twin {
            engine: Cluster::new(),
            naive: NaiveCluster::default(),
            templates,
            deltas: Vec::new(),
            pods: Vec::new(),
            n_nodes: 0,
            n_pods: 0,
        }
    }

    pub(crate) fn take(&mut self, step: Step, policy: &Policy) {
        let node_name = |twin: &Twin, node: usize| {
            let names: Vec<&String> = twin.naive.nodes.keys().collect();
            (!names.is_empty()).then(|| names[node % names.len()].clone())
        };
        match step {
            Step::Decide { template } => {
                let pod = self.next_pod(template);
                self.check(&pod, policy);
            }
            Step::Assume { template, seed } => self.assume(template, seed, policy),
            Step::Bind { template, node } => {
                let Some(node) = node_name(self, node) else {
                    return;
                };
                let pod = self.next_pod(template);
                self.bind(pod, &node);
            }
            Step::DeletePod { pod } if !self.pods.is_empty() => {
                let name = self.pods.swap_remove(pod % self.pods.len());
                self.naive.delete_pod(&name);
                self.deltas
                    .push(Delta::DeletePod { key: PodKey::new("default", &name), uid: None });
            }
            Step::UpsertNode { node, object } => {
                let Some(name) = node_name(self, node) else {
                    return;
                };
                self.upsert_node(object.0, name);
            }
            Step::DeleteNode { node } => {
                let Some(name) = node_name(self, node) else {
                    return;
                };
                self.naive.delete_node(&name);
                self.deltas.push(Delta::DeleteNode(name.into()));
            }
            Step::AddNode { object } => self.add_node(object.0),
            Step::DeletePod { .. } => {}
        }
    }

    pub(crate) fn add_node(&mut self, object: core_v1::Node) {
        let name = format!("node-{}", self.n_nodes);
        self.n_nodes += 1;
        self.upsert_node(object, name);
    }

    fn upsert_node(&mut self, mut object: core_v1::Node, name: String) {
        object.metadata.get_or_insert_default().name = name;
        self.naive.upsert_node(&object);
        self.deltas.push(Delta::UpsertNode(self.engine.compile_node(&object).unwrap()));
    }

    fn bind(&mut self, mut pod: core_v1::Pod, node: &str) {
        pod.spec.get_or_insert_default().node_name = node.to_owned();
        self.naive.add_pod(&pod);
        self.pods.push(name(&pod));
        self.deltas.push(Delta::UpsertPod(self.compile(&pod)));
    }

    /// Both clusters take what was collected.
    pub(crate) fn publish(&mut self) {
        let applied = self.engine.apply(std::mem::take(&mut self.deltas));
        assert_eq!(applied.rejected, []);
        self.naive.refresh();
    }

    fn assume(&mut self, template: usize, seed: Option<u64>, policy: &Policy) {
        let mut pod = self.next_pod(template);
        self.check(&pod, policy);
        let compiled = self.compile(&pod);
        let tie_break = seed.map_or(TieBreak::Lexicographic, TieBreak::Seeded);
        let request = PlaceRequest { pod: &compiled, policy, tie_break };
        let planned = self.engine.place(&request);
        let assumed = self.engine.assume(&request);
        let Some(Outcome::Placed(placement)) =
            assumed.as_ref().ok().map(|decision| &decision.outcome)
        else {
            assert_eq!(planned, assumed);
            return;
        };
        let mut expected = planned.unwrap();
        if let Outcome::Placed(placement) = &mut expected.outcome {
            placement.assumed = true;
        }
        assert_eq!(&expected, assumed.as_ref().unwrap());
        pod.spec.get_or_insert_default().node_name = placement.node.to_string();
        self.pods.push(name(&pod));
        self.naive.add_pod(&pod);
    }

    fn next_pod(&mut self, template: usize) -> core_v1::Pod {
        self.n_pods += 1;
        self.pod(self.n_pods, template)
    }

    pub(crate) fn pod(&self, number: usize, template: usize) -> core_v1::Pod {
        let mut pod = self.templates[template % self.templates.len()].clone();
        let (name, uid) = (format!("pod-{number}"), format!("uid-{number}"));
        pod.metadata = Some(meta_v1::ObjectMeta {
            name,
            uid,
            namespace: "default".to_owned(),
            ..Default::default()
        });
        pod
    }

    fn compile(&self, pod: &core_v1::Pod) -> Pod {
        self.engine.compile_pod(pod).unwrap()
    }

    /// Explain and place agree with the reference.
    pub(crate) fn check(&self, pod: &core_v1::Pod, policy: &Policy) {
        let expected = attempt(&self.naive, policy.spec(), pod);
        let compiled = self.compile(pod);
        for tie_break in [TieBreak::Lexicographic, TieBreak::Seeded(7), TieBreak::Seeded(7)] {
            let request = PlaceRequest { pod: &compiled, policy, tie_break };
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
    }
}

fn check_explanation(expected: &Attempt, explained: &Result<Explanation, EngineError>) {
    match (expected, explained) {
        (Attempt::Error, Err(EngineError::SchedulerError { .. })) => {}
        (Attempt::Gated(reason), Ok(explanation)) => {
            let outcome =
                Outcome::Gated { plugin: Plugin::SchedulingGates, reasons: vec![reason.clone()] };
            assert_eq!(explanation.decision.outcome, outcome);
        }
        (Attempt::Refused { message, reason }, Ok(explanation)) => {
            let Outcome::Unschedulable(Unschedulable { message: got, pre_filter, .. }) =
                &explanation.decision.outcome
            else {
                panic!("{:?} instead of {message}", explanation.decision.outcome);
            };
            assert_eq!(got, message);
            let code = StatusCode::UnschedulableAndUnresolvable;
            let expected =
                reason.as_ref().map(|reason| (Plugin::NodeAffinity, code, vec![reason.clone()]));
            assert_eq!(*pre_filter, expected);
            assert_eq!(explanation.nodes, []);
        }
        (Attempt::Decided(account), Ok(explanation)) => check_account(account, explanation),
        (expected, explained) => panic!("expected {expected:?}, got {explained:?}"),
    }
}

fn check_account(account: &Account, explanation: &Explanation) {
    for (expected, got) in account.nodes.iter().zip(&explanation.nodes) {
        assert_eq!(expected, got);
    }
    assert_eq!(account.nodes.len(), explanation.nodes.len());
    assert_eq!(account.best, explanation.best);
    match &explanation.decision.outcome {
        Outcome::Placed(placement) => {
            assert!(
                account.best.contains(&placement.node),
                "{placement:?} is not one of {:?}",
                account.best
            );
            let n_best = account.best.len() as u32;
            let node: Arc<str> = placement.node.clone();
            let expected = Placement {
                node,
                total: account.total,
                n_feasible: account.n_feasible,
                n_best,
                assumed: false,
            };
            assert_eq!(*placement, expected);
            assert_eq!(explanation.remedies, []);
        }
        Outcome::Unschedulable(unschedulable) => {
            assert_eq!(account.n_feasible, 0);
            let expected = Unschedulable {
                message: account.message.clone(),
                reasons: account.reasons.clone(),
                pre_filter: None,
                n_nodes: account.nodes.len() as u32,
            };
            assert_eq!(*unschedulable, expected);
        }
        Outcome::Gated { .. } => panic!("{:?}", explanation.decision),
    }
}

fn name(pod: &core_v1::Pod) -> String {
    pod.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default()
}
