//! A feed of random events, which are applied to both the cluster and the model.

use berth_engine::{
    Cluster, ClusterState, Delta, EngineError, Nomination, ObjectKey, ObjectKind, Outcome,
    PlaceRequest, Plugin, Pod, PodKey, Policy, PolicySpec, PostFilter, PostFilterCode, TieBreak,
};
use berth_proto::{Time, core_v1};

use super::event::{Event, N_NODES, N_PODS, Uid, Version};
use super::model::{KnownPod, Model, name, node_name};
use crate::naive::objects::{AnyObject, Key};
use crate::naive::volume_binding::Bindings;
use crate::random::Json;
use crate::random::node::named;

/// A cluster, the model of its expected state, and the collected deltas for both.
pub(crate) struct Feed {
    pub(super) cluster: Cluster,
    pub(super) model: Model,
    pub(super) templates: Vec<core_v1::Pod>,
    pub(super) policy: Policy,
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
                let mut object = named(object.0, &format!("node-{node}"));
                let metadata = object.metadata.get_or_insert_default();
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
            Event::UpsertPod { pod, template, node, nominated, version, is_new } => {
                self.incarnations[pod] += usize::from(is_new);
                let name = |node: Option<usize>| node.map(|node| format!("node-{node}"));
                let mut object = self.pod(pod, template, &name(node).unwrap_or_default(), version);
                let status = object.status.get_or_insert_default();
                status.nominated_node_name = name(nominated).unwrap_or_default();
                self.upsert_pod(object);
            }
            Event::RepeatPod { pod } => self.repeat_pod(pod),
            Event::ResizePod { pod, template, version } => self.resize_pod(pod, template, version),
            Event::NamelessPod { pod, template, node } => {
                let mut object = self.pod(pod, template, &format!("node-{node}"), Version::Newer);
                object.metadata.get_or_insert_default().uid.clear();
                self.upsert_pod(object);
            }
            Event::EndPod { pod, phase, of_other_uid } => self.end_pod(pod, phase, of_other_uid),
            Event::DeletePod { pod, uid } => self.delete_pod(pod, uid),
            Event::Assume { pod, template } => self.assume(pod, template),
            Event::Confirm { pod, elsewhere } => self.confirm(pod, elsewhere),
            Event::Promise { pod, template, node } => self.promise(pod, template, node),
            Event::TerminatePod { pod, leaving } => {
                let Some(known) = self.known(pod).filter(|known| !known.is_assumed) else { return };
                let object = leaving.applied_to(known.pod.clone());
                self.upsert_newer(pod, object);
            }
            Event::UpsertObject { mut object, version } => {
                object.metadata_mut().resource_version = self.next_version(1, version);
                self.upsert_object(object);
            }
            Event::RepeatObject { object } => {
                let Some(mut object) = self.known_object(object).cloned() else {
                    return;
                };
                object.metadata_mut().resource_version = self.next_version(1, Version::Newer);
                self.upsert_object(object);
            }
            Event::DeleteObject { object } => {
                let Some(key) = self.known_object(object).map(AnyObject::key) else {
                    return;
                };
                self.deltas.push(Delta::DeleteObject(object_key(&key)));
                self.model.delete_object(&key);
            }
            Event::Replace { nodes, pods, moves, relabels, objects } => {
                self.replace(nodes, pods, [moves, relabels], objects);
            }
        }
    }

    fn repeat_pod(&mut self, pod: usize) {
        let Some(known) = self.known(pod).filter(|known| !known.is_assumed) else { return };
        let object = known.pod.clone();
        self.upsert_newer(pod, object);
    }

    fn resize_pod(&mut self, pod: usize, template: usize, version: Version) {
        let Some(known) = self.known(pod) else { return };
        let node = node_name(&known.pod).to_owned();
        let object = self.pod(pod, template, &node, version);
        self.upsert_pod(object);
    }

    fn end_pod(&mut self, pod: usize, phase: &str, of_other_uid: bool) {
        let Some(mut object) = self.known(pod).map(|known| known.pod.clone()) else { return };
        object.status.get_or_insert_default().phase = phase.to_owned();
        if of_other_uid {
            object.metadata.get_or_insert_default().uid.push_str("-other");
        }
        self.upsert_pod(object);
    }

    /// Sends the assumed pod as bound, to the assumed node or to another.
    fn confirm(&mut self, pod: usize, elsewhere: Option<usize>) {
        let Some(known) = self.known(pod).filter(|known| known.is_assumed) else { return };
        let mut object = known.pod.clone();
        if let Some(node) = elsewhere {
            object.spec.get_or_insert_default().node_name = format!("node-{node}");
        }
        self.upsert_newer(pod, object);
    }

    fn upsert_newer(&mut self, pod: usize, mut object: core_v1::Pod) {
        let version = self.next_version(pod, Version::Newer);
        object.metadata.get_or_insert_default().resource_version = version;
        self.upsert_pod(object);
    }

    fn upsert_object(&mut self, object: AnyObject) {
        let compiled = self.cluster.compile_object(object.wire()).unwrap();
        self.deltas.push(Delta::UpsertObject(compiled));
        self.model.upsert_object(object);
    }

    fn known_object(&self, number: usize) -> Option<&AnyObject> {
        let n_objects = self.model.objects.iter().count();
        self.model.objects.iter().nth(number.checked_rem(n_objects)?)
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
            key: PodKey::new(namespace_of(pod), &name),
            uid: uid.map(Into::into),
        });
    }

    /// Assumes a pod, after the collected deltas are applied.
    fn assume(&mut self, pod: usize, template: usize) {
        self.flush();
        let object = self.pod(pod, template, "", Version::Newer);
        let compiled = self.compile(&object);
        let known = self.known(pod).filter(|known| !node_name(&known.pod).is_empty()).cloned();
        let request = PlaceRequest {
            pod: &compiled,
            policy: &self.policy,
            tie_break: TieBreak::Seeded(5),
            now: None,
        };
        match (self.cluster.assume(&request), known) {
            (Ok(decision), None) => {
                if let Outcome::Placed(placement) = decision.outcome {
                    let bindings = Bindings::from(&placement.volumes);
                    self.model.assume(object, &placement.node, bindings);
                }
            }
            // Nothing was placed, so the result does not say that the pod is already on a node.
            (Ok(decision), Some(_)) => {
                assert!(!matches!(decision.outcome, Outcome::Placed(_)), "{decision:?}")
            }
            (Err(error), known) => {
                let node = known.map(|known| node_name(&known.pod).to_owned());
                let is_placed = matches!(&error, EngineError::AlreadyPlaced { node: at, .. }
                    if Some(&**at) == node.as_deref());
                let is_attempt = matches!(error, EngineError::SchedulerError { .. });
                assert!(is_placed || is_attempt, "{error}");
            }
        }
    }

    /// Applies the nomination of a possible outcome, after the collected deltas are applied.
    fn promise(&mut self, pod: usize, template: usize, node: Option<usize>) {
        self.flush();
        let object = self.pod(pod, template, "", Version::Newer);
        let compiled = self.compile(&object);
        let node = node.map(|node| format!("node-{node}"));
        let nomination =
            node.as_deref().map_or(Nomination::Cleared, |n| Nomination::Node(n.into()));
        let post_filter = PostFilter {
            code: PostFilterCode::Success,
            message: String::new(),
            nomination,
            chosen: None,
            n_candidates: 0,
            n_best: 0,
            cleared_nominations: Vec::new(),
            given_up: Default::default(),
        };
        let before = self.cluster.snapshot().generation();
        let placed = self.known(pod).map(|known| node_name(&known.pod).to_owned());
        let placed = placed.filter(|node| !node.is_empty());
        match (self.cluster.nominate(&compiled, &post_filter), placed) {
            (Ok(generation), None) => {
                assert_eq!(generation.get(), before.get() + 1);
                self.model.promise(&object, node.as_deref());
            }
            (Err(EngineError::AlreadyPlaced { node: at, .. }), Some(node)) => {
                assert_eq!(*at, *node);
            }
            (answer, placed) => panic!("{answer:?}, where the pod is on {placed:?}"),
        }
    }

    fn replace(&mut self, nodes: u64, pods: u64, [moves, relabels]: [u64; 2], objects: u64) {
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
        let compiled = |known: &KnownPod| {
            let mut pod = known.pod.clone();
            if has(moves, name(&pod)) {
                let elsewhere = format!("node-{}", number(name(&pod)) % N_NODES);
                let node = if known.is_assumed { String::new() } else { elsewhere };
                pod.spec.get_or_insert_default().node_name = node;
            }
            if has(relabels, name(&pod)) {
                let labels = &mut pod.metadata.get_or_insert_default().labels;
                labels.insert("listed".to_owned(), self.version.to_string());
            }
            pod
        };
        let listed = self.model.pods.values().filter(|known| has(pods, name(&known.pod)));
        let pods: Vec<_> = listed.map(compiled).collect();
        let objects: Vec<_> = self
            .model
            .objects
            .iter()
            .enumerate()
            .filter(|(i, _)| objects >> (i % 64) & 1 == 1)
            .map(|(_, object)| object.clone())
            .collect();
        let state = ClusterState {
            nodes: nodes.iter().map(|node| self.cluster.compile_node(node).unwrap()).collect(),
            objects: objects
                .iter()
                .map(|object| self.cluster.compile_object(object.wire()).unwrap())
                .collect(),
            pods: pods.iter().map(|pod| self.compile(pod)).collect(),
        };
        let before = self.cluster.snapshot().generation();
        let applied = self.cluster.replace(state);
        assert_eq!(applied.rejected, []);
        assert_eq!(applied.generation.get(), before.get() + 1);
        self.model.replace(nodes, objects, pods);
    }

    /// Applies the collected deltas as one batch, which is one generation; exactly the expected ones are refused.
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

    /// Builds a pod. Every third pod has its own host port. No two pods started at the same time, so the order in which
    /// a node got its pods does not matter.
    fn pod(&mut self, pod: usize, template: usize, node: &str, version: Version) -> core_v1::Pod {
        let mut object = self.templates[template % self.templates.len()].clone();
        let version = self.next_version(pod, version);
        let metadata = object.metadata.get_or_insert_default();
        metadata.name = format!("pod-{pod}");
        metadata.namespace = namespace_of(pod).to_owned();
        metadata.uid = self.uid(pod);
        metadata.resource_version = version;
        let started = i64::try_from(pod).unwrap();
        object.status.get_or_insert_default().start_time = Some(Time::from_unix_seconds(started));
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
            Version::Late => (self.version - 40).to_string(),
            Version::Older => (self.version - 1000).to_string(),
        }
    }

    fn compile(&self, pod: &core_v1::Pod) -> Pod {
        self.cluster.compile_pod(pod).unwrap()
    }
}

/// Returns the namespace of a pod by its number.
fn namespace_of(pod: usize) -> &'static str {
    ["default", "default", "team-a", "ghost"][pod % 4]
}

fn object_key(key: &Key) -> ObjectKey {
    ObjectKey::new(ObjectKind::from_name(key.0).unwrap(), &key.1, &key.2)
}
