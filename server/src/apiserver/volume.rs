//! Volume: writes of a scheduler for claims that waited for their first consumer: which volume a claim is to have, or
//! on which node one is to be provisioned for it. The controllers of the cluster do the rest. Rule: S-VLB-9.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::PostParams;

use super::call::{CallFailure, call, write};
use super::leadership::Mandate;

/// Annotation that names the node for a provisioner.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a volume that was not bound by hand.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotation that the volume controller sets once both sides are bound.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// Reason why a claim does not get its volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// The API server refused, or did not answer.
    #[error("{what}: {failure}")]
    Call {
        /// The request.
        what: String,
        /// The failure.
        failure: CallFailure,
    },
    /// Another claim has the volume.
    #[error("volume `{volume}` is bound to claim `{claim}`")]
    Taken {
        /// The volume.
        volume: String,
        /// Claim that has it.
        claim: String,
    },
    /// The claim got another volume than the one that was reserved, which the node may not reach.
    #[error("claim `{claim}` is bound to volume `{volume}` and not to `{reserved}`")]
    BoundElsewhere {
        /// Namespace and name of the claim.
        claim: String,
        /// The volume that the claim has.
        volume: String,
        /// The volume that was reserved.
        reserved: String,
    },
    /// A provisioner gave up the node, or the node of another pod was selected.
    #[error("claim `{claim}` is no longer to be provisioned on node `{node}`")]
    NodeGivenUp {
        /// Namespace and name of the claim.
        claim: String,
        /// The node that was selected.
        node: String,
    },
}

/// Reserves the volume for the claim. Repeating it changes nothing.
///
/// # Errors
/// [`VolumeError`], also if the volume changed in between.
pub async fn reserve(
    client: &kube::Client,
    mandate: &Mandate,
    namespace: &str,
    claim: &str,
    volume: &str,
) -> Result<(), VolumeError> {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let found = get_claim(client, namespace, claim).await?;
    let failed = |failure| VolumeError::Call { what: format!("volume `{volume}`"), failure };
    let mut object = call(volumes.get(volume)).await.map_err(failed)?;
    let spec = object.spec.get_or_insert_default();
    if let Some(of) = spec.claim_ref.as_ref().filter(|of| of.name.is_some()) {
        let is_it = of.namespace.as_deref() == Some(namespace)
            && of.name.as_deref() == Some(claim)
            && (of.uid.is_none() || of.uid == found.metadata.uid);
        let is_named = is_it && of.uid.is_some();
        if is_named {
            return Ok(());
        }
        if !is_it {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let claim = format!("{}/{}", text(&of.namespace), text(&of.name));
            return Err(VolumeError::Taken { volume: volume.to_owned(), claim });
        }
    }
    spec.claim_ref = Some(ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(claim.to_owned()),
        uid: found.metadata.uid,
        resource_version: found.metadata.resource_version,
        ..ObjectReference::default()
    });
    annotate(&mut object.metadata.annotations, BOUND_BY_CONTROLLER, "yes");
    let params = PostParams::default();
    write(mandate, volumes.replace(volume, &params, &object)).await.map(drop).map_err(failed)
}

/// Selects the node on which the claim's volume is to be provisioned. Repeating it changes nothing.
///
/// # Errors
/// [`VolumeError`], also if the claim changed in between.
pub async fn select_node(
    client: &kube::Client,
    mandate: &Mandate,
    namespace: &str,
    claim: &str,
    node: &str,
) -> Result<(), VolumeError> {
    let mut object = get_claim(client, namespace, claim).await?;
    if selected_node(&object) == Some(node) {
        return Ok(());
    }
    annotate(&mut object.metadata.annotations, SELECTED_NODE, node);
    let failed = |failure| VolumeError::Call { what: claim_text(namespace, claim), failure };
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let params = PostParams::default();
    write(mandate, claims.replace(claim, &params, &object)).await.map(drop).map_err(failed)
}

/// The volume that a claim waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Awaited<'a> {
    /// This volume, which was reserved for the claim.
    Volume(&'a str),
    /// A volume that is provisioned for the claim on this node.
    Provisioned(&'a str),
}

/// Whether the claim is bound, both ways, as awaited.
///
/// # Errors
/// [`VolumeError`]: the claim cannot be read, has another volume than the reserved one, or the node was given up.
pub async fn is_bound(
    client: &kube::Client,
    namespace: &str,
    claim: &str,
    awaited: Awaited<'_>,
) -> Result<bool, VolumeError> {
    let object = get_claim(client, namespace, claim).await?;
    let annotations = object.metadata.annotations.as_ref();
    let is_complete = annotations.is_some_and(|all| all.contains_key(BIND_COMPLETED));
    let volume = object.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    let volume = volume.filter(|volume| !volume.is_empty());
    match (awaited, volume) {
        (Awaited::Volume(reserved), Some(volume)) if volume != reserved => {
            Err(VolumeError::BoundElsewhere {
                claim: format!("{namespace}/{claim}"),
                volume: volume.to_owned(),
                reserved: reserved.to_owned(),
            })
        }
        (_, Some(_)) if is_complete => Ok(true),
        (Awaited::Provisioned(node), _) if selected_node(&object) != Some(node) => {
            Err(VolumeError::NodeGivenUp {
                claim: format!("{namespace}/{claim}"),
                node: node.to_owned(),
            })
        }
        _ => Ok(false),
    }
}

async fn get_claim(
    client: &kube::Client,
    namespace: &str,
    claim: &str,
) -> Result<PersistentVolumeClaim, VolumeError> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let failed = |failure| VolumeError::Call { what: claim_text(namespace, claim), failure };
    call(claims.get(claim)).await.map_err(failed)
}

fn claim_text(namespace: &str, claim: &str) -> String {
    format!("claim `{namespace}/{claim}`")
}

fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(SELECTED_NODE).map(String::as_str)
}

fn annotate(annotations: &mut Option<BTreeMap<String, String>>, key: &str, value: &str) {
    annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}
