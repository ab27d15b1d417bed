//! Checks after each batch: the cluster's lists and sums, its decisions, and the decisions of a rebuilt cluster.

use std::sync::Arc;

use berth_engine::{
    CandidateList, Cluster, Delta, EngineError, Explanation, Generation, NodeView, PlaceRequest,
    PreemptOptions, PreemptRequest, TieBreak,
};
use berth_proto::core_v1;

use super::feed::Feed;
use super::model::{name, node_name, uid};
use crate::naive::attempt::{Attempt, attempt};
use crate::naive::cluster::NaiveCluster;
use crate::naive::post_filter::post_filter;
use crate::naive::requests::Units;
use crate::naive::{names, pod, quantity, requests};
use crate::reference::outcome::{self, Expected, Got};
use crate::reference::verdict::check_explanation;

impl Feed {
    pub(crate) fn check(&self) {
        self.check_lists();
        let (rebuilt, naive) = (self.rebuilt(), self.model.naive());
        for probe in self.probes() {
            let explain = |cluster: &Cluster| {
                let pod = cluster.compile_pod(&probe).unwrap();
                let tie_break = TieBreak::Seeded(9);
                let request =
                    PlaceRequest { pod: &pod, policy: &self.policy, tie_break, now: None };
                let placed = cluster.place(&request).map(|decision| decision.outcome);
                let explained = cluster.explain(&request);
                assert_eq!(
                    placed.as_ref().ok(),
                    explained.as_ref().ok().map(|e| &e.decision.outcome)
                );
                explained.map(without_generation)
            };
            let explained = explain(&self.cluster);
            let attempt = attempt(&naive, self.policy.spec(), &probe);
            check_explanation(&attempt, &explained);
            assert_eq!(self.comparable(explained), self.comparable(explain(&rebuilt)));
            self.check_preemption(&probe, &attempt, &naive, &rebuilt);
        }
    }

    fn check_preemption(
        &self,
        probe: &core_v1::Pod,
        attempt: &Attempt,
        naive: &NaiveCluster,
        rebuilt: &Cluster,
    ) {
        let preempt = |cluster: &Cluster, sample: Option<u64>| {
            let (pod, policy) = (cluster.compile_pod(probe).unwrap(), &self.policy);
            let options = PreemptOptions { sample, ..PreemptOptions::default() };
            let tie_break = TieBreak::Seeded(9);
            let request = PreemptRequest {
                pod: &pod,
                policy,
                tie_break,
                options,
                cancelled: &|| false,
                now: None,
            };
            let preemption = cluster.preempt(&request);
            Got { preemption, list: cluster.list_candidates(&request) }
        };
        let got = preempt(&self.cluster, None);
        let post_filter = post_filter(naive, self.policy.spec(), probe, attempt);
        let post_filter = post_filter.as_ref();
        let expected = Expected { cluster: naive, pod: probe, attempt, post_filter };
        outcome::check(&expected, TieBreak::Seeded(9), &got);
        assert_eq!(got.list.map(timeless), preempt(rebuilt, None).list.map(timeless));
        let sampled = |cluster| preempt(cluster, Some(7)).preemption.map(|it| it.post_filter);
        assert_eq!(sampled(&self.cluster), sampled(rebuilt));
    }

    /// Drops the remedies if volumes are reserved: in the rebuilt cluster a reservation outlives the pod that a remedy
    /// removes.
    fn comparable(
        &self,
        explained: Result<Explanation, EngineError>,
    ) -> Result<Explanation, EngineError> {
        explained.map(|mut explanation| {
            if self.model.has_reservations() {
                explanation.remedies.clear();
            }
            explanation
        })
    }

    /// Returns a pod of every template, some with a host port that may be in use, and up to three nominated pods.
    fn probes(&self) -> Vec<core_v1::Pod> {
        let of = |template: &core_v1::Pod, port: i32| {
            let mut probe = template.clone();
            let metadata = probe.metadata.get_or_insert_default();
            (metadata.name, metadata.uid) = ("probe".to_owned(), "probe".to_owned());
            let host_port = core_v1::ContainerPort { host_port: port, ..Default::default() };
            probe.spec.get_or_insert_default().containers[0].ports.push(host_port);
            probe
        };
        let probes = self.templates.iter().enumerate();
        let probes = probes.map(|(i, template)| of(template, [0, 1000, 1003, 1006][i % 4]));
        probes.chain(self.model.nominations.iter().map(|(_, pod)| pod.clone()).take(3)).collect()
    }

    /// Returns a new cluster with the same objects.
    fn rebuilt(&self) -> Cluster {
        let cluster = Cluster::new();
        let compiled = |pod: &core_v1::Pod| {
            let mut pod = pod.clone();
            let promised = self.model.nominations.node_of(pod::namespace(&pod), name(&pod));
            let status = pod.status.get_or_insert_default();
            status.nominated_node_name = promised.unwrap_or_default().to_owned();
            Delta::UpsertPod(cluster.compile_pod(&pod).unwrap())
        };
        let pods = self.model.pods.values().map(|known| compiled(&known.pod));
        let nodes = self
            .model
            .nodes
            .values()
            .map(|node| Delta::UpsertNode(cluster.compile_node(node).unwrap()));
        let effective = self.model.effective_objects();
        let objects = effective
            .iter()
            .map(|object| Delta::UpsertObject(cluster.compile_object(object.wire()).unwrap()));
        let applied = cluster.apply(pods.chain(nodes).chain(objects).collect());
        assert_eq!(applied.rejected, []);
        cluster
    }

    fn check_lists(&self) {
        let snapshot = self.cluster.snapshot();
        let model = &self.model;
        let nodes = snapshot.nodes();
        assert_eq!(
            nodes,
            model.nodes.values().map(|node| self.expected_node(node)).collect::<Vec<_>>()
        );
        let pods: Vec<_> = snapshot
            .pods()
            .iter()
            .map(|view| {
                (
                    view.pod.key().to_string(),
                    view.pod.uid().to_owned(),
                    view.node.to_string(),
                    view.assumed,
                )
            })
            .collect();
        let mut expected: Vec<_> = model
            .placed()
            .map(|known| {
                let key = format!("{}/{}", pod::namespace(&known.pod), name(&known.pod));
                let uid = uid(&known.pod).to_owned();
                (key, uid, node_name(&known.pod).to_owned(), known.is_assumed)
            })
            .collect();
        expected.sort_by_key(|(key, ..)| {
            key.split_once('/').map(|(a, b)| (a.to_owned(), b.to_owned()))
        });
        assert_eq!(pods, expected);
        assert_eq!(snapshot.n_nodes(), nodes.len());
        assert_eq!(snapshot.n_pods(), pods.len());
        assert_eq!(snapshot.n_pending(), model.n_pending());
        assert_eq!(snapshot.n_orphaned(), model.pods.len() - model.n_pending() - pods.len());
        assert_eq!(
            snapshot.n_assumed(),
            model.pods.values().filter(|known| known.is_assumed).count()
        );
        assert_eq!(snapshot.n_contradictions(), model.n_contradictions);
    }

    fn expected_node(&self, node: &core_v1::Node) -> NodeView {
        let (metadata, spec) = (node.metadata.clone().unwrap(), node.spec.clone().unwrap());
        let here = || self.model.placed().filter(|known| node_name(&known.pod) == metadata.name);
        let mut requested = Units::new();
        for known in here() {
            for (resource, amount) in requests::on_node(&known.pod) {
                *requested.entry(resource).or_default() += amount;
            }
        }
        let amounts = node.status.as_ref().unwrap().allocatable.iter();
        let mut allocatable: Units = amounts
            .map(|(name, quantity)| {
                (name.clone(), quantity::units(name, quantity::nanos(quantity)))
            })
            .collect();
        let allowed_pods = allocatable.get("pods").copied().unwrap_or(0);
        allocatable.retain(|name, _| names::is_tracked(name));
        let taint = |taint: &core_v1::Taint| match taint.value.as_str() {
            "" => format!("{}:{}", taint.key, taint.effect),
            value => format!("{}={value}:{}", taint.key, taint.effect),
        };
        NodeView {
            name: metadata.name.as_str().into(),
            unschedulable: spec.unschedulable,
            labels: metadata
                .labels
                .iter()
                .map(|(k, v)| (k.as_str().into(), v.as_str().into()))
                .collect(),
            taints: spec.taints.iter().map(taint).collect(),
            allocatable: listed(&allocatable),
            requested: listed(&requested),
            n_pods: u32::try_from(here().count()).unwrap(),
            allowed_pods,
        }
    }
}

/// Lists native resources first, then scalar ones by name, without zeros.
fn listed(units: &Units) -> Vec<(Arc<str>, i64)> {
    let native = ["cpu", "memory", "ephemeral-storage"];
    let scalars = units.keys().map(String::as_str).filter(|name| !native.contains(name));
    let all = native.into_iter().chain(scalars);
    all.filter_map(|name| Some((name.into(), *units.get(name).filter(|amount| **amount != 0)?)))
        .collect()
}

fn without_generation(mut explanation: Explanation) -> Explanation {
    explanation.decision.generation = Default::default();
    explanation
}

/// Clears fields that depend on the history of the cluster: the generation, and the order of nominations.
fn timeless(mut list: CandidateList) -> CandidateList {
    list.preemption.decision.generation = Generation::default();
    if let Some(post_filter) = &mut list.preemption.post_filter {
        post_filter.cleared_nominations.sort();
    }
    list
}
