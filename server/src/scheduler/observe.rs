//! Observe: turns the feed's changes into steps of the queue.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Instant;

use berth_engine::{ClaimChange, NodeDifference, ObjectKey, ObjectKind, Pod, PodKey};
use berth_proto::core_v1;
use prost::Message as _;

use super::hints::Changes;
use super::pending::{Pending, profile_of};
use super::queue::Queue;
use super::shared::{Shared, locked};
use crate::clock;
use crate::feed::kube::{NodeChange, Observer};

impl Observer for Shared {
    fn pod(&self, pod: &core_v1::Pod, gone: bool) {
        let Some(metadata) = &pod.metadata else { return };
        let namespace = if metadata.namespace.is_empty() { "default" } else { &metadata.namespace };
        let key = PodKey::new(namespace, &metadata.name);
        let phase = pod.status.as_ref().map_or("", |status| &status.phase);
        let changes = if gone || matches!(phase, "Succeeded" | "Failed") {
            self.pod_gone(&key, &metadata.uid)
        } else {
            match &pod.spec {
                Some(spec) if !spec.node_name.is_empty() => self.pod_assigned(&key, pod, spec),
                Some(spec) => self.pod_pending(&key, pod, spec),
                None => Changes::NONE,
            }
        };
        self.note_changed(changes);
    }

    fn node(&self, _name: &str, change: NodeChange) {
        self.note_changed(match change {
            NodeChange::Added => Changes::NODE_ADDED,
            NodeChange::Removed => Changes::NODE_REMOVED,
            NodeChange::Updated(difference) => of_node(difference),
        });
    }

    fn claim(&self, key: &ObjectKey, change: ClaimChange) {
        self.note_claim_changed(key, change);
    }

    fn object(&self, key: &ObjectKey, gone: bool) {
        self.note_changed(of_object(key.kind, gone));
    }

    fn pods_listed(&self, requested: Instant, holds: &dyn Fn(&PodKey) -> bool) {
        let gone = self.queue().listed(holds, clock::now());
        let mut handed = locked(&self.handed);
        gone.iter().for_each(|key| drop(handed.remove(key)));
        drop(handed);
        self.note_pods_listed(requested);
    }

    fn synced(&self) {
        self.note_synced();
    }
}

impl Shared {
    fn pod_gone(&self, key: &PodKey, uid: &str) -> Changes {
        let mut queue = self.queue();
        if queue.victim_gone(key, clock::now()) {
            self.wake.notify_one();
        }
        // A newer pod may have the name by now.
        if !uid.is_empty() && queue.get(key, uid).is_none() && queue.contains(key) {
            return Changes::NONE;
        }
        let promise = ended_promise(&queue, key, "");
        queue.gone(key);
        drop(queue);
        locked(&self.handed).remove(key);
        locked(&self.assigned).forget(hash_of(key)).or(promise)
    }

    fn pod_assigned(&self, key: &PodKey, pod: &core_v1::Pod, spec: &core_v1::PodSpec) -> Changes {
        let uid = pod.metadata.as_ref().map(|metadata| &metadata.uid);
        let identity = hash_of(&(uid, &spec.node_name));
        let changes = locked(&self.assigned).note(hash_of(key), identity, digest(pod, spec));
        if changes.is_empty() {
            return changes;
        }
        let group =
            pod.metadata.as_ref().and_then(|metadata| self.options.groups.group_of(metadata));
        let mut queue = self.queue();
        let promise = ended_promise(&queue, key, &spec.node_name);
        queue.assigned(key, group.map(|group| group.name), clock::now());
        drop(queue);
        locked(&self.handed).remove(key);
        changes.or(promise)
    }

    fn pod_pending(&self, key: &PodKey, pod: &core_v1::Pod, spec: &core_v1::PodSpec) -> Changes {
        // A pod never loses its node, so this is another one of the name.
        let changes = locked(&self.assigned).forget(hash_of(key));
        if self.state.profiles.get(profile_of(spec)).is_some()
            && let Some(pending) = Pending::of(pod, |pod| self.compile(pod), &self.options.groups)
        {
            let mut queue = self.queue();
            let promise = ended_promise(&queue, key, &pending.status.nominated_node_name);
            let is_usable = |pod: &Pod| self.cluster().has_usable_claims(pod);
            queue.upsert(pending, &is_usable, clock::now());
            drop(queue);
            self.wake.notify_one();
            return changes.or(promise);
        }
        changes
    }
}

/// The event of an object that was added, updated or deleted.
fn of_object(kind: ObjectKind, gone: bool) -> Changes {
    match (kind, gone) {
        // A new attachment takes room; only its end can help.
        (ObjectKind::VolumeAttachment, false)
        // Their ends help no pod (S-DRA-125).
        | (ObjectKind::DeviceClass | ObjectKind::ResourceSlice, true) => Changes::NONE,
        _ => Changes::of_object(kind),
    }
}

fn of_node(difference: NodeDifference) -> Changes {
    let kinds = [
        (difference.allocatable, Changes::NODE_ALLOCATABLE),
        (difference.labels, Changes::NODE_LABELS),
        (difference.taints || difference.unschedulable, Changes::NODE_TAINTS),
        (difference.declared_features, Changes::NODE_FEATURES),
    ];
    let changed = kinds.into_iter().filter(|(differs, _)| *differs);
    changed.map(|(_, change)| change).fold(Changes::NONE, Changes::or)
}

/// Changes for the end of a nomination, if the pod of that name was nominated to another node than this: for the pods
/// that it kept out it is as if a pod had been deleted.
fn ended_promise(queue: &Queue, key: &PodKey, node: &str) -> Changes {
    let nominated = queue.find(key).map(|pending| &*pending.status.nominated_node_name);
    match nominated {
        Some(old) if !old.is_empty() && old != node => Changes::POD_DELETED,
        _ => Changes::NONE,
    }
}

fn hash_of(key: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Digest of the parts of a pod that concern others: its labels, its requests, whether it is being deleted.
fn digest(pod: &core_v1::Pod, spec: &core_v1::PodSpec) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(metadata) = &pod.metadata {
        metadata.uid.hash(&mut hasher);
        metadata.labels.hash(&mut hasher);
        metadata.deletion_timestamp.is_some().hash(&mut hasher);
    }
    for container in spec.containers.iter().chain(&spec.init_containers) {
        container.resources.as_ref().map(|resources| resources.encode_to_vec()).hash(&mut hasher);
    }
    spec.resources.as_ref().map(|resources| resources.encode_to_vec()).hash(&mut hasher);
    if let Some(status) = &pod.status {
        // A resize frees room once the status has followed.
        for container in status.container_statuses.iter().chain(&status.init_container_statuses) {
            container.resources.as_ref().map(|it| it.encode_to_vec()).hash(&mut hasher);
            for (name, quantity) in &container.allocated_resources {
                (name, quantity.encode_to_vec()).hash(&mut hasher);
            }
        }
        status.resources.as_ref().map(|it| it.encode_to_vec()).hash(&mut hasher);
        for condition in &status.conditions {
            if condition.r#type.starts_with("PodResize") {
                (&condition.r#type, &condition.status, &condition.reason).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use berth_engine::Plugin;

    use super::*;

    #[test]
    fn the_end_of_an_object_helps_where_it_can() {
        for (kind, added, deleted) in [
            // S-DRA-125
            (ObjectKind::DeviceClass, Changes::DEVICE_CLASS, Changes::NONE),
            (ObjectKind::ResourceSlice, Changes::RESOURCE_SLICE, Changes::NONE),
            (ObjectKind::VolumeAttachment, Changes::NONE, Changes::VOLUME_ATTACHMENT),
            (ObjectKind::CsiNode, Changes::CSI_NODE, Changes::CSI_NODE),
        ] {
            assert_eq!((of_object(kind, false), of_object(kind, true)), (added, deleted), "{kind}");
        }
    }

    /// S-DRA-125
    #[test]
    fn nodes_wake_pods_that_wait_for_devices_by_labels_and_allocatable_resources() {
        let wanted = Changes::helping(Plugin::DynamicResources);
        let none = NodeDifference::default();
        for (difference, helps) in [
            (NodeDifference { labels: true, ..none }, true),
            (NodeDifference { allocatable: true, ..none }, true),
            (NodeDifference { taints: true, ..none }, false),
            (NodeDifference { unschedulable: true, ..none }, false),
            (NodeDifference { declared_features: true, ..none }, false),
        ] {
            assert_eq!(of_node(difference).intersects(wanted), helps, "{difference:?}");
        }
    }
}
