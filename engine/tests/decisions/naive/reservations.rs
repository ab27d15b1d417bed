//! Volumes and claims that assumed pods hold until the cluster receives the changed objects (S-VLB-9).

use berth_proto::core_v1::ObjectReference;

use super::objects::{AnyObject, Objects};
use super::volume_binding::Bindings;

/// Volumes that were reserved when pods were assumed, as long as the pods exist.
#[derive(Clone, Default)]
pub(crate) struct Reservations(Vec<Reservation>);

#[derive(Clone)]
struct Reservation {
    namespace: String,
    pod: String,
    node: String,
    bindings: Bindings,
}

impl Reservations {
    pub(crate) fn reserve(
        &mut self,
        (namespace, pod): (&str, &str),
        node: &str,
        bindings: Bindings,
    ) {
        let (namespace, pod, node) = (namespace.to_owned(), pod.to_owned(), node.to_owned());
        self.0.push(Reservation { namespace, pod, node, bindings });
    }

    /// Removes the reservations of a deleted pod.
    pub(crate) fn release(&mut self, namespace: &str, pod: &str) {
        self.0.retain(|held| (held.namespace.as_str(), held.pod.as_str()) != (namespace, pod));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|held| held.bindings == Bindings::default())
    }

    /// Returns the objects that decisions read: the received ones, with reservations applied where the received ones
    /// leave them open.
    pub(crate) fn applied_to(&self, objects: &Objects) -> Objects {
        let mut effective = objects.clone();
        for held in &self.0 {
            for (claim, volume) in &held.bindings.bound {
                bind(objects, &mut effective, &held.namespace, claim, volume);
            }
            for claim in &held.bindings.provisioned {
                select_node(objects, &mut effective, &held.namespace, claim, &held.node);
            }
        }
        effective
    }
}

/// Binds a volume without a claim and a claim without a volume to each other.
fn bind(objects: &Objects, effective: &mut Objects, namespace: &str, claim: &str, volume: &str) {
    let Some((claim, volume)) = objects.claim(namespace, claim).zip(objects.volume(volume)) else {
        return;
    };
    let has_volume = claim.spec.as_ref().is_some_and(|spec| !spec.volume_name.is_empty());
    let has_claim = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some());
    if !has_volume && !has_claim {
        let metadata = claim.metadata.clone().unwrap_or_default();
        let mut volume = volume.clone();
        volume.spec.get_or_insert_default().claim_ref = Some(ObjectReference {
            namespace: namespace.to_owned(),
            name: metadata.name,
            uid: metadata.uid,
            ..ObjectReference::default()
        });
        effective.upsert(AnyObject::from(volume));
    }
}

/// Selects this node for the provisioning of a claim that has no node yet.
fn select_node(
    objects: &Objects,
    effective: &mut Objects,
    namespace: &str,
    claim: &str,
    node: &str,
) {
    const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
    let Some(mut claim) = objects.claim(namespace, claim).cloned() else {
        return;
    };
    let annotations = &mut claim.metadata.get_or_insert_default().annotations;
    annotations.entry(SELECTED_NODE.to_owned()).or_insert_with(|| node.to_owned());
    effective.upsert(AnyObject::from(claim));
}
