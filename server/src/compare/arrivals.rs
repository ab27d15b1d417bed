//! Arrivals: what a journal tells of a cluster whoever decides there. Which pods came and left and when, where they went, and
//! how nodes and other objects changed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher as _};
use std::path::Path;
use std::sync::Arc;

use berth_engine::{ObjectKey, ObjectKind, PodKey};
use berth_proto::core_v1;
use prost::Message as _;
use rustc_hash::FxHashMap;

use super::outcome::Chosen;
use crate::replay::{Ahead, ReplayError, Step};
use crate::service::recorder::decode::{Dictionary, RecordError, object_key};
use crate::service::recorder::record::{Kind, RecordedObject, RecordedPod, Reserved};

/// One thing that happened.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Came(Box<Arrival>),
    /// A pod's labels or its spec are others now.
    Changed(PodKey, Box<Form>),
    /// A pod was put on a node.
    Bound(PodKey, Arc<str>),
    /// A pod has lost its node, and waits for another one.
    Unbound(PodKey),
    /// A pod was deleted, or has ended.
    Left(PodKey),
    /// A node, encoded.
    Node(Vec<u8>),
    NodeGone(Arc<str>),
    Object(RecordedObject),
    ObjectGone(ObjectKey),
    Fenced(Arc<str>, bool),
}

/// A pod that is known from now on.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) key: PodKey,
    pub(super) uid: Arc<str>,
    pub(super) form: Form,
    /// The node on which it was when it was first seen.
    pub(super) node: Option<Arc<str>>,
}

/// What a pod asks for. Pods of one number ask for the same.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) number: u32,
    /// The pod without name, node and status.
    pub(super) pod: Arc<core_v1::Pod>,
}

/// What happened at once.
#[derive(Debug, Default)]
pub(super) struct Moment {
    /// In microseconds since 1970.
    pub(super) at: u64,
    /// Whether the journal begins here: the pods came before.
    pub(super) is_beginning: bool,
    pub(super) events: Vec<Event>,
}

/// A pod as the recorded cluster knows it.
struct Known {
    uid: Arc<str>,
    form: u32,
    node: Option<Arc<str>>,
    is_reported: bool,
}

/// Reads the moments of a journal, one after the other.
pub(super) struct Arrivals {
    ahead: Ahead,
    dictionary: Dictionary,
    run: u64,
    generation: u64,
    /// Whether the changes up to the next generation are known already.
    skips: bool,
    pods: BTreeMap<PodKey, Known>,
    nodes: BTreeSet<Arc<str>>,
    objects: BTreeSet<ObjectKey>,
    /// What was told since everything began to be told again.
    told: Option<Told>,
    forms: FxHashMap<u128, u32>,
    chosen: Chosen,
    moment: Moment,
}

#[derive(Default)]
struct Told {
    pods: BTreeSet<PodKey>,
    nodes: BTreeSet<Arc<str>>,
    objects: BTreeSet<ObjectKey>,
    /// Whether pods that no feed has reported are told, too.
    is_whole: bool,
}

impl Arrivals {
    /// Those of a directory.
    ///
    /// # Errors
    /// [`ReplayError`]: there is no journal.
    pub(super) fn of(directory: &Path) -> Result<Arrivals, ReplayError> {
        Ok(Arrivals {
            ahead: Ahead::open(directory)?,
            dictionary: Dictionary::default(),
            run: 0,
            generation: 0,
            skips: false,
            pods: BTreeMap::new(),
            nodes: BTreeSet::new(),
            objects: BTreeSet::new(),
            told: None,
            forms: FxHashMap::default(),
            chosen: Chosen::default(),
            moment: Moment::default(),
        })
    }

    /// The next moment at which something happened; `None` at the end.
    ///
    /// # Errors
    /// [`ReplayError`]: what cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Moment>, ReplayError> {
        let mut path = std::path::PathBuf::new();
        while let Some(step) = self.ahead.next(|_| {})? {
            match step {
                Step::Segment { path: at, run, start, dictionary } => {
                    path = at;
                    self.dictionary = dictionary;
                    self.begin(run, start.generation);
                }
                Step::Change(_) if self.skips => {}
                Step::Change(kind) => self.take(*kind).map_err(|error| ReplayError::Record {
                    path: path.clone(),
                    reason: error.to_string(),
                })?,
                Step::Published { generation, unix_micros } => {
                    if let Some(moment) = self.publish(generation, unix_micros) {
                        return Ok(Some(moment));
                    }
                }
                Step::Torn(_) => {}
            }
        }
        Ok(None)
    }

    fn begin(&mut self, run: u64, generation: u64) {
        self.skips = self.run == run && self.generation == generation;
        if !self.skips {
            self.moment.is_beginning = self.run == 0;
            self.told = Some(Told { is_whole: true, ..Told::default() });
        }
        self.run = run;
    }

    fn publish(&mut self, generation: u64, unix_micros: u64) -> Option<Moment> {
        self.generation = generation;
        if std::mem::take(&mut self.skips) {
            return None;
        }
        if self.told.as_ref().is_some_and(|told| told.is_whole) {
            self.forget_untold();
        }
        let mut moment = std::mem::take(&mut self.moment);
        moment.at = unix_micros;
        (!moment.events.is_empty()).then_some(moment)
    }

    fn take(&mut self, kind: Kind) -> Result<(), RecordError> {
        match kind {
            Kind::ReplaceBegin(_) => {
                self.told.get_or_insert_default();
            }
            Kind::ReplaceEnd(_) => self.forget_unlisted(),
            Kind::UpsertNode(encoded) => self.take_node(encoded)?,
            Kind::DeleteNode(name) => self.forget_node(name.into()),
            Kind::UpsertPod(pod) => self.take_pod(pod, None)?,
            Kind::DeletePod(pod) => {
                let key = PodKey::new(&pod.namespace, &pod.name);
                self.forget_pod(key, &pod.uid);
            }
            Kind::UpsertObject(object) => {
                let key = object_key(&object)?;
                let object = match self.moment.is_beginning {
                    true => Some(object),
                    false => self.chosen.without(object)?,
                };
                if let Some(told) = &mut self.told {
                    told.objects.insert(key.clone());
                }
                self.objects.insert(key);
                self.moment.events.extend(object.map(Event::Object));
            }
            Kind::DeleteObject(named) => {
                if let Some(kind) = ObjectKind::from_name(&named.kind) {
                    let key = ObjectKey::new(kind, &named.namespace, &named.name);
                    self.objects.remove(&key);
                    self.moment.events.push(Event::ObjectGone(key));
                }
            }
            Kind::Reserved(Reserved { pod: Some(pod), node, is_nomination, .. }) => {
                let node = (!is_nomination).then(|| Arc::from(node));
                self.take_pod(pod, node)?;
            }
            Kind::TakenBack(pod) => {
                self.take_back(PodKey::new(&pod.namespace, &pod.name), &pod.uid)
            }
            Kind::Fenced(fenced) => {
                let event = Event::Fenced(fenced.node.into(), fenced.is_fenced);
                self.moment.events.push(event);
            }
            // What a decision read of the past, and what was nominated, is another matter under another policy.
            _ => {}
        }
        Ok(())
    }

    fn take_node(&mut self, encoded: Vec<u8>) -> Result<(), RecordError> {
        let node = core_v1::Node::decode(&*encoded)
            .map_err(|source| RecordError::Encoding { what: "a node".to_owned(), source })?;
        let name = Arc::<str>::from(node.metadata.unwrap_or_default().name);
        if let Some(told) = &mut self.told {
            told.nodes.insert(name.clone());
        }
        self.nodes.insert(name);
        self.moment.events.push(Event::Node(encoded));
        Ok(())
    }

    /// Takes a pod as it is now, which was put on `node` in memory.
    fn take_pod(
        &mut self,
        recorded: RecordedPod,
        node: Option<Arc<str>>,
    ) -> Result<(), RecordError> {
        let key = PodKey::new(&recorded.namespace, &recorded.name);
        let (uid, is_reported) = (Arc::<str>::from(&*recorded.uid), recorded.is_reported);
        if let Some(told) = &mut self.told {
            told.pods.insert(key.clone());
        }
        let mut pod = self.dictionary.resolve(recorded)?.object()?;
        let phase = pod.status.take().unwrap_or_default().phase;
        if matches!(&*phase, "Succeeded" | "Failed") {
            self.forget_pod(key, &uid);
            return Ok(());
        }
        let bound = std::mem::take(&mut pod.spec.get_or_insert_default().node_name);
        let node = node.or_else(|| (!bound.is_empty()).then(|| Arc::from(bound)));
        let number = self.form(&mut pod);
        if self.pods.get(&key).is_some_and(|known| known.uid != uid) {
            self.forget_pod(key.clone(), "");
        }
        let events = &mut self.moment.events;
        let form = || Form { number, pod: Arc::new(pod) };
        match self.pods.get_mut(&key) {
            Some(known) => {
                known.is_reported |= is_reported;
                if known.form != number {
                    known.form = number;
                    events.push(Event::Changed(key.clone(), Box::new(form())));
                }
                if node.is_some() && known.node != node {
                    known.node.clone_from(&node);
                    events.extend(node.map(|node| Event::Bound(key, node)));
                }
            }
            None => {
                let known =
                    Known { uid: uid.clone(), form: number, node: node.clone(), is_reported };
                self.pods.insert(key.clone(), known);
                let arrival = Arrival { key, uid, form: form(), node };
                events.push(Event::Came(Box::new(arrival)));
            }
        }
        Ok(())
    }

    /// Takes back that a pod was assumed: one that a feed has reported waits again.
    fn take_back(&mut self, key: PodKey, uid: &str) {
        match self.pods.get_mut(&key) {
            Some(known) if known.is_reported => {
                let had = known.node.take();
                self.moment.events.extend(had.map(|_| Event::Unbound(key)));
            }
            Some(_) => self.forget_pod(key, uid),
            None => {}
        }
    }

    /// The number of what a pod asks for; takes away what makes it one of many.
    fn form(&mut self, pod: &mut core_v1::Pod) -> u32 {
        let metadata = pod.metadata.get_or_insert_default();
        metadata.name.clear();
        metadata.uid.clear();
        metadata.resource_version.clear();
        metadata.finalizers.clear();
        metadata.generation = 0;
        (metadata.creation_timestamp, metadata.deletion_timestamp) = (None, None);
        metadata.deletion_grace_period_seconds = None;
        let encoded = pod.encode_to_vec();
        let half = |seed: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(seed);
            hasher.write(&encoded);
            u128::from(hasher.finish())
        };
        // Who makes two of its own pods collide compares its own pods wrongly.
        let digest = half(0) << 64 | half(1);
        let next = u32::try_from(self.forms.len()).unwrap_or(u32::MAX);
        *self.forms.entry(digest).or_insert(next)
    }

    /// Forgets a pod of a uid; empty for any.
    fn forget_pod(&mut self, key: PodKey, uid: &str) {
        let is_it = |known: &Known| uid.is_empty() || *known.uid == *uid;
        if self.pods.get(&key).is_some_and(is_it) {
            self.pods.remove(&key);
            self.moment.events.push(Event::Left(key));
        }
    }

    fn forget_node(&mut self, name: Arc<str>) {
        if self.nodes.remove(&name) {
            self.moment.events.push(Event::NodeGone(name));
        }
    }

    /// Forgets what a list lacks.
    fn forget_unlisted(&mut self) {
        if self.told.as_ref().is_some_and(|told| !told.is_whole) {
            self.forget_untold();
        }
    }

    /// Forgets what was not told again.
    fn forget_untold(&mut self) {
        let Some(told) = self.told.take() else { return };
        let is_gone = |(key, known): &(&PodKey, &Known)| {
            !told.pods.contains(*key) && (told.is_whole || known.is_reported)
        };
        let pods: Vec<PodKey> =
            self.pods.iter().filter(is_gone).map(|(key, _)| key.clone()).collect();
        pods.into_iter().for_each(|key| self.forget_pod(key, ""));
        let nodes: Vec<Arc<str>> = self.nodes.difference(&told.nodes).cloned().collect();
        nodes.into_iter().for_each(|name| self.forget_node(name));
        let objects: Vec<ObjectKey> = self.objects.difference(&told.objects).cloned().collect();
        for key in objects {
            self.objects.remove(&key);
            self.moment.events.push(Event::ObjectGone(key));
        }
    }
}
