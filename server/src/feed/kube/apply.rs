//! Apply: one thread that applies the changes of all watches to the cluster, batch by batch, and then notifies the
//! observer.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::{ClaimChange, Delta, ModelError, ObjectKey, ObjectKind, Pod, Snapshot};
use berth_proto::{core_v1, meta_v1};
use tokio::sync::{Notify, mpsc};

use super::listing::{Gone, Listing, What};
use super::object_change::{Change, ObjectChange, Who};
use super::observer::{NodeChange, Observer};
use super::refusals::Refusals;
use super::resource::Resource;
use super::watches::Watches;
use crate::clock;
use crate::feed::{FeedSink, LONG_BATCH};

/// Maximum number of changes in one generation.
pub(super) const MAX_BATCH: usize = 1_024;

/// Minimum time between two generations that are not full: what comes meanwhile is applied together, since a generation
/// costs more than a change does. A change that comes alone is not delayed.
const GATHERING: Duration = Duration::from_millis(4);

/// Message from a watch. Messages of one kind are in order; kinds overtake each other, as they do at the API server.
pub(super) enum Message {
    /// One object.
    Object {
        object: ObjectChange,
        /// Whether the object is an item of a list, which counts even if it contradicts the known state.
        is_listed: bool,
        /// Whether the server's history began anew: then the known object is replaced, however new its version is.
        is_anew: bool,
    },
    /// A list is complete.
    Listed(Box<Listing>),
    /// Everything of the kind up to this version was sent.
    Reached(Resource, u64),
    /// The server does not have the kind.
    Absent(Resource),
}

pub(super) struct Applier {
    sink: FeedSink,
    watches: Arc<Watches>,
    observer: Option<Arc<dyn Observer>>,
    /// Makes the pods' watch list them again.
    relist_pods: Arc<Notify>,
    refusals: Refusals,
    deltas: Vec<Delta>,
    /// For each delta, the index in `noted` of its origin.
    origins: Vec<usize>,
    noted: Vec<Noted>,
    newest: [Newest; Resource::N],
}

/// The newest versions of what is collected of a kind; 0 for none.
#[derive(Copy, Clone, Debug, Default)]
struct Newest {
    /// The newest of any object, listed or sent as an event.
    any: u64,
    /// The newest of an event. All older changes of the kind were sent before it; a list has its items in another order.
    event: u64,
}

/// Facts about a changed object that are kept until its batch is applied.
struct Noted {
    who: Who,
    change: Change,
    /// A listed pod, which may have to be applied once more.
    listed: Option<Pod>,
    wire: Option<Box<core_v1::Pod>>,
}

impl Applier {
    pub(super) fn new(
        sink: FeedSink,
        watches: Arc<Watches>,
        observer: Option<Arc<dyn Observer>>,
        relist_pods: Arc<Notify>,
    ) -> Applier {
        Applier {
            sink,
            watches,
            observer,
            relist_pods,
            refusals: Refusals::default(),
            deltas: Vec::new(),
            origins: Vec::new(),
            noted: Vec::new(),
            newest: [Newest::default(); Resource::N],
        }
    }

    /// Applies messages until every watch has ended. Blocks.
    pub(super) fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        let mut received = Vec::with_capacity(MAX_BATCH);
        let mut next = clock::now();
        while messages.blocking_recv_many(&mut received, MAX_BATCH) > 0 {
            if received.len() < MAX_BATCH {
                std::thread::sleep(next.saturating_duration_since(clock::now()));
                let more = std::iter::from_fn(|| messages.try_recv().ok());
                received.extend(more.take(MAX_BATCH - received.len()));
            }
            next = clock::now() + GATHERING;
            for message in received.drain(..) {
                match message {
                    Message::Object { object, is_listed, is_anew } => {
                        self.take(object, is_listed, is_anew);
                    }
                    Message::Listed(listing) => {
                        self.flush();
                        self.finish(&listing);
                    }
                    Message::Reached(resource, version) => {
                        self.flush();
                        self.sink.freshness.positions().reach(resource.kind(), version);
                    }
                    Message::Absent(resource) => self.complete(resource, true),
                }
            }
            self.flush();
        }
    }

    fn take(&mut self, object: ObjectChange, is_listed: bool, is_anew: bool) {
        let ObjectChange { change, version, who, delta, pod: wire } = object;
        let (newest, version) = (&mut self.newest[who.resource().index()], version.unwrap_or(0));
        newest.any = newest.any.max(version);
        if !is_listed {
            newest.event = newest.event.max(version);
        }
        let mut listed = None;
        match delta {
            Ok(delta) => {
                self.refusals.forget(&who);
                if is_anew {
                    self.push(forced_deletion(&who));
                }
                if let (true, Delta::UpsertPod(pod)) = (is_listed, &delta) {
                    listed = Some(pod.clone());
                }
                self.push(delta);
            }
            Err(error) => self.refuse(&who, &error),
        }
        self.noted.push(Noted { who, change, listed, wire });
    }

    fn push(&mut self, delta: Delta) {
        self.deltas.push(delta);
        self.origins.push(self.noted.len());
    }

    fn refuse(&mut self, who: &Who, error: &ModelError) {
        self.sink.metrics.count_deltas(0, 1);
        self.sink.metrics.feed().kind(who.resource().kind()).count_refused();
        if let Some(line) = self.refusals.note(who, error, clock::now()) {
            tracing::warn!("{line}");
        }
    }

    /// Applies all collected deltas in one generation.
    fn flush(&mut self) {
        let (deltas, origins) =
            (std::mem::take(&mut self.deltas), std::mem::take(&mut self.origins));
        let noted = std::mem::take(&mut self.noted);
        let newest = std::mem::take(&mut self.newest);
        let newest = || Resource::ALL.into_iter().zip(newest).filter(|(_, newest)| newest.any > 0);
        let freshness = self.sink.freshness.clone();
        let positions = freshness.positions();
        newest().for_each(|(resource, newest)| positions.claim(resource.kind(), newest.any));
        let before = self.observer.is_some().then(|| self.sink.cluster.snapshot());
        if !deltas.is_empty() {
            self.apply(deltas, &origins, &noted);
        }
        let events = newest().filter(|(_, newest)| newest.event > 0);
        events.for_each(|(resource, newest)| positions.reach(resource.kind(), newest.event));
        if let (Some(observer), Some(before)) = (&self.observer, before) {
            let after = self.sink.cluster.snapshot();
            observe(&**observer, &noted, &before, &after);
        }
    }

    fn apply(&mut self, deltas: Vec<Delta>, origins: &[usize], changes: &[Noted]) {
        let n_deltas = deltas.len();
        let sink = self.sink.clone();
        let _busy = (n_deltas >= LONG_BATCH).then(|| sink.long_writes.begin());
        let n_contradictions = sink.cluster.snapshot().n_contradictions();
        let rejected = sink.cluster.apply(deltas).rejected;
        let is_contradicted = sink.cluster.snapshot().n_contradictions() > n_contradictions;
        sink.metrics.count_deltas(n_deltas.saturating_sub(rejected.len()), 0);
        let mut again = Vec::new();
        for rejected in rejected {
            let noted = origins.get(rejected.index).and_then(|&origin| changes.get(origin));
            let Some(Noted { who, listed, .. }) = noted else { continue };
            match listed {
                // A list is right, even about the node of a pod that was bound (S-CCH-6).
                Some(pod) if is_contradicted => {
                    again.extend([forced_deletion(who), Delta::UpsertPod(pod.clone())]);
                }
                _ => {
                    self.refuse(who, &rejected.error);
                    if is_contradicted {
                        self.relist_pods.notify_one();
                    }
                }
            }
        }
        if !again.is_empty() {
            drop(sink.cluster.apply(again));
        }
    }

    /// Finishes a list: removes objects that it did not contain.
    fn finish(&mut self, listing: &Listing) {
        let resource = listing.resource();
        let cluster = self.sink.cluster.clone();
        let before = cluster.snapshot();
        let gone = listing.gone(&cluster);
        let (freshness, kind) = (self.sink.freshness.clone(), resource.kind());
        if listing.is_anew {
            freshness.positions().rewind(kind);
            freshness.positions().claim(kind, listing.version);
        }
        if !gone.is_empty() {
            // Each was deleted at a version up to that of the list.
            freshness.positions().claim(kind, listing.version);
            let sink = self.sink.clone();
            let _busy = (gone.len() >= LONG_BATCH).then(|| sink.long_writes.begin());
            cluster.apply(gone.iter().map(|gone| gone.delta.clone()).collect());
            sink.metrics.count_deltas(gone.len(), 0);
        }
        if resource == Resource::Pods {
            // Every pod was listed anew, and counted.
            cluster.clear_contradictions();
        }
        freshness.positions().reach(kind, listing.version);
        let unreadable = self.refusals.forget_gone(resource, |who| listing.holds(who));
        if let Some(observer) = &self.observer {
            let after = cluster.snapshot();
            gone.iter().for_each(|gone| observe_gone(&**observer, gone, &before, &after));
            let unknown = |who: &&Who| !gone.iter().any(|gone| gone.is(who));
            unreadable.iter().filter(unknown).for_each(|who| observe_unreadable(&**observer, who));
            if resource == Resource::Pods {
                observer.pods_listed(listing.requested, &|key| listing.holds_pod(key));
            }
        }
        self.complete(resource, false);
    }

    fn complete(&self, resource: Resource, is_absent: bool) {
        if self.watches.note_listed(resource, is_absent) {
            self.sink.freshness.note_applied();
            let snapshot = self.sink.cluster.snapshot();
            tracing::info!(
                nodes = snapshot.n_nodes(),
                pods = snapshot.n_pods(),
                pending = snapshot.n_pending(),
                "the API server has listed every kind"
            );
            if let Some(observer) = &self.observer {
                observer.synced();
            }
        }
    }
}

/// Deletion of any object with this name.
fn forced_deletion(who: &Who) -> Delta {
    match who {
        Who::Pod(key, _) => Delta::DeletePod { key: key.clone(), uid: None },
        other => other.deletion(),
    }
}

fn observe(observer: &dyn Observer, noted: &[Noted], before: &Snapshot, after: &Snapshot) {
    // A node or claim with several changes changed once, as far as the two snapshots show.
    let (mut nodes, mut claims) = (HashSet::new(), HashSet::new());
    for Noted { who, change, wire, .. } in noted {
        let is_gone = *change == Change::Deleted;
        match who {
            Who::Node(name) if !nodes.insert(name) => {}
            Who::Node(name) => {
                if let Some(change) = NodeChange::between(before, after, name) {
                    observer.node(name, change);
                }
            }
            Who::Pod(key, uid) => match wire {
                Some(pod) => observer.pod(pod, is_gone),
                None => observer.pod(&named(&key.namespace, &key.name, uid, None), is_gone),
            },
            Who::Object(key) if key.kind != ObjectKind::ResourceClaim => {
                observer.object(key, is_gone);
            }
            Who::Object(key) if !claims.insert(key) => {}
            Who::Object(key) => observe_claim(observer, key, before, after),
        }
    }
}

fn observe_claim(observer: &dyn Observer, key: &ObjectKey, before: &Snapshot, after: &Snapshot) {
    if let Some(change) = ClaimChange::between(before, after, key) {
        observer.claim(key, change);
    }
}

fn observe_gone(observer: &dyn Observer, gone: &Gone, before: &Snapshot, after: &Snapshot) {
    match &gone.what {
        What::Node(name) => observer.node(name, NodeChange::Removed),
        What::Pod(pod) => {
            let key = pod.key();
            observer.pod(&named(&key.namespace, &key.name, pod.uid(), pod.node_name()), true);
        }
        What::Object(key) if key.kind == ObjectKind::ResourceClaim => {
            observe_claim(observer, key, before, after);
        }
        What::Object(key) => observer.object(key, true),
    }
}

/// Notifies the observer of a pod that could never be read.
fn observe_unreadable(observer: &dyn Observer, who: &Who) {
    if let Who::Pod(key, uid) = who {
        observer.pod(&named(&key.namespace, &key.name, uid, None), true);
    }
}

fn named(namespace: &str, name: &str, uid: &str, node: Option<&str>) -> core_v1::Pod {
    let metadata = meta_v1::ObjectMeta {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..meta_v1::ObjectMeta::default()
    };
    let spec = node
        .map(|node| core_v1::PodSpec { node_name: node.to_owned(), ..core_v1::PodSpec::default() });
    core_v1::Pod { metadata: Some(metadata), spec, ..core_v1::Pod::default() }
}

impl Gone {
    fn is(&self, who: &Who) -> bool {
        match (&self.what, who) {
            (What::Node(name), Who::Node(other)) => name == other,
            (What::Pod(pod), Who::Pod(key, uid)) => pod.key() == key && *pod.uid() == **uid,
            (What::Object(key), Who::Object(other)) => key == other,
            _ => false,
        }
    }
}
