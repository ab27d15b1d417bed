//! Records, as changes and attempts: compiled for the cluster that is to make them again.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use berth_engine::{
    Change, Cluster, ClusterState, Delta, FreedPort, ModelError, ObjectKey, ObjectKind, Pod,
    PodKey, Recollection, Reservation, SeenImage,
};
use berth_proto::berth_v1 as wire;
use berth_proto::core_v1;
use berth_proto::meta_v1::ObjectMeta;
use prost::Message;

use super::columns;
use super::record::{Kind, Recalled, RecordedObject, RecordedPod, Reserved};
use crate::service::convert;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    /// It lacks something, or comes where none of its kind is.
    #[error("{0}")]
    Malformed(String),
    /// An object cannot be read.
    #[error("{what}: {source}")]
    Encoding { what: String, source: prost::DecodeError },
    /// An object cannot be compiled.
    #[error("{what}: {source}")]
    Object { what: String, source: ModelError },
}

/// What a segment has written once, as far as it was read: pods without names, and names of nodes. Clones are one.
#[derive(Clone, Default)]
pub(crate) struct Dictionary(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    templates: Vec<Arc<Template>>,
    names: Vec<Arc<str>>,
}

/// A pod without name and uid, and the first one that was compiled from it.
struct Template {
    object: core_v1::Pod,
    compiled: OnceLock<Pod>,
}

/// Maximum number of replicas that one recorded pod stands for.
const MAX_COUNT: u32 = 1 << 20;

impl Dictionary {
    /// Adds the next template.
    ///
    /// # Errors
    /// [`RecordError::Encoding`].
    pub(crate) fn add_template(&self, encoded: &[u8]) -> Result<(), RecordError> {
        let object = decode(encoded, || "a template".to_owned())?;
        let template = Arc::new(Template { object, compiled: OnceLock::new() });
        self.entries().templates.push(template);
        Ok(())
    }

    /// Adds the next name.
    pub(crate) fn add_name(&self, name: &str) {
        self.entries().names.push(name.into());
    }

    /// The name of a number.
    pub(crate) fn name(&self, number: u32) -> Option<Arc<str>> {
        self.entries().names.get(number.checked_sub(1)? as usize).cloned()
    }

    /// A recorded pod with its template, if it has one.
    ///
    /// # Errors
    /// [`RecordError::Malformed`]: there is no such template, or it stands for too many pods.
    pub(crate) fn resolve(&self, recorded: RecordedPod) -> Result<PodSource, RecordError> {
        let failed = |reason: &str| {
            let RecordedPod { namespace, name, .. } = &recorded;
            Err(malformed(&format!("pod `{namespace}/{name}`: {reason}")))
        };
        if recorded.count > MAX_COUNT {
            return failed("it stands for too many");
        }
        let Some(index) = recorded.template.checked_sub(1) else {
            return Ok(PodSource { recorded, template: None });
        };
        match self.entries().templates.get(index as usize) {
            Some(template) => Ok(PodSource { recorded, template: Some(template.clone()) }),
            None => failed("its template is missing"),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A recorded pod, or a run of replicas, with all that it is made of.
pub(crate) struct PodSource {
    recorded: RecordedPod,
    template: Option<Arc<Template>>,
}

impl PodSource {
    /// The pods as they were recorded, one after the other.
    pub(crate) fn pods(&self) -> impl Iterator<Item = RecordedPod> + use<> {
        columns::expand(self.recorded.clone())
    }

    /// The first pod, compiled for a cluster: one cluster for all pods of a segment.
    ///
    /// # Errors
    /// [`RecordError`].
    pub(crate) fn compile(&self, cluster: &Cluster) -> Result<Pod, RecordError> {
        self.compile_one(&self.recorded, cluster)
    }

    /// Adds all pods like [`PodSource::compile`].
    ///
    /// # Errors
    /// [`RecordError`].
    pub(crate) fn compile_all(
        &self,
        cluster: &Cluster,
        pods: &mut Vec<Pod>,
    ) -> Result<(), RecordError> {
        for recorded in self.pods() {
            pods.push(self.compile_one(&recorded, cluster)?);
        }
        Ok(())
    }

    fn compile_one(&self, recorded: &RecordedPod, cluster: &Cluster) -> Result<Pod, RecordError> {
        let RecordedPod { namespace, name, uid, node, is_reported, .. } = recorded;
        let template = self.template.as_ref().filter(|_| node.is_empty());
        let compiled = template.and_then(|template| template.compiled.get());
        if let Some(compiled) = compiled.filter(|compiled| compiled.is_copied_whole()) {
            return Ok(compiled.with_identity(PodKey::new(namespace, name), uid));
        }
        let object = self.object_of(recorded)?;
        let compiled = match is_reported {
            true => cluster.compile_reported_pod(&object),
            false => cluster.compile_pod(&object),
        };
        let compiled = compiled.map_err(|source| RecordError::Object {
            what: format!("pod `{namespace}/{name}`"),
            source,
        })?;
        if let Some(template) = template {
            // Another thread may have been first: either will do.
            drop(template.compiled.set(compiled.clone()));
        }
        Ok(compiled)
    }

    /// The first pod as an object.
    ///
    /// # Errors
    /// [`RecordError::Encoding`].
    pub(crate) fn object(&self) -> Result<core_v1::Pod, RecordError> {
        self.object_of(&self.recorded)
    }

    /// One of the pods as an object.
    ///
    /// # Errors
    /// [`RecordError::Encoding`].
    pub(crate) fn object_of(&self, recorded: &RecordedPod) -> Result<core_v1::Pod, RecordError> {
        let RecordedPod { namespace, name, uid, node, encoded, .. } = recorded;
        let mut pod = match &self.template {
            Some(template) => template.object.clone(),
            None => decode(encoded, || format!("pod `{namespace}/{name}`"))?,
        };
        let metadata = pod.metadata.get_or_insert_default();
        metadata.namespace.clone_from(namespace);
        metadata.name.clone_from(name);
        metadata.uid.clone_from(uid);
        pod.spec.get_or_insert_default().node_name.clone_from(node);
        Ok(pod)
    }
}

/// Makes changes of the records of one segment.
#[derive(Default)]
pub(crate) struct Changes {
    dictionary: Dictionary,
    /// The changes since the last generation.
    changes: Vec<Change>,
    /// The content of a cluster that is being replaced.
    state: Option<Box<ClusterState>>,
}

impl Changes {
    /// Those of a segment with this dictionary.
    pub(crate) fn of(dictionary: Dictionary) -> Changes {
        Changes { dictionary, ..Changes::default() }
    }

    /// The changes that led to the generation which comes now.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Takes a record of a change.
    ///
    /// # Errors
    /// [`RecordError`].
    pub(crate) fn take(&mut self, kind: Kind, cluster: &Cluster) -> Result<(), RecordError> {
        let change = match kind {
            Kind::ReplaceBegin(_) => {
                self.state = Some(Box::default());
                return Ok(());
            }
            Kind::ReplaceEnd(_) => {
                let state = self.state.take();
                Change::Replaced(
                    state.ok_or_else(|| malformed("a cluster ends that has not begun"))?,
                )
            }
            Kind::UpsertNode(encoded) => {
                let node: core_v1::Node = decode(&encoded, || "a node".to_owned())?;
                let node = cluster.compile_node(&node).map_err(|error| object("a node", error))?;
                return self.upsert(Delta::UpsertNode(node));
            }
            Kind::UpsertPod(pod) => {
                let pod = self.dictionary.resolve(pod)?.compile(cluster)?;
                return self.upsert(Delta::UpsertPod(pod));
            }
            Kind::UpsertObject(recorded) => {
                let compiled = compile_object(&recorded, cluster)?;
                return self.upsert(Delta::UpsertObject(compiled));
            }
            Kind::DeleteNode(name) => Change::Delta(Delta::DeleteNode(name.into())),
            Kind::DeletePod(pod) => {
                let uid = (!pod.uid.is_empty()).then(|| pod.uid.as_str().into());
                Change::Delta(Delta::DeletePod { key: key(&pod), uid })
            }
            Kind::DeleteObject(named) => {
                let kind = object_kind(&named.kind)?;
                let key = ObjectKey::new(kind, &named.namespace, &named.name);
                Change::Delta(Delta::DeleteObject(key))
            }
            Kind::Reserved(reserved) => self.reserved(reserved, cluster)?,
            Kind::NominationCleared(pod) => Change::NominationCleared { pod: key(&pod) },
            Kind::TakenBack(pod) => {
                Change::TakenBack { pod: key(&pod), uid: pod.uid.as_str().into() }
            }
            Kind::Fenced(fenced) => {
                Change::Fenced { node: fenced.node.into(), is_fenced: fenced.is_fenced }
            }
            Kind::Recalled(recalled) => Change::Recalled(recollection(recalled)),
            Kind::Start(_)
            | Kind::Published(_)
            | Kind::Attempt(_)
            | Kind::Template(_)
            | Kind::Name(_) => {
                return Err(malformed("the record is no change"));
            }
        };
        self.changes.push(change);
        Ok(())
    }

    /// Takes an upsert: into the cluster that is being replaced, if one is.
    fn upsert(&mut self, delta: Delta) -> Result<(), RecordError> {
        match (&mut self.state, delta) {
            (None, delta) => self.changes.push(Change::Delta(delta)),
            (Some(state), Delta::UpsertNode(node)) => state.nodes.push(node),
            (Some(state), Delta::UpsertPod(pod)) => state.pods.push(pod),
            (Some(state), Delta::UpsertObject(object)) => state.objects.push(object),
            (Some(_), _) => return Err(malformed("a cluster is replaced by upserts only")),
        }
        Ok(())
    }

    fn reserved(&self, reserved: Reserved, cluster: &Cluster) -> Result<Change, RecordError> {
        let Reserved { pod, node, is_nomination, volumes, devices } = reserved;
        let pod = pod.ok_or_else(|| malformed("a reservation has no pod"))?;
        let pod = self.dictionary.resolve(pod)?.compile(cluster)?;
        let node = Arc::from(node);
        if is_nomination {
            return Ok(Change::Nominated { pod, node });
        }
        let volumes = convert::stored_volumes(volumes);
        let devices = devices.map(convert::stored_devices).map(Arc::new);
        Ok(Change::Assumed(Box::new(Reservation { pod, node, volumes, devices })))
    }
}

macro_rules! compile_object {
    ($($kind:ident($message:ty) { $($rest:tt)* })+) => {
        /// Compiles an object for a cluster.
        ///
        /// # Errors
        /// [`RecordError`].
        pub(crate) fn compile_object(
            recorded: &RecordedObject,
            cluster: &Cluster,
        ) -> Result<berth_engine::Object, RecordError> {
            let what = recorded.kind.as_str();
            let compiled = match object_kind(what)? {
                $(ObjectKind::$kind => {
                    let object: $message = decode(&recorded.encoded, || what.to_owned())?;
                    cluster.compile_object(&object)
                })+
            };
            compiled.map_err(|error| object(what, error))
        }
    };
}

berth_engine::object_kinds!(compile_object);

/// What every object has.
#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
}

/// The key of an object.
///
/// # Errors
/// [`RecordError`].
pub(crate) fn object_key(recorded: &RecordedObject) -> Result<ObjectKey, RecordError> {
    let kind = object_kind(&recorded.kind)?;
    let named: Named = decode(&recorded.encoded, || recorded.kind.clone())?;
    let ObjectMeta { namespace, name, .. } = named.metadata.unwrap_or_default();
    Ok(ObjectKey::new(kind, &namespace, &name))
}

fn object_kind(name: &str) -> Result<ObjectKind, RecordError> {
    ObjectKind::from_name(name).ok_or_else(|| malformed(&format!("`{name}` is no kind of object")))
}

fn decode<M: Message + Default>(
    encoded: &[u8],
    what: impl Fn() -> String,
) -> Result<M, RecordError> {
    M::decode(encoded).map_err(|source| RecordError::Encoding { what: what(), source })
}

fn object(what: &str, source: ModelError) -> RecordError {
    RecordError::Object { what: what.to_owned(), source }
}

fn malformed(reason: &str) -> RecordError {
    RecordError::Malformed(reason.to_owned())
}

fn key(pod: &wire::PodKey) -> PodKey {
    PodKey::new(&pod.namespace, &pod.name)
}

fn recollection(recalled: Recalled) -> Recollection {
    let Recalled { node, n_contradictions, images, pod_order, freed_ports } = recalled;
    if let Some(n) = n_contradictions {
        return Recollection::Contradictions(n);
    }
    if node.is_empty() {
        let sizes = images.into_iter().map(|image| (image.name.into(), image.size_bytes));
        return Recollection::ImageSizes(sizes.collect());
    }
    let node = Arc::from(node);
    if !pod_order.is_empty() {
        return Recollection::PodOrder { node, pods: pod_order.iter().map(key).collect() };
    }
    if !freed_ports.is_empty() {
        let ports = freed_ports.into_iter().map(|freed| FreedPort {
            protocol: freed.protocol.into(),
            ip: freed.ip.into(),
            port: freed.port,
        });
        return Recollection::FreedPorts { node, ports: ports.collect() };
    }
    let images = images.into_iter().map(|image| SeenImage {
        name: image.name.into(),
        size_bytes: image.size_bytes,
        n_nodes: image.n_nodes,
    });
    Recollection::Images { node, images: images.collect() }
}
