//! Device claim: writes of a scheduler for claims for devices: allocation and reservation, and both taken back. Rules:
//! S-DRA-94, S-DRA-95, S-DRA-100, S-DRA-106.

use berth_engine::{PreBindError, deallocated, reserved, without_reservation};
use berth_proto::{Time, core_v1, resource_v1};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::binding::PodName;
use super::call::{CallFailure, call, write};
use super::leadership::Mandate;
use super::status::patch_status;

/// Number of times that a claim is read and written again which changed in between.
const N_TRIES: u32 = 5;

/// Reason why a claim is not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceClaimError {
    /// The API server refused, or did not answer.
    #[error("claim `{claim}`: {failure}")]
    Call {
        /// Namespace and name of the claim.
        claim: String,
        /// The failure.
        failure: CallFailure,
    },
    /// The claim changed in a way that the decision does not survive.
    #[error(transparent)]
    Changed(#[from] PreBindError),
    /// The API server answered with something that is no claim.
    #[error("claim `{claim}`: {reason}")]
    Unreadable {
        /// Namespace and name of the claim.
        claim: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The API server, for writes about the claims of one namespace.
#[derive(Copy, Clone)]
pub struct DeviceClaims<'a> {
    /// The connection.
    pub client: &'a kube::Client,
    /// Permission to write.
    pub mandate: &'a Mandate,
    /// The pod whose claims these are.
    pub pod: &'a PodName,
}

impl DeviceClaims<'_> {
    fn api(&self) -> Api<ResourceClaim> {
        Api::namespaced(self.client.clone(), &self.pod.namespace)
    }

    /// Allocates a claim, if there is an allocation, and reserves it for the pod. Repeating it changes nothing.
    ///
    /// # Errors
    /// [`DeviceClaimError`].
    pub async fn reserve(
        &self,
        claim: &str,
        allocation: Option<&resource_v1::AllocationResult>,
        now: Time,
    ) -> Result<(), DeviceClaimError> {
        let pod = (&*self.pod.name, &*self.pod.uid);
        self.change(claim, |known| {
            let Some(written) = reserved(known, pod, allocation, now)? else { return Ok(None) };
            let status = json(&written.status);
            let finalizers = written.metadata.map(|metadata| metadata.finalizers);
            let old = known.metadata.as_ref().map(|metadata| &metadata.finalizers);
            let finalizers = finalizers.filter(|finalizers| Some(finalizers) != old);
            Ok(Some(Change { finalizers, status }))
        })
        .await
    }

    /// Takes the pod's reservation of a claim back. A claim that is gone needs nothing.
    ///
    /// # Errors
    /// [`DeviceClaimError`].
    pub async fn unreserve(&self, claim: &str) -> Result<(), DeviceClaimError> {
        let uid = &*self.pod.uid;
        let changed = self.change(claim, |known| {
            let Some(written) = without_reservation(known, uid) else { return Ok(None) };
            let reserved_for = written.status.map(|status| status.reserved_for);
            Ok(Some(Change {
                finalizers: None,
                status: json!({"reservedFor": json(&reserved_for)}),
            }))
        });
        unless_gone(changed.await)
    }

    /// Takes the allocation of a claim back, unless another pod uses it by now.
    ///
    /// # Errors
    /// [`DeviceClaimError`].
    pub async fn deallocate(&self, claim: &str) -> Result<(), DeviceClaimError> {
        let uid = &*self.pod.uid;
        let changed = self.change(claim, |known| {
            let users = known.status.iter().flat_map(|status| &status.reserved_for);
            if users.into_iter().any(|consumer| consumer.uid != uid) || deallocated(known) == *known
            {
                return Ok(None);
            }
            let status = json!({"allocation": null, "reservedFor": null, "devices": null});
            Ok(Some(Change { finalizers: None, status }))
        });
        unless_gone(changed.await)
    }

    /// Creates the claim for the pod's extended resources, allocates and reserves it, and tells the pod of it. Returns
    /// the claim's name.
    ///
    /// # Errors
    /// [`DeviceClaimError`]; the claim may be there then.
    pub async fn create_extended(
        &self,
        claim: &resource_v1::ResourceClaim,
        mappings: &[core_v1::ContainerExtendedResourceRequest],
    ) -> Result<String, DeviceClaimError> {
        let prefix = claim.metadata.as_ref().map_or("", |metadata| &metadata.generate_name);
        let failed = |failure| DeviceClaimError::Call { claim: self.key(prefix), failure };
        let unreadable = |reason: serde_json::Error| DeviceClaimError::Unreadable {
            claim: self.key(prefix),
            reason: reason.to_string(),
        };
        let object = serde_json::to_value(claim).and_then(serde_json::from_value);
        let object: ResourceClaim = object.map_err(unreadable)?;
        let (api, params) = (self.api(), PostParams::default());
        let created = write(self.mandate, api.create(&params, &object)).await.map_err(failed)?;
        let name = created.metadata.name.unwrap_or_default();
        self.patch(&name, true, &json!({"status": json(&claim.status)})).await.map_err(failed)?;
        let status = json!({"requestMappings": json(&mappings), "resourceClaimName": name});
        let patch = json!({"extendedResourceClaimStatus": status});
        patch_status(self.client, self.mandate, self.pod, &patch).await.map_err(failed)?;
        Ok(name)
    }

    /// Deletes the claim for the pod's extended resources. One that is gone needs nothing.
    ///
    /// # Errors
    /// [`DeviceClaimError`].
    pub async fn delete(&self, claim: &str) -> Result<(), DeviceClaimError> {
        let failed = |failure| DeviceClaimError::Call { claim: self.key(claim), failure };
        let freed = self.patch(claim, false, &json!({"metadata": {"finalizers": null}})).await;
        unless_gone(freed.map(drop).map_err(failed))?;
        let api = self.api();
        let deleted = write(self.mandate, api.delete(claim, &DeleteParams::default())).await;
        unless_gone(deleted.map(drop).map_err(failed))
    }

    /// Reads a claim and writes what `decide` makes of it, again if it changed in between.
    async fn change(
        &self,
        claim: &str,
        decide: impl Fn(&resource_v1::ResourceClaim) -> Result<Option<Change>, PreBindError>,
    ) -> Result<(), DeviceClaimError> {
        let failed = |failure| DeviceClaimError::Call { claim: self.key(claim), failure };
        let mut n_tries = 0;
        loop {
            let known = self.get(claim).await?;
            let Some(change) = decide(&known)? else { return Ok(()) };
            let version = known.metadata.map(|metadata| metadata.resource_version);
            n_tries += 1;
            match self.write(claim, version.unwrap_or_default(), &change).await {
                Err(CallFailure::Refused { code: 409, .. }) if n_tries < N_TRIES => {}
                written => return written.map_err(failed),
            }
        }
    }

    async fn write(
        &self,
        claim: &str,
        mut version: String,
        change: &Change,
    ) -> Result<(), CallFailure> {
        if let Some(finalizers) = &change.finalizers {
            let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
            version = self.patch(claim, false, &patch).await?;
        }
        let patch = json!({"metadata": {"resourceVersion": version}, "status": change.status});
        self.patch(claim, true, &patch).await.map(drop)
    }

    /// Merges a patch into a claim, or into its status; returns the claim's version.
    async fn patch(
        &self,
        claim: &str,
        is_status: bool,
        patch: &Value,
    ) -> Result<String, CallFailure> {
        let (api, params, patch) = (self.api(), PatchParams::default(), Patch::Merge(patch));
        let patched = if is_status {
            write(self.mandate, api.patch_status(claim, &params, &patch)).await
        } else {
            write(self.mandate, api.patch(claim, &params, &patch)).await
        };
        patched.map(|claim| claim.metadata.resource_version.unwrap_or_default())
    }

    async fn get(&self, claim: &str) -> Result<resource_v1::ResourceClaim, DeviceClaimError> {
        let api = self.api();
        let found = call(api.get(claim)).await;
        let found =
            found.map_err(|failure| DeviceClaimError::Call { claim: self.key(claim), failure })?;
        let object = serde_json::to_value(&found).and_then(serde_json::from_value);
        object.map_err(|error| DeviceClaimError::Unreadable {
            claim: self.key(claim),
            reason: error.to_string(),
        })
    }

    fn key(&self, claim: &str) -> String {
        format!("{}/{claim}", self.pod.namespace)
    }
}

/// What is written of a claim.
struct Change {
    finalizers: Option<Vec<String>>,
    /// Fields of the status to be merged.
    status: Value,
}

fn json<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn unless_gone(done: Result<(), DeviceClaimError>) -> Result<(), DeviceClaimError> {
    match done {
        Err(DeviceClaimError::Call { failure, .. }) if failure.code() == Some(404) => Ok(()),
        done => done,
    }
}
