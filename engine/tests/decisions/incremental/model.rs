//! The expected state of a cluster after any deltas: maps of wire objects, changed in the simplest way.
//! Rules: S-Q-1, S-CCH-1 to S-CCH-7, S-NOM-4, S-NOMC-1, and the contract of `Delta`.

use std::collections::BTreeMap;

use berth_proto::{core_v1, meta_v1};

use crate::naive::cluster::NaiveCluster;
use crate::naive::nominations::Nominations;
use crate::naive::objects::{AnyObject, Key, Objects};
use crate::naive::pod;
use crate::naive::reservations::Reservations;
use crate::naive::volume_binding::Bindings;

/// The expected state. Names of pods are unique across namespaces here.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) nodes: BTreeMap<String, core_v1::Node>,
    pub(crate) pods: BTreeMap<String, KnownPod>,
    /// Objects as the feed sent them.
    pub(crate) objects: Objects,
    reservations: Reservations,
    pub(crate) nominations: Nominations,
    pub(crate) n_contradictions: u64,
}

/// A pod as last received.
#[derive(Clone, Debug)]
pub(crate) struct KnownPod {
    pub(crate) pod: core_v1::Pod,
    pub(crate) is_assumed: bool,
}

/// The field of a refused object.
pub(crate) type Refused = &'static str;

impl Model {
    pub(crate) fn upsert_node(&mut self, node: core_v1::Node) {
        let name = node.metadata.as_ref().expect("nodes have metadata").name.clone();
        let known = self.nodes.get(&name);
        if !known.is_some_and(|known| is_older(&node.metadata, &known.metadata)) {
            self.nodes.insert(name, node);
        }
    }

    /// Applies an event about a pod, which may be late, early, repeated or wrong.
    pub(crate) fn upsert_pod(&mut self, pod: core_v1::Pod) -> Result<(), Refused> {
        let is_terminal =
            pod.status.as_ref().is_some_and(|s| s.phase == "Succeeded" || s.phase == "Failed");
        if is_terminal {
            // The event is handled as a deletion of this pod (S-Q-1).
            self.delete_pod(name(&pod), Some(uid(&pod)));
            return Ok(());
        }
        if uid(&pod).is_empty() && !node_name(&pod).is_empty() {
            return Err("metadata.uid");
        }
        if let Some(known) = self.pods.get(name(&pod)) {
            let is_same_pod = uid(&known.pod) == uid(&pod);
            let is_unbound_again = node_name(&pod).is_empty() && !node_name(&known.pod).is_empty();
            // A pod never loses its node, so an event without one was sent before the pod was bound.
            if is_older(&pod.metadata, &known.pod.metadata) || (is_same_pod && is_unbound_again) {
                return Ok(());
            }
            let is_bound = !known.is_assumed && !node_name(&known.pod).is_empty();
            if is_same_pod && is_bound && node_name(&pod) != node_name(&known.pod) {
                self.n_contradictions += 1;
                return Err("spec.nodeName");
            }
        }
        self.insert(pod);
        Ok(())
    }

    /// Stores a pod. If it is confirmed on its assumed node, its reservations stay; any other change releases them.
    fn insert(&mut self, pod: core_v1::Pod) {
        self.update_nomination(&pod);
        let is_confirmed = self.pods.get(name(&pod)).is_some_and(|known| {
            (uid(&known.pod), node_name(&known.pod)) == (uid(&pod), node_name(&pod))
        });
        if !is_confirmed {
            self.reservations.release(pod::namespace(&pod), name(&pod));
        }
        self.pods.insert(name(&pod).to_owned(), KnownPod { pod, is_assumed: false });
    }

    /// Updates the nomination of a pod. One in memory stays if the feed has none before and after, or repeats the pod
    /// unchanged.
    fn update_nomination(&mut self, pod: &core_v1::Pod) {
        let known = self.pods.get(name(pod)).filter(|known| uid(&known.pod) == uid(pod));
        if known.is_some_and(|known| is_repeated(&known.pod, pod)) {
            return;
        }
        let tells_none = |pod: &core_v1::Pod| pod::nominated_node(pod).is_none();
        let kept = known.filter(|known| tells_none(&known.pod) && tells_none(pod)).and_then(|_| {
            self.nominations.node_of(pod::namespace(pod), name(pod)).map(str::to_owned)
        });
        self.nominations.remove(pod::namespace(pod), name(pod));
        let nominated = pod::nominated_node(pod).map(str::to_owned);
        if let Some(node) = nominated.or(kept).filter(|_| node_name(pod).is_empty()) {
            self.nominations.add(pod, &node);
        }
    }

    /// Nominates a pod, which may be new, to a node, or clears its nomination.
    pub(crate) fn promise(&mut self, pod: &core_v1::Pod, node: Option<&str>) {
        let Some(node) = node else {
            self.nominations.remove(pod::namespace(pod), name(pod));
            if let Some(known) = self.pods.get_mut(name(pod)) {
                known.pod.status.get_or_insert_default().nominated_node_name.clear();
            }
            return;
        };
        let waiting = KnownPod { pod: pod.clone(), is_assumed: false };
        let known = self.pods.entry(name(pod).to_owned()).or_insert(waiting);
        self.nominations.add(&known.pod, node);
    }

    pub(crate) fn upsert_object(&mut self, object: AnyObject) {
        let known = self.objects.iter().find(|known| known.key() == object.key());
        let version = |object: &AnyObject| Some(object.metadata().clone());
        if !known.is_some_and(|known| is_older(&version(&object), &version(known))) {
            self.objects.upsert(object);
        }
    }

    pub(crate) fn delete_object(&mut self, key: &Key) {
        self.objects.delete(key);
    }

    pub(crate) fn delete_pod(&mut self, name: &str, of_uid: Option<&str>) {
        let is_meant = |known: &KnownPod| {
            of_uid.is_none_or(|of_uid| of_uid.is_empty() || of_uid == uid(&known.pod))
        };
        if self.pods.get(name).is_some_and(is_meant)
            && let Some(gone) = self.pods.remove(name)
        {
            self.reservations.release(pod::namespace(&gone.pod), name);
            self.nominations.remove(pod::namespace(&gone.pod), name);
        }
    }

    pub(crate) fn assume(&mut self, mut pod: core_v1::Pod, node: &str, bindings: Bindings) {
        pod.spec.get_or_insert_default().node_name = node.to_owned();
        self.nominations.remove(pod::namespace(&pod), pod::name(&pod));
        self.reservations.reserve((pod::namespace(&pod), pod::name(&pod)), node, bindings);
        self.pods.insert(name(&pod).to_owned(), KnownPod { pod, is_assumed: true });
    }

    /// Replaces the known state by these objects; an assumed pod stays unless it is listed as bound.
    pub(crate) fn replace(
        &mut self,
        nodes: Vec<core_v1::Node>,
        objects: Vec<AnyObject>,
        pods: Vec<core_v1::Pod>,
    ) {
        self.nodes.clear();
        nodes.into_iter().for_each(|node| self.upsert_node(node));
        self.objects = Objects::default();
        objects.into_iter().for_each(|object| self.upsert_object(object));
        self.n_contradictions = 0;
        let is_listed = |name: &String| pods.iter().any(|pod| self::name(pod) == name);
        let gone: Vec<_> = self
            .pods
            .iter()
            .filter(|(name, known)| !known.is_assumed && !is_listed(name))
            .map(|(name, _)| name.clone())
            .collect();
        gone.iter().for_each(|name| self.delete_pod(name, None));
        for pod in pods {
            let is_same_pod =
                self.pods.get(name(&pod)).is_some_and(|known| uid(&known.pod) == uid(&pod));
            let is_assumed = self.pods.get(name(&pod)).is_some_and(|known| known.is_assumed);
            if !(is_same_pod && is_assumed && node_name(&pod).is_empty()) {
                self.insert(pod);
            }
        }
    }

    /// Returns a cluster of the naive scheduler with the same state.
    pub(crate) fn naive(&self) -> NaiveCluster {
        let mut naive = NaiveCluster::default();
        naive.objects = self.effective_objects();
        self.nodes.values().for_each(|node| naive.upsert_node(node));
        for known in self.pods.values().filter(|known| !node_name(&known.pod).is_empty()) {
            naive.add_pod(&known.pod);
        }
        naive.nominations = self.nominations.clone();
        naive.refresh();
        naive
    }

    /// Returns the objects with the reservations of assumed pods applied.
    pub(crate) fn effective_objects(&self) -> Objects {
        self.reservations.applied_to(&self.objects)
    }

    pub(crate) fn has_reservations(&self) -> bool {
        !self.reservations.is_empty()
    }

    /// Returns the pods on existing nodes.
    pub(crate) fn placed(&self) -> impl Iterator<Item = &KnownPod> {
        self.pods.values().filter(|known| self.nodes.contains_key(node_name(&known.pod)))
    }

    pub(crate) fn n_pending(&self) -> usize {
        self.pods.values().filter(|known| node_name(&known.pod).is_empty()).count()
    }
}

pub(crate) fn name(pod: &core_v1::Pod) -> &str {
    pod.metadata.as_ref().map_or("", |metadata| &metadata.name)
}

pub(crate) fn uid(pod: &core_v1::Pod) -> &str {
    pod.metadata.as_ref().map_or("", |metadata| &metadata.uid)
}

pub(crate) fn node_name(pod: &core_v1::Pod) -> &str {
    pod.spec.as_ref().map_or("", |spec| &spec.node_name)
}

/// Whether nothing but the version of a waiting pod changed.
fn is_repeated(known: &core_v1::Pod, pod: &core_v1::Pod) -> bool {
    let without_version = |pod: &core_v1::Pod| {
        let mut pod = pod.clone();
        pod.metadata.get_or_insert_default().resource_version.clear();
        pod
    };
    without_version(known) == without_version(pod)
}

/// Whether only the version of a pending pod changed.
fn is_older(new: &Option<meta_v1::ObjectMeta>, known: &Option<meta_v1::ObjectMeta>) -> bool {
    let version = |metadata: &Option<meta_v1::ObjectMeta>| {
        metadata.as_ref().and_then(|metadata| metadata.resource_version.parse::<u64>().ok())
    };
    version(new).zip(version(known)).is_some_and(|(new, known)| new < known)
}
