//! Deletion: removes a victim of preemption from its node. Rules: S-PRE-22, S-PRE-23.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use serde_json::Value;

use super::binding::PodName;
use super::call::{CallFailure, repeated};
use super::leadership::Mandate;
use super::status::{is_gone, patch_status};

/// Marks the pod with condition `DisruptionTarget` and then deletes it, with its own grace period. If the pod is gone,
/// or another one has its name, that is success: nothing is left to evict.
///
/// `mark` is the patch of [`status::disruption_target`](super::status::disruption_target). The delete is a plain one,
/// like kube-scheduler's: disruption budgets were considered when the victims were chosen.
///
/// # Errors
/// [`CallFailure`]; the victim may be marked, or even deleted, then. To evict it again is harmless.
pub async fn evict(
    client: &kube::Client,
    mandate: &Mandate,
    victim: &PodName,
    mark: &Value,
) -> Result<(), CallFailure> {
    match patch_status(client, mandate, victim, mark).await {
        Ok(()) => delete(client, mandate, victim).await,
        Err(failure) if is_gone(&failure) => Ok(()),
        Err(failure) => Err(failure),
    }
}

async fn delete(
    client: &kube::Client,
    mandate: &Mandate,
    pod: &PodName,
) -> Result<(), CallFailure> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let uid = Some(pod.uid.to_string()).filter(|uid| !uid.is_empty());
    let params =
        DeleteParams::default().preconditions(Preconditions { uid, ..Preconditions::default() });
    match repeated(mandate, || api.delete(&pod.name, &params)).await {
        Ok(_) => Ok(()),
        // 409: the uid belongs to another pod.
        Err(failure) if matches!(failure.code(), Some(404 | 409)) => Ok(()),
        Err(failure) => Err(failure),
    }
}
