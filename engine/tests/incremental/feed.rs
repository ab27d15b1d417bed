//! A feed told of random events, and what the cluster must be after each batch.

use std::sync::Arc;

use berth_engine::{
    Cluster, Delta, Explanation, NodeView, Outcome, PlaceRequest, Plugin, Pod, PodKey, Policy,
    PolicySpec, TieBreak,
};
use berth_proto::{core_v1, meta_v1};

use super::event::{Event, N_NODES, N_PODS, Uid, Version};
use super::model::{KnownPod, Model, name, node_name, uid};
use super::naive::requests::Units;
use super::naive::{names, quantity, requests};
use super::random::Json;

/// A cluster, the model of what it must be, and the deltas on their way to both.
pub(crate) struct Feed {
    cluster: Cluster,
    model: Model,
    templates: Vec<core_v1::Pod>,
    policy: Policy,
    deltas: Vec<Delta>,
    /// Index and field of every delta that must be refused.
    refused: Vec<(usize, &'static str)>,
    version: u64,
    incarnations: [usize; N_PODS],
}

impl Feed {
    pub(crate) fn new(templates: Vec<Json<core_v1::Pod>>) -> Feed {
        let mut spec = PolicySpec::default();
        spec.score.retain(|(plugin, _)| *plugin != Plugin::ImageLocality);
        Feed {
            cluster: Cluster::new(),
            model: Model::default(),
            templates: templates.into_iter().map(|template| template.0).collect(),
            policy: Policy::new(spec).unwrap(),
            deltas: Vec::new(),
            refused: Vec::new(),
            version: 1000,
            incarnations: [0; N_PODS],
        }
    }

    pub(crate) fn take(&mut self, event: Event) {
        match event {
            Event::UpsertNode { node, object, version } => {
                let mut object = object.0;
                let metadata = object.metadata.get_or_insert_default();
                metadata.name = format!("node-{node}");
                metadata.resource_version = self.next_version(node, version);
                self.upsert_node(object);
            }
            Event::RepeatNode { node } => {
                let Some(known) = self.model.nodes.get(&format!("node-{node}")) else {
                    return;
                };
                self.upsert_node(known.clone());
            }
            Event::DeleteNode { node } => {
                let name = format!("node-{node}");
                self.model.nodes.remove(&name);
                self.deltas.push(Delta::DeleteNode(name.into()));
            }
            Event::UpsertPod { pod, template, node, version, is_new } => {
                self.incarnations[pod] += usize::from(is_new);
                let node = node.map(|node| format!("node-{node}")).unwrap_or_default();
                let object = self.pod(pod, template, &node, version);
                self.upsert_pod(object);
            }
            Event::RepeatPod { pod } => {
                let Some(known) = self.known(pod).filter(|known| !known.is_assumed) else {
                    return;
                };
                let mut object = known.pod.clone();
                object.metadata.get_or_insert_default().resource_version =
                    self.next_version(pod, Version::Newer);
                self.upsert_pod(object);
            }
            Event::ResizePod { pod, template, version } => {
                let Some(node) = self.known(pod).map(|known| node_name(&known.pod).to_owned())
                else {
                    return;
                };
                let object = self.pod(pod, template, &node, version);
                self.upsert_pod(object);
            }
            Event::NamelessPod { pod, template, node } => {
                let mut object = self.pod(pod, template, &format!("node-{node}"), Version::Newer);
                object.metadata.get_or_insert_default().uid.clear();
                self.upsert_pod(object);
            }
            Event::EndPod { pod, phase, of_other_uid } => {
                let Some(mut object) = self.known(pod).map(|known| known.pod.clone()) else {
                    return;
                };
                object.status.get_or_insert_default().phase = phase.to_owned();
                if of_other_uid {
                    object.metadata.get_or_insert_default().uid.push_str("-other");
                }
                self.upsert_pod(object);
            }
            Event::DeletePod { pod, uid } => self.delete_pod(pod, uid),
            Event::Assume { pod, template } => self.assume(pod, template),
            Event::Confirm { pod, elsewhere } => {
                let Some(known) = self.known(pod).filter(|known| known.is_assumed) else {
                    return;
                };
                let mut object = known.pod.clone();
                object.metadata.get_or_insert_default().resource_version =
                    self.next_version(pod, Version::Newer);
                if let Some(node) = elsewhere {
                    object.spec.get_or_insert_default().node_name = format!("node-{node}");
                }
                self.upsert_pod(object);
            }
            Event::Replace { nodes, pods, moves } => self.replace(nodes, pods, moves),
        }
    }

    fn upsert_node(&mut self, node: core_v1::Node) {
        self.deltas.push(Delta::UpsertNode(self.cluster.compile_node(&node).unwrap()));
        self.model.upsert_node(node);
    }

    fn upsert_pod(&mut self, pod: core_v1::Pod) {
        let compiled = self.compile(&pod);
        if let Err(field) = self.model.upsert_pod(pod) {
            self.refused.push((self.deltas.len(), field));
        }
        self.deltas.push(Delta::UpsertPod(compiled));
    }

    fn delete_pod(&mut self, pod: usize, uid: Uid) {
        let name = format!("pod-{pod}");
        let uid = match uid {
            Uid::Absent => None,
            Uid::Empty => Some(String::new()),
            Uid::Right => Some(self.uid(pod)),
            Uid::Wrong => Some("uid-of-nobody".to_owned()),
        };
        self.model.delete_pod(&name, uid.as_deref());
        self.deltas.push(Delta::DeletePod {
            key: PodKey::new("default", &name),
            uid: uid.map(Into::into),
        });
    }

    /// Places a pod for real; what was collected before comes first.
    fn assume(&mut self, pod: usize, template: usize) {
        self.flush();
        let object = self.pod(pod, template, "", Version::Newer);
        let compiled = self.compile(&object);
        let known = self.known(pod).filter(|known| !node_name(&known.pod).is_empty()).cloned();
        let request =
            PlaceRequest { pod: &compiled, policy: &self.policy, tie_break: TieBreak::Seeded(5) };
        match (self.cluster.assume(&request), known) {
            (Ok(decision), None) => {
                if let Outcome::Placed(placement) = decision.outcome {
                    self.model.assume(object, &placement.node);
                }
            }
            // Nothing was placed, so nothing is said about the pod's being there already.
            (Ok(decision), Some(_)) => {
                assert!(!matches!(decision.outcome, Outcome::Placed(_)), "{decision:?}")
            }
            (Err(error), known) => {
                let node = known.map(|known| node_name(&known.pod).to_owned());
                let is_placed = matches!(&error, berth_engine::EngineError::AlreadyPlaced { node: at, .. }
                    if Some(&**at) == node.as_deref());
                let is_attempt = matches!(error, berth_engine::EngineError::SchedulerError { .. });
                assert!(is_placed || is_attempt, "{error}");
            }
        }
    }

    fn replace(&mut self, nodes: u64, pods: u64, moves: u64) {
        self.flush();
        let number = |name: &str| name.rsplit('-').next().unwrap().parse::<usize>().unwrap();
        let has = |set: u64, name: &str| set >> number(name) & 1 == 1;
        let nodes: Vec<_> = self
            .model
            .nodes
            .iter()
            .filter(|(name, _)| has(nodes, name))
            .map(|(_, node)| node.clone())
            .collect();
        let told = |known: &KnownPod| {
            let mut pod = known.pod.clone();
            if has(moves, name(&pod)) {
                let elsewhere = format!("node-{}", number(name(&pod)) % N_NODES);
                let node = if known.is_assumed { String::new() } else { elsewhere };
                pod.spec.get_or_insert_default().node_name = node;
            }
            pod
        };
        let listed = self.model.pods.values().filter(|known| has(pods, name(&known.pod)));
        let pods: Vec<_> = listed.map(told).collect();
        let compiled_nodes =
            nodes.iter().map(|node| self.cluster.compile_node(node).unwrap()).collect();
        let compiled_pods = pods.iter().map(|pod| self.compile(pod)).collect();
        let before = self.cluster.snapshot().generation();
        let applied = self.cluster.replace(compiled_nodes, compiled_pods);
        assert_eq!(applied.rejected, []);
        assert_eq!(applied.generation.get(), before.get() + 1);
        self.model.replace(nodes, pods);
    }

    /// One batch, one generation; exactly what must be refused is.
    pub(crate) fn flush(&mut self) {
        let before = self.cluster.snapshot().generation();
        let applied = self.cluster.apply(std::mem::take(&mut self.deltas));
        let refused: Vec<_> =
            applied.rejected.iter().map(|r| (r.index, r.error.field.as_str())).collect();
        assert_eq!(refused, std::mem::take(&mut self.refused));
        assert_eq!(applied.generation.get(), before.get() + 1);
        assert_eq!(self.cluster.snapshot().generation(), applied.generation);
    }

    fn known(&self, pod: usize) -> Option<&KnownPod> {
        self.model.pods.get(&format!("pod-{pod}"))
    }

    fn uid(&self, pod: usize) -> String {
        format!("uid-{pod}-{}", self.incarnations[pod])
    }

    /// Every third pod wants a host port of its own.
    fn pod(&mut self, pod: usize, template: usize, node: &str, version: Version) -> core_v1::Pod {
        let mut object = self.templates[template % self.templates.len()].clone();
        object.metadata = Some(meta_v1::ObjectMeta {
            name: format!("pod-{pod}"),
            namespace: "default".to_owned(),
            uid: self.uid(pod),
            resource_version: self.next_version(pod, version),
            ..Default::default()
        });
        let spec = object.spec.get_or_insert_default();
        spec.node_name = node.to_owned();
        if pod.is_multiple_of(3) {
            let host_port = i32::try_from(1000 + pod).unwrap();
            spec.containers[0]
                .ports
                .push(core_v1::ContainerPort { host_port, ..Default::default() });
        }
        object
    }

    fn next_version(&mut self, number: usize, version: Version) -> String {
        self.version += 1;
        match version {
            _ if number.is_multiple_of(5) => String::new(),
            Version::Newer => self.version.to_string(),
            Version::Older => (self.version - 1000).to_string(),
        }
    }

    fn compile(&self, pod: &core_v1::Pod) -> Pod {
        self.cluster.compile_pod(pod).unwrap()
    }

    pub(crate) fn check(&self) {
        self.check_lists();
        let rebuilt = self.rebuilt();
        for probe in self.probes() {
            let explain = |cluster: &Cluster| {
                let pod = cluster.compile_pod(&probe).unwrap();
                let tie_break = TieBreak::Seeded(9);
                let request = PlaceRequest { pod: &pod, policy: &self.policy, tie_break };
                let placed = cluster.place(&request).map(|decision| decision.outcome);
                let explained = cluster.explain(&request);
                assert_eq!(
                    placed.as_ref().ok(),
                    explained.as_ref().ok().map(|e| &e.decision.outcome)
                );
                explained.map(without_generation)
            };
            assert_eq!(explain(&self.cluster), explain(&rebuilt));
        }
    }

    /// Pods of every template, with and without a port that is in use somewhere.
    fn probes(&self) -> Vec<core_v1::Pod> {
        let of = |template: &core_v1::Pod, port: i32| {
            let mut probe = template.clone();
            let metadata = meta_v1::ObjectMeta {
                name: "probe".into(),
                uid: "probe".into(),
                ..Default::default()
            };
            probe.metadata = Some(metadata);
            let host_port = core_v1::ContainerPort { host_port: port, ..Default::default() };
            probe.spec.get_or_insert_default().containers[0].ports.push(host_port);
            probe
        };
        self.templates
            .iter()
            .enumerate()
            .map(|(i, template)| of(template, [0, 1000, 1003, 1006][i % 4]))
            .collect()
    }

    /// The same objects in a cluster that knows nothing else.
    fn rebuilt(&self) -> Cluster {
        let cluster = Cluster::new();
        let pods = self
            .model
            .pods
            .values()
            .map(|known| Delta::UpsertPod(cluster.compile_pod(&known.pod).unwrap()));
        let nodes = self
            .model
            .nodes
            .values()
            .map(|node| Delta::UpsertNode(cluster.compile_node(node).unwrap()));
        assert_eq!(cluster.apply(pods.chain(nodes).collect()).rejected, []);
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
                    view.pod.key().name.to_string(),
                    view.pod.uid().to_owned(),
                    view.node.to_string(),
                    view.assumed,
                )
            })
            .collect();
        let expected: Vec<_> = model
            .placed()
            .map(|known| {
                let (name, uid) = (name(&known.pod).to_owned(), uid(&known.pod).to_owned());
                (name, uid, node_name(&known.pod).to_owned(), known.is_assumed)
            })
            .collect();
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

/// Native resources first, then scalars by name; zeros left out.
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
