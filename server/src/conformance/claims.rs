//! The volumes and claims of a case as the recorded binds leave them, and the engine's choice for a pod's claims.

use std::collections::BTreeMap;

use berth_engine::{Decision, Outcome, WireObject};
use berth_proto::core_v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};

use super::case::{ClusterObjects, Volumes};

/// Annotation that names the node for which a claim's volume is to be provisioned.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Every persistent volume by name and every claim by `namespace/name`.
pub(super) struct Claims {
    volumes: BTreeMap<String, PersistentVolume>,
    claims: BTreeMap<String, PersistentVolumeClaim>,
}

impl Claims {
    /// Volumes and claims as they are before the first step.
    pub(super) fn of(objects: &ClusterObjects) -> Claims {
        let volume = |volume: &PersistentVolume| {
            let name = volume.metadata.as_ref().map_or("", |metadata| &metadata.name);
            (name.to_owned(), volume.clone())
        };
        let claim = |claim: &PersistentVolumeClaim| {
            let metadata = claim.metadata.as_ref();
            let key = metadata.map(|metadata| format!("{}/{}", metadata.namespace, metadata.name));
            (key.unwrap_or_default(), claim.clone())
        };
        Claims {
            volumes: objects.persistent_volumes.iter().map(volume).collect(),
            claims: objects.persistent_volume_claims.iter().map(claim).collect(),
        }
    }

    /// Applies the effects of binding a pod to `node`: a chosen volume gets the claim's reference, a claim to provision
    /// gets the node's name. Returns the changed objects.
    ///
    /// Errors: a volume or claim that is not in the case.
    pub(super) fn bind(
        &mut self,
        effects: &Volumes,
        node: &str,
    ) -> Result<Vec<WireObject<'_>>, String> {
        for (key, name) in &effects.bound {
            let claim = self.claims.get(key).ok_or_else(|| format!("no claim `{key}`"))?;
            let metadata = claim.metadata.clone().unwrap_or_default();
            let volume = self.volumes.get_mut(name).ok_or_else(|| format!("no volume `{name}`"))?;
            volume.spec.get_or_insert_default().claim_ref = Some(ObjectReference {
                kind: "PersistentVolumeClaim".to_owned(),
                api_version: "v1".to_owned(),
                namespace: metadata.namespace,
                name: metadata.name,
                uid: metadata.uid,
                ..ObjectReference::default()
            });
        }
        for key in &effects.provision {
            let claim = self.claims.get_mut(key).ok_or_else(|| format!("no claim `{key}`"))?;
            let annotations = &mut claim.metadata.get_or_insert_default().annotations;
            annotations.insert(SELECTED_NODE.to_owned(), node.to_owned());
        }
        let volumes = effects.bound.values().filter_map(|name| self.volumes.get(name));
        let claims = effects.provision.iter().filter_map(|key| self.claims.get(key));
        Ok(volumes.map(WireObject::from).chain(claims.map(WireObject::from)).collect())
    }
}

/// Returns what happens to the claims of the pod if it goes to `node`, or `None` if the decision places it elsewhere.
pub(super) fn volumes_on(node: &str, decision: &Decision) -> Option<Volumes> {
    let Outcome::Placed(placement) = &decision.outcome else { return None };
    if *placement.node != *node {
        return None;
    }
    let key = |claim: &str| format!("{}/{claim}", decision.pod.namespace);
    let bound = placement.volumes.bound.iter();
    let provisioned = placement.volumes.provisioned.iter();
    Some(Volumes {
        bound: bound.map(|(claim, volume)| (key(claim), volume.to_string())).collect(),
        provision: provisioned.map(|claim| key(claim)).collect(),
    })
}
