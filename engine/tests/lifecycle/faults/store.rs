//! The API server and the ledger as one store. A request is carried out as a whole if everything that its sender read
//! is unchanged; it may arrive late, twice or never.

use std::collections::BTreeMap;

use berth_engine::lifecycle::attachment::{AccessModes, Attachment, BreakEvidence, Operation};
use berth_engine::lifecycle::fence::{
    Fence, FenceEvent, FenceEventType, FenceOutcome, FenceScope, FenceState,
};
use berth_engine::lifecycle::identity::{IdentityLock, LockEvent, LockEventType, LockOutcome};
use berth_proto::core_v1::{Container, Node, Pod, PodSpec, PodStatus, Toleration};
use berth_proto::meta_v1::{ObjectMeta, OwnerReference};

/// The pods of one StatefulSet, and the volumes that each of them needs on any node.
pub(super) const PETS: [(&str, &[&str]); 2] =
    [("pet-0", &["data-0", "log-0"]), ("pet-1", &["data-1"])];
pub(super) const VOLUMES: [(&str, &str); 3] =
    [("data-0", "ReadWriteOnce"), ("log-0", "ReadWriteOncePod"), ("data-1", "ReadWriteOnce")];

pub(super) fn volumes_of(name: &str) -> &'static [&'static str] {
    PETS.iter().find(|pet| pet.0 == name).map_or(&[], |pet| pet.1)
}

/// An object that requests are conditional on. Volumes have a version of their own, and locks need none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Pod(String),
    Node(String),
    Fence(String),
}

/// The stored objects. A clone is what a reader has read, and may be outdated.
#[derive(Clone, Default)]
pub(super) struct Store {
    /// Pods by uid: only the lock prevents two pods from having the same name.
    pub(super) pods: BTreeMap<String, Pod>,
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) locks: BTreeMap<String, IdentityLock>,
    pub(super) volumes: BTreeMap<String, Attachment>,
    pub(super) fences: BTreeMap<String, Fence>,
    pub(super) heartbeats: BTreeMap<String, u64>,
    versions: BTreeMap<Key, u64>,
    revision: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Objects that the sender relied on, with the versions that it read.
    seen: Vec<(Key, u64)>,
    action: Action,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Creates a pod with this name.
    Create {
        name: &'static str,
    },
    UpdatePod(Box<Pod>),
    /// Removes the object and reports the reason to the lock.
    Remove {
        uid: String,
        entitlement: String,
        event: LockEventType,
        acknowledged: bool,
    },
    UpdateNode(Box<Node>),
    RemoveNode(String),
    Heartbeat(String),
    /// Creates a fence, because contact with the node is lost.
    Detect {
        node: String,
        scope: FenceScope,
    },
    Fence {
        node: String,
        event: FenceEvent,
    },
    Attach {
        volume: String,
        node: String,
        uid: String,
        version: u64,
    },
    Detach {
        volume: String,
        node: String,
        uid: String,
        version: u64,
    },
    /// Breaks an attachment because of a confirmed fence or, without one, because of known facts about the node.
    Break {
        volume: String,
        node: String,
        version: u64,
        evidence: BreakEvidence,
    },
}

/// A removal or release, with its entitlement (L-TEST-10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Removed { uid: String, entitlement: String },
    Released { uid: String, entitlement: String },
    LetGo { volume: String, node: String, uid: String, entitlement: String },
}

#[derive(Default)]
pub(super) struct Server {
    pub(super) store: Store,
    pub(super) journal: Vec<Record>,
}

impl Store {
    pub(super) fn version(&self, key: &Key) -> u64 {
        self.versions.get(key).copied().unwrap_or_default()
    }

    /// Returns a request that is valid only while these objects have the versions of this store.
    pub(super) fn request(&self, keys: &[Key], action: Action) -> Request {
        let seen = keys.iter().map(|key| (key.clone(), self.version(key))).collect();
        Request { seen, action }
    }

    pub(super) fn pods_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(move |pod| node_of(pod) == node)
    }

    fn touch(&mut self, key: Key) {
        self.revision += 1;
        self.versions.insert(key, self.revision);
    }
}

impl Server {
    pub(super) fn new(nodes: impl Iterator<Item = Node>) -> Server {
        let mut server = Server::default();
        let nodes = nodes.map(|node| (node.metadata.clone().unwrap().name, node));
        server.store.nodes = nodes.collect();
        for (volume, mode) in VOLUMES {
            let record = Attachment::new(AccessModes::parse(&[mode]).unwrap(), 0, []).unwrap();
            server.store.volumes.insert(volume.to_owned(), record);
        }
        server
    }

    /// Carries out a request, or changes nothing; returns whether it was carried out.
    pub(super) fn handle(&mut self, request: &Request) -> bool {
        if request.seen.iter().any(|(key, version)| self.store.version(key) != *version) {
            return false;
        }
        let store = &mut self.store;
        match &request.action {
            Action::Create { name } => return self.create(name),
            Action::Remove { uid, entitlement, event, acknowledged } => {
                return self.remove(uid, entitlement, *event, *acknowledged);
            }
            Action::Attach { volume, node, uid, version } => {
                let operation =
                    Operation::Attach { node, pod_uid: uid, expected_version: *version };
                return store.volumes.get_mut(volume).unwrap().apply(&operation).ok;
            }
            Action::Detach { volume, node, uid, version } => {
                // Senders make this request only after the pod is gone and nothing is mounted.
                let operation = Operation::Detach {
                    node,
                    pod_uid: uid,
                    expected_version: *version,
                    pod_gone: true,
                    mounted: false,
                };
                return self.take_away(volume, &operation, "Detached");
            }
            Action::Break { volume, node, version, evidence } => {
                return self.break_attachment(volume, node, *version, *evidence);
            }
            Action::UpdatePod(pod) => {
                let uid = uid_of(pod).to_owned();
                if store.pods.insert(uid.clone(), (**pod).clone()).as_ref() != Some(&**pod) {
                    store.touch(Key::Pod(uid));
                }
            }
            Action::UpdateNode(node) => {
                let name = node.metadata.as_ref().unwrap().name.clone();
                if store.nodes.insert(name.clone(), (**node).clone()).as_ref() != Some(&**node) {
                    store.touch(Key::Node(name));
                }
            }
            Action::RemoveNode(name) => {
                store.nodes.remove(name);
                store.touch(Key::Node(name.clone()));
            }
            Action::Heartbeat(node) => *store.heartbeats.entry(node.clone()).or_default() += 1,
            Action::Detect { node, scope } => {
                if store.fences.get(node).is_some_and(|fence| fence.state != FenceState::Recovered)
                {
                    return false;
                }
                store.fences.insert(node.clone(), Fence::detected(*scope));
                store.touch(Key::Fence(node.clone()));
            }
            Action::Fence { node, event } => return self.fence(node, event),
        }
        true
    }

    fn create(&mut self, name: &str) -> bool {
        let uid = format!("u{}", self.store.revision + 1);
        let lock = self.store.locks.entry(name.to_owned()).or_default();
        if lock.apply(&lock_event(LockEventType::Acquire, &uid, false)) != LockOutcome::Granted {
            return false;
        }
        self.store.pods.insert(uid.clone(), new_pod(name, &uid));
        self.store.touch(Key::Pod(uid));
        true
    }

    fn remove(&mut self, uid: &str, why: &str, event: LockEventType, acknowledged: bool) -> bool {
        let Some(pod) = self.store.pods.get(uid) else { return false };
        let (name, node) = (name_of(pod).to_owned(), node_of(pod).to_owned());
        if event == LockEventType::RemovedAfterFence {
            // In the same transaction the fence must allow both.
            for event in [FenceEventType::RemovePod, FenceEventType::ReleaseIdentity] {
                if !self.fence(&node, &fence_event(event, false)) {
                    return false;
                }
            }
        }
        self.store.pods.remove(uid);
        self.store.touch(Key::Pod(uid.to_owned()));
        let entitlement = why.to_owned();
        self.journal
            .push(Record::Removed { uid: uid.to_owned(), entitlement: entitlement.clone() });
        let lock = self.store.locks.get_mut(&name).unwrap();
        let outcome = lock.apply(&lock_event(event, uid, acknowledged));
        if matches!(outcome, LockOutcome::Released | LockOutcome::ReleasedUnsafely) {
            self.journal.push(Record::Released { uid: uid.to_owned(), entitlement });
        }
        true
    }

    fn break_attachment(
        &mut self,
        volume: &str,
        node: &str,
        expected_version: u64,
        evidence: BreakEvidence,
    ) -> bool {
        let fence = self.store.fences.get(node).copied();
        let event = fence_event(FenceEventType::BreakAttachment, false);
        if evidence.confirmed_fence.is_some() && !self.fence(node, &event) {
            return false;
        }
        let why = evidence.entitlement().map_or("none", |entitlement| entitlement.word());
        let operation = Operation::BreakAttachment { node, expected_version, evidence };
        if self.take_away(volume, &operation, why) {
            return true;
        }
        // Either everything is done or nothing.
        if let Some(fence) = fence {
            self.store.fences.insert(node.to_owned(), fence);
        }
        false
    }

    /// Carries out a detach or a break, and records which pods lost the volume by it.
    fn take_away(&mut self, volume: &str, operation: &Operation<'_>, why: &str) -> bool {
        let record = self.store.volumes.get_mut(volume).unwrap();
        let before = record.holders();
        if !record.apply(operation).ok {
            return false;
        }
        let after = record.holders();
        for holder in before.into_iter().filter(|holder| !after.contains(holder)) {
            self.journal.push(Record::LetGo {
                volume: volume.to_owned(),
                node: holder.node,
                uid: holder.pod_uid,
                entitlement: why.to_owned(),
            });
        }
        true
    }

    fn fence(&mut self, node: &str, event: &FenceEvent) -> bool {
        let Some(fence) = self.store.fences.get_mut(node) else { return false };
        let before = *fence;
        let outcome = fence.apply(event);
        if *fence != before {
            self.store.touch(Key::Fence(node.to_owned()));
        }
        outcome == FenceOutcome::Ok
    }
}

fn lock_event(r#type: LockEventType, uid: &str, acknowledged: bool) -> LockEvent<'_> {
    let fence_confirmed = r#type == LockEventType::RemovedAfterFence;
    LockEvent { r#type, uid, acknowledged, fence_confirmed }
}

pub(super) fn fence_event(r#type: FenceEventType, is_clean: bool) -> FenceEvent {
    FenceEvent { r#type, rebooted: is_clean, no_leftover_processes: is_clean }
}

/// Returns the grace period in a pet's spec. The second one's is zero, so an ordinary deletion of it is forced
/// (L-DEL-3, L-DEL-5).
fn own_period(name: &str) -> i64 {
    if name == PETS[0].0 { 30 } else { 0 }
}

fn new_pod(name: &str, uid: &str) -> Pod {
    let owner = OwnerReference {
        kind: "StatefulSet".to_owned(),
        name: "pet".to_owned(),
        uid: "set".to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let toleration = Toleration {
        key: "node.kubernetes.io/unreachable".to_owned(),
        operator: "Exists".to_owned(),
        effect: "NoExecute".to_owned(),
        toleration_seconds: Some(60),
        ..Toleration::default()
    };
    Pod {
        metadata: Some(ObjectMeta {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            generation: 1,
            owner_references: vec![owner],
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: vec![Container { name: "app".to_owned(), ..Container::default() }],
            tolerations: vec![toleration],
            termination_grace_period_seconds: Some(own_period(name)),
            ..PodSpec::default()
        }),
        status: Some(PodStatus { phase: "Pending".to_owned(), ..PodStatus::default() }),
    }
}

pub(super) fn uid_of(pod: &Pod) -> &str {
    &pod.metadata.as_ref().unwrap().uid
}

pub(super) fn name_of(pod: &Pod) -> &str {
    &pod.metadata.as_ref().unwrap().name
}

/// Returns the pod's node, empty before the pod is bound.
pub(super) fn node_of(pod: &Pod) -> &str {
    &pod.spec.as_ref().unwrap().node_name
}

pub(super) fn phase_of(pod: &Pod) -> &str {
    &pod.status.as_ref().unwrap().phase
}

pub(super) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase_of(pod), "Succeeded" | "Failed")
}

pub(super) fn is_marked(pod: &Pod) -> bool {
    pod.metadata.as_ref().unwrap().deletion_timestamp.is_some()
}

/// Returns the status of the node's `Ready` condition.
pub(super) fn ready_of(node: &Node) -> &str {
    &node.status.as_ref().unwrap().conditions[0].status
}
